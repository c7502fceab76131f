#include "api/audit/internal.h"

static const struct sql SQL_RANGE = {
    "audit_range",
    "SELECT sequence, record, chain FROM (SELECT sequence, record, chain, sum(octet_length(record))"
    " OVER (ORDER BY sequence) - octet_length(record) AS before FROM (SELECT sequence, record, chain"
    " FROM svc.audit_records WHERE sequence >= $1 AND sequence <= $2 ORDER BY sequence LIMIT $3) page) sized"
    " WHERE before < $4 ORDER BY sequence",
    4,
};
/* By the index over times: the earliest, and among those within a minute of it the one that comes first. Two questions,
 * because a bound that is computed in the statement would be applied behind row-level security, to every row; and the
 * sum keeps the planner from walking the other index until a time fits. */
#define TIMES_SLACK_US 60000000
static const struct sql SQL_FIRST_TIME = {
    "audit_first_time",
    "SELECT time_us FROM svc.audit_records WHERE time_us >= $1 ORDER BY time_us LIMIT 1",
    1,
};
static const struct sql SQL_LAST_TIME = {
    "audit_last_time",
    "SELECT time_us FROM svc.audit_records WHERE time_us < $1 ORDER BY time_us DESC LIMIT 1",
    1,
};
static const struct sql SQL_FIRST_SINCE = {
    "audit_first_since",
    "SELECT min(sequence + 0) FROM svc.audit_records WHERE time_us >= $1 AND time_us <= $2",
    2,
};
static const struct sql SQL_LAST_BEFORE = {
    "audit_last_before",
    "SELECT max(sequence + 0) FROM svc.audit_records WHERE time_us >= $1 AND time_us <= $2",
    2,
};
#define RANGE_BYTES ((int64_t)4 << 20)

static const struct sql SQL_HEAD = { "audit_head", "SELECT sequence FROM svc.audit_heads", 0 };
static const struct sql SQL_CHAIN = { "audit_chain", "SELECT chain FROM svc.audit_records WHERE sequence = $1", 1 };

struct fault record_range(struct tx *tx, int64_t first, int64_t last, int64_t limit, struct rows **ret_rows)
{
    const struct sql_arg args[] = { SQL_INT(first), SQL_INT(last), SQL_INT(limit), SQL_INT(RANGE_BYTES) };
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

/* 0 when there is none. */
static struct fault one_number(struct tx *tx, const struct sql *sql, const struct sql_arg *args, int64_t *ret_number)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, sql, args, sql->args, &rows));
    *ret_number = rows_count(rows) == 0 ? 0 : rows_int(rows, 0, 0);
    return OK;
}

static struct fault near(struct tx *tx, const struct sql *edge, const struct sql *nearest, utc_us bound,
                         int64_t *ret_sequence)
{
    utc_us time = 0;
    int64_t sequence = 0;
    TRY(one_number(tx, edge, (struct sql_arg[]){ SQL_INT(bound) }, &time));
    bool first = edge == &SQL_FIRST_TIME;
    const struct sql_arg window[] = { SQL_INT(first ? time : time - TIMES_SLACK_US),
                                      SQL_INT(first ? time + TIMES_SLACK_US : time) };
    TRY(time != 0 ? one_number(tx, nearest, window, &sequence) : OK);
    *ret_sequence = sequence;
    return OK;
}

struct fault record_span_of_time(struct tx *tx, utc_us from, utc_us to, int64_t *ret_first, int64_t *ret_last)
{
    int64_t first = 0, last = 0;
    TRY(near(tx, &SQL_FIRST_TIME, &SQL_FIRST_SINCE, from, &first));
    TRY(near(tx, &SQL_LAST_TIME, &SQL_LAST_BEFORE, to, &last));
    bool any = first != 0 && last >= first;
    *ret_first = any ? first : 0;
    *ret_last = any ? last : 0;
    return OK;
}

/* A row for each rewriting, by the projection of its activation. */
static const struct sql SQL_GENERATION = {
    "audit_generation",
    "SELECT coalesce(max(generation), 1) FROM svc.audit_generations",
    0,
};

struct fault audit_generation(struct tx *tx, int64_t *ret_generation)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_GENERATION, NULL, 0, &rows));
    *ret_generation = rows_int(rows, 0, 0);
    return OK;
}
