/*
 * A bulkhead caps how many callers are inside one section at once, with a bounded queue of waiters behind it. A caller
 * that fits neither gets SATURATED at once; one that waited until its deadline gets SATURATED too.
 *
 *     CLEANUP(permit_release) struct permit permit = { 0 };
 *     TRY(bulkhead_enter(signing, op->deadline, &permit));   -- left again on every return path
 *
 * The same in steps, for a caller whose tenant is only known later: bulkhead_join takes one of the limit + queue places
 * and never waits, permit_charge counts it to its tenant, of whom only so many may be here, permit_turn waits until it
 * is one of the `limit`, of whom only so many are of one tenant: the first in the queue whose tenant may have one more.
 * So no tenant takes all places or all turns, however long its requests hang, and nobody has to be known to be refused.
 *
 * What a hanging request holds cannot be taken back: so the shares hold as long as there are others at all, and not
 * only while others wait. Among neighbours (bulkhead_among) these are the tenants that came lately, to any bulkhead of
 * the same neighbours. A tenant that is alone gets every turn, and every place but a few (one in sixteen, one at
 * least), so that another one always gets in far enough to be seen. From then on the first is refused and gets no turn
 * until it is below its share again, and what it gives back goes to the other.
 *
 * Invariants: in_use <= limit; in_use, waiting and those who joined and wait for nothing yet are <= limit + queue.
 * Thread-safe, except bulkhead_free().
 */
#ifndef APPLIANCE_BASE_BULKHEAD_H
#define APPLIANCE_BASE_BULKHEAD_H

#include "appliance/base/clock.h"
#include "appliance/base/fault.h"
#include "appliance/base/id.h"

#define BULKHEAD_LIMIT_MAX 4096u

/* Which tenants there are: another one counts for `memory_ns` after it came last. */
struct neighbours;
struct fault neighbours_new(int64_t memory_ns, struct neighbours **ret_neighbours);
void neighbours_free(struct neighbours *neighbours); /* after the bulkheads among them */
DEFINE_FREEP(struct neighbours, neighbours_free)

struct bulkhead;
enum permit_stage { PERMIT_JOINED, PERMIT_IN_USE };
struct permit {
    struct bulkhead *lender; /* borrowed; { 0 } holds nothing */
    enum permit_stage stage;
    struct tenant_id tenant; /* who is charged; "" = nobody */
};

/* limit 1..BULKHEAD_LIMIT_MAX, queue 0..BULKHEAD_LIMIT_MAX: BAD_ARGUMENT outside. */
struct fault bulkhead_new(unsigned limit, unsigned queue, struct bulkhead **ret_bulkhead);
void bulkhead_free(struct bulkhead *bulkhead); /* permits still out are a bug */
DEFINE_FREEP(struct bulkhead, bulkhead_free)
/* Before its first use; without it shares always hold. `neighbours` is borrowed, and several may be among the same. */
void bulkhead_among(struct bulkhead *bulkhead, struct neighbours *neighbours);
struct fault bulkhead_enter(struct bulkhead *bulkhead, mono_ns deadline, struct permit *ret_permit);
/* A place; SATURATED when there is none. */
struct fault bulkhead_join(struct bulkhead *bulkhead, struct permit *ret_permit);
/* SATURATED when the tenant has `percent` of the places (rounded down, at least one) already. Of the turns it will have
 * as much at most (rounded up). Of a tenant that is alone: see above; 100 = all, always. Once a permit, before its
 * turn. */
struct fault permit_charge(struct permit *permit, struct tenant_id tenant, unsigned percent);
/* After bulkhead_join: waits for its turn. SATURATED at the deadline; the permit holds nothing then. */
struct fault permit_turn(struct permit *permit, mono_ns deadline);
void permit_release(struct permit *permit); /* idempotent */

unsigned bulkhead_in_use(const struct bulkhead *bulkhead);
unsigned bulkhead_waiting(const struct bulkhead *bulkhead);
struct bulkhead_load {
    unsigned limit, queue, in_use, waiting;
    uint64_t rejected; /* so far, of both kinds */
    uint64_t shares;   /* of them, because of a tenant's share */
};
void bulkhead_load(const struct bulkhead *bulkhead, struct bulkhead_load *ret_load);

/* For a section that one works in, from a queue that is kept elsewhere (a log that is applied): nobody enters it, its
 * load is told. SATURATED, which counts as a rejection, when the queue is longer than `queue`. */
struct fault bulkhead_new_of_backlog(unsigned queue, struct bulkhead **ret_bulkhead);
void bulkhead_backlog(struct bulkhead *bulkhead, uint64_t behind);
struct fault bulkhead_backlog_fits(struct bulkhead *bulkhead, uint64_t behind);

#endif
