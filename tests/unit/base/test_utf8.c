#include "appliance/base/utf8.h"
#include "testlib.h"

static void what_is_not_utf8_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "\x80",         "\xc0\x80",         "\xc1\xbf",         "\xc3",
                                       "\xe0\x80\x80", "\xe0\x9f\xbf",     "\xed\xa0\x80",     "\xed\xbf\xbf",
                                       "\xe2\x82",     "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
                                       "\xff",         "\xf0\x9f\x98",     "a\xc3(",           "\xe2(\xa1" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(utf8_check(span_text(bad[i])), JSON_SYNTAX);
    }
}

static void the_ends_of_every_length_pass(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t point;
    } rows[] = { { "\x7f", 0x7f },
                 { "\xc2\x80", 0x80 },
                 { "\xdf\xbf", 0x7ff },
                 { "\xe0\xa0\x80", 0x800 },
                 { "\xed\x9f\xbf", 0xd7ff },
                 { "\xee\x80\x80", 0xe000 },
                 { "\xef\xbf\xbf", 0xffff },
                 { "\xf0\x90\x80\x80", 0x10000 },
                 { "\xf4\x8f\xbf\xbf", 0x10ffff } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reader reader = { span_text(rows[i].text) };
        uint32_t point = 0;
        assert_fault(utf8_next(&reader, &point), NONE);
        assert_int_equal(point, rows[i].point);
        assert_fault(reader_end(&reader), NONE);
    }
    assert_fault(utf8_check(span_of("a\0b", 3)), NONE);
}

static void repair_keeps_what_is_well_formed(void **state)
{
    (void)state;
    char text[] = "a\xff\xc3\xa9\xe2\x82";
    utf8_repair(text);
    assert_string_equal(text, "a?\xc3\xa9??");
    assert_fault(utf8_check(span_text(text)), NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_utf8_is_refused),
        cmocka_unit_test(the_ends_of_every_length_pass),
        cmocka_unit_test(repair_keeps_what_is_well_formed),
    };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
