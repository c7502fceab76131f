/* The answer to one request: complete in op's arena before a byte of it is sent, unless it is streamed. */
#ifndef API_SERVER_RESPONSE_H
#define API_SERVER_RESPONSE_H

#include "appliance/base/op.h"

#define RESPONSE_HEADERS_MAX 16

struct response {
    int status; /* 0 = not answered yet */
    const char *content_type;
    struct span body;
    struct {
        const char *name, *value;
    } headers[RESPONSE_HEADERS_MAX];
    size_t header_count;
    enum fault_code fault; /* of a problem body; FAULT_NONE otherwise */
    bool close;            /* the connection must not be used again */
    bool streams;          /* status and headers are given; the body goes through response_stream_write */
    bool sent;             /* bytes of a streamed answer have left: it can be ended or cut, not replaced */
};

/* Forgets what was answered so far. */
void response_clear(struct response *response);
/* Copies `value` into op's arena. BAD_ARGUMENT: control characters, or a name that is not a token; TOO_LARGE: too many.
 */
struct fault response_add(struct op *op, struct response *response, const char *name, const char *value);

/* The extra headers as "Name: value\n" lines, and back again into the response (for kept answers). */
struct fault response_headers_print(const struct response *response, struct buf *out);
struct fault response_headers_parse(struct op *op, struct span text, struct response *response);

#endif
