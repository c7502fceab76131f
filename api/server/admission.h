/*
 * Who is let in, in two steps around authentication. admission_join never waits: it refuses what finds the service
 * stopping, its listener's threads taken or its bulkhead full. admission_turn counts the caller to its tenant, whose
 * share of the bulkhead is bounded, and waits for a turn; a mutation it refuses while the read model is too far behind.
 */
#ifndef API_SERVER_ADMISSION_H
#define API_SERVER_ADMISSION_H

#include "api/server/exchange.h"

/* How many requests one listener may be handling; beyond it they are refused at once, so that threads stay free. */
struct admission {
    atomic_uint handling;
    unsigned max;
};

/* What a request holds; { 0 } = nothing. */
struct stay {
    struct admission *admission;
    struct permit permit;
};

/* SATURATED, or CANCELLED (draining: the connection is to be closed). `stay` is to be left in any case. */
struct fault admission_join(struct op *op, struct core *core, struct admission *admission, const struct route *route,
                            struct stay *stay);
/* After authentication; op has the caller's tenant. SATURATED. */
struct fault admission_turn(struct op *op, struct core *core, const struct route *route, struct stay *stay);
void admission_leave(struct stay *stay); /* idempotent */

#endif
