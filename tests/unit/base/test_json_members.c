/* jin_members: objects whose names nobody knows beforehand. */
#include "appliance/base/json.h"
#include "testlib.h"

static struct op *op;
static struct jin_member *members;
static size_t count;

static struct fault take(const char *json, size_t max)
{
    members = NULL;
    count = 0;
    op->note = (struct fault_note){ 0 };
    return jin_members(op, span_text(json), max, &members, &count);
}

static void what_is_no_object_of_single_names_is_refused(void **state)
{
    (void)state;
    static const char *const shapes[] = { "[]", "7", "\"a\"", "null", "true" };
    static const char *const texts[] = { "",
                                         "{",
                                         "{}{}",
                                         "{\"a\"}",
                                         "{\"a\":1,}",
                                         "{\"a\":\"\xff\"}",
                                         "{\"a\":\"\\ud800\"}",
                                         "{\"a\":1e999}",
                                         "{\"a\":99999999999999999999}" };
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        assert_fault(take(shapes[i], 8), JSON_FIELD);
        assert_true(op->note.set);
    }
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_fault(take(texts[i], 8), JSON_SYNTAX);
    }
    assert_fault(take("{\"a\":1,\"a\":1}", 8), JSON_FIELD);
    assert_fault(take("{\"a\":1,\"\\u0061\":2}", 8), JSON_FIELD);
    assert_fault(take("{\"a\":1,\"b\":2}", 1), JSON_FIELD);
    assert_null(members);
}

static void every_kind_of_value_is_given_as_text(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum jin_type type;
        const char *value;
    } want[] = {
        { "text", JIN_TYPE_TEXT, "a\n\xc3\xa4" },
        { "whole", JIN_TYPE_NUMBER, "9007199254740993" }, /* no double has it */
        { "least", JIN_TYPE_NUMBER, "-9223372036854775808" },
        { "real", JIN_TYPE_NUMBER, "1.5" },
        { "large", JIN_TYPE_NUMBER, "1700000000" },
        { "yes", JIN_TYPE_BOOL, "true" },
        { "no", JIN_TYPE_BOOL, "false" },
        { "nothing", JIN_TYPE_NULL, "null" },
        { "list", JIN_TYPE_ARRAY, "[1,\"b\"]" },
        { "object", JIN_TYPE_OBJECT, "{\"a\":1,\"b\":2}" },
        { "empty", JIN_TYPE_TEXT, "" },
    };
    assert_fault(take("{\"text\":\"a\\n\\u00e4\",\"whole\":9007199254740993,\"least\":-9223372036854775808,"
                      "\"real\":1.50,\"large\":1.7e9,\"yes\":true,\"no\":false,\"nothing\":null,"
                      "\"list\":[1, \"b\"],\"object\":{\"b\":2,\"a\":1},\"empty\":\"\"}",
                      COUNT_OF(want)),
                 NONE);
    assert_int_equal(count, COUNT_OF(want));
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(members[i].name, want[i].name);
        assert_int_equal(members[i].type, want[i].type);
        assert_span_text(members[i].value, want[i].value);
    }
    assert_fault(take("{}", 0), NONE);
    assert_int_equal(count, 0);
}

static void a_nul_in_a_text_stays_where_it_is(void **state)
{
    (void)state;
    assert_fault(take("{\"a\":\"b\\u0000c\"}", 1), NONE);
    assert_int_equal(members[0].value.len, 3);
    assert_memory_equal(members[0].value.at, "b\0c", 3);
}

static int make_op(void **state)
{
    (void)state;
    return FAULTED(op_new("tester", (struct tenant_id){ "acme" }, 60000, &op)) ? -1 : 0;
}
static int free_op(void **state)
{
    (void)state;
    op_free(op);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_object_of_single_names_is_refused),
        cmocka_unit_test(every_kind_of_value_is_given_as_text),
        cmocka_unit_test(a_nul_in_a_text_stays_where_it_is),
    };
    return cmocka_run_group_tests_name("json_members", tests, make_op, free_op);
}
