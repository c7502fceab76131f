#include "appliance/base/json.h"
#include "testlib.h"

struct inner {
    const char *name;
    int64_t count;
};
struct body {
    const char *key_id;
    struct span digest;
    struct span hex;
    int64_t number;
    bool flag;
    utc_us at;
    struct jin_texts names;
    struct span raw;
    struct inner inner;
};
static const struct jin_field inner_fields[] = {
    JIN_TEXT(struct inner, name, JIN_REQUIRED, 0, 10),
    JIN_INT(struct inner, count, JIN_OPTIONAL, 0, 10),
};
static const struct jin_field fields[] = {
    JIN_TEXT(struct body, key_id, JIN_REQUIRED, 1, 36),
    JIN_BASE64(struct body, digest, JIN_OPTIONAL, 2, 4),
    JIN_HEX(struct body, hex, JIN_OPTIONAL, 0, 4),
    JIN_INT(struct body, number, JIN_OPTIONAL, -5, 5),
    JIN_BOOL(struct body, flag, JIN_OPTIONAL),
    JIN_TIME(struct body, at, JIN_OPTIONAL),
    JIN_TEXTS(struct body, names, JIN_OPTIONAL, 1, 3),
    JIN_RAW(struct body, raw, JIN_OPTIONAL, 0, 40),
    { .name = "inner",
      .kind = JIN_KIND_OBJECT,
      .offset = offsetof(struct body, inner),
      .sub = inner_fields,
      .sub_count = COUNT_OF(inner_fields) },
};

static int make_op(void **state)
{
    struct op *op = NULL;
    assert_fault(op_new("tester", (struct tenant_id){ "acme" }, 60000, &op), NONE);
    *state = op;
    return 0;
}

static int free_op(void **state)
{
    op_free(*state);
    return 0;
}

static void assert_refused(struct op *op, struct span json, const char *pointer, const char *part)
{
    struct body body = { 0 };
    op->note = (struct fault_note){ 0 };
    assert_fault(jin_decode(op, json, fields, COUNT_OF(fields), &body), JSON_FIELD);
    assert_string_equal(op->note.pointer, pointer);
    if (strstr(op->note.detail, part) == NULL) {
        fail_msg("'%s' does not say '%s'", op->note.detail, part);
    }
}

static void each_refusal_names_the_pointer_and_what_is_expected(void **state)
{
    static const char *const rows[][3] = {
        { "[]", "", "must be an object" },
        { "1", "", "must be an object" },
        { "{}", "/key_id", "is required" },
        { "{\"key_id\":null}", "/key_id", "is required" },
        { "{\"key_id\":1}", "/key_id", "must be a string" },
        { "{\"key_id\":\"\"}", "/key_id", "must be 1 to 36 bytes long, not 0" },
        { "{\"key_id\":\"0123456789012345678901234567890123456\"}", "/key_id", "must be 1 to 36 bytes long, not 37" },
        { "{\"key_id\":\"a\\u0000b\"}", "/key_id", "must not contain the character NUL" },
        { "{\"key_id\":\"k\",\"other\":1}", "/other", "unknown member" },
        { "{\"key_id\":\"k\",\"a/b~c\":1}", "/a~1b~0c", "unknown member" },
        { "{\"key_id\":\"k\",\"digest\":\"Zm9\"}", "/digest", "must be base64" },
        { "{\"key_id\":\"k\",\"digest\":\"Zh==\"}", "/digest", "must be base64" },
        { "{\"key_id\":\"k\",\"digest\":5}", "/digest", "must be a string of base64" },
        { "{\"key_id\":\"k\",\"digest\":\"Zg==\"}", "/digest", "must be 2 to 4 bytes long, not 1" },
        { "{\"key_id\":\"k\",\"digest\":\"Zm9vYmE=\"}", "/digest", "must be 2 to 4 bytes long, not 5" },
        { "{\"key_id\":\"k\",\"hex\":\"AB\"}", "/hex", "lower-case hex" },
        { "{\"key_id\":\"k\",\"hex\":\"0011223344\"}", "/hex", "must be 0 to 4 bytes long, not 5" },
        { "{\"key_id\":\"k\",\"number\":6}", "/number", "must be a whole number from -5 to 5" },
        { "{\"key_id\":\"k\",\"number\":-6}", "/number", "from -5 to 5" },
        { "{\"key_id\":\"k\",\"number\":1.0}", "/number", "must be a whole number" },
        { "{\"key_id\":\"k\",\"number\":\"1\"}", "/number", "must be a whole number" },
        { "{\"key_id\":\"k\",\"flag\":1}", "/flag", "must be true or false" },
        { "{\"key_id\":\"k\",\"flag\":\"true\"}", "/flag", "must be true or false" },
        { "{\"key_id\":\"k\",\"at\":\"today\"}", "/at", "RFC 3339" },
        { "{\"key_id\":\"k\",\"at\":0}", "/at", "RFC 3339" },
        { "{\"key_id\":\"k\",\"names\":\"a\"}", "/names", "must be an array of strings" },
        { "{\"key_id\":\"k\",\"names\":[]}", "/names", "must be 1 to 3 elements long, not 0" },
        { "{\"key_id\":\"k\",\"names\":[\"a\",\"b\",\"c\",\"d\"]}", "/names", "not 4" },
        { "{\"key_id\":\"k\",\"names\":[\"a\",7]}", "/names/1", "must be a string" },
        { "{\"key_id\":\"k\",\"names\":[\"a\",\"\\u0000\"]}", "/names/1", "NUL" },
        { "{\"key_id\":\"k\",\"raw\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]}", "/raw", "must be 0 to 40" },
        { "{\"key_id\":\"k\",\"inner\":[]}", "/inner", "must be an object" },
        { "{\"key_id\":\"k\",\"inner\":{}}", "/inner/name", "is required" },
        { "{\"key_id\":\"k\",\"inner\":{\"name\":\"\",\"count\":11}}", "/inner/count", "from 0 to 10" },
        { "{\"key_id\":\"k\",\"inner\":{\"name\":\"\",\"x\":11}}", "/inner/x", "unknown member" },
        { "{\"key_id\":\"k\",\"key_id\":\"k\"}", "/key_id", "stands there twice" },
        /* their canonical forms have digits beyond an integer, and would not decode again */
        { "{\"key_id\":\"k\",\"raw\":[1e20]}", "/raw", "2^63" },
        { "{\"key_id\":\"k\",\"raw\":{\"a\":[-9223372036854775808]}}", "/raw", "2^63" },
        { "{\"key_id\":\"k\",\"raw\":9223372036854775807}", "/raw", "2^63" },
        { "{\"key_id\":\"k\",\"raw\":[1,{\"a\":1,\"a\":2}]}", "/raw/1/a", "stands there twice" },
        { "{\"raw\":\"\\\"{,\",\"key_id\":\"k\",\"key_id\":\"k\"}", "/key_id", "stands there twice" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_refused(*state, span_text(rows[i][0]), rows[i][1], rows[i][2]);
    }
}

static void a_string_beyond_8192_bytes_in_a_list_is_refused(void **state)
{
    static char json[8400] = "{\"key_id\":\"k\",\"names\":[\"";
    size_t len = strlen(json);
    memset(json + len, 'x', 8193);
    memcpy(json + len + 8193, "\"]}", 4);
    assert_refused(*state, span_text(json), "/names/0", "at most 8192 bytes");
}

static void what_is_not_json_is_refused(void **state)
{
    struct op *op = *state;
    static const char *const rows[] = {
        "",
        "{",
        "{\"key_id\":\"k\"",
        "{\"key_id\":\"k\"}x",
        "{\"key_id\":\"k\"}{}",
        "{'a':1}",
        "{a:1}",
        "{\"key_id\":\"\xff\"}",
        "{\"key_id\":\"\\ud800\"}",
        "{\"key_id\":\"k\",}",
        "nul",
        "\xef\xbb\xbf{}",
        "{\"number\":99999999999999999999}",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct body body = { 0 };
        op->note = (struct fault_note){ 0 };
        assert_fault(jin_decode(op, span_text(rows[i]), fields, COUNT_OF(fields), &body), JSON_SYNTAX);
        assert_non_null(strstr(op->note.detail, "line 1"));
    }
    struct body body = { 0 };
    assert_fault(jin_decode(op, (struct span){ 0 }, fields, COUNT_OF(fields), &body), JSON_SYNTAX);
    assert_fault(jin_decode(op, span_of("{}\0", 3), fields, COUNT_OF(fields), &body), JSON_SYNTAX);
    static const char number[] = "{\"key_id\":\"k\",\"number\":1\0}"; /* jansson drops this one */
    assert_fault(jin_decode(op, span_of(number, sizeof(number) - 1), fields, COUNT_OF(fields), &body), JSON_SYNTAX);
}

static void nesting_is_bounded(void **state)
{
    struct op *op = *state;
    char json[200] = "{\"key_id\":\"k[[[[[[[[[[[[[[[[[[[[[\",\"raw\":";
    size_t len = strlen(json);
    memset(json + len, '[', 15);
    memset(json + len + 15, ']', 15);
    memcpy(json + len + 30, "}", 2);
    struct body body = { 0 };
    assert_fault(jin_decode(op, span_text(json), fields, COUNT_OF(fields), &body), NONE);
    op->note = (struct fault_note){ 0 };
    memset(json + len, '[', 16);
    memset(json + len + 16, ']', 16);
    memcpy(json + len + 32, "}", 2);
    op->note = (struct fault_note){ 0 };
    assert_fault(jin_decode(op, span_text(json), fields, COUNT_OF(fields), &body), JSON_SYNTAX);
    assert_non_null(strstr(op->note.detail, "deeper than 16"));
}

static void every_kind_is_decoded(void **state)
{
    struct op *op = *state;
    struct body body = { .number = 3, .flag = true };
    const char *json = " { \"key_id\" : \"k\xc3\xa9\", \"digest\":\"Zm9v\", \"hex\":\"00ff\",\"number\":null,"
                       "\"at\":\"1970-01-01T00:00:01Z\",\"names\":[\"a\",\"\"],\"raw\":{\"b\":1.50,\"a\":[ ]},"
                       "\"inner\":{\"name\":\"n\",\"count\":10}}\n";
    assert_fault(jin_decode(op, span_text(json), fields, COUNT_OF(fields), &body), NONE);
    assert_string_equal(body.key_id, "k\xc3\xa9");
    assert_span_text(body.digest, "foo");
    assert_int_equal(body.hex.len, 2);
    assert_memory_equal(body.hex.at, "\x00\xff", 2);
    assert_int_equal(body.number, 3); /* null is absent, and absent leaves what was there */
    assert_true(body.flag);
    assert_int_equal(body.at, 1000000);
    assert_int_equal(body.names.count, 2);
    assert_string_equal(body.names.at[0], "a");
    assert_string_equal(body.names.at[1], "");
    assert_span_text(body.raw, "{\"a\":[],\"b\":1.5}");
    assert_string_equal(body.inner.name, "n");
    assert_int_equal(body.inner.count, 10);
}

static void an_array_gives_each_object_in_canonical_form(void **state)
{
    struct op *op = *state;
    struct span *items = NULL;
    size_t count = 0;
    assert_fault(jin_array(op, span_text("[{\"b\":1,\"a\":2},{}]"), 1, &items, &count), JSON_FIELD);
    assert_fault(jin_array(op, span_text("{}"), 5, &items, &count), JSON_FIELD);
    op->note = (struct fault_note){ 0 };
    assert_fault(jin_array(op, span_text("[{},1]"), 5, &items, &count), JSON_FIELD);
    assert_string_equal(op->note.pointer, "/1");
    assert_null(items);
    assert_fault(jin_array(op, span_text("[{\"b\":1,\"a\":2},{}]"), 2, &items, &count), NONE);
    assert_int_equal(count, 2);
    assert_span_text(items[0], "{\"a\":2,\"b\":1}");
    assert_span_text(items[1], "{}");
    assert_fault(jin_array(op, span_text("[]"), 2, &items, &count), NONE);
    assert_int_equal(count, 0);
}

static void a_body_beyond_the_arena_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    assert_fault(op_new("tester", (struct tenant_id){ "acme" }, 60000, &op), NONE);
    arena_free(op->arena);
    assert_fault(arena_new(64, &op->arena), NONE);
    struct body body = { 0 };
    assert_fault(jin_decode(op, span_text("{\"key_id\":\"k\",\"names\":[\"aaaaaaaaaaaaaaaa\",\"b\",\"c\"]}"), fields,
                            COUNT_OF(fields), &body),
                 TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_refusal_names_the_pointer_and_what_is_expected),
        cmocka_unit_test(a_string_beyond_8192_bytes_in_a_list_is_refused),
        cmocka_unit_test(what_is_not_json_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(a_body_beyond_the_arena_is_refused),
        cmocka_unit_test(every_kind_is_decoded),
        cmocka_unit_test(an_array_gives_each_object_in_canonical_form),
    };
    return cmocka_run_group_tests_name("json_in", tests, make_op, free_op);
}
