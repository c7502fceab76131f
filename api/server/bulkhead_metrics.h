/* How full the bulkheads are, each once, by its name. */
#ifndef API_SERVER_BULKHEAD_METRICS_H
#define API_SERVER_BULKHEAD_METRICS_H

#include "api/services.h"

extern const struct metric bulkhead_metrics[];
extern const size_t bulkhead_metric_count;

/* Sets all of them, for a scrape. Thread-safe. */
void bulkhead_gauges(struct services *services);

#endif
