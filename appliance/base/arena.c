#include "appliance/base/arena.h"

#include "appliance/base/alloc.h"
#include "appliance/base/secret.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>

#define BLOCK_FIRST ((size_t)16 << 10)
#define BLOCK_MAX   ((size_t)256 << 10)
#define ALIGN       alignof(max_align_t)

struct block {
    struct block *older;
    size_t cap, used;
    alignas(max_align_t) uint8_t at[];
};

struct arena {
    size_t max, used;
    size_t next_cap;
    struct block *newest; /* the list ends at the first block, which arena_clear keeps */
};

static struct fault add_block(struct arena *arena, size_t need)
{
    size_t cap = need > arena->next_cap ? need : arena->next_cap;
    struct block *made = NULL;
    TRY(mem_new(1, sizeof(*made) + cap, &made));
    made->cap = cap;
    made->older = arena->newest;
    arena->newest = made;
    if (arena->next_cap < BLOCK_MAX) {
        arena->next_cap *= 2;
    }
    return OK;
}

struct fault arena_new(size_t max_bytes, struct arena **ret_arena)
{
    CLEANUP(arena_freep) struct arena *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->max = max_bytes;
    made->next_cap = BLOCK_FIRST;
    TRY(add_block(made, 0));
    *ret_arena = TAKE(made);
    return OK;
}

static void drop_newest(struct arena *arena)
{
    struct block *block = arena->newest;
    arena->newest = block->older;
    secret_wipe(block->at, block->used);
    mem_free(block);
}

void arena_free(struct arena *arena)
{
    if (arena == NULL) {
        return;
    }
    while (arena->newest != NULL) {
        drop_newest(arena);
    }
    mem_free(arena);
}

void arena_clear(struct arena *arena)
{
    while (arena->newest->older != NULL) {
        drop_newest(arena);
    }
    secret_wipe(arena->newest->at, arena->newest->used);
    arena->newest->used = 0;
    arena->used = 0;
    arena->next_cap = 2 * BLOCK_FIRST;
}

struct fault arena_take(struct arena *arena, size_t count, size_t size, void *ret_mem)
{
    size_t total;
    REQUIRE(!__builtin_mul_overflow(count, size, &total) && total <= arena->max, TOO_LARGE);
    total = total != 0 ? (total + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    REQUIRE(total <= arena->max && arena->used <= arena->max - total, TOO_LARGE);
    if (total > arena->newest->cap - arena->newest->used) {
        TRY(add_block(arena, total));
    }
    struct block *block = arena->newest;
    *(void **)ret_mem = block->at + block->used; /* zeroed: blocks start so, and arena_clear wipes */
    block->used += total;
    arena->used += total;
    return OK;
}

struct fault arena_text(struct arena *arena, struct span bytes, const char **ret_text)
{
    REQUIRE(bytes.len == 0 || memchr(bytes.at, 0, bytes.len) == NULL, BAD_ARGUMENT);
    REQUIRE(bytes.len < arena->max, TOO_LARGE);
    char *text;
    TRY(arena_take(arena, bytes.len + 1, 1, &text));
    if (bytes.len > 0) {
        memcpy(text, bytes.at, bytes.len);
    }
    *ret_text = text;
    return OK;
}

struct fault arena_copy(struct arena *arena, struct span bytes, struct span *ret_copy)
{
    uint8_t *at;
    TRY(arena_take(arena, bytes.len, 1, &at));
    if (bytes.len > 0) {
        memcpy(at, bytes.at, bytes.len);
    }
    *ret_copy = span_of(at, bytes.len);
    return OK;
}

struct fault arena_printf(struct arena *arena, const char **ret_text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = NULL;
    struct fault fault = len < 0 ? FAULT(BAD_ARGUMENT) : arena_take(arena, (size_t)len + 1, 1, &text);
    if (!FAULTED(fault)) {
        (void)vsnprintf(text, (size_t)len + 1, format, again);
        *ret_text = text;
    }
    va_end(again);
    return fault;
}

size_t arena_used(const struct arena *arena)
{
    return arena->used;
}
