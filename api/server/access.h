/* One log record and one count for each request. Never credentials, bodies or queries; paths only as their template. */
#ifndef API_SERVER_ACCESS_H
#define API_SERVER_ACCESS_H

#include "api/server/message.h"
#include "api/server/response.h"
#include "api/server/router.h"

extern const struct metric http_requests_total;
extern const struct metric http_request_duration_seconds;
extern const struct metric http_waits_total;

/* Successful probes are recorded at level debug, everything else at info. */
void access_record(struct metrics *metrics, const struct op *op, const struct message *message,
                   const struct response *response, const struct route_match *match, size_t bytes, mono_ns started);

/* The method as a bounded label: a method of no route is "other". */
const char *access_method(const char *method);

#endif
