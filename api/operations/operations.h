/*
 * For those who operate the service: effects that wait in the outbox, dead letters and their requeueing, the comparison
 * of effects with their rows after a start, and the outbox's numbers.
 */
#ifndef API_OPERATIONS_OPERATIONS_H
#define API_OPERATIONS_OPERATIONS_H

#include "api/feature.h"

extern const struct feature operations_feature;

/* outbox_config.on_attempt; `services` is struct services. */
void operations_count_attempt(void *services, const char *destination, const char *result, double seconds);

#endif
