#include "api/inventory/credentials.h"

#define REVIEW_COLUMNS                                                                                                  \
    "SELECT r.review_id, r.state, r.title, r.kinds, r.owner_id, r.opened_by, r.completed_by, r.last_command, r.digest," \
    " r.total, r.opened_sequence, r.opened_us, r.completed_us"

/* As of now while it is open, and as it was completed afterwards. */
static const struct sql SQL_REVIEW = {
    "inventory_review",
    REVIEW_COLUMNS
    ", coalesce(r.kept, n.kept), coalesce(r.revoked, n.revoked), n.undecided, n.revoked_live"
    " FROM svc.access_reviews r, LATERAL (SELECT count(*) FILTER (WHERE i.decision = 'keep') AS kept,"
    " count(*) FILTER (WHERE i.decision = 'revoke') AS revoked, count(*) FILTER (WHERE i.decision IS NULL) AS undecided,"
    " count(*) FILTER (WHERE i.decision = 'revoke' AND EXISTS (SELECT FROM " CREDENTIALS " c WHERE c.kind = i.kind"
    " AND c.id = i.credential_id AND c.state IN " LIVE_STATES ")) AS revoked_live FROM svc.access_review_items i"
    " WHERE i.review_id = r.review_id) n WHERE r.review_id = $2",
    2,
};
static const struct sql SQL_REVIEWS = {
    "inventory_reviews",
    REVIEW_COLUMNS ", r.kept, r.revoked, 0::bigint, 0::bigint FROM svc.access_reviews r WHERE r.opened_sequence < $1"
                   " ORDER BY r.opened_sequence DESC LIMIT $2",
    2,
};
static const struct sql SQL_ITEMS = {
    "inventory_review_page",
    "SELECT position, kind, credential_id, decision, reason, decided_by, decided_us FROM svc.access_review_items"
    " WHERE review_id = $1 AND position > $2 AND (NOT $4::boolean OR decision IS NULL) ORDER BY position LIMIT $3",
    4,
};
static const struct sql SQL_SCOPE = {
    "inventory_review_scope",
    "SELECT c.kind || ':' || c.id FROM " CREDENTIALS " c" JOIN_OWNER "WHERE NOT c.system AND c.state IN " LIVE_STATES
    " AND position(c.kind IN $2) > 0 AND ($3::text IS NULL OR o.owner_id = $3)"
    " ORDER BY (c.kind || ':' || c.id) COLLATE \"C\" LIMIT $4",
    4,
};
static const struct sql SQL_STRANGER = {
    "inventory_review_stranger",
    "SELECT name FROM jsonb_array_elements_text($2::jsonb) WITH ORDINALITY AS list (name, n)"
    " WHERE NOT EXISTS (SELECT FROM svc.access_review_items i WHERE i.review_id = $1"
    " AND i.kind = split_part(name, ':', 1) AND i.credential_id = substr(name, strpos(name, ':') + 1))"
    " ORDER BY n LIMIT 1",
    2,
};

static struct fault text_of(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_review(struct op *op, const struct rows *rows, size_t row, struct review *ret_review)
{
    struct review made = {
        .total = rows_int(rows, row, 9),
        .sequence = rows_int(rows, row, 10),
        .opened = rows_int(rows, row, 11),
        .completed = rows_int(rows, row, 12),
        .kept = rows_int(rows, row, 13),
        .revoked = rows_int(rows, row, 14),
        .undecided = rows_int(rows, row, 15),
        .revoked_live = rows_int(rows, row, 16),
    };
    struct span digest = rows_bytes(rows, row, 8);
    BUG_IF(digest.len != SHA256_LEN); /* a CHECK of the table */
    memcpy(made.digest.at, digest.at, SHA256_LEN);
    TRY(uuid_parse(span_text(rows_text(rows, row, 0)), &made.id));
    TRY(text_of(op, rows, row, 1, &made.state));
    TRY(text_of(op, rows, row, 2, &made.title));
    TRY(text_of(op, rows, row, 3, &made.kinds));
    TRY(text_of(op, rows, row, 4, &made.owner_id));
    TRY(text_of(op, rows, row, 5, &made.opened_by));
    TRY(text_of(op, rows, row, 6, &made.completed_by));
    TRY(text_of(op, rows, row, 7, &made.last_command));
    *ret_review = made;
    return OK;
}

struct fault review_get(struct op *op, struct services *services, const char *id, utc_us now, struct review *ret_review)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_REVIEW, (struct sql_arg[]){ SQL_INT(now), SQL_TEXT(id) }, 2, &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    return read_review(op, rows, 0, ret_review);
}

struct fault review_list(struct op *op, struct services *services, int64_t before, int64_t limit,
                         struct review **ret_list, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct review *made = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_REVIEWS, (struct sql_arg[]){ SQL_INT(before), SQL_INT(limit) }, 2, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_review(op, rows, row, &made[row]));
    }
    *ret_list = made;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault review_items(struct op *op, struct services *services, const char *id, int64_t after, int64_t limit,
                          bool undecided, struct review_item **ret_items, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct review_item *made = NULL;
    const struct sql_arg args[] = { SQL_TEXT(id), SQL_INT(after), SQL_INT(limit), SQL_BOOL(undecided) };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_ITEMS, args, COUNT_OF(args), &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        made[row].position = rows_int(rows, row, 0);
        made[row].decided = rows_int(rows, row, 6);
        TRY(text_of(op, rows, row, 1, &made[row].kind));
        TRY(text_of(op, rows, row, 2, &made[row].id));
        TRY(text_of(op, rows, row, 3, &made[row].decision));
        TRY(text_of(op, rows, row, 4, &made[row].reason));
        TRY(text_of(op, rows, row, 5, &made[row].decided_by));
    }
    *ret_items = made;
    *ret_count = rows_count(rows);
    return OK;
}

static struct fault kinds_text(struct op *op, const struct review_open_body *body, const char **ret_text)
{
    const char *text = "certificate key token";
    if (body->kinds.count > 0) {
        text = "";
        for (size_t i = 0; i < body->kinds.count; i++) {
            TRY(arena_printf(op->arena, &text, "%s%s%s", text, i > 0 ? " " : "", body->kinds.at[i]));
        }
    }
    *ret_text = text;
    return OK;
}

struct fault review_scope(struct op *op, struct services *services, const struct review_open_body *body, utc_us now,
                          size_t limit, const char ***ret_names, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const char **names = NULL;
    const char *kinds = "";
    TRY(kinds_text(op, body, &kinds));
    const struct sql_arg args[] = { SQL_INT(now), SQL_TEXT(kinds),
                                    body->owner_id != NULL ? SQL_TEXT(body->owner_id) : SQL_NONE,
                                    SQL_INT((int64_t)limit) };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_SCOPE, args, COUNT_OF(args), &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*names), &names));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(arena_text(op->arena, span_text(rows_text(rows, row, 0)), &names[row]));
    }
    *ret_names = names;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault review_stranger(struct op *op, struct services *services, const char *id, struct span names_json,
                             const char **ret_name)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_STRANGER, (struct sql_arg[]){ SQL_TEXT(id), SQL_SPAN(names_json) }, 2, &rows));
    if (rows_count(rows) == 0) {
        *ret_name = NULL;
        return OK;
    }
    return arena_text(op->arena, span_text(rows_text(rows, 0, 0)), ret_name);
}
