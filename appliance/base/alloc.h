/*
 * The only allocator of long-lived objects. Zeroed, overflow-checked, and made to fail on demand by tests
 * (mem_fail_after). What dies with a request belongs in the operation's arena instead.
 */
#ifndef APPLIANCE_BASE_ALLOC_H
#define APPLIANCE_BASE_ALLOC_H

#include "appliance/base/fault.h"

/* `count` zeroed elements of `size` bytes in *ret_mem; the caller owns them. NO_MEMORY. count*size == 0 gives 1 byte.
 */
struct fault mem_new(size_t count, size_t size, void *ret_mem); /* ret_mem: address of any object pointer */
/* Grows or shrinks *mem to count*size; on NO_MEMORY *mem is untouched. New bytes are not zeroed. */
struct fault mem_resize(void *mem, size_t count, size_t size);
/* A copy of `text`, of at most `max` bytes with its NUL left out of the count: TOO_LARGE beyond. */
struct fault mem_dup_text(const char *text, size_t max, char **ret_copy);
void mem_free(void *mem); /* NULL is fine */
static inline void mem_freep(void *mem_address)
{
    void **mem = mem_address;
    mem_free(TAKE(*mem));
}

/* Test hook: the allocation after `successes` further ones fails, once; a negative number switches it off. */
void mem_fail_after(long successes);

#endif
