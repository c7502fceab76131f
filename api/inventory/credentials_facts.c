/* What the credentials' inventory says of the tenant: docs/inventory.md has each fact's definition. */
#include "api/inventory/credentials.h"

#include <stdio.h>

#define DAY_US     (86400 * US_PER_S)
#define STALE_DAYS 90 /* the evidence window */

#define NAMED 3 /* of those that fail, by kind and id: never by a name, which may be a person's */

/* $1: now. $2: attested before counts no more. $3: used before is stale. A certificate that a user recorded is used
 * where nobody here sees it: `seen` leaves it out. */
#define LIVE_ONES                                                                                                \
    "FROM (SELECT c.kind, c.id, c.system, c.end_us, c.created_us, o.owner_id, o.contact, o.application_id,"      \
    " o.environment, o.attested_us, NOT c.system AND (c.kind <> 'certificate' OR c.key_id IS NOT NULL) AS seen," \
    " " LAST_USE " AS last_us FROM " CREDENTIALS " c" JOIN_OWNER "WHERE c.state IN " LIVE_STATES ") AS live"
#define OWNED                                                                                                       \
    "coalesce(owner_id <> '' AND contact <> '' AND application_id <> '' AND environment <> '' AND attested_us > $2" \
    " AND attested_us <= $1, false)"
#define HAS_OWNER "(owner_id IS NOT NULL)"
#define HAS_END   "(end_us IS NOT NULL)"
#define IS_USED   "(greatest(created_us, last_us) >= $3)"

/* Tokens alone make no inventory: whoever asks has one. */
static const struct sql SQL_FACTS = {
    "inventory_credential_facts",
    "SELECT count(*) FILTER (WHERE NOT system AND kind <> 'token'), count(*) FILTER (WHERE NOT system),"
    " count(*) FILTER (WHERE NOT system AND " OWNED "), count(*) FILTER (WHERE NOT system AND " HAS_OWNER "),"
    " count(*) FILTER (WHERE NOT system AND " HAS_END "), count(*) FILTER (WHERE seen),"
    " count(*) FILTER (WHERE seen AND " IS_USED ") " LIVE_ONES,
    3,
};
/* Which of them fail the question $4, the first $5. */
enum question { QUESTION_OWNED, QUESTION_OWNER, QUESTION_END, QUESTION_USED, QUESTION_NONE };
static const struct sql SQL_FAILING = {
    "inventory_credential_failing",
    "SELECT kind || ':' || id " LIVE_ONES " WHERE NOT system AND CASE $4::bigint WHEN 0 THEN NOT " OWNED
    " WHEN 1 THEN NOT " HAS_OWNER " WHEN 2 THEN NOT " HAS_END " ELSE seen AND NOT " IS_USED " END"
    " ORDER BY (kind || ':' || id) COLLATE \"C\" LIMIT $5",
    5,
};
/* What a subject may do is what all its live tokens may do together. A subject is named by the first of its tokens. */
static const struct sql SQL_ROLES = {
    "inventory_subject_roles",
    "SELECT roles, count(*), (array_agg(token_id ORDER BY token_id))[1] FROM (SELECT string_agg(DISTINCT roles, ' '"
    " ORDER BY roles) AS roles, min(token_id) AS token_id FROM svc.tokens WHERE revoked_us IS NULL AND expires_us > $1"
    " GROUP BY subject) AS subjects GROUP BY roles ORDER BY roles",
    1,
};

/* Duties that one subject must not hold both of. */
static const struct {
    enum permission one, other;
} apart[] = {
    { PERMISSION_KEYS_WRITE, PERMISSION_CERTS_ISSUE },   /* asks for signatures, and approves them */
    { PERMISSION_TOKENS_WRITE, PERMISSION_CERTS_ISSUE }, /* gives access, and approves */
    { PERMISSION_TOKENS_WRITE, PERMISSION_KEYS_WRITE },  /* gives access, and uses the keys */
};

static bool holds_apart(uint64_t permissions)
{
    for (size_t i = 0; i < COUNT_OF(apart); i++) {
        uint64_t both = ((uint64_t)1 << apart[i].one) | ((uint64_t)1 << apart[i].other);
        if ((permissions & both) == both) {
            return true;
        }
    }
    return false;
}

struct numbers {
    int64_t held, users, owned, with_owner, with_end, seen, used;
};
struct asked {
    struct op *op;
    struct tx *tx;
    struct sql_arg times[3];
    struct inventory_statement *statements;
};

static struct fault name_failing(const struct asked *asked, enum question question, const char **ret_names)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { asked->times[0], asked->times[1], asked->times[2], SQL_INT((int64_t)question),
                                    SQL_INT(NAMED) };
    const char *names = "";
    TRY(tx_query(asked->tx, &SQL_FAILING, args, COUNT_OF(args), &rows));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(arena_printf(asked->op->arena, &names, "%s%s%s", names, row > 0 ? ", " : "", rows_text(rows, row, 0)));
    }
    *ret_names = names;
    return OK;
}

/* `failing`: names of the first ones that are not so. */
static struct fault state(const struct asked *asked, enum inventory_fact fact, int64_t total, int64_t matched,
                          const char *what, const char *failing)
{
    struct op *op = asked->op;
    struct inventory_statement made = { .state = total == 0         ? INVENTORY_ABSENT
                                                 : total == matched ? INVENTORY_HOLDS
                                                                    : INVENTORY_FAILS,
                                        .total = total,
                                        .matched = matched };
    TRY(arena_printf(op->arena, &made.object, "credential-inventory:%s", op->tenant.text));
    TRY(arena_printf(op->arena, &made.why, "%lld of %lld %s%s%s.", (long long)matched, (long long)total, what,
                     failing[0] != '\0' ? "; the first that are not: " : "", failing));
    asked->statements[fact] = made;
    return OK;
}

static struct fault say(const struct asked *asked, enum inventory_fact fact, int64_t total, int64_t matched,
                        enum question question, const char *what)
{
    const char *failing = "";
    if (matched < total && question != QUESTION_NONE) {
        TRY(name_failing(asked, question, &failing));
    }
    return state(asked, fact, total, matched, what, failing);
}

/* Of roles one after another: a subject may have more of them, over all its tokens, than one principal can. */
static uint64_t permits(const struct identity *identity, const char *roles)
{
    uint64_t all = 0;
    char role[256];
    while (*roles != '\0') {
        size_t len = strcspn(roles, " ");
        (void)snprintf(role, sizeof(role), "%.*s", (int)len, roles);
        all |= identity_roles_permit(identity, role);
        roles += len + (roles[len] == ' ' ? 1 : 0);
    }
    return all;
}

static struct fault least_privilege(const struct asked *asked, struct services *services)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    int64_t total = 0, matched = 0;
    const char *failing = "";
    size_t named = 0;
    TRY(tx_query(asked->tx, &SQL_ROLES, asked->times, 1, &rows));
    for (size_t row = 0; row < rows_count(rows); row++) {
        int64_t count = rows_int(rows, row, 1);
        bool apart_held = holds_apart(permits(services->identity, rows_text(rows, row, 0)));
        total += count;
        matched += apart_held ? 0 : count;
        if (apart_held && named < NAMED) {
            TRY(arena_printf(asked->op->arena, &failing, "%s%stoken:%s", failing, named > 0 ? ", " : "",
                             rows_text(rows, row, 2)));
            named++;
        }
    }
    return state(asked, INVENTORY_FACT_CREDENTIALS_LEAST_PRIVILEGE, total, matched,
                 "subjects of live tokens hold no two duties that are to be separate", failing);
}

static struct fault custody_facts(struct op *op, struct tx *tx, struct inventory_statement *statements)
{
    struct custody_counts counts;
    TRY(custody_count(op, tx, &counts));
    struct inventory_statement recorded = { .state = counts.total == 0                 ? INVENTORY_ABSENT
                                                     : counts.recorded == counts.total ? INVENTORY_HOLDS
                                                                                       : INVENTORY_FAILS,
                                            .total = counts.total,
                                            .matched = counts.recorded };
    struct inventory_statement kept = recorded;
    kept.matched = counts.not_exportable;
    if (counts.total > 0) {
        kept.state = counts.not_exportable == counts.total ? INVENTORY_HOLDS : INVENTORY_FAILS;
    }
    TRY(arena_printf(op->arena, &recorded.object, "custody-summary:%s", op->tenant.text));
    kept.object = recorded.object;
    TRY(arena_printf(op->arena, &recorded.why, "All custody facts are recorded of %lld of %lld certificates.",
                     (long long)counts.recorded, (long long)counts.total));
    TRY(arena_printf(
        op->arena, &kept.why,
        "The keys of %lld of %lld certificates are not exportable; %lld are, and of %lld it is not recorded.",
        (long long)counts.not_exportable, (long long)counts.total, (long long)counts.exportable,
        (long long)(counts.total - counts.not_exportable - counts.exportable)));
    statements[INVENTORY_FACT_CUSTODY_RECORDED] = recorded;
    statements[INVENTORY_FACT_CUSTODY_NOT_EXPORTABLE] = kept;
    return OK;
}

static struct fault count(const struct asked *asked, struct numbers *numbers)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(asked->tx, &SQL_FACTS, asked->times, COUNT_OF(asked->times), &rows));
    *numbers = (struct numbers){
        .held = rows_int(rows, 0, 0),
        .users = rows_int(rows, 0, 1),
        .owned = rows_int(rows, 0, 2),
        .with_owner = rows_int(rows, 0, 3),
        .with_end = rows_int(rows, 0, 4),
        .seen = rows_int(rows, 0, 5),
        .used = rows_int(rows, 0, 6),
    };
    return OK;
}

struct fault inventory_credential_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                        struct inventory_statement *statements)
{
    struct numbers n;
    const struct asked asked = {
        op,
        tx,
        { SQL_INT(now), SQL_INT(now - services->config->owner_attestation / 1000), SQL_INT(now - STALE_DAYS * DAY_US) },
        statements,
    };
    TRY(count(&asked, &n));
    TRY(say(&asked, INVENTORY_FACT_CREDENTIALS_CURRENT, n.held, n.held, QUESTION_NONE,
            "live keys and certificates of users are in the inventory"));
    TRY(say(&asked, INVENTORY_FACT_CREDENTIALS_OWNED, n.users, n.owned, QUESTION_OWNED,
            "live credentials of users have a complete owner record with a current attestation"));
    TRY(say(&asked, INVENTORY_FACT_CREDENTIALS_NOT_ORPHANED, n.users, n.with_owner, QUESTION_OWNER,
            "live credentials of users have an owner"));
    TRY(say(&asked, INVENTORY_FACT_CREDENTIALS_NOT_STATIC, n.users, n.with_end, QUESTION_END,
            "live credentials of users have an end"));
    TRY(say(&asked, INVENTORY_FACT_CREDENTIALS_NOT_STALE, n.seen, n.used, QUESTION_USED,
            "live credentials of users, whose use is seen here, were used or made within 90 days"));
    TRY(least_privilege(&asked, services));
    return custody_facts(op, tx, statements);
}
