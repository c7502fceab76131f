#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/codec.h"
#include "appliance/base/der.h"

#include <stdio.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static struct buf bytes = BUF_INIT(4096);

static struct span hex(const char *text)
{
    buf_clear(&bytes);
    assert_fault(hex_decode(span_text(text), &bytes), NONE);
    return buf_span(&bytes);
}

static void lengths_that_are_not_the_shortest_definite_form_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",         "04",       "0480",           "04800000",         "048100", "04817f",
        "0482007f", "04820080", "048300008000",   "0485000000000100", "04ff",   "0401",
        "0402aa",   "048180",   "0484ffffffff00", "1f810100",         "0000",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct span rest = hex(wrong[i]);
        struct span before = rest;
        struct der_element element = { 0 };
        assert_fault(der_next(&rest, &element), BAD_ARGUMENT);
        assert_true(rest.at == before.at && rest.len == before.len && element.whole.at == NULL);
    }
}

static void elements_are_taken_one_by_one(void **state)
{
    (void)state;
    struct span rest = hex("040101"
                           "0500"
                           "30020500");
    struct der_element element;
    assert_fault(der_take(&rest, DER_NULL, &element), BAD_ARGUMENT);
    assert_true(der_at(rest, DER_OCTET_STRING) && !der_at(rest, DER_NULL));
    assert_fault(der_take(&rest, DER_OCTET_STRING, &element), NONE);
    assert_int_equal(element.body.len, 1);
    assert_int_equal(element.whole.len, 3);
    assert_fault(der_end(rest), BAD_ARGUMENT);
    assert_fault(der_take(&rest, DER_NULL, &element), NONE);
    assert_fault(der_take(&rest, DER_SEQUENCE, &element), NONE);
    assert_fault(der_end(rest), NONE);
    assert_false(der_at(rest, DER_NULL));
}

static void integers_are_minimal(void **state)
{
    (void)state;
    uint64_t value = 7;
    static const char *const wrong[] = { "", "0000", "007f", "ffff", "ff80", "000000000000000001" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_fault(der_integer_check(hex(wrong[i])), BAD_ARGUMENT);
    }
    assert_fault(der_uint(hex("ff"), &value), BAD_ARGUMENT);                   /* negative */
    assert_fault(der_uint(hex("010000000000000000"), &value), BAD_ARGUMENT);   /* 65 bits */
    assert_fault(der_uint(hex("00800000000000000000"), &value), BAD_ARGUMENT); /* 72 bits */
    assert_int_equal(value, 7);
    assert_fault(der_uint(hex("00ffffffffffffffff"), &value), NONE);
    assert_true(value == UINT64_MAX);
    assert_fault(der_integer_check(hex("ff7f")), NONE);
}

static void booleans_are_00_or_ff(void **state)
{
    (void)state;
    bool value = false;
    assert_fault(der_boolean(hex("01"), &value), BAD_ARGUMENT);
    assert_fault(der_boolean(hex(""), &value), BAD_ARGUMENT);
    assert_fault(der_boolean(hex("ffff"), &value), BAD_ARGUMENT);
    assert_fault(der_boolean(hex("ff"), &value), NONE);
    assert_true(value);
    assert_fault(der_boolean(hex("00"), &value), NONE);
    assert_false(value);
}

static void object_identifiers_read_and_print(void **state)
{
    (void)state;
    char text[DER_OID_TEXT_MAX];
    static const char *const wrong_bodies[] = { "", "80", "8001", "2a80", "2a8001", "2a86", "2affffffffffffffffff7f" };
    for (size_t i = 0; i < COUNT_OF(wrong_bodies); i++) {
        assert_fault(der_oid_print(hex(wrong_bodies[i]), text), BAD_ARGUMENT);
    }
    static const char *const wrong_texts[] = {
        "",     "1",    "1.",   ".1",  "1..2", "3.1",  "1.40",
        "01.2", "1.02", "1.2.", "1.a", "-1.2", "1.2 ", "1.2.99999999999999999999"
    };
    for (size_t i = 0; i < COUNT_OF(wrong_texts); i++) {
        CLEANUP(buf_free) struct buf out = BUF_INIT(64);
        assert_fault(der_oid_parse(wrong_texts[i], &out), BAD_ARGUMENT);
    }
    static const char *const right[] = { "0.0",
                                         "1.2.840.113549.1.9.16.1.4",
                                         "2.999.3",
                                         "2.16.840.1.101.3.4.2.1",
                                         "1.3.6.1.4.1.57264.2.1.1",
                                         "1.39.127.128.16383.16384.4294967296" };
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        CLEANUP(buf_free) struct buf out = BUF_INIT(64);
        assert_fault(der_oid_parse(right[i], &out), NONE);
        assert_fault(der_oid_print(buf_span(&out), text), NONE);
        assert_string_equal(text, right[i]);
    }
}

static void times_are_gmt_without_needless_digits(void **state)
{
    (void)state;
    utc_us time = 7;
    static const char *const wrong[] = {
        "",
        "20261121035036",
        "20261121035036+0100",
        "261121035036Z",
        "20261321035036Z",
        "20260229000000Z",
        "20261121245036Z",
        "20261121035060Z",
        "20261121035036.Z",
        "20261121035036.0Z",
        "20261121035036.10Z",
        "20261121035036,1Z",
        "20261121035036.1234567Z",
        "2026112103503 Z",
        "20261121035036.1aZ",
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        if (!FAULTED(der_time(span_text(wrong[i]), &time))) {
            fail_msg("accepted: %s", wrong[i]);
        }
    }
    static const char *const right[] = { "20261121035036Z", "20261121035036.5Z", "20261121035036.123456Z",
                                         "20240229235959Z" };
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        char again[DER_TIME_MAX];
        assert_fault(der_time(span_text(right[i]), &time), NONE);
        der_time_print(time, 6, again);
        assert_string_equal(again, right[i]);
    }
    char cut[DER_TIME_MAX];
    assert_fault(der_time(span_text("20261121035036.100456Z"), &time), NONE);
    der_time_print(time, 3, cut);
    assert_string_equal(cut, "20261121035036.1Z");
    der_time_print(time, 0, cut);
    assert_string_equal(cut, "20261121035036Z");
}

static void the_writer_writes_what_the_reader_reads(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 127, 128, 255, 256, 65535, 65536 };
    static uint8_t room[70000];
    static uint8_t body[65536];
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct der_writer writer;
        struct der_element element;
        struct der_element inner;
        struct span der;
        uint64_t value = 0;
        der_writer_init(&writer, room, sizeof(room));
        der_write_element(&writer, DER_OCTET_STRING, span_of(body, sizes[i]));
        der_write_uint(&writer, DER_INTEGER, UINT64_MAX >> i);
        der_wrap(&writer, DER_SEQUENCE, 0);
        assert_fault(der_written(&writer, &der), NONE);
        assert_fault(der_take(&der, DER_SEQUENCE, &element), NONE);
        assert_fault(der_end(der), NONE);
        assert_fault(der_take(&element.body, DER_INTEGER, &inner), NONE);
        assert_fault(der_uint(inner.body, &value), NONE);
        assert_true(value == UINT64_MAX >> i);
        assert_fault(der_take(&element.body, DER_OCTET_STRING, &inner), NONE);
        assert_int_equal(inner.body.len, sizes[i]);
    }
}

static void a_writer_that_is_full_says_so_in_the_end(void **state)
{
    (void)state;
    uint8_t room[8];
    struct der_writer writer;
    struct span untouched = { 0 };
    der_writer_init(&writer, room, sizeof(room));
    der_write_element(&writer, DER_OCTET_STRING, span_text("12345678"));
    der_write_uint(&writer, DER_INTEGER, 1);
    assert_fault(der_written(&writer, &untouched), TOO_LARGE);
    assert_null(untouched.at);
}

static int teardown(void **state)
{
    (void)state;
    buf_free(&bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_that_are_not_the_shortest_definite_form_are_refused),
        cmocka_unit_test(elements_are_taken_one_by_one),
        cmocka_unit_test(integers_are_minimal),
        cmocka_unit_test(booleans_are_00_or_ff),
        cmocka_unit_test(object_identifiers_read_and_print),
        cmocka_unit_test(times_are_gmt_without_needless_digits),
        cmocka_unit_test(the_writer_writes_what_the_reader_reads),
        cmocka_unit_test(a_writer_that_is_full_says_so_in_the_end),
    };
    return cmocka_run_group_tests_name("der", tests, NULL, teardown);
}
