/* Records that chain as the projector's do, and the configurations that the tests share. */
#ifndef TESTS_UNIT_FEEDS_FEED_SAMPLE_H
#define TESTS_UNIT_FEEDS_FEED_SAMPLE_H

#include "api/feeds/internal.h"
#include "testlib.h"

#include "appliance/base/codec.h"

#define SAMPLE_BATCH    "0190a6b2-0001-8000-8000-00000000abcd"
#define assert_ok(expr) assert_fault(expr, NONE)

[[maybe_unused]] static struct sha256 sample_seed = { { 1 } };

/* `text` is the record's bytes, which live as long as the test. */
[[maybe_unused]] static void sample_record(struct feed_record *record, int64_t sequence, const char *text,
                                           const struct sha256 *before)
{
    *record = (struct feed_record){ .sequence = sequence,
                                    .event_id = "0190a6b2-0002-8000-8000-000000000001",
                                    .type = "key.generated",
                                    .actor = "alice",
                                    .time = 1795219200123456,
                                    .record = span_text(text) };
    assert_ok(audit_chain_next(before, record->record, &record->chain));
}

[[maybe_unused]] static struct feed_render sample_render(const struct feed_kind *kind, const struct feed_config *config)
{
    return (struct feed_render){
        .kind = kind, .config = config, .tenant = { "acme" }, .feed_id = "siem", .batch_id = { SAMPLE_BATCH }
    };
}

#endif
