/* What a client reads of others' JSON. */
#include "tests/testlib.h"

#include "appliance/base/json_view.h"

static struct op *op_made(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 10000, &op), NONE);
    return op;
}
#define OP CLEANUP(op_freep) struct op *op = op_made()

static struct view view_made(struct op *op, const char *json)
{
    struct view view;
    assert_fault(view_of(op, span_text(json), &view), NONE);
    return view;
}

static void bytes_that_are_no_json_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "<html>", "{\"a\":1", "{\"a\":1}x", "{\"a\":1,\"a\":2}", "\xff" };
    OP;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct view view;
        assert_fault(view_of(op, span_text(bad[i]), &view), JSON_SYNTAX);
    }
}

static void a_member_that_is_missing_or_null_has_no_text(void **state)
{
    (void)state;
    OP;
    struct view view = view_made(op, "{\"a\":null,\"b\":{\"c\":1},\"e\":[]}");
    static const char *const missing[] = { "a", "x", "b.x", "b.c.d", "a.b", "e.f", "" };
    for (size_t i = 0; i < COUNT_OF(missing); i++) {
        assert_null(view_member(op, view, missing[i]));
    }
    assert_null(view_member(op, view_made(op, "{}"), "a"));
    assert_null(view_member(op, view_made(op, "7"), "a"));
    assert_null(view_member(op, (struct view){ 0 }, "a"));
}

static void a_member_is_found_behind_all_that_is_unknown(void **state)
{
    (void)state;
    OP;
    struct view view = view_made(op, "{ \"z\": \"last\", \"new\": {\"deep\": [1, {\"key_id\": \"no\"}, \"]}\"]},"
                                     " \"text\": \"a \\\"quoted\\\" {[,:]} \\\\\", \"key_id\": \"yes\", \"n\": -12.5,"
                                     " \"t\": true, \"inner\": {\"a\": {\"b\": \"found\"}} }");
    assert_string_equal(view_member(op, view, "key_id"), "yes");
    assert_string_equal(view_member(op, view, "z"), "last");
    assert_string_equal(view_member(op, view, "text"), "a \"quoted\" {[,:]} \\");
    assert_string_equal(view_member(op, view, "n"), "-12.5");
    assert_string_equal(view_member(op, view, "t"), "true");
    assert_string_equal(view_member(op, view, "inner.a.b"), "found");
}

static void escapes_are_undone(void **state)
{
    (void)state;
    OP;
    struct view view = view_made(op, "{\"a\":\"\\b\\f\\n\\r\\t\\u0001\\u001f\\u00e4\\/\\\"\\\\\"}");
    assert_string_equal(view_member(op, view, "a"), "\b\f\n\r\t\x01\x1f\xc3\xa4/\"\\");
}

static void elements_come_one_after_another(void **state)
{
    (void)state;
    OP;
    struct view view = view_made(op, "{\"items\":[{\"id\":\"a\"},{\"id\":\"b\",\"l\":[[],[1]]},{\"id\":\"c\"}]}");
    struct view rest = view_get(view, "items"), item;
    char seen[8] = "";
    for (size_t i = 0; view_next(&rest, &item); i++) {
        seen[i] = *view_member(op, item, "id");
    }
    assert_string_equal(seen, "abc");
    rest = view_get(view_made(op, "{\"items\":[]}"), "items");
    assert_false(view_next(&rest, &item));
    rest = (struct view){ 0 };
    assert_false(view_next(&rest, &item));
}

static void numbers_and_bytes_are_checked(void **state)
{
    (void)state;
    OP;
    int64_t number = 0;
    struct span bytes;
    struct view view = view_made(op, "{\"n\":-42,\"f\":1.5,\"s\":\"7\",\"big\":1e30,\"b\":\"AQID\",\"bad\":\"AQI\"}");
    assert_fault(view_int(view_get(view, "n"), &number), NONE);
    assert_int_equal(number, -42);
    assert_fault(view_int(view_get(view, "f"), &number), JSON_FIELD);
    assert_fault(view_int(view_get(view, "s"), &number), JSON_FIELD);
    assert_fault(view_int(view_get(view, "big"), &number), JSON_FIELD);
    assert_fault(view_int(view_get(view, "x"), &number), JSON_FIELD);
    assert_int_equal(number, -42);
    assert_fault(view_base64(op, view_get(view, "b"), &bytes), NONE);
    assert_true(span_equal(bytes, span_of("\1\2\3", 3)));
    assert_fault(view_base64(op, view_get(view, "bad"), &bytes), JSON_FIELD);
    assert_fault(view_base64(op, view_get(view, "n"), &bytes), JSON_FIELD);
    assert_fault(view_base64(op, view_get(view, "x"), &bytes), JSON_FIELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_no_json_are_refused),
        cmocka_unit_test(a_member_that_is_missing_or_null_has_no_text),
        cmocka_unit_test(a_member_is_found_behind_all_that_is_unknown),
        cmocka_unit_test(escapes_are_undone),
        cmocka_unit_test(elements_come_one_after_another),
        cmocka_unit_test(numbers_and_bytes_are_checked),
    };
    return cmocka_run_group_tests_name("json_view", tests, NULL, NULL);
}
