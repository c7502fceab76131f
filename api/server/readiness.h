/*
 * The checks behind /readyz and /healthz, and gauges of /metrics; see probes.h. What a check found last is kept with
 * its time, so that telling costs no look and waits for none. Thread-safe.
 */
#ifndef API_SERVER_READINESS_H
#define API_SERVER_READINESS_H

#include "api/feature.h"
#include "api/services.h"

#define READINESS_SHED_GRACE_NS (120 * NS_PER_S)
/* What was found counts for so long, which is many times what a check may take: then the check itself is what is wrong.
 */
#define READINESS_STALE_NS      (10 * NS_PER_S)

struct readiness;
struct fault readiness_new(struct services *services, const struct feature *const *features, size_t count,
                           struct readiness **ret_readiness);
void readiness_free(struct readiness *readiness);

size_t readiness_looks(const struct readiness *readiness);
/* Runs one check, within its budget. A sampler_fn; `readiness` is one. */
void readiness_look(void *readiness, size_t which);

/* The bodies, from what is known at `now`. */
struct fault readiness_print(struct readiness *readiness, bool draining, mono_ns now, struct buf *out, bool *ret_ready);
struct fault readiness_print_health(struct readiness *readiness, mono_ns now, struct buf *out, bool *ret_well);
/* Sets the gauges of the pools, and the age of what is oldest here. */
void readiness_gauges(struct readiness *readiness, mono_ns now);

/* How a failed datastore read counts: "ok" (shed, within the grace that begins at *since), or the word. Pure. */
const char *readiness_db_word(struct fault fault, mono_ns now, mono_ns *since, bool *ret_shed);

#endif
