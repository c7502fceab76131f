/*
 * The one error type. Every function that can fail returns `struct fault` by value and nothing else; results travel
 * in `ret_` parameters, written on success only. A fault is a closed code from fault.def; what happened in detail
 * belongs in the operation's note (op.h), never in the code.
 *
 *     struct fault thing_make(size_t size, struct thing **ret_thing)
 *     {
 *         REQUIRE(size <= THING_MAX, TOO_LARGE);
 *         CLEANUP(thing_freep) struct thing *made = NULL;
 *         TRY(mem_new(1, sizeof(*made), (void **)&made));
 *         *ret_thing = TAKE(made);
 *         return OK;
 *     }
 */
#ifndef APPLIANCE_BASE_FAULT_H
#define APPLIANCE_BASE_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum fault_code {
#define FAULT_ROW(sym, num, text, http, retry, title) FAULT_##sym = (num),
#include "appliance/base/fault.def"
#undef FAULT_ROW
};

/* A struct, so that no int can be mistaken for it; nodiscard, so that no result can be dropped. */
struct [[nodiscard]] fault {
    enum fault_code code;
};

enum fault_retry { FAULT_RETRY_NO, FAULT_RETRY_LATER };

struct fault_row {
    enum fault_code code;
    const char *text; /* closed-form code, snake_case */
    int http;
    enum fault_retry retry;
    const char *title;
};

#define OK         ((struct fault){ FAULT_NONE })
#define FAULT(sym) ((struct fault){ FAULT_##sym })
#define FAULTED(f) ((f).code != FAULT_NONE)
#define TRY(expr)                 \
    do {                          \
        struct fault f_ = (expr); \
        if (FAULTED(f_)) {        \
            return f_;            \
        }                         \
    } while (0)
#define REQUIRE(cond, sym)     \
    do {                       \
        if (!(cond)) {         \
            return FAULT(sym); \
        }                      \
    } while (0)
/* Broken invariant of ours, never bad input: the process ends and the supervisor starts a clean one. */
#define BUG_IF(cond)                              \
    do {                                          \
        if (__builtin_expect(!!(cond), 0)) {      \
            fault_bug(__FILE__, __LINE__, #cond); \
        }                                         \
    } while (0)
/* For a result that cannot matter any more (undoing after a failure): says so at the place. */
#define IGNORE(expr)                    \
    do {                                \
        struct fault ignored_ = (expr); \
        (void)ignored_;                 \
    } while (0)

#define MUST_USE     __attribute__((warn_unused_result))
#define CLEANUP(fn)  __attribute__((cleanup(fn)))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))
#define COUNT_OF(a)  (sizeof(a) / sizeof((a)[0]))
#define TAKE(ptr)                       \
    __extension__({                     \
        __typeof__(ptr) taken_ = (ptr); \
        (ptr) = NULL;                   \
        taken_;                         \
    })
/* Defines fn##p(type **), the form that CLEANUP wants. */
#define DEFINE_FREEP(type, fn)           \
    static inline void fn##p(type **ptr) \
    {                                    \
        fn(TAKE(*ptr));                  \
    }

/* The row of a code; an unknown number gives the row of INTERNAL. Never NULL. */
const struct fault_row *fault_row(enum fault_code code);
/* All rows in table order, for tests and generated docs. */
const struct fault_row *fault_rows(size_t *ret_count);
/* A number from the signer's wire as a fault; a number that is not in the table is SIGNER_PROTOCOL. */
struct fault fault_from_wire(uint32_t number);
[[noreturn]] void fault_bug(const char *file, int line, const char *what);

#endif
