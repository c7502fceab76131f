#include "appliance/base/arena.h"
#include "testlib.h"

#include <stdalign.h>

static void what_goes_past_the_bound_is_refused(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    assert_fault(arena_new(1000, &arena), NONE);
    void *first = NULL, *untouched = NULL;
    assert_fault(arena_take(arena, 1, 900, &first), NONE);
    assert_fault(arena_take(arena, 1, 200, &untouched), TOO_LARGE);
    assert_fault(arena_take(arena, SIZE_MAX / 2, 3, &untouched), TOO_LARGE);
    assert_fault(arena_take(arena, 1, SIZE_MAX, &untouched), TOO_LARGE);
    assert_null(untouched);
    assert_fault(arena_take(arena, 1, 50, &untouched), NONE);
}

static void text_with_a_nul_inside_is_refused(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    assert_fault(arena_new(1000, &arena), NONE);
    const char *text = NULL;
    assert_fault(arena_text(arena, span_of("a\0b", 3), &text), BAD_ARGUMENT);
    assert_null(text);
    assert_fault(arena_text(arena, span_of("ab", 2), &text), NONE);
    assert_string_equal(text, "ab");
    assert_fault(arena_text(arena, (struct span){ 0 }, &text), NONE);
    assert_string_equal(text, "");
}

static void pieces_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    assert_fault(arena_new((size_t)1 << 20, &arena), NONE);
    uint8_t *pieces[500];
    for (size_t i = 0; i < 500; i++) {
        size_t len = 1 + i * 7 % 900;
        assert_fault(arena_take(arena, 1, len, &pieces[i]), NONE);
        assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        for (size_t k = 0; k < len; k++) {
            assert_int_equal(pieces[i][k], 0);
        }
        memset(pieces[i], (int)(i & 0xff), len);
    }
    for (size_t i = 0; i < 500; i++) {
        assert_int_equal(pieces[i][0], i & 0xff);
        assert_int_equal(pieces[i][i * 7 % 900], i & 0xff);
    }
}

static void a_cleared_arena_starts_again_with_zeroes(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    assert_fault(arena_new(100000, &arena), NONE);
    for (int round = 0; round < 3; round++) {
        uint8_t *small = NULL, *large = NULL;
        assert_fault(arena_take(arena, 1, 5000, &small), NONE);
        assert_fault(arena_take(arena, 1, 90000, &large), NONE);
        assert_int_equal(small[0] | small[4999] | large[0] | large[89999], 0);
        memset(small, 0xff, 5000);
        memset(large, 0xff, 90000);
        assert_true(arena_used(arena) >= 95000);
        arena_clear(arena);
        assert_int_equal(arena_used(arena), 0);
    }
}

static void printf_and_copy_give_what_was_asked(void **state)
{
    (void)state;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    assert_fault(arena_new(100, &arena), NONE);
    const char *text = NULL;
    struct span copy = { 0 };
    assert_fault(arena_printf(arena, &text, "%s/%d", "a", 5), NONE);
    assert_string_equal(text, "a/5");
    assert_fault(arena_copy(arena, span_of("x\0y", 3), &copy), NONE);
    assert_int_equal(copy.len, 3);
    assert_memory_equal(copy.at, "x\0y", 3);
    assert_fault(arena_printf(arena, &text, "%0200d", 5), TOO_LARGE);
    assert_string_equal(text, "a/5");
}

static struct fault use(void)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    TRY(arena_new(1000000, &arena));
    for (int i = 0; i < 50; i++) {
        void *piece = NULL;
        TRY(arena_take(arena, 1, 9999, &piece));
    }
    return OK;
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(use) >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_past_the_bound_is_refused),
        cmocka_unit_test(text_with_a_nul_inside_is_refused),
        cmocka_unit_test(pieces_are_aligned_zeroed_and_apart),
        cmocka_unit_test(a_cleared_arena_starts_again_with_zeroes),
        cmocka_unit_test(printf_and_copy_give_what_was_asked),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
