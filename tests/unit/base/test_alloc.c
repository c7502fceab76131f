#include "testlib.h"

static void a_product_that_overflows_is_out_of_memory(void **state)
{
    (void)state;
    void *untouched = NULL;
    assert_fault(mem_new(SIZE_MAX / 2, 3, &untouched), NO_MEMORY);
    assert_null(untouched);
    char *kept = NULL;
    assert_fault(mem_dup_text("kept", 4, &kept), NONE);
    char *before = kept;
    assert_fault(mem_resize(&kept, SIZE_MAX / 2, 3), NO_MEMORY);
    assert_ptr_equal(kept, before);
    mem_free(kept);
}

static void text_beyond_its_bound_is_refused(void **state)
{
    (void)state;
    char *untouched = NULL;
    assert_fault(mem_dup_text("12345", 4, &untouched), TOO_LARGE);
    assert_null(untouched);
}

static void the_allocation_that_was_asked_to_fails_once(void **state)
{
    (void)state;
    CLEANUP(mem_freep) void *a = NULL, *b = NULL;
    CLEANUP(mem_freep) void *c = NULL;
    mem_fail_after(1);
    assert_fault(mem_new(1, 1, &a), NONE);
    assert_fault(mem_new(1, 1, &b), NO_MEMORY);
    assert_fault(mem_new(1, 1, &c), NONE);
    assert_null(b);
}

static void new_memory_is_zeroed_and_nothing_is_one_byte(void **state)
{
    (void)state;
    CLEANUP(mem_freep) uint64_t *numbers = NULL;
    CLEANUP(mem_freep) uint8_t *none = NULL;
    assert_fault(mem_new(100, sizeof(*numbers), &numbers), NONE);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(numbers[i], 0);
    }
    assert_fault(mem_new(0, 8, &none), NONE);
    none[0] = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_product_that_overflows_is_out_of_memory),
        cmocka_unit_test(text_beyond_its_bound_is_refused),
        cmocka_unit_test(the_allocation_that_was_asked_to_fails_once),
        cmocka_unit_test(new_memory_is_zeroed_and_nothing_is_one_byte),
    };
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
