/* The checks behind /readyz and the gauges of /metrics; see probes.h, which calls this one at a time. */
#ifndef API_SERVER_READINESS_H
#define API_SERVER_READINESS_H

#include "api/feature.h"
#include "api/services.h"

#define READINESS_SHED_GRACE_NS (120 * NS_PER_S)

struct readiness;
struct fault readiness_new(struct services *services, const struct feature *const *features, size_t count,
                           struct readiness **ret_readiness);
void readiness_free(struct readiness *readiness);
/* Runs all checks and writes the body. */
struct fault readiness_check(struct readiness *readiness, bool draining, struct buf *out, bool *ret_ready);
/* Sets the gauges from the last check, the pools and the supervisor's state file. Thread-safe beside readiness_check.
 */
void readiness_gauges(struct readiness *readiness);
/* "ok", "degraded", "journal_unusable", "down" or "unreachable", within half a second. */
const char *readiness_signer_word(struct services *services);

/* How a failed datastore read counts: "ok" (shed, within the grace that begins at *since), or the word. Pure. */
const char *readiness_db_word(struct fault fault, mono_ns now, mono_ns *since, bool *ret_shed);

#endif
