/*
 * Pages of records. A page is found by an index at any depth: each combination of filters has a statement of its own,
 * so that its plan does not depend on which of them are set, and times become a range of sequences first.
 */
#include "api/audit/internal.h"

#define PAGE(more, order)                                                                               \
    "SELECT sequence, record, chain FROM svc.audit_records WHERE sequence >= $1 AND sequence <= $2"     \
    " AND sequence > coalesce((SELECT max(last_sequence) FROM svc.audit_checkpoints), 0)" /* floor.h */ \
    " AND time_us >= $3 AND time_us < $4" more " ORDER BY sequence" order " LIMIT $5"

/* Whose rows a tenant has and where they stand, the planner can only guess; its guess is to read and sort them all.
 * There is one good way for each statement: along the index that has its order. */
static const struct sql SQL_ALONG_AN_INDEX = {
    "audit_along_an_index",
    "SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),"
    " set_config('enable_seqscan', 'off', true)",
    0,
};

enum wanted { WANTED_ALL, WANTED_ACTOR, WANTED_TYPE, WANTED_BOTH, WANTED_KINDS };

static const struct sql newest_first[WANTED_KINDS] = {
    [WANTED_ALL] = { "audit_newest", PAGE("", " DESC"), 5 },
    [WANTED_ACTOR] = { "audit_newest_of_actor", PAGE(" AND actor_subject = $6", " DESC"), 6 },
    [WANTED_TYPE] = { "audit_newest_of_type", PAGE(" AND type = $6", " DESC"), 6 },
    [WANTED_BOTH] = { "audit_newest_of_both", PAGE(" AND actor_subject = $6 AND type = $7", " DESC"), 7 },
};
static const struct sql oldest_first[WANTED_KINDS] = {
    [WANTED_ALL] = { "audit_oldest", PAGE("", ""), 5 },
    [WANTED_ACTOR] = { "audit_oldest_of_actor", PAGE(" AND actor_subject = $6", ""), 6 },
    [WANTED_TYPE] = { "audit_oldest_of_type", PAGE(" AND type = $6", ""), 6 },
    [WANTED_BOTH] = { "audit_oldest_of_both", PAGE(" AND actor_subject = $6 AND type = $7", ""), 7 },
};

static struct fault span_of_page(struct tx *tx, const struct record_filter *filter, int64_t *ret_first,
                                 int64_t *ret_last)
{
    int64_t first = 1, last = INT64_MAX;
    if (filter->from != INT64_MIN || filter->to != INT64_MAX) {
        TRY(record_span_of_time(tx, filter->from, filter->to, &first, &last));
    }
    if (filter->ascending && filter->beyond >= first) {
        first = filter->beyond + 1;
    }
    if (!filter->ascending && filter->beyond <= last) {
        last = filter->beyond - 1;
    }
    *ret_first = first;
    *ret_last = last;
    return OK;
}

struct fault record_page(struct tx *tx, const struct record_filter *filter, struct rows **ret_rows)
{
    int64_t first = 0, last = 0;
    TRY(tx_queue(tx, &SQL_ALONG_AN_INDEX, NULL, 0));
    TRY(span_of_page(tx, filter, &first, &last));
    struct sql_arg args[7] = { SQL_INT(first), SQL_INT(last), SQL_INT(filter->from), SQL_INT(filter->to),
                               SQL_INT(filter->limit) };
    enum wanted wanted = filter->actor != NULL ? WANTED_ACTOR : WANTED_ALL;
    size_t count = 5;
    if (filter->actor != NULL) {
        args[count++] = SQL_TEXT(filter->actor);
    }
    if (filter->type != NULL) {
        args[count++] = SQL_TEXT(filter->type);
        wanted = filter->actor != NULL ? WANTED_BOTH : WANTED_TYPE;
    }
    return tx_query(tx, filter->ascending ? &oldest_first[wanted] : &newest_first[wanted], args, count, ret_rows);
}
