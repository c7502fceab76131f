/*
 * Who leads: the holder of the database's advisory lock STORE_LOCK_PROJECTOR, for as long as it says so. A process that
 * died loses the lock with its connection, at once. One that stands still (a stopped process, a paused machine) keeps
 * its connection; so the leader asks its lock's session something every second, and that is its lease:
 *
 *   LEADERSHIP_LEASE_NS  after its last question that was answered, a leader counts itself as none
 *   LEADERSHIP_STALE_MS  after its last question, as the database has it, others end its session, and with it the lock
 *
 * The lease is the shorter one: when somebody else may lead, the old leader knows that it does not. What it was doing
 * when it was stopped is fenced besides: a batch moves the checkpoint from the very sequence that it was read at, in
 * its own transaction, or is nothing.
 */
#ifndef API_PROJECTION_LEADERSHIP_H
#define API_PROJECTION_LEADERSHIP_H

#include "api/store/store.h"

#include <stdatomic.h>

#define LEADERSHIP_LEASE_NS (5 * NS_PER_S)
#define LEADERSHIP_STALE_MS 8000

struct leadership;
/* held=false: somebody else leads; whoever stands still for too long is put out, and the next try may succeed.
 * `renewed` (may be NULL) is the caller's and lives as long: when the lease was renewed last. */
struct fault leadership_try(struct op *op, struct store *store, _Atomic mono_ns *renewed,
                            struct leadership **ret_leadership, bool *ret_held);
/* False when it was lost, or the lease ran out: it is then never held again. Thread-safe. */
bool leadership_held(struct leadership *leadership);
void leadership_free(struct leadership *leadership); /* gives it up; NULL is fine */
DEFINE_FREEP(struct leadership, leadership_free)

#endif
