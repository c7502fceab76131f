/*
 * The features' periodic work: worker rows on a few threads of ours. A row runs on one thread at a time, first one
 * period after the start, then one period after its last run ended; leader_only rows only where the projector leads.
 */
#ifndef API_SERVER_WORKERS_H
#define API_SERVER_WORKERS_H

#include "api/feature.h"
#include "api/services.h"

#define WORKER_THREADS 2

extern const struct metric worker_failures_total; /* {worker} */

struct workers;
/* Borrows services and features until workers_stop. */
struct fault workers_start(struct services *services, const struct feature *const *features, size_t count,
                           struct workers **ret_workers);
/* Says that no further run is to start, and does not wait. NULL is fine. */
void workers_stop_begin(struct workers *workers);
/* Starts no further run, waits for those that are on, joins. NULL is fine. */
void workers_stop(struct workers *workers);

#endif
