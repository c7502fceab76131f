#include "api/projection/chain.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"
#include "testlib.h"

/* Both computed by another program from the description in chain.h. */
#define RECORD_1                                                                                    \
    "{\"actor\":{\"roles\":[\"operator\",\"ci\"],\"subject\":\"al\\u0001ice \\\"\xc3\xa9\\\"\"},"   \
    "\"data\":{\"a\":[1,2.5],\"z\":\"\\n\"},\"event_id\":\"00000000-0000-8000-8000-000000000001\"," \
    "\"lane\":\"codesign\",\"schema_version\":1,\"sequence\":1,\"tenant_id\":\"acme\","             \
    "\"time\":\"2026-11-21T03:50:36.123456Z\",\"trace_id\":\"\",\"type\":\"codesign.signed\"}"
#define CHAIN_1 "6cff3cfc7b04dd06a6da4d6909dc0bfb486f0ad94c5b4d893b9048a37e4d1931"
#define CHAIN_2 "08fbfd6b5b6982e5a7221bd77970c13bac1b61aa89c37141ee60faad16c6ff8d"

static const char *const roles[] = { "operator", "ci" };

static struct event_view sample(const char *id)
{
    struct event_view event = {
        .tenant = { "acme" },
        .lane = "codesign",
        .type = "codesign.signed",
        .schema_version = 1,
        .time = 1795233036123456,
        .actor_subject = "al\001ice \"\xc3\xa9\"",
        .actor_roles = roles,
        .actor_role_count = 2,
        .trace_id = "",
        .data = span_text("{\"a\":[1,2.5],\"z\":\"\\n\"}"),
    };
    assert_fault(uuid_parse(span_text(id), &event.id), NONE);
    return event;
}

static void assert_chain(const struct sha256 *chain, const char *want)
{
    char text[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(chain->at), text, sizeof(text));
    assert_string_equal(text, want);
}

static void a_record_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf record = BUF_INIT(100);
    struct event_view event = sample("00000000-0000-8000-8000-000000000001");
    assert_fault(audit_record_bytes(&event, 1, &record), TOO_LARGE);
}

static void a_record_is_the_canonical_form_of_its_fields(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf record = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(4096);
    struct event_view event = sample("00000000-0000-8000-8000-000000000001");
    assert_fault(audit_record_bytes(&event, 1, &record), NONE);
    assert_span_text(buf_span(&record), RECORD_1);
    assert_fault(json_canonical(buf_span(&record), &canonical), NONE);
    assert_true(span_equal(buf_span(&record), buf_span(&canonical)));
}

static void the_chain_is_the_one_that_is_described(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf record = BUF_INIT(4096);
    struct sha256 chain = { 0 };
    struct event_view event = sample("00000000-0000-8000-8000-000000000001");
    assert_fault(audit_record_bytes(&event, 1, &record), NONE);
    assert_fault(audit_chain_next(&chain, buf_span(&record), &chain), NONE);
    assert_chain(&chain, CHAIN_1);
    event = sample("00000000-0000-8000-8000-000000000002");
    assert_fault(audit_record_bytes(&event, 2, &record), NONE);
    assert_fault(audit_chain_next(&chain, buf_span(&record), &chain), NONE);
    assert_chain(&chain, CHAIN_2);
}

static void every_byte_of_a_record_counts(void **state)
{
    (void)state;
    char record[] = RECORD_1;
    struct sha256 zero = { 0 }, good, other;
    assert_fault(audit_chain_next(&zero, span_text(record), &good), NONE);
    for (size_t i = 0; i < sizeof(record) - 1; i++) {
        record[i] ^= 1;
        assert_fault(audit_chain_next(&zero, span_of(record, sizeof(record) - 1), &other), NONE);
        assert_false(span_equal(SPAN_ARRAY(good.at), SPAN_ARRAY(other.at)));
        record[i] ^= 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_that_does_not_fit_is_refused),
        cmocka_unit_test(a_record_is_the_canonical_form_of_its_fields),
        cmocka_unit_test(the_chain_is_the_one_that_is_described),
        cmocka_unit_test(every_byte_of_a_record_counts),
    };
    return cmocka_run_group_tests_name("projection/chain", tests, NULL, NULL);
}
