#include "unit/server/testing.h"

#include "api/server/trace.h"

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
        char trace_id[33] = "untouched";
        assert_false(traceparent_parse(bad[i], trace_id));
        assert_string_equal(trace_id, "untouched");
    }
}

static void a_later_version_may_say_more(void **state)
{
    (void)state;
    char trace_id[33];
    assert_true(traceparent_parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-comes", trace_id));
    assert_string_equal(trace_id, "0af7651916cd43dd8448eb211c80319c");
}

static void a_trace_is_continued_with_a_span_of_its_own(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    assert_fault(trace_begin(op, GOOD), NONE);
    assert_string_equal(op->trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_string_not_equal(op->span_id, "b7ad6b7169203331");
    char text[TRACEPARENT_LEN + 1];
    char again[33];
    traceparent_print(op, text);
    assert_true(traceparent_parse(text, again));
    assert_string_equal(again, op->trace_id);
}

static void without_a_parent_every_trace_is_new(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *one = test_op();
    CLEANUP(op_freep) struct op *two = test_op();
    assert_fault(trace_begin(one, NULL), NONE);
    assert_fault(trace_begin(two, "rubbish"), NONE);
    assert_string_not_equal(one->trace_id, two->trace_id);
    assert_int_equal(strlen(two->trace_id), 32);
    assert_int_equal(strlen(two->span_id), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_traceparents_are_not_continued),
        cmocka_unit_test(a_later_version_may_say_more),
        cmocka_unit_test(a_trace_is_continued_with_a_span_of_its_own),
        cmocka_unit_test(without_a_parent_every_trace_is_new),
    };
    return cmocka_run_group_tests_name("trace", tests, NULL, NULL);
}
