/* What collectors are sent, byte for byte; and what pins it. */
#include "feed_sample.h"

#define TIME "2026-11-21T00:00:00.123456Z"
#define ONE  "{\"a\":1}"
#define TWO  "{\"b\":\"x\"}"

static char chain_text[2][2 * SHA256_LEN + 1];
static struct feed_record records[2];
static struct feed_range range;

static int set_up(void **state)
{
    (void)state;
    sample_record(&records[0], 7, ONE, &sample_seed);
    sample_record(&records[1], 8, TWO, &records[0].chain);
    for (size_t i = 0; i < 2; i++) {
        hex_text(SPAN_ARRAY(records[i].chain.at), chain_text[i], sizeof(chain_text[i]));
    }
    return FAULTED(feed_range_of(records, 2, &sample_seed, &range)) ? 1 : 0;
}

static void render(const struct feed_kind *kind, const struct feed_config *config, size_t count, struct buf *out)
{
    struct feed_render job = sample_render(kind, config);
    job.range = range;
    assert_ok(feed_render(&job, records, count, out, NULL));
}

/* ---- what pins a batch ---- */

static void a_range_is_refused_when_a_record_or_its_place_is_another(void **state)
{
    (void)state;
    struct feed_record changed[2];
    struct feed_range got;
    memcpy(changed, records, sizeof(changed));
    changed[1].record = span_text("{\"b\":\"y\"}");
    assert_fault(feed_range_of(changed, 2, &sample_seed, &got), FEED_RANGE);
    memcpy(changed, records, sizeof(changed));
    changed[1].sequence = 9;
    assert_fault(feed_range_of(changed, 2, &sample_seed, &got), FEED_RANGE);
    memcpy(changed, records, sizeof(changed));
    changed[0].chain.at[0] ^= 1;
    assert_fault(feed_range_of(changed, 2, &sample_seed, &got), FEED_RANGE);
    struct sha256 other = { { 2 } };
    assert_fault(feed_range_of(records, 2, &other, &got), FEED_RANGE);
    assert_fault(feed_range_of(records, 0, &sample_seed, &got), FEED_RANGE);
}

static void a_range_differs_by_ids_alone(void **state)
{
    (void)state;
    struct feed_record changed[2];
    struct feed_range got;
    memcpy(changed, records, sizeof(changed));
    changed[1].event_id = "0190a6b2-0002-8000-8000-000000000002";
    assert_ok(feed_range_of(changed, 2, &sample_seed, &got));
    assert_false(feed_range_equal(&got, &range));
    assert_ok(feed_range_of(records, 2, &sample_seed, &got));
    assert_true(feed_range_equal(&got, &range));
}

static void a_batch_id_is_that_of_its_feed_and_range(void **state)
{
    (void)state;
    struct uuid first, again, other;
    struct feed_range shorter;
    const struct tenant_id acme = { "acme" }, umbrella = { "umbrella" };
    assert_ok(feed_batch_id(acme, "siem", &range, &first));
    assert_ok(feed_batch_id(acme, "siem", &range, &again));
    assert_string_equal(first.text, again.text);
    assert_ok(feed_batch_id(umbrella, "siem", &range, &other));
    assert_string_not_equal(first.text, other.text);
    assert_ok(feed_batch_id(acme, "other", &range, &other));
    assert_string_not_equal(first.text, other.text);
    assert_ok(feed_range_of(records, 1, &sample_seed, &shorter));
    assert_ok(feed_batch_id(acme, "siem", &shorter, &other));
    assert_string_not_equal(first.text, other.text);
}

/* ---- bytes ---- */

#define SEED "0100000000000000000000000000000000000000000000000000000000000000"

static void assert_bytes(const struct buf *got, const char *format, ...) PRINTF(2, 3);
static void assert_bytes(const struct buf *got, const char *format, ...)
{
    char want[8192], text[8192];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(want, sizeof(want), format, list);
    va_end(list);
    assert_true(got->len < sizeof(text));
    (void)snprintf(text, sizeof(text), "%.*s", (int)got->len, (const char *)got->at);
    assert_string_equal(text, want);
}

static void hec_is_objects_with_the_record_as_it_is_and_a_trailer(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    const struct feed_config config = { .index = "audit", .source_host = "box" };
#define HEAD                                                                                     \
    "{\"time\":1795219200.123,\"host\":\"box\",\"source\":\"svc\",\"sourcetype\":\"svc:audit\"," \
    "\"index\":\"audit\",\"event\":{\"batch_id\":\"" SAMPLE_BATCH "\","
    render(&feed_hec, &config, 2, &out);
    assert_bytes(&out,
                 HEAD "\"chain\":\"%s\",\"record\":" ONE "}}\n" HEAD "\"chain\":\"%s\",\"record\":" TWO "}}\n" HEAD
                      "\"trailer\":{\"chain_head\":\"%s\",\"chain_seed\":\"" SEED "\",\"count\":2,\"feed_id\":\"siem\","
                      "\"first_sequence\":7,\"last_sequence\":8,\"tenant_id\":\"acme\"}}}",
                 chain_text[0], chain_text[1], chain_text[1]);
#undef HEAD
}

static void azure_is_one_array_of_rows(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    const struct feed_config config = { 0 };
#define HEAD(what)                                                                      \
    "{\"TimeGenerated\":\"" TIME "\",\"Kind\":\"" what "\",\"BatchId\":\"" SAMPLE_BATCH \
    "\",\"FeedId\":\"siem\",\"SvcTenant\":\"acme\","
#define EVENT \
    "\"EventId\":\"0190a6b2-0002-8000-8000-000000000001\",\"EventType\":\"key.generated\",\"Actor\":\"alice\","
    render(&feed_azure, &config, 2, &out);
    assert_bytes(
        &out,
        "[" HEAD(
            "record") "\"Sequence\":7," EVENT "\"Chain\":\"%s\",\"Part\":1,\"Parts\":1,"
                      "\"Record\":\"{\\\"a\\\":1}\"}," HEAD(
                          "record") "\"Sequence\":8," EVENT
                                    "\"Chain\":\"%s\",\"Part\":1,\"Parts\":1,\"Record\":\"{\\\"b\\\":\\\"x\\\"}\"}," HEAD(
                                        "trailer") "\"ChainSeed\":\"" SEED
                                                   "\",\"ChainHead\":\"%s\",\"FirstSequence\":7,\"LastSequence\":8,"
                                                   "\"RecordCount\":2}]",
        chain_text[0], chain_text[1], chain_text[1]);
#undef HEAD
#undef EVENT
}

static void syslog_is_messages_behind_their_length(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    const struct feed_config config = { .source_host = "box" };
    char messages[3][1024];
#define HEAD(what) \
    "<110>1 " TIME " box svc - " what " [svcAudit@32473 batch=\"" SAMPLE_BATCH "\" feed=\"siem\" tenant=\"acme\" "
    (void)snprintf(messages[0], 1024, HEAD("record") "sequence=\"7\" part=\"1\" parts=\"1\" chain=\"%s\"] " ONE,
                   chain_text[0]);
    (void)snprintf(messages[1], 1024, HEAD("record") "sequence=\"8\" part=\"1\" parts=\"1\" chain=\"%s\"] " TWO,
                   chain_text[1]);
    (void)snprintf(messages[2], 1024,
                   HEAD("trailer") "first=\"7\" last=\"8\" count=\"2\" seed=\"" SEED "\" head=\"%s\"]", chain_text[1]);
    render(&feed_syslog, &config, 2, &out);
    assert_bytes(&out, "%zu %s%zu %s%zu %s", strlen(messages[0]), messages[0], strlen(messages[1]), messages[1],
                 strlen(messages[2]), messages[2]);
#undef HEAD
}

/* Frames back to messages, parts back to the record. No character is cut in two. */
static void a_long_record_comes_in_parts_that_make_it_again(void **state)
{
    (void)state;
    static char text[12001];
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    CLEANUP(buf_free) struct buf whole = BUF_INIT((size_t)1 << 20);
    const struct feed_config config = { .message_max = 2048 };
    struct feed_render job = sample_render(&feed_syslog, &config);
    struct feed_record record;
    for (size_t i = 0; i < 12000; i += 3) {
        memcpy(text + i, "\xe2\x82\xac", 3);
    }
    sample_record(&record, 1, text, &sample_seed);
    assert_ok(feed_range_of(&record, 1, &sample_seed, &job.range));
    assert_ok(feed_render(&job, &record, 1, &out, NULL));
    unsigned parts = 0;
    for (const char *at = (const char *)out.at, *end = at + out.len; at < end;) {
        char *blank = NULL;
        size_t len = strtoul(at, &blank, 10);
        assert_true(*blank == ' ' && len <= 2048);
        at = blank + 1;
        const char *mark = memmem(at, len, "] \xef\xbb\xbf", 5);
        if (mark != NULL) {
            size_t piece = len - (size_t)(mark + 5 - at);
            assert_int_equal(piece % 3, 0);
            assert_ok(buf_put(&whole, span_of(mark + 5, piece)));
            parts++;
        }
        at += len;
    }
    assert_true(parts > 8);
    assert_span_text(buf_span(&whole), text);
}

static void a_record_larger_than_a_request_goes_as_its_digest(void **state)
{
    (void)state;
    static char text[1200001];
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)2 << 20);
    const struct feed_config config = { 0 };
    const struct feed_kind *const kinds[] = { &feed_hec, &feed_azure, &feed_syslog };
    struct feed_record record;
    struct sha256 digest;
    char hex[2 * SHA256_LEN + 1];
    memset(text, '7', sizeof(text) - 1);
    sample_record(&record, 1, text, &sample_seed);
    assert_ok(sha256_of(record.record, &digest));
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct feed_render job = sample_render(kinds[i], &config);
        assert_ok(feed_range_of(&record, 1, &sample_seed, &job.range));
        assert_ok(feed_render(&job, &record, 1, &out, NULL));
        assert_true(out.len < 8192);
        assert_non_null(memmem(out.at, out.len, hex, strlen(hex)));
        assert_non_null(memmem(out.at, out.len, "1200000", 7));
    }
}

static void as_many_records_go_as_a_request_takes_and_no_more(void **state)
{
    (void)state;
    static char text[3][400001];
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)2 << 20);
    CLEANUP(buf_free) struct buf again = BUF_INIT((size_t)2 << 20);
    const struct feed_config config = { 0 };
    struct feed_render job = sample_render(&feed_hec, &config);
    struct feed_record list[3];
    size_t count = 0;
    for (size_t i = 0; i < 3; i++) {
        memset(text[i], '5', 400000);
        sample_record(&list[i], (int64_t)i + 1, text[i], i == 0 ? &sample_seed : &list[i - 1].chain);
    }
    assert_ok(feed_render(&job, list, 3, &out, &count));
    assert_int_equal(count, 2);
    assert_true(out.len <= feed_hec.bytes_max);
    assert_ok(feed_render(&job, list, 2, &again, NULL));
    assert_true(span_equal(buf_span(&out), buf_span(&again)));
    assert_fault(feed_render(&job, list, 3, &again, NULL), TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_refused_when_a_record_or_its_place_is_another),
        cmocka_unit_test(a_range_differs_by_ids_alone),
        cmocka_unit_test(a_batch_id_is_that_of_its_feed_and_range),
        cmocka_unit_test(hec_is_objects_with_the_record_as_it_is_and_a_trailer),
        cmocka_unit_test(azure_is_one_array_of_rows),
        cmocka_unit_test(syslog_is_messages_behind_their_length),
        cmocka_unit_test(a_long_record_comes_in_parts_that_make_it_again),
        cmocka_unit_test(a_record_larger_than_a_request_goes_as_its_digest),
        cmocka_unit_test(as_many_records_go_as_a_request_takes_and_no_more),
    };
    return cmocka_run_group_tests_name("feeds: render", tests, set_up, NULL);
}
