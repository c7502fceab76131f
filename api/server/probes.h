/*
 * What /healthz, /readyz and /metrics tell. Checks run again and again on threads of their own, each within its budget
 * and none behind another; what they found last is kept. So a probe waits for nothing and nobody, whatever hangs, and a
 * flood of probes costs some copies. A check that has not ended for ten seconds counts as failed ("stuck").
 *
 * Readiness: db, nats, projection, signer and the features' own rows, each "ok" or one short word; safe numbers beside.
 * A datastore read that could not be had in time (a busy pool, not an unreachable server) is shed: named in `degraded`,
 * and ready all the same until it has lasted two minutes.
 */
#ifndef API_SERVER_PROBES_H
#define API_SERVER_PROBES_H

#include "api/feature.h"
#include "api/services.h"

#include <stdatomic.h>

struct probes;

/* Borrows everything for its life. `draining` makes readiness end. */
struct fault probes_new(struct services *services, const struct feature *const *features, size_t count,
                        const atomic_bool *draining, struct probes **ret_probes);
void probes_free(struct probes *probes);
DEFINE_FREEP(struct probes, probes_free)

/* Every check once, in this thread; from then on they are kept up to date. Before anybody asks. */
struct fault probes_watch(struct probes *probes);

/* JSON in op's arena, and whether all is well (200 or 503). */
struct fault probes_health(struct op *op, struct probes *probes, struct span *ret_json, bool *ret_well);
struct fault probes_readiness(struct op *op, struct probes *probes, struct span *ret_json, bool *ret_well);
/* Prometheus text, gauges of the plumbing brought up to date. */
struct fault probes_metrics(struct probes *probes, struct buf *out);

/* Rows of the plumbing's own metrics that probes_metrics sets. */
extern const struct metric probe_metrics[];
extern const size_t probe_metric_count;

/* The number of signer restarts in the supervisor's state file; 0 when it says nothing. Pure. */
int64_t state_signer_restarts(struct span state_json);

#endif
