/*
 * Records of some types, newest first. Each page is made of the newest of each type, found along the index that has
 * their order, and is bounded in number and bytes here and in the database. A long range is read in slices of
 * sequences, wide enough for about a page, so that no record is read in vain.
 */
#include "api/compliance/load.h"

#define PAGE_RECORDS 1000 /* wanted of a slice */
#define PAGE_MOST    4000
#define PAGE_BYTES   ((int64_t)4 << 20)

/* For each type along (tenant_id, type, sequence): the order names the type although there is one, because that is the
 * index's order and no other's. */
static const struct sql SQL_PAGE = {
    "compliance_page",
    "SELECT tenant_id, sequence, event_id, type, actor_subject, time_us, chain, record FROM (SELECT r.*,"
    " sum(octet_length(record)) OVER (ORDER BY sequence DESC ROWS UNBOUNDED PRECEDING) - octet_length(record) AS before"
    " FROM (SELECT n.* FROM unnest($1::text[]) AS wanted(type) CROSS JOIN LATERAL"
    " (SELECT a.tenant_id, a.sequence, a.event_id, a.type, a.actor_subject, a.time_us, a.chain, a.record"
    " FROM svc.audit_records a WHERE a.type = wanted.type AND a.sequence >= $2 AND a.sequence <= $3"
    " AND a.time_us >= $4 AND a.time_us <= $5 AND NOT (a.actor_subject = ANY ($7::text[]))"
    " ORDER BY a.type DESC, a.sequence DESC LIMIT $6) n ORDER BY n.sequence DESC LIMIT $6) r) sized"
    " WHERE before < $8 ORDER BY sequence DESC",
    8,
};
static const struct sql SQL_ONE = {
    "compliance_one",
    "SELECT tenant_id, sequence, event_id, type, actor_subject, time_us, chain, record FROM svc.audit_records"
    " WHERE sequence = $1",
    1,
};
/* Whose rows a tenant has and where they stand, the planner can only guess; its guess is to read and sort them all. */
static const struct sql SQL_ALONG_THE_INDEX = {
    "compliance_along_the_index",
    "SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),"
    " set_config('enable_sort', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)",
    0,
};

enum page_column {
    PAGE_TENANT,
    PAGE_SEQUENCE,
    PAGE_EVENT_ID,
    PAGE_TYPE,
    PAGE_ACTOR,
    PAGE_TIME,
    PAGE_CHAIN,
    PAGE_RECORD,
};

struct fault load_along_the_index(struct tx *tx)
{
    return tx_queue(tx, &SQL_ALONG_THE_INDEX, NULL, 0);
}

struct fault load_one(struct tx *tx, int64_t sequence, struct rows **ret_rows)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_ONE, (struct sql_arg[]){ SQL_INT(sequence) }, 1, &rows));
    REQUIRE(rows_count(rows) == 1, INTERNAL);
    *ret_rows = TAKE(rows);
    return OK;
}

struct fault load_page(struct tx *tx, const struct load_range *range, struct rows **ret_rows, bool *ret_cut)
{
    CLEANUP(sql_array_free) struct sql_array nobody = SQL_ARRAY_INIT(SQL_ARRAY_TEXT);
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { sql_array_arg(range->types),
                                    SQL_INT(range->least),
                                    SQL_INT(range->most),
                                    SQL_INT(range->window.from),
                                    SQL_INT(range->window.to),
                                    SQL_INT(range->limit),
                                    sql_array_arg(range->not_actors != NULL ? range->not_actors : &nobody),
                                    SQL_INT(PAGE_BYTES) };
    TRY(load_along_the_index(tx));
    TRY(tx_query(tx, &SQL_PAGE, args, COUNT_OF(args), &rows));
    int64_t bytes = 0; /* what was left out for its size stands behind at least so many */
    for (size_t i = 0; i < rows_count(rows); i++) {
        bytes += (int64_t)rows_bytes(rows, i, PAGE_RECORD).len;
    }
    *ret_cut = (int64_t)rows_count(rows) == range->limit || bytes >= PAGE_BYTES;
    *ret_rows = TAKE(rows);
    return OK;
}

struct fault load_event(const struct rows *rows, size_t row, struct evidence_event *ret_event)
{
    struct span chain = rows_bytes(rows, row, PAGE_CHAIN);
    struct evidence_event event = { .event_id = rows_text(rows, row, PAGE_EVENT_ID),
                                    .type = rows_text(rows, row, PAGE_TYPE),
                                    .actor = rows_text(rows, row, PAGE_ACTOR),
                                    .sequence = rows_int(rows, row, PAGE_SEQUENCE),
                                    .time = rows_int(rows, row, PAGE_TIME),
                                    .record = rows_bytes(rows, row, PAGE_RECORD) };
    REQUIRE(chain.len == SHA256_LEN, INTERNAL);
    memcpy(event.chain.at, chain.at, SHA256_LEN);
    TRY(tenant_id_parse(rows_bytes(rows, row, PAGE_TENANT), &event.tenant));
    *ret_event = event;
    return OK;
}

static struct fault hand_over(const struct rows *rows, load_take_fn take, void *arg)
{
    for (size_t i = 0; i < rows_count(rows); i++) {
        struct evidence_event event;
        TRY(load_event(rows, i, &event));
        TRY(take(arg, &event));
    }
    return OK;
}

/* How wide the next slice is, by what the last one held. */
static int64_t next_width(int64_t width, size_t got, bool cut, int64_t whole)
{
    if (cut) {
        return width > 1 ? width / 2 : 1;
    }
    return got < PAGE_RECORDS / 2 ? (width <= whole / 2 ? width * 2 : whole) : width;
}

struct fault load_stream(struct tx *tx, const struct load_range *range, int64_t expected, load_take_fn take, void *arg)
{
    struct load_range slice = *range;
    int64_t whole = range->most - range->least + 1;
    int64_t width = expected <= PAGE_RECORDS ? whole : whole / (expected / PAGE_RECORDS);
    slice.limit = PAGE_MOST;
    while (expected > 0 && slice.most >= range->least) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        bool cut = false;
        slice.least = slice.most - range->least < width ? range->least : slice.most - width + 1;
        TRY(load_page(tx, &slice, &rows, &cut));
        TRY(hand_over(rows, take, arg));
        size_t got = rows_count(rows);
        slice.most = cut ? rows_int(rows, got - 1, PAGE_SEQUENCE) - 1 : slice.least - 1;
        width = next_width(width, got, cut, whole);
    }
    return OK;
}
