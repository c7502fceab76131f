/*
 * A bulkhead caps how many callers are inside one section at once, with a bounded queue of waiters behind it. A caller
 * that fits neither gets SATURATED at once; one that waited until its deadline gets SATURATED too.
 *
 *     CLEANUP(permit_release) struct permit permit = { 0 };
 *     TRY(bulkhead_enter(signing, op->deadline, &permit));   -- left again on every return path
 *
 * Invariants: in_use <= limit, waiting <= queue. Thread-safe, except bulkhead_free().
 */
#ifndef APPLIANCE_BASE_BULKHEAD_H
#define APPLIANCE_BASE_BULKHEAD_H

#include "appliance/base/clock.h"
#include "appliance/base/fault.h"

#define BULKHEAD_LIMIT_MAX 4096u

struct bulkhead;
struct permit {
    struct bulkhead *lender; /* borrowed; { 0 } holds nothing */
};

/* limit 1..BULKHEAD_LIMIT_MAX, queue 0..BULKHEAD_LIMIT_MAX: BAD_ARGUMENT outside. */
struct fault bulkhead_new(unsigned limit, unsigned queue, struct bulkhead **ret_bulkhead);
void bulkhead_free(struct bulkhead *bulkhead); /* permits still out are a bug */
DEFINE_FREEP(struct bulkhead, bulkhead_free)
struct fault bulkhead_enter(struct bulkhead *bulkhead, mono_ns deadline, struct permit *ret_permit);
void permit_release(struct permit *permit); /* idempotent */
unsigned bulkhead_in_use(const struct bulkhead *bulkhead);
unsigned bulkhead_waiting(const struct bulkhead *bulkhead);

#endif
