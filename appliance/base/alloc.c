#include "appliance/base/alloc.h"

#include <stdatomic.h>
#include <string.h>

static atomic_long fail_after = -1;

void mem_fail_after(long successes)
{
    atomic_store(&fail_after, successes);
}

static bool must_fail(void)
{
    long left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    do {
        if (left < 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&fail_after, &left, left - 1));
    return left == 0;
}

static struct fault total_of(size_t count, size_t size, size_t *ret_total)
{
    size_t total;
    REQUIRE(!__builtin_mul_overflow(count, size, &total), NO_MEMORY);
    REQUIRE(!must_fail(), NO_MEMORY);
    *ret_total = total != 0 ? total : 1;
    return OK;
}

struct fault mem_new(size_t count, size_t size, void *ret_mem)
{
    size_t total;
    TRY(total_of(count, size, &total));
    void *made = calloc(1, total);
    REQUIRE(made != NULL, NO_MEMORY);
    *(void **)ret_mem = made;
    return OK;
}

struct fault mem_resize(void *mem, size_t count, size_t size)
{
    size_t total;
    TRY(total_of(count, size, &total));
    void *made = realloc(*(void **)mem, total);
    REQUIRE(made != NULL, NO_MEMORY);
    *(void **)mem = made;
    return OK;
}

struct fault mem_dup_text(const char *text, size_t max, char **ret_copy)
{
    size_t len = strnlen(text, max + (max < SIZE_MAX));
    REQUIRE(len <= max, TOO_LARGE);
    char *copy = NULL;
    TRY(mem_new(len + 1, 1, &copy));
    memcpy(copy, text, len);
    *ret_copy = copy;
    return OK;
}

void mem_free(void *mem)
{
    free(mem);
}
