/* A record that is called canonical is its own canonical form: of good ones, of bad ones, and of good ones damaged. */
#include "testlib.h"

#include "api/compliance/load.h"

static const char *const plain[] = {
    "{}",
    "{\"a\":1}",
    "{\"a\":[],\"b\":{},\"c\":[1,\"x\",true,false,null],\"ca\":-7,\"d\":{\"e\":\"\\n\\u001f\\\"\\\\\"}}",
    "{\"actor\":{\"roles\":[\"operator\"],\"subject\":\"ada@example.org\"},\"data\":{\"approved\":true,\"count\":0,"
    "\"reason\":\"why \\\"not\\\"\"},\"event_id\":\"x\",\"lane\":\"a\",\"schema_version\":1,\"sequence\":999999999999999,"
    "\"tenant_id\":\"t\",\"time\":\"2026-01-01T00:00:00.000000Z\",\"trace_id\":\"\",\"type\":\"approval.granted\"}",
};

static bool is_its_own_form(struct span json)
{
    CLEANUP(buf_free) struct buf form = BUF_INIT(65536);
    return !FAULTED(json_canonical(json, &form)) && span_equal(buf_span(&form), json);
}

static void what_is_not_certain_is_left_to_parsing(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",
        "[]",
        "1",
        "\"a\"",
        "{",
        "{\"a\":1",
        "{\"a\":1}x",
        "{\"a\": 1}",
        "{\"b\":1,\"a\":1}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":01}",
        "{\"a\":-0}",
        "{\"a\":-}",
        "{\"a\":1.5}",
        "{\"a\":1e3}",
        "{\"a\":1000000000000000}",
        "{\"a\":tru}",
        "{\"a\":\"\\/\"}",
        "{\"a\":\"\\u0041\"}",
        "{\"a\":\"\\u001F\"}",
        "{\"a\":\"\\u0008\"}",
        "{\"a\":\"\\u00\"}",
        "{\"a\":\"\\\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\xc3\xbc\"}",
        "{\"\\n\":1}",
        "{\"a\":[1,]}",
        "{\"a\":[1 ,2]}",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":\"\x7f\"}",
        "{\"ab\":1,\"a\":1}",
    };
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        if (load_is_canonical(span_text(others[i]))) {
            fail_msg("taken for canonical: %s", others[i]);
        }
    }
    assert_false(load_is_canonical((struct span){ 0 }));
    char deep[200] = "{\"a\":";
    size_t len = strlen(deep);
    memset(deep + len, '[', 40);
    memset(deep + len + 40, ']', 40);
    memcpy(deep + len + 80, "}", 2);
    assert_false(load_is_canonical(span_text(deep)));
}

static void plain_records_need_no_parsing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        assert_true(load_is_canonical(span_text(plain[i])));
        assert_true(is_its_own_form(span_text(plain[i])));
    }
}

/* Every byte replaced by each that JSON knows, and every end cut off. */
static void damage_is_never_taken_for_canonical(void **state)
{
    (void)state;
    static const char bytes[] = "{}[]:,\"\\0159-+.eantfru /\x01\x80";
    char text[512];
    for (size_t i = 0; i < COUNT_OF(plain); i++) {
        size_t len = strlen(plain[i]);
        for (size_t at = 0; at < len * sizeof(bytes); at++) {
            memcpy(text, plain[i], len);
            text[at / sizeof(bytes)] = bytes[at % sizeof(bytes)];
            struct span damaged = span_of(text, len);
            if (load_is_canonical(damaged) && !is_its_own_form(damaged)) {
                fail_msg("taken for canonical: %.*s", (int)len, text);
            }
        }
        for (size_t cut = 0; cut < len; cut++) {
            assert_false(load_is_canonical(span_of(plain[i], cut)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_certain_is_left_to_parsing),
        cmocka_unit_test(plain_records_need_no_parsing),
        cmocka_unit_test(damage_is_never_taken_for_canonical),
    };
    return cmocka_run_group_tests_name("canonical", tests, NULL, NULL);
}
