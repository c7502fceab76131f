#include "testlib.h"

static void a_buffer_refuses_to_pass_its_bound_and_stays_as_it_was(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT(5);
    assert_fault(buf_text(&buf, "abc"), NONE);
    assert_fault(buf_text(&buf, "def"), TOO_LARGE);
    assert_fault(buf_u32(&buf, 1), TOO_LARGE);
    assert_fault(buf_printf(&buf, "%s", "def"), TOO_LARGE);
    assert_span_text(buf_span(&buf), "abc");
    assert_fault(buf_text(&buf, "de"), NONE);
    assert_fault(buf_u8(&buf, 'x'), TOO_LARGE);
    assert_span_text(buf_span(&buf), "abcde");
}

static void a_buffer_without_a_bound_holds_nothing(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = { 0 };
    assert_fault(buf_u8(&buf, 1), TOO_LARGE);
    assert_fault(buf_text(&buf, ""), NONE);
}

static void a_buffer_grows_and_keeps_its_bytes(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT(100000);
    for (uint32_t i = 0; i < 25000; i++) {
        assert_fault(buf_u32(&buf, i), NONE);
    }
    struct reader reader = { buf_span(&buf) };
    for (uint32_t i = 0; i < 25000; i++) {
        uint32_t value = 0;
        assert_fault(reader_u32(&reader, &value), NONE);
        assert_int_equal(value, i);
    }
    assert_fault(reader_end(&reader), NONE);
}

static void the_nul_of_cstr_is_not_content(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT(3);
    const char *text = NULL;
    assert_fault(buf_text(&buf, "abc"), NONE);
    assert_fault(buf_cstr(&buf, &text), NONE);
    assert_string_equal(text, "abc");
    assert_int_equal(buf.len, 3);
}

static void printf_writes_long_texts_whole(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT(10000);
    assert_fault(buf_printf(&buf, "%05000d|%s", 7, "end"), NONE);
    assert_int_equal(buf.len, 5004);
    assert_memory_equal(buf.at + 4998, "07|end", 6);
}

static void numbers_are_big_endian(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf buf = BUF_INIT(100);
    assert_fault(buf_u8(&buf, 0x01), NONE);
    assert_fault(buf_u16(&buf, 0x0203), NONE);
    assert_fault(buf_u32(&buf, 0x04050607), NONE);
    assert_fault(buf_u64(&buf, 0x08090a0b0c0d0e0f), NONE);
    for (uint8_t i = 0; i < 15; i++) {
        assert_int_equal(buf.at[i], i + 1);
    }
    struct reader reader = { buf_span(&buf) };
    uint8_t a = 0;
    uint16_t b = 0;
    uint32_t c = 0;
    uint64_t d = 0;
    assert_fault(reader_u8(&reader, &a), NONE);
    assert_fault(reader_u16(&reader, &b), NONE);
    assert_fault(reader_u32(&reader, &c), NONE);
    assert_fault(reader_u64(&reader, &d), NONE);
    assert_int_equal(a, 0x01);
    assert_int_equal(b, 0x0203);
    assert_int_equal(c, 0x04050607);
    assert_int_equal(d, 0x08090a0b0c0d0e0f);
}

static void a_short_read_changes_nothing_and_leftovers_are_refused(void **state)
{
    (void)state;
    struct reader reader = { span_text("abc") };
    uint32_t number = 77;
    struct span bytes = { 0 };
    assert_fault(reader_u32(&reader, &number), BAD_ARGUMENT);
    assert_fault(reader_bytes(&reader, 4, &bytes), BAD_ARGUMENT);
    assert_fault(reader_bytes(&reader, SIZE_MAX, &bytes), BAD_ARGUMENT);
    assert_int_equal(number, 77);
    assert_null(bytes.at);
    assert_fault(reader_bytes(&reader, 2, &bytes), NONE);
    assert_fault(reader_end(&reader), BAD_ARGUMENT);
    assert_span_text(bytes, "ab");
}

static struct fault fill(void)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(100000);
    for (uint32_t i = 0; i < 10000; i++) {
        TRY(buf_u32(&buf, i));
    }
    return OK;
}

static void growing_survives_each_failing_allocation(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(fill) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_refuses_to_pass_its_bound_and_stays_as_it_was),
        cmocka_unit_test(a_buffer_without_a_bound_holds_nothing),
        cmocka_unit_test(a_short_read_changes_nothing_and_leftovers_are_refused),
        cmocka_unit_test(a_buffer_grows_and_keeps_its_bytes),
        cmocka_unit_test(the_nul_of_cstr_is_not_content),
        cmocka_unit_test(printf_writes_long_texts_whole),
        cmocka_unit_test(numbers_are_big_endian),
        cmocka_unit_test(growing_survives_each_failing_allocation),
    };
    return cmocka_run_group_tests_name("bytes", tests, NULL, NULL);
}
