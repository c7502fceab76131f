/* What the credentials' inventory says of the tenant: docs/inventory.md has each fact's definition. */
#include "api/inventory/credentials.h"

#define DAY_US     (86400 * US_PER_S)
#define STALE_DAYS 90 /* the evidence window */

/* $2: attested before counts no more; $3: used before is stale. Live ones only; in each row the first number is what is
 * looked at. A certificate that a user recorded is used where nobody here sees it: `seen` leaves it out. */
static const struct sql SQL_FACTS = {
    "inventory_credential_facts",
    "SELECT count(*), count(*) FILTER (WHERE NOT system), count(*) FILTER (WHERE NOT system AND owner_id <> '' AND"
    " contact <> '' AND application_id <> '' AND environment <> '' AND attested_us > $2),"
    " count(*) FILTER (WHERE NOT system AND owner_id IS NOT NULL),"
    " count(*) FILTER (WHERE NOT system AND end_us IS NOT NULL), count(*) FILTER (WHERE seen),"
    " count(*) FILTER (WHERE seen AND greatest(created_us, last_us) >= $3)"
    " FROM (SELECT c.system, c.end_us, c.created_us, o.owner_id, o.contact, o.application_id, o.environment,"
    " o.attested_us, NOT c.system AND (c.kind <> 'certificate' OR c.key_id IS NOT NULL) AS seen, " LAST_USE
    " AS last_us"
    " FROM " CREDENTIALS " c" JOIN_OWNER "WHERE c.state IN " LIVE_STATES ") AS live",
    3,
};
static const struct sql SQL_ROLES = {
    "inventory_token_roles",
    "SELECT roles, count(*) FROM svc.tokens WHERE revoked_us IS NULL AND expires_us > $1 GROUP BY roles ORDER BY roles",
    1,
};

/* Duties that one token must not hold both of. */
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
    int64_t live, users, owned, with_owner, with_end, seen, used;
};

static struct fault say(struct op *op, struct inventory_statement *statements, enum inventory_fact fact, int64_t total,
                        int64_t matched, const char *what)
{
    struct inventory_statement made = { .state = total == 0         ? INVENTORY_ABSENT
                                                 : total == matched ? INVENTORY_HOLDS
                                                                    : INVENTORY_FAILS,
                                        .total = total,
                                        .matched = matched };
    TRY(arena_printf(op->arena, &made.object, "credential-inventory:%s", op->tenant.text));
    TRY(arena_printf(op->arena, &made.why, "%lld of %lld %s.", (long long)matched, (long long)total, what));
    statements[fact] = made;
    return OK;
}

static struct fault least_privilege(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                    struct inventory_statement *statements)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    int64_t total = 0, matched = 0;
    TRY(tx_query(tx, &SQL_ROLES, (struct sql_arg[]){ SQL_INT(now) }, 1, &rows));
    for (size_t row = 0; row < rows_count(rows); row++) {
        int64_t count = rows_int(rows, row, 1);
        total += count;
        matched += holds_apart(identity_roles_permit(services->identity, rows_text(rows, row, 0))) ? 0 : count;
    }
    return say(op, statements, INVENTORY_FACT_CREDENTIALS_LEAST_PRIVILEGE, total, matched,
               "live tokens hold no two duties that are to be separate");
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

static struct fault count(struct op *op, struct services *services, struct tx *tx, utc_us now, struct numbers *numbers)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    (void)op;
    const struct sql_arg args[] = { SQL_INT(now), SQL_INT(now - services->config->owner_attestation / 1000),
                                    SQL_INT(now - STALE_DAYS * DAY_US) };
    TRY(tx_query(tx, &SQL_FACTS, args, COUNT_OF(args), &rows));
    *numbers = (struct numbers){
        .live = rows_int(rows, 0, 0),
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
    TRY(count(op, services, tx, now, &n));
    TRY(say(op, statements, INVENTORY_FACT_CREDENTIALS_CURRENT, n.live, n.live,
            "live credentials are in the inventory"));
    TRY(say(op, statements, INVENTORY_FACT_CREDENTIALS_OWNED, n.users, n.owned,
            "live credentials of users have a complete owner record with a current attestation"));
    TRY(say(op, statements, INVENTORY_FACT_CREDENTIALS_NOT_ORPHANED, n.users, n.with_owner,
            "live credentials of users have an owner"));
    TRY(say(op, statements, INVENTORY_FACT_CREDENTIALS_NOT_STATIC, n.users, n.with_end,
            "live credentials of users have an end"));
    TRY(say(op, statements, INVENTORY_FACT_CREDENTIALS_NOT_STALE, n.seen, n.used,
            "live credentials of users, whose use is seen here, were used or made within 90 days"));
    TRY(least_privilege(op, services, tx, now, statements));
    return custody_facts(op, tx, statements);
}
