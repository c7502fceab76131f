/*
 * One HTTP request as a handler sees it, after bulkhead, limits, authentication, permission, rate limit, idempotency
 * and decoding: nothing of civetweb shows. A handler answers through response_*; a fault it returns becomes the problem
 * body, and then nothing it answered before is sent.
 */
#ifndef API_SERVER_REQUEST_H
#define API_SERVER_REQUEST_H

#include "api/feature.h"
#include "api/services.h"
#include "appliance/base/json.h"

struct request {
    struct op *op;
    struct services *services;
    const struct route *route;
    void *body;           /* the decoded struct of the route's table, in op's arena; NULL without a table */
    struct span raw_body; /* as received */
    bool plain;           /* came by the plain listener */
    struct response *response;
    struct request_private *private_;
};

/* A {name} of the path, percent-decoded, never NULL for a name of the template. */
const char *request_path(const struct request *request, const char *name);
/* A query parameter, percent-decoded; NULL when absent. */
const char *request_query(const struct request *request, const char *name);
const char *request_header(const struct request *request, const char *name); /* NULL when absent */
const char *request_base_url(const struct request *request);
/* How full a bulkhead is at the moment; all 0 for BULKHEAD_NONE. */
struct bulkhead_load {
    unsigned limit, queue, in_use, waiting;
};
void request_bulkhead(const struct request *request, enum route_bulkhead bulkhead, struct bulkhead_load *ret_load);

/* The whole answer at once; status 0 = the route's success status. Content type application/json. */
struct fault response_json(struct request *request, int status, const struct buf *json);
struct fault response_bytes(struct request *request, int status, const char *content_type, struct span bytes);
/* An extra header; name is constant, value checked for control characters. */
struct fault response_header(struct request *request, const char *name, const char *value);

/* Opaque page cursors for lists: HMAC'd, bound to tenant and route. CURSOR when altered. */
struct fault cursor_make(struct request *request, const char *position, const char **ret_cursor);
struct fault cursor_read(struct request *request, const char *cursor, const char **ret_position);

#endif
