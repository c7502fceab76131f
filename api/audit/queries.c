#include "api/audit/internal.h"

#define FILTER                                                                                                   \
    " FROM svc.audit_records WHERE ($1::text IS NULL OR actor_subject = $1) AND ($2::text IS NULL OR type = $2)" \
    " AND time_us >= $3 AND time_us < $4 "

static const struct sql SQL_NEWEST_FIRST = {
    "audit_newest_first",
    "SELECT sequence, record, chain" FILTER "AND sequence < $5 ORDER BY sequence DESC LIMIT $6",
    6,
};
static const struct sql SQL_OLDEST_FIRST = {
    "audit_oldest_first",
    "SELECT sequence, record, chain" FILTER "AND sequence > $5 ORDER BY sequence LIMIT $6",
    6,
};
static const struct sql SQL_RANGE = {
    "audit_range",
    "SELECT sequence, record, chain FROM svc.audit_records WHERE sequence >= $1 AND sequence <= $2"
    " ORDER BY sequence LIMIT $3",
    3,
};
static const struct sql SQL_HEAD = { "audit_head", "SELECT sequence FROM svc.audit_heads", 0 };
static const struct sql SQL_CHAIN = { "audit_chain", "SELECT chain FROM svc.audit_records WHERE sequence = $1", 1 };

struct fault record_page(struct tx *tx, const struct record_filter *filter, struct rows **ret_rows)
{
    const struct sql_arg args[] = {
        filter->actor != NULL ? SQL_TEXT(filter->actor) : SQL_NONE,
        filter->type != NULL ? SQL_TEXT(filter->type) : SQL_NONE,
        SQL_INT(filter->from),
        SQL_INT(filter->to),
        SQL_INT(filter->beyond),
        SQL_INT(filter->limit),
    };
    return tx_query(tx, filter->ascending ? &SQL_OLDEST_FIRST : &SQL_NEWEST_FIRST, args, COUNT_OF(args), ret_rows);
}

struct fault record_range(struct tx *tx, int64_t first, int64_t last, int64_t limit, struct rows **ret_rows)
{
    const struct sql_arg args[] = { SQL_INT(first), SQL_INT(last), SQL_INT(limit) };
    return tx_query(tx, &SQL_RANGE, args, COUNT_OF(args), ret_rows);
}

struct fault record_head(struct tx *tx, int64_t *ret_sequence)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_HEAD, NULL, 0, &rows));
    *ret_sequence = rows_count(rows) == 0 ? 0 : rows_int(rows, 0, 0);
    return OK;
}

struct fault record_chain(struct tx *tx, int64_t sequence, struct sha256 *ret_chain)
{
    if (sequence == 0) {
        *ret_chain = (struct sha256){ 0 };
        return OK;
    }
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_CHAIN, (struct sql_arg[]){ SQL_INT(sequence) }, 1, &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    struct span chain = rows_bytes(rows, 0, 0);
    REQUIRE(chain.len == SHA256_LEN, INTERNAL);
    memcpy(ret_chain->at, chain.at, SHA256_LEN);
    return OK;
}
