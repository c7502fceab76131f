/*
 * The bulkheads of a process by their names: what a request, a signing, a decision or a command has to pass. Sizes are
 * the configuration's (bulkheads.*); bulkheads.def lists them.
 *
 *     CLEANUP(permit_release) struct permit permit = { 0 };
 *     TRY(bulkheads_enter(op, services->bulkheads, BULKHEAD_POLICY, &permit));
 *
 * NULL for the whole set means that nothing is bounded: a local command does one thing at a time. Thread-safe.
 */
#ifndef APPLIANCE_BASE_BULKHEADS_H
#define APPLIANCE_BASE_BULKHEADS_H

#include "appliance/base/bulkhead.h"
#include "appliance/base/config.h"
#include "appliance/base/op.h"

enum bulkhead_name {
    BULKHEAD_NONE,
#define BULKHEAD_ROW(symbol, ...)         BULKHEAD_##symbol,
#define BULKHEAD_BACKLOG_ROW(symbol, ...) BULKHEAD_##symbol,
#include "appliance/base/bulkheads.def"
#undef BULKHEAD_ROW
#undef BULKHEAD_BACKLOG_ROW
    BULKHEAD_COUNT
};
const char *bulkhead_name_text(enum bulkhead_name name); /* "none" for NONE */

struct bulkheads;
struct fault bulkheads_new(const struct config *config, struct bulkheads **ret_bulkheads);
void bulkheads_free(struct bulkheads *bulkheads); /* permits still out are a bug */
DEFINE_FREEP(struct bulkheads, bulkheads_free)
/* NULL for NONE, and of a NULL set. */
struct bulkhead *bulkheads_get(const struct bulkheads *bulkheads, enum bulkhead_name name);

/* Waits at most as long as its row says, and never past op's deadline. SATURATED, with op's note. Of op's tenant only
 * its share may be there. */
struct fault bulkheads_enter(struct op *op, const struct bulkheads *bulkheads, enum bulkhead_name name,
                             struct permit *ret_permit);
/* The steps of bulkhead.h for one who has to be identified first; the tenant is op's. All are among the same
 * neighbours: a tenant's share holds while another one came to any of them within the last hour, which is how long a
 * request may hold a turn (an export). */
struct fault bulkheads_join(struct op *op, const struct bulkheads *bulkheads, enum bulkhead_name name,
                            struct permit *ret_permit);
struct fault bulkheads_turn(struct op *op, const struct bulkheads *bulkheads, enum bulkhead_name name,
                            struct permit *permit);
/* All 0 for NONE, and of a NULL set. */
void bulkheads_load(const struct bulkheads *bulkheads, enum bulkhead_name name, struct bulkhead_load *ret_load);

#endif
