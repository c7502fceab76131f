#include "unit/server/testing.h"

#include "api/server/trace.h"
#include "appliance/base/tracing.h"

#include <stdio.h>

#define GOOD "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static void malformed_traceparents_are_not_continued(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "junk",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0z",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct traceparent parent = { .trace_id = "untouched" };
        assert_false(traceparent_parse(bad[i], &parent));
        assert_string_equal(parent.trace_id, "untouched");
    }
}

static void a_later_version_may_say_more(void **state)
{
    (void)state;
    struct traceparent parent;
    assert_true(traceparent_parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes", &parent));
    assert_string_equal(parent.trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_string_equal(parent.parent_id, "b7ad6b7169203331");
}

static void never(void *arg, const struct trace_record *record)
{
    (void)arg, (void)record;
}

/* What it says about being sampled is its last bit; the others are for whoever knows them. */
static void the_flag_of_a_known_caller_is_read_and_passed_on(void **state)
{
    (void)state;
    static const struct {
        const char *flags;
        bool sampled;
    } cases[] = { { "00", false }, { "01", true }, { "02", false }, { "03", true }, { "fe", false }, { "ff", true } };
    for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        char header[TRACEPARENT_LEN + 1], text[TRACEPARENT_LEN + 1];
        bool sampled = cases[i / 2].sampled;
        (void)snprintf(header, sizeof(header), "%.53s%s", GOOD, cases[i / 2].flags);
        const struct message message = { .headers = { { "traceparent", header } }, .header_count = 1 };
        trace_start(never, NULL, i % 2 == 0 ? 0 : TRACE_SAMPLE_ALL);
        assert_fault(trace_begin(op, &message), NONE);
        trace_caller_known(op, &message);
        assert_int_equal(trace_sampled(op->trace_id), sampled); /* later steps of it too */
        trace_stop();
        assert_int_equal(op->sampled, sampled);
        traceparent_print(op, text);
        assert_string_equal(text + 53, sampled ? "01" : "00");
    }
}

/* Whoever it is may ask for nothing to be recorded; for more than the ratio, neither by the flag nor by choosing the
 * id. */
static void a_stranger_gets_no_more_recorded_than_the_ratio_gives(void **state)
{
    (void)state;
    static const char *const flags[] = { "00", "01" };
    const struct message nothing = { .header_count = 0 };
    unsigned recorded = 0;
    for (unsigned i = 0; i < 4; i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        char header[TRACEPARENT_LEN + 1], text[TRACEPARENT_LEN + 1];
        (void)snprintf(header, sizeof(header), "00-1af7651916cd43dd9448eb211c80319%x-b7ad6b7169203331-%s", i,
                       flags[i % 2]);
        const struct message message = { .headers = { { "traceparent", header } }, .header_count = 1 };
        trace_start(never, NULL, i < 2 ? 0 : TRACE_SAMPLE_ALL);
        assert_fault(trace_begin(op, &message), NONE);
        assert_int_equal(op->sampled, i == 3);
        traceparent_print(op, text);
        assert_string_equal(text + 53, i == 3 ? "01" : "00");
        assert_int_equal(trace_sampled(op->trace_id), i >= 2); /* its word is not kept */
        assert_fault(trace_begin(op, &nothing), NONE);
        trace_caller_known(op, &nothing);
        assert_int_equal(op->sampled, i >= 2); /* who says nothing leaves it to the ratio */
        trace_stop();
    }
    trace_start(never, NULL, TRACE_SAMPLE_ALL / 2);
    for (unsigned i = 0; i < 200; i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        const struct message message = { .headers = { { "traceparent", GOOD } }, .header_count = 1 };
        assert_fault(trace_begin(op, &message), NONE);
        recorded += op->sampled;
    }
    trace_stop();
    assert_in_range(recorded, 1, 199);
}

static void a_trace_is_continued_with_a_span_of_its_own(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    const struct message message = {
        .headers = { { "TraceParent", GOOD }, { "tracestate", "a=1 , b@c=2" }, { "Tracestate", ", c=3" } },
        .header_count = 3,
    };
    assert_fault(trace_begin(op, &message), NONE);
    assert_string_equal(op->trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_string_not_equal(op->span_id, "b7ad6b7169203331");
    assert_int_equal(op->parent_span, 0xb7ad6b7169203331);
    assert_string_equal(op->tracestate, "a=1,b@c=2,c=3");
    char text[TRACEPARENT_LEN + 1];
    struct traceparent again;
    traceparent_print(op, text);
    assert_true(traceparent_parse(text, &again));
    assert_string_equal(again.trace_id, op->trace_id);
    assert_string_equal(again.parent_id, op->span_id);
}

static void without_one_good_parent_every_trace_is_new(void **state)
{
    (void)state;
    const struct message rubbish = { .headers = { { "traceparent", "rubbish" }, { "tracestate", "a=1" } },
                                     .header_count = 2 };
    const struct message twice = { .headers = { { "traceparent", GOOD }, { "traceparent", GOOD } }, .header_count = 2 };
    const struct message *const messages[] = { NULL, &rubbish, &twice };
    char before[33] = "";
    for (size_t i = 0; i < COUNT_OF(messages); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        assert_fault(trace_begin(op, messages[i]), NONE);
        assert_int_equal(strlen(op->trace_id), 32);
        assert_int_equal(strlen(op->span_id), 16);
        assert_string_not_equal(op->trace_id, before);
        assert_string_not_equal(op->trace_id, "0af7651916cd43dd8448eb211c80319c");
        assert_int_equal(op->parent_span, 0);
        assert_null(op->tracestate);
        assert_false(op->sampled); /* nobody records */
        (void)snprintf(before, sizeof(before), "%s", op->trace_id);
    }
}

/* ---- tracestate ---- */

static bool state_of(const char *text, struct buf *out)
{
    size_t members = 0;
    buf_clear(out);
    return tracestate_add(text, out, &members);
}

static void what_is_no_tracestate_is_dropped_whole(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    static const char *const bad[] = {
        "a",
        "=1",
        "a=",
        "A=1",
        "a=1,a=2",
        "a=1,b",
        "a =1",
        "1a=1",
        "a=b=c",
        "@a=1",
        "a@=1",
        "a@1b=1",
        "a@b@c=1",
        "a=\t1",
        "a=\xc3\xa4",
        "a=1,=",
        "a@abcdefghijklmno=1",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (state_of(bad[i], &out)) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
    char many[33 * 8] = "";
    for (unsigned i = 0; i < 33; i++) {
        char member[8];
        (void)snprintf(member, sizeof(member), "k%u=1,", i);
        (void)strncat(many, member, sizeof(many) - strlen(many) - 1);
    }
    assert_false(state_of(many, &out));
}

static void tracestates_are_kept_as_they_are(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    static const char *const good[] = { "a=1", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "1t@sys=x y~!", "a_-*/9=:;" };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_true(state_of(good[i], &out));
        assert_true(span_equal_text(buf_span(&out), good[i]));
    }
    assert_true(state_of("", &out));
    assert_true(state_of(" , ,a=1,, ", &out));
    assert_true(span_equal_text(buf_span(&out), "a=1"));
}

/* Long members go first, the last one before the first; then the last ones. */
static void a_long_tracestate_is_cut_by_whole_members(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    char text[2048], longer[201], middle[101];
    memset(longer, 'x', sizeof(longer) - 1);
    memset(middle, 'y', sizeof(middle) - 1);
    longer[sizeof(longer) - 1] = middle[sizeof(middle) - 1] = '\0';
    (void)snprintf(text, sizeof(text), "a=%s,b=%s,c=%s,d=1,e=%s", longer, middle, longer, longer);
    assert_true(state_of(text, &out));
    tracestate_cut(&out);
    (void)snprintf(text, sizeof(text), "a=%s,b=%s,c=%s,d=1", longer, middle, longer);
    assert_int_equal(strlen(text) <= TRACESTATE_MAX, out.len == strlen(text));
    assert_true(span_equal_text(buf_span(&out), text));
    (void)snprintf(text, sizeof(text), "a=%s,b=%s,c=%s,d=%s,e=%s,f=%s", middle, middle, middle, middle, middle, middle);
    assert_true(state_of(text, &out));
    tracestate_cut(&out);
    assert_int_equal(out.len, 4 * 102 + 3);
    assert_memory_equal(out.at, text, out.len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_traceparents_are_not_continued),
        cmocka_unit_test(a_later_version_may_say_more),
        cmocka_unit_test(the_flag_of_a_known_caller_is_read_and_passed_on),
        cmocka_unit_test(a_stranger_gets_no_more_recorded_than_the_ratio_gives),
        cmocka_unit_test(a_trace_is_continued_with_a_span_of_its_own),
        cmocka_unit_test(without_one_good_parent_every_trace_is_new),
        cmocka_unit_test(what_is_no_tracestate_is_dropped_whole),
        cmocka_unit_test(tracestates_are_kept_as_they_are),
        cmocka_unit_test(a_long_tracestate_is_cut_by_whole_members),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
