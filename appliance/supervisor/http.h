/* As much of an HTTP client as the supervisor needs: asking a probe, and fetching one small public file by TLS. */
#ifndef APPLIANCE_SUPERVISOR_HTTP_H
#define APPLIANCE_SUPERVISOR_HTTP_H

#include "appliance/base/op.h"

/* OK when GET `path` of a plain listener answers 200; otherwise IO, with what was answered in op's note. */
struct fault http_ready(struct op *op, const char *address, const char *path);
/* The address to reach a listener of this machine by: loopback for a wildcard, else as it is. */
const char *http_own_host(const char *host);

struct http_fetch {
    const char *address; /* "127.0.0.1:8443" */
    const char *path;
    const char *ca_file; /* what the server's certificate must lead to */
};
/* process_work_fn over struct http_fetch: writes the body of a 200 answer to `output`. For a child without rights of
 * its own (process_as); the parent keeps the deadline. */
struct fault http_fetch_work(struct op *op, void *fetch, int output);

/* Status and body of a whole HTTP/1.x answer of a connection that was closed after it. IO when it is none. */
struct fault http_parse(struct span answer, int *ret_status, struct span *ret_body);

#endif
