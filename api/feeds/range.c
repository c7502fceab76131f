/* What pins a batch: its chain from end to end, and the ids of its events. Pure. */
#include "api/feeds/internal.h"

struct fault feed_range_of(const struct feed_record *records, size_t count, const struct sha256 *seed,
                           struct feed_range *ret_range)
{
    CLEANUP(buf_free) struct buf ids = BUF_INIT((size_t)1 << 20);
    struct feed_range range = { .seed = *seed, .head = *seed };
    REQUIRE(count > 0, FEED_RANGE);
    range.first = records[0].sequence;
    for (size_t i = 0; i < count; i++) {
        const struct feed_record *record = &records[i];
        TRY(audit_chain_next(&range.head, record->record, &range.head));
        REQUIRE(record->sequence == range.first + (int64_t)i &&
                    span_equal(SPAN_ARRAY(range.head.at), SPAN_ARRAY(record->chain.at)),
                FEED_RANGE);
        TRY(buf_printf(&ids, "%s\n", record->event_id));
    }
    range.last = records[count - 1].sequence;
    TRY(sha256_of(buf_span(&ids), &range.ids));
    *ret_range = range;
    return OK;
}

bool feed_range_equal(const struct feed_range *a, const struct feed_range *b)
{
    return a->first == b->first && a->last == b->last && span_equal(SPAN_ARRAY(a->seed.at), SPAN_ARRAY(b->seed.at)) &&
           span_equal(SPAN_ARRAY(a->head.at), SPAN_ARRAY(b->head.at)) &&
           span_equal(SPAN_ARRAY(a->ids.at), SPAN_ARRAY(b->ids.at));
}

/* Of the range alone: whatever the configuration, the same records make the same id. */
struct fault feed_batch_id(struct tenant_id tenant, const char *feed_id, const struct feed_range *range,
                           struct uuid *ret_id)
{
    uint8_t numbers[16];
    for (size_t i = 0; i < 8; i++) {
        numbers[i] = (uint8_t)((uint64_t)range->first >> (56 - 8 * i));
        numbers[8 + i] = (uint8_t)((uint64_t)range->last >> (56 - 8 * i));
    }
    const struct span parts[] = { span_text(tenant.text),     span_text(feed_id),         SPAN_ARRAY(numbers),
                                  SPAN_ARRAY(range->seed.at), SPAN_ARRAY(range->head.at), SPAN_ARRAY(range->ids.at) };
    return uuid_derive("audit.feed.batch", parts, COUNT_OF(parts), ret_id);
}
