#include "appliance/base/id.h"
#include "appliance/base/json.h"
#include "appliance/base/json_number.h"
#include "testlib.h"

#include <math.h>

static void assert_canonical(const char *in, const char *out)
{
    CLEANUP(buf_free) struct buf first = BUF_INIT(10000), again = BUF_INIT(10000);
    assert_fault(json_canonical(span_text(in), &first), NONE);
    assert_span_text(buf_span(&first), out);
    assert_fault(json_canonical(buf_span(&first), &again), NONE);
    assert_true(span_equal(buf_span(&first), buf_span(&again)));
}

static void what_is_not_i_json_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "{1:2}",
        "{\"a\":1,\"a\":2}",
        "{\"b\":0,\"a\":1,\"\\u0061\":2}",
        "{\"a\":1,\"b\":{\"c\":1,\"c\":1}}",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\udc00\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "\"\\udead\\ud83d\"",
        "\"\xed\xa0\x80\"",
        "\"\xff\"",
        "\"\xc3\"",
        "\"\\x41\"",
        "\"\\u00g0\"",
        "\"\\u00\"",
        "\"a",
        "\"a\nb\"",
        "\"\t\"",
        "'a'",
        "01",
        "-01",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e5",
        "1e",
        "1e+",
        "0x10",
        "1e400",
        "-1e400",
        "NaN",
        "Infinity",
        "-Infinity",
        "tru",
        "nulll",
        "True",
        "1 2",
        "{}{}",
        "[]x",
        "\xef\xbb\xbf{}",
        "/**/1",
        "\x0b1",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(buf_free) struct buf out = BUF_INIT(1000);
        assert_fault(buf_text(&out, "kept"), NONE);
        if (json_canonical(span_text(bad[i]), &out).code != FAULT_JSON_SYNTAX) {
            fail_msg("accepted: %s", bad[i]);
        }
        assert_span_text(buf_span(&out), "kept");
    }
    CLEANUP(buf_free) struct buf out = BUF_INIT(1000);
    assert_fault(json_canonical((struct span){ 0 }, &out), JSON_SYNTAX);
    assert_fault(json_canonical(span_of("1\0", 2), &out), JSON_SYNTAX);
    assert_fault(json_canonical(span_of("\"a\0b\"", 5), &out), JSON_SYNTAX);
}

static void nesting_beyond_32_is_refused(void **state)
{
    (void)state;
    char json[80];
    CLEANUP(buf_free) struct buf out = BUF_INIT(1000);
    memset(json, '[', 32);
    memset(json + 32, ']', 32);
    assert_fault(json_canonical(span_of(json, 64), &out), NONE);
    memset(json, '[', 33);
    memset(json + 33, ']', 33);
    assert_fault(json_canonical(span_of(json, 66), &out), JSON_SYNTAX);
    assert_fault(json_canonical(span_of(json, 33), &out), JSON_SYNTAX);
}

static void a_number_of_too_many_digits_is_refused(void **state)
{
    (void)state;
    char json[2000];
    CLEANUP(buf_free) struct buf out = BUF_INIT(1000);
    memset(json, '1', sizeof(json));
    json[1] = '.';
    assert_fault(json_canonical(span_of(json, 1000), &out), NONE);
    assert_fault(json_canonical(span_of(json, sizeof(json)), &out), JSON_SYNTAX);
}

static void output_beyond_the_bound_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(10);
    assert_fault(json_canonical(span_text("[1,2,3,4,5,6]"), &out), TOO_LARGE);
    assert_int_equal(out.len, 0);
    assert_fault(json_canonical(span_text("[1,  2,3,4  ]"), &out), NONE);
}

/* RFC 8785 3.2.2 (literals, strings, numbers) and 3.2.3 (sorting). */
static void the_examples_of_the_rfc_hold(void **state)
{
    (void)state;
    assert_canonical("{\n"
                     "  \"numbers\": [333333333.33333329, 1E30, 4.50,\n"
                     "              2e-3, 0.000000000000000000000000001],\n"
                     "  \"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\",\n"
                     "  \"literals\": [null, true, false]\n"
                     "}",
                     "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
                     "\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
    assert_canonical(
        "{\"\\u20ac\":\"Euro Sign\",\"\\r\":\"Carriage Return\",\"\\ufb33\":\"Hebrew Letter Dalet With Dagesh\","
        "\"1\":\"One\",\"\\ud83d\\ude00\":\"Emoji: Grinning Face\",\"\\u0080\":\"Control\","
        "\"\\u00f6\":\"Latin Small Letter O With Diaeresis\"}",
        "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\xc2\x80\":\"Control\","
        "\"\xc3\xb6\":\"Latin Small Letter O With Diaeresis\",\"\xe2\x82\xac\":\"Euro Sign\","
        "\"\xf0\x9f\x98\x80\":\"Emoji: Grinning Face\","
        "\"\xef\xac\xb3\":\"Hebrew Letter Dalet With Dagesh\"}");
}

/* The table of the RFC's appendix B: IEEE 754 bits and the text they have. */
static void the_numbers_of_appendix_b_hold(void **state)
{
    (void)state;
    static const struct {
        uint64_t bits;
        const char *text;
    } rows[] = {
        { 0x0000000000000000, "0" },
        { 0x8000000000000000, "0" },
        { 0x0000000000000001, "5e-324" },
        { 0x8000000000000001, "-5e-324" },
        { 0x7fefffffffffffff, "1.7976931348623157e+308" },
        { 0xffefffffffffffff, "-1.7976931348623157e+308" },
        { 0x4340000000000000, "9007199254740992" },
        { 0xc340000000000000, "-9007199254740992" },
        { 0x4430000000000000, "295147905179352830000" },
        { 0x44b52d02c7e14af5, "9.999999999999997e+22" },
        { 0x44b52d02c7e14af6, "1e+23" },
        { 0x44b52d02c7e14af7, "1.0000000000000001e+23" },
        { 0x444b1ae4d6e2ef4e, "999999999999999700000" },
        { 0x444b1ae4d6e2ef4f, "999999999999999900000" },
        { 0x444b1ae4d6e2ef50, "1e+21" },
        { 0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7" },
        { 0x3eb0c6f7a0b5ed8d, "0.000001" },
        { 0x41b3de4355555553, "333333333.3333332" },
        { 0x41b3de4355555554, "333333333.33333325" },
        { 0x41b3de4355555555, "333333333.3333333" },
        { 0x41b3de4355555556, "333333333.3333334" },
        { 0x41b3de4355555557, "333333333.33333343" },
        { 0xbecbf647612f3696, "-0.0000033333333333333333" },
        { 0x43143ff3c1cb0959, "1424953923781206.2" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        double value;
        char text[JSON_NUMBER_MAX];
        memcpy(&value, &rows[i].bits, sizeof(value));
        json_number_print(value, text);
        assert_string_equal(text, rows[i].text);
        assert_canonical(rows[i].text, rows[i].text);
    }
}

static void numbers_are_written_as_ecmascript_writes_them(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        { "-0", "0" },
        { "-0.0e5", "0" },
        { "1e-400", "0" },
        { "100", "100" },
        { "1e2", "100" },
        { "1E+2", "100" },
        { "0.1e1", "1" },
        { "123456789012345", "123456789012345" },
        { "-123456789012345", "-123456789012345" },
        { "1795233036123456", "1795233036123456" },
        { "9007199254740993", "9007199254740992" },
        { "100000000000000000000", "100000000000000000000" },
        { "1000000000000000000000", "1e+21" },
        { "123456789012345678901234567890", "1.2345678901234568e+29" },
        { "0.00001", "0.00001" },
        { "0.0000001", "1e-7" },
        { "12.50", "12.5" },
        { "5.684341886080801e-14", "5.684341886080801e-14" },
        { "2.2250738585072014e-308", "2.2250738585072014e-308" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_canonical(rows[i][0], rows[i][1]);
    }
}

/* 2^-44: the nearest decimal of 16 digits reads back as the double below, the next one up is right. */
static void above_a_power_of_two_the_shortest_form_is_found(void **state)
{
    (void)state;
    char text[JSON_NUMBER_MAX];
    json_number_print(0x1p-44, text);
    assert_string_equal(text, "5.684341886080802e-14");
    json_number_print(0x1p-1022, text);
    assert_string_equal(text, "2.2250738585072014e-308");
}

static void every_printed_number_reads_back(void **state)
{
    (void)state;
    uint64_t bits = 0x9e3779b97f4a7c15;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double value, back = 0;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value)) {
            continue;
        }
        char text[JSON_NUMBER_MAX];
        json_number_print(value, text);
        struct reader reader = { span_text(text) };
        assert_fault(json_number_read(&reader, &back), NONE);
        assert_fault(reader_end(&reader), NONE);
        assert_true(back == value);
    }
}

static void strings_keep_what_need_not_be_escaped(void **state)
{
    (void)state;
    assert_canonical("\"\\u0000\\u0008\\u0009\\u000B\\u001F\\u007f\\u0080\\u2028\\/\"",
                     "\"\\u0000\\b\\t\\u000b\\u001f\x7f\xc2\x80\xe2\x80\xa8/\"");
    assert_canonical("\"\\uD83D\\ude00\"", "\"\xf0\x9f\x98\x80\"");
}

static void members_sort_by_utf_16_code_units(void **state)
{
    (void)state;
    assert_canonical("{\"\xef\xbf\xbd\":1,\"\xf0\x9f\x98\x80\":2,\"\xee\x80\x80\":3,\"\xed\x9f\xbf\":4,\"z\":5}",
                     "{\"z\":5,\"\xed\x9f\xbf\":4,\"\xf0\x9f\x98\x80\":2,\"\xee\x80\x80\":3,\"\xef\xbf\xbd\":1}");
    assert_canonical("{\"aa\":1,\"a\":2,\"\":3,\"a\\u0000\":4,\"a\\n\":5,\"a\\\"\":6,\"a!\":7,\"a\\\\\":8,\"a[\":9}",
                     "{\"\":3,\"a\":2,\"a\\u0000\":4,\"a\\n\":5,\"a!\":7,\"a\\\"\":6,\"a[\":9,\"a\\\\\":8,\"aa\":1}");
    assert_canonical(" { \"b\" : { \"d\" : [ ] , \"c\" : { } } , \"a\" : [ { \"z\" : 1 , \"y\" : 2 } ] } ",
                     "{\"a\":[{\"y\":2,\"z\":1}],\"b\":{\"c\":{},\"d\":[]}}");
}

static void many_members_are_put_in_order(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf in = BUF_INIT(1000000), out = BUF_INIT(1000000);
    assert_fault(buf_text(&in, "{"), NONE);
    for (unsigned i = 0; i < 5000; i++) {
        assert_fault(buf_printf(&in, "%s\"%05u\":%u", i > 0 ? "," : "", i * 1237 % 5000, i), NONE);
    }
    assert_fault(buf_text(&in, "}"), NONE);
    assert_fault(json_canonical(buf_span(&in), &out), NONE);
    assert_int_equal(in.len, out.len);
    assert_memory_equal(out.at, "{\"00000\":0,\"00001\":", 19);
}

static struct fault canonicalise(void)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(100000);
    return json_canonical(span_text("{\"b\":{\"d\":1,\"c\":2},\"a\":[1.5]}"), &out);
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(canonicalise) >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_i_json_is_refused),
        cmocka_unit_test(nesting_beyond_32_is_refused),
        cmocka_unit_test(a_number_of_too_many_digits_is_refused),
        cmocka_unit_test(output_beyond_the_bound_is_refused),
        cmocka_unit_test(the_examples_of_the_rfc_hold),
        cmocka_unit_test(the_numbers_of_appendix_b_hold),
        cmocka_unit_test(numbers_are_written_as_ecmascript_writes_them),
        cmocka_unit_test(above_a_power_of_two_the_shortest_form_is_found),
        cmocka_unit_test(every_printed_number_reads_back),
        cmocka_unit_test(strings_keep_what_need_not_be_escaped),
        cmocka_unit_test(members_sort_by_utf_16_code_units),
        cmocka_unit_test(many_members_are_put_in_order),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("json_canonical", tests, NULL, NULL);
}
