/*
 * Every mutation is an event, compared both ways while the appliance runs.
 *
 * An answered mutation keeps with its answer what the log has of it (op->recorded): the stream sequence of its last
 * message, or its handler's word that nothing changed or that an earlier run of the command was recorded. The leader
 * compares these answers, in the order in which they were given and a few thousand a run, with the verified copies of
 * the log. Missing is
 *   - a success for which nothing was appended and nothing was said;
 *   - an answer whose message is not among the tenant's copies, or is another operation's.
 * It counts in svc_audit_reconciliation_missing_total, is logged with route and trace, and keeps `audit_reconciliation`
 * among the degraded of /readyz: a missing event does not come back by refusing service, and a log that cannot be
 * trusted takes readiness away by itself. All answers are compared again at every start and every hour, and the row
 * is well again when such a pass finds nothing.
 *
 * The other way round, a caller's message that no answer names is normal (its process died, or the answer was a
 * refusal): it is only counted.
 *
 * Thread-safe. One set of numbers a process.
 */
#ifndef API_SERVER_RECONCILE_H
#define API_SERVER_RECONCILE_H

#include "api/feature.h"

#define RECONCILE_GRACE_US (3 * US_PER_S) /* an answer is compared so long after it was kept */

extern const struct metric reconcile_metrics[];
extern const size_t reconcile_metric_count;

/* The worker: one bounded run. */
struct fault reconcile_run(struct op *op, struct services *services);
/* The readiness row: AUDIT_UNRECONCILED while something is missing. */
struct fault reconcile_check(struct op *op, struct services *services);
/* For a route without an Idempotency-Key that was answered with success (time stamps): op says at once whether its
 * event is in the log. Not for reads and routes without effect. */
void reconcile_answered(const struct op *op, struct services *services, const struct route *route);
/* Of the kept answer: "nothing", "event", "earlier" or "unchanged". */
const char *reconcile_word(enum op_recorded recorded);
/* Begins anew, as a start does. */
void reconcile_forget(void);

#endif
