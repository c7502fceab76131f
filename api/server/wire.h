/* An answer as HTTP/1.1 bytes. */
#ifndef API_SERVER_WIRE_H
#define API_SERVER_WIRE_H

#include "api/server/response.h"

#define WIRE_HEAD_MAX 16384
#define WIRE_JOIN_MAX 32768 /* a body up to this size travels with its head */

struct wire_answer {
    const struct response *response;
    const char *reason; /* phrase of the status */
    bool head_only;     /* the request was HEAD */
    bool chunked;       /* the body follows in chunks; response->body is not looked at */
    bool keep_alive;
    bool tls;
};

/* Appends the head and, when it is small, the body; *ret_rest is what is still to be sent. */
struct fault wire_print(const struct op *op, const struct wire_answer *answer, struct buf *out, struct span *ret_rest);

#endif
