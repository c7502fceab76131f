/*
 * The running check of the audit chain: the process that leads computes the chain of every tenant's records again, from
 * the first one, a few thousand records a second, at its start and every hour. (That the records are those of the event
 * log is the projector's own check; this one is about the rows that are served.) A chain that differs twice in a row is
 * logged, counted and keeps `audit_chain` among the degraded of /readyz until a later pass finds it whole.
 */
#ifndef API_AUDIT_CHAIN_WATCH_H
#define API_AUDIT_CHAIN_WATCH_H

#include "api/feature.h"

#define CHAIN_WATCH_METRICS 3
extern const struct metric chain_watch_metrics[CHAIN_WATCH_METRICS];

/* The worker: one bounded piece. */
struct fault chain_watch_run(struct op *op, struct services *services);
/* The readiness row: CHAIN_BROKEN while the last pass, or this one, found a chain broken. */
struct fault chain_watch_check(struct op *op, struct services *services);
/* Begins anew, as a start does. */
void chain_watch_forget(void);

#endif
