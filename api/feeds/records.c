/* Records of op's tenant, as the read model has them. */
#include "api/feeds/internal.h"

/* Bounded in bytes as well, before anything is fetched: the first one comes whatever its size. */
static const struct sql SQL_RANGE = {
    "feed_range",
    "SELECT sequence, event_id, type, actor_subject, time_us, record, chain FROM (SELECT r.*,"
    " sum(octet_length(record)) OVER (ORDER BY sequence) AS bytes FROM (SELECT * FROM svc.audit_records"
    " WHERE tenant_id = $1 AND sequence >= $2 AND sequence <= $3 ORDER BY sequence LIMIT $4) r) b"
    " WHERE bytes <= $5 OR sequence = $2 ORDER BY sequence",
    5,
};
static const struct sql SQL_DUE = {
    "feed_due",
    "SELECT EXISTS (SELECT 1 FROM svc.audit_records WHERE tenant_id = $1 AND sequence >= $2"
    " AND type NOT LIKE 'audit.feed.%')",
    2,
};
static const struct sql SQL_CHAIN = {
    "feed_chain",
    "SELECT chain FROM svc.audit_records WHERE tenant_id = $1 AND sequence = $2",
    2,
};
static const struct sql SQL_BOUNDS = {
    "feed_bounds",
    "SELECT coalesce((SELECT sequence FROM svc.audit_records WHERE tenant_id = $1 ORDER BY sequence LIMIT 1), 0),"
    " coalesce((SELECT sequence FROM svc.audit_records WHERE tenant_id = $1 ORDER BY sequence DESC LIMIT 1), 0)",
    1,
};

static struct fault take_chain(struct span bytes, struct sha256 *ret_chain)
{
    REQUIRE(bytes.len == SHA256_LEN, INTERNAL);
    memcpy(ret_chain->at, bytes.at, SHA256_LEN);
    return OK;
}

struct fault feed_records_read(struct op *op, struct tx *tx, int64_t first, int64_t last, int64_t limit, size_t bytes,
                               struct rows **ret_rows, struct feed_record **ret_records, size_t *ret_count)
{
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_INT(first), SQL_INT(last), SQL_INT(limit),
                                    SQL_INT((int64_t)bytes) };
    struct feed_record *records = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_RANGE, args, COUNT_OF(args), &rows));
    size_t count = rows_count(rows);
    TRY(arena_take(op->arena, count + 1, sizeof(*records), &records));
    for (size_t i = 0; i < count; i++) {
        records[i] = (struct feed_record){ .sequence = rows_int(rows, i, 0),
                                           .event_id = rows_text(rows, i, 1),
                                           .type = rows_text(rows, i, 2),
                                           .actor = rows_text(rows, i, 3),
                                           .time = rows_int(rows, i, 4),
                                           .record = rows_bytes(rows, i, 5) };
        TRY(take_chain(rows_bytes(rows, i, 6), &records[i].chain));
    }
    *ret_rows = TAKE(rows);
    *ret_records = records;
    *ret_count = count;
    return OK;
}

struct fault feed_records_due(struct op *op, struct tx *tx, int64_t first, bool *ret_due)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_DUE, (struct sql_arg[]){ SQL_TEXT(op->tenant.text), SQL_INT(first) }, 2, &rows));
    *ret_due = rows_bool(rows, 0, 0);
    return OK;
}

struct fault feed_chain_at(struct op *op, struct tx *tx, int64_t sequence, struct sha256 *ret_chain)
{
    if (sequence == 0) {
        *ret_chain = (struct sha256){ 0 };
        return OK;
    }
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_CHAIN, (struct sql_arg[]){ SQL_TEXT(op->tenant.text), SQL_INT(sequence) }, 2, &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    return take_chain(rows_bytes(rows, 0, 0), ret_chain);
}

struct fault feed_records_bounds(struct op *op, struct tx *tx, int64_t *ret_first, int64_t *ret_last)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_BOUNDS, (struct sql_arg[]){ SQL_TEXT(op->tenant.text) }, 1, &rows));
    *ret_first = rows_int(rows, 0, 0);
    *ret_last = rows_int(rows, 0, 1);
    return OK;
}
