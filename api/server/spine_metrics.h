/*
 * The way of a command in numbers: its claim, calls of the signer, appends to the log, batches of the projector, and
 * how log and projector stand. Thread-safe.
 */
#ifndef API_SERVER_SPINE_METRICS_H
#define API_SERVER_SPINE_METRICS_H

#include "api/services.h"

extern const struct metric spine_metrics[];
extern const size_t spine_metric_count;

/* For signer_client_on_call, event_log_on_append and projector_config; arg: the services. */
void spine_signed(void *services, enum wire_op op, mono_ns took, struct fault end);
void spine_appended(void *services, mono_ns took, struct fault end);
void spine_applied(void *services, size_t messages, mono_ns took);
/* How a claim of an Idempotency-Key ended; `ours`: the command ran here. */
void spine_claimed(const struct services *services, struct fault end, bool ours);
/* The gauges, for a scrape. */
void spine_sample(struct services *services);

#endif
