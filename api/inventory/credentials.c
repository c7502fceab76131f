#include "api/inventory/credentials.h"

#define COLUMNS                                                                                                     \
    "SELECT c.kind, c.id, c.system, c.name, c.detail, c.state, c.state IN " LIVE_STATES ", c.created_us, c.end_us," \
    " " LAST_USE ", c.key_id, c.der, o.owner_id, o.contact, o.application_id, o.environment, o.attested_us,"        \
    " o.attested_by, o.of_key FROM "

static const struct sql SQL_LIST = {
    "inventory_credentials",
    COLUMNS "(SELECT * FROM " CREDENTIALS " a WHERE (created_us, kind || ':' || id) < ($2, $3)"
            " AND ($4::text IS NULL OR kind = $4) AND ($5::bigint = 0 OR ($5::bigint = 1) = (state IN " LIVE_STATES
            ")) ORDER BY created_us DESC, kind || ':' || id DESC LIMIT $6) c" JOIN_OWNER
            "ORDER BY c.created_us DESC, c.kind || ':' || c.id DESC",
    6,
};
/* One statement for each kind: with the kind as a parameter the planner would plan all three branches, each time anew.
 */
#define ONE(kind)                   \
    { "inventory_credential_" kind, \
      COLUMNS "(SELECT * FROM " CREDENTIALS " a WHERE kind = '" kind "' AND id = $2) c" JOIN_OWNER, 2 }
static const struct sql SQL_ONE[] = { ONE("key"), ONE("token"), ONE("certificate") };
static const char *const kinds[] = { "key", "token", "certificate" };
static_assert(COUNT_OF(kinds) == COUNT_OF(SQL_ONE));

bool credential_kind_known(const char *kind)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            return true;
        }
    }
    return false;
}

bool credential_owner_complete(const struct credential_owner *owner)
{
    return owner->owner_id != NULL && owner->contact[0] != '\0' && owner->application_id[0] != '\0' &&
           owner->environment[0] != '\0';
}

static struct fault text_of(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_owner(struct op *op, const struct rows *rows, size_t row, struct credential_owner *owner)
{
    TRY(text_of(op, rows, row, 12, &owner->owner_id));
    TRY(text_of(op, rows, row, 13, &owner->contact));
    TRY(text_of(op, rows, row, 14, &owner->application_id));
    TRY(text_of(op, rows, row, 15, &owner->environment));
    owner->attested = rows_int(rows, row, 16);
    TRY(text_of(op, rows, row, 17, &owner->attested_by));
    owner->of_key = rows_bool(rows, row, 18);
    return OK;
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct credential *ret_credential)
{
    struct credential made = {
        .system = rows_bool(rows, row, 2),
        .live = rows_bool(rows, row, 6),
        .created = rows_int(rows, row, 7),
        .end = rows_int(rows, row, 8),
        .last_used = rows_int(rows, row, 9),
    };
    struct span der = rows_bytes(rows, row, 11);
    TRY(text_of(op, rows, row, 0, &made.kind));
    TRY(text_of(op, rows, row, 1, &made.id));
    TRY(text_of(op, rows, row, 3, &made.name));
    TRY(text_of(op, rows, row, 4, &made.detail));
    TRY(text_of(op, rows, row, 5, &made.state));
    TRY(text_of(op, rows, row, 10, &made.key_id));
    if (der.len > 0) {
        struct certificate_facts facts;
        certificate_describe(op, der, &facts);
        made.name = facts.subject;
    }
    TRY(read_owner(op, rows, row, &made.owner));
    *ret_credential = made;
    return OK;
}

struct fault credential_list(struct op *op, struct services *services, const struct credential_filter *filter,
                             utc_us now, struct credential **ret_list, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct credential *made = NULL;
    const struct sql_arg args[] = {
        SQL_INT(now),
        SQL_INT(filter->before_us),
        SQL_TEXT(filter->before_id),
        filter->kind != NULL ? SQL_TEXT(filter->kind) : SQL_NONE,
        SQL_INT(filter->live == CREDENTIAL_ANY    ? 0
                : filter->live == CREDENTIAL_LIVE ? 1
                                                  : 2),
        SQL_INT(filter->limit),
    };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_LIST, args, COUNT_OF(args), &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_row(op, rows, row, &made[row]));
    }
    *ret_list = made;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault credential_get(struct op *op, struct services *services, const char *kind, const char *id, utc_us now,
                            struct credential *ret_credential)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    size_t which = 0;
    while (which < COUNT_OF(kinds) && strcmp(kinds[which], kind) != 0) {
        which++;
    }
    REQUIRE(which < COUNT_OF(kinds), NOT_FOUND);
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_ONE[which], (struct sql_arg[]){ SQL_INT(now), SQL_TEXT(id) }, 2, &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    return read_row(op, rows, 0, ret_credential);
}
