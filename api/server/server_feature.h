/* The plumbing as a feature: probes, the OpenAPI document, and the metrics of HTTP, pools, event log and signer. */
#ifndef API_SERVER_SERVER_FEATURE_H
#define API_SERVER_SERVER_FEATURE_H

#include "api/feature.h"

extern const struct feature server_feature;

/* outbox_config.on_timeout: counts svc_outbox_delivery_timeouts_total; `services` is struct services. */
void server_count_outbox_timeout(void *services, const char *tenant, const char *destination);

#endif
