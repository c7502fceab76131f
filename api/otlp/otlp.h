/*
 * What leaves svc-api over OTLP: spans (api/telemetry/otlp.h) and, from the instance that leads, a log record for each
 * audit record, without its payload. The trail is followed in the order of the log, by a position in the database that
 * moves when the receiver has accepted: at least once, never past a record, whatever is killed meanwhile. What is sent
 * is read again at each attempt, so that what was erased since is not sent (api/privacy).
 *
 * A thread of its own does it: a receiver that hangs holds up nothing else.
 */
#ifndef API_OTLP_OTLP_H
#define API_OTLP_OTLP_H

#include "api/feature.h"

extern const struct feature otlp_feature;

#endif
