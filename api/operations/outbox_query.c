/* Rows of the outbox as operators see them. What was delivered is told by its events and is not listed: the lists rest
 * on the indexes of what is open or dead, so they cost the same however much was ever delivered. */
#include "api/operations/internal.h"

#define COLUMNS                                                                                               \
    "o.id, o.destination, o.key, o.state, o.trace_id, f.code, greatest(o.attempts, coalesce(f.attempts, 0))," \
    " o.created_us, o.due_us, o.lease_until_us, f.first_us, f.last_us FROM svc.outbox o"                      \
    " LEFT JOIN svc.outbox_failures f ON f.tenant_id = o.tenant_id AND f.outbox_id = o.id "

#define OF_STATE(state)                                                                                         \
    "(SELECT " COLUMNS "WHERE o.tenant_id = $1 AND o.state = '" state "' AND ($2::text IS NULL OR $2 = '" state \
    "') AND ($3::text IS NULL OR o.destination = $3) AND o.id < $4 ORDER BY o.id DESC LIMIT $5)"
static const struct sql SQL_LIST = {
    "operations_outbox_list",
    OF_STATE("pending") " UNION ALL " OF_STATE("processing") " UNION ALL " OF_STATE(
        "dead-lettered") " ORDER BY 1 DESC LIMIT $5",
    5,
};
static const struct sql SQL_GET = {
    "operations_outbox_get",
    "SELECT " COLUMNS "WHERE o.tenant_id = $1 AND o.id = $2",
    2,
};
static const struct sql SQL_DEAD = {
    "operations_outbox_dead",
    "SELECT " COLUMNS "WHERE o.tenant_id = $1 AND o.destination = $2 AND o.state = 'dead-lettered' AND o.id > $3"
    " ORDER BY o.id LIMIT $4",
    4,
};

static struct fault text_at(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct outbox_seen *ret_seen)
{
    struct outbox_seen seen = {
        .id = rows_int(rows, row, 0),
        .attempts = rows_int(rows, row, 6),
        .created = rows_int(rows, row, 7),
        .due = rows_int(rows, row, 8),
        .lease_until = rows_int(rows, row, 9),
        .failed_first = rows_int(rows, row, 10),
        .failed_last = rows_int(rows, row, 11),
    };
    TRY(text_at(op, rows, row, 1, &seen.destination));
    TRY(text_at(op, rows, row, 2, &seen.key));
    TRY(text_at(op, rows, row, 3, &seen.state));
    TRY(text_at(op, rows, row, 4, &seen.trace_id));
    TRY(rows_null(rows, row, 5) ? OK : text_at(op, rows, row, 5, &seen.code));
    *ret_seen = seen;
    return OK;
}

static struct fault read_rows(struct op *op, const struct rows *rows, struct outbox_seen **ret_list, size_t *ret_count)
{
    struct outbox_seen *list = NULL;
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*list), &list));
    for (size_t i = 0; i < rows_count(rows); i++) {
        TRY(read_row(op, rows, i, &list[i]));
    }
    *ret_list = list;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault outbox_list(struct op *op, struct services *services, const struct outbox_wanted *wanted,
                         struct outbox_seen **ret_list, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text),
                                    wanted->state != NULL ? SQL_TEXT(wanted->state) : SQL_NONE,
                                    wanted->destination != NULL ? SQL_TEXT(wanted->destination) : SQL_NONE,
                                    SQL_INT(wanted->before), SQL_INT(wanted->limit) };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_LIST, args, COUNT_OF(args), &rows));
    return read_rows(op, rows, ret_list, ret_count);
}

struct fault outbox_get(struct op *op, struct tx *tx, int64_t id, struct outbox_seen *ret_seen)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_INT(id) };
    TRY(tx_query(tx, &SQL_GET, args, COUNT_OF(args), &rows));
    if (rows_count(rows) != 1) {
        return op_fail(op, FAULT(NOT_FOUND), "no such effect: list them with GET /api/v1/outbox");
    }
    return read_row(op, rows, 0, ret_seen);
}

struct fault outbox_dead(struct op *op, struct tx *tx, const char *destination, int64_t after, int64_t limit,
                         struct outbox_seen **ret_list, size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_TEXT(destination), SQL_INT(after), SQL_INT(limit) };
    TRY(tx_query(tx, &SQL_DEAD, args, COUNT_OF(args), &rows));
    return read_rows(op, rows, ret_list, ret_count);
}
