/*
 * A bounded bump allocator for everything that dies with one operation. Not thread-safe: one operation, one thread
 * at a time. Nothing is freed singly; arena_free wipes and returns all. Exceeding the bound is TOO_LARGE.
 */
#ifndef APPLIANCE_BASE_ARENA_H
#define APPLIANCE_BASE_ARENA_H

#include "appliance/base/bytes.h"
#include "appliance/base/fault.h"

#define ARENA_DEFAULT_MAX ((size_t)8 << 20)

struct arena;

struct fault arena_new(size_t max_bytes, struct arena **ret_arena);
void arena_free(struct arena *arena);
DEFINE_FREEP(struct arena, arena_free)
/* Forgets (and wipes) all but keeps the first block for reuse. */
void arena_clear(struct arena *arena);

/* Zeroed, aligned for any object, valid until the arena ends. */
struct fault arena_take(struct arena *arena, size_t count, size_t size, void *ret_mem);
/* NUL-terminated copy of `bytes`. An embedded NUL is BAD_ARGUMENT. */
struct fault arena_text(struct arena *arena, struct span bytes, const char **ret_text);
struct fault arena_copy(struct arena *arena, struct span bytes, struct span *ret_copy);
struct fault arena_printf(struct arena *arena, const char **ret_text, const char *format, ...) PRINTF(3, 4);
size_t arena_used(const struct arena *arena);

#endif
