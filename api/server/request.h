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
void request_bulkhead(const struct request *request, enum bulkhead_name bulkhead, struct bulkhead_load *ret_load);

/* The whole answer at once; status 0 = the route's success status. Content type application/json. */
struct fault response_json(struct request *request, int status, const struct buf *json);
struct fault response_bytes(struct request *request, int status, const char *content_type, struct span bytes);
/*
 * An answer that is sent while it is made, in constant memory (RFC 9112 7.1, chunked): for what may be larger than
 * memory should be. Extra headers first, then begin, then as many writes as it takes; returning OK ends the answer.
 *
 *     TRY(response_stream_begin(request, 0, "text/csv"));
 *     while (...) { TRY(response_stream_write(request, bytes)); }
 *     return OK;
 *
 * A fault becomes a problem body only as long as nothing has left (the first chunk, RESPONSE_CHUNK bytes, is not full).
 * After that the connection is cut without the last chunk, so that no client takes the answer for a whole one, and the
 * fault is logged. Not for mutations. A HEAD request is answered with the head: response_stream_wanted says that no
 * body is, and writes go nowhere. BAD_ARGUMENT  an HTTP/1.0 client: it could not tell a cut answer from a whole one
 *   DEADLINE      the operation's has passed      IO  the client went away, or takes nothing
 */
#define RESPONSE_CHUNK ((size_t)64 << 10)
struct fault response_stream_begin(struct request *request, int status, const char *content_type);
bool response_stream_wanted(const struct request *request);
/* BUG_IF(tx_open): a slow client must hold no transaction. */
struct fault response_stream_write(struct request *request, struct span bytes);

/* An extra header; name is constant, value checked for control characters. */
struct fault response_header(struct request *request, const char *name, const char *value);

/* Opaque page cursors for lists: HMAC'd, bound to tenant and route. CURSOR when altered. */
struct fault cursor_make(struct request *request, const char *position, const char **ret_cursor);
struct fault cursor_read(struct request *request, const char *cursor, const char **ret_position);

#endif
