/*
 * One HTTP request as it came off the wire, before anybody looked at its meaning; and the framing rules that decide
 * whether it may be looked at. Nothing of civetweb shows, so the whole pipeline runs in tests without a socket.
 */
#ifndef API_SERVER_MESSAGE_H
#define API_SERVER_MESSAGE_H

#include "appliance/base/op.h"

#define MESSAGE_HEADERS_MAX 64

enum listener_kind { LISTENER_TLS, LISTENER_PLAIN, LISTENER_PROBE, LISTENER_COUNT };

struct http_header {
    const char *name, *value;
};

/* A cap on requests being handled by one listener, so that some of its threads stay free for probes and refusals. */
struct admission;

/* Where an answer goes that is sent while it is made (request.h, response_stream_*). What is given is kept until a
 * chunk is full, so a short answer leaves as a whole; every function may send. IO when the peer went away or takes
 * nothing. */
struct response;
struct message_stream {
    struct fault (*begin)(void *arg, struct response *response);
    struct fault (*put)(void *arg, struct span bytes);
    struct fault (*end)(void *arg);
};

struct message {
    const char *method;
    const char *path;  /* undecoded, without the query */
    const char *query; /* undecoded; NULL when there is no '?' */
    bool http_1_0;
    bool malformed; /* the header block did not parse to its end, or holds too many fields */
    struct http_header headers[MESSAGE_HEADERS_MAX];
    size_t header_count;
    enum listener_kind listener;
    struct admission *admission; /* NULL: no cap */
    /* Reads exactly `len` bytes of the body; called at most once. IO when the peer went away. */
    struct fault (*read_body)(void *arg, uint8_t *at, size_t len);
    const struct message_stream *stream; /* NULL: answers cannot be streamed */
    void *arg;

    size_t content_length; /* set by message_check */
    bool body_read;        /* set by the pipeline once the body was asked for */
};

/* The first header of that name (any case), or NULL. */
const char *message_header(const struct message *message, const char *name);
size_t message_header_count(const struct message *message, const char *name);

/* RFC 9112 framing, strictly: one Host, no Transfer-Encoding, at most one Content-Length of digits only; and headers
 * that decide about security at most once. A refusal means that the connection must be closed after the answer. */
struct fault message_check(struct op *op, struct message *message);

/* Whether the body's Content-Type is `expected` (type/subtype, any case; for JSON a charset parameter may say UTF-8)
 * and it is not encoded. MEDIA_TYPE. */
struct fault message_check_content_type(struct op *op, const struct message *message, const char *expected);

#endif
