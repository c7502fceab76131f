/*
 * One HTTP exchange, by libcurl, which is at home here only. The server's certificate is always verified: against the
 * CA file that was given, else against the machine's. Redirects are not followed; answers are bounded.
 */
#ifndef API_CLI_HTTP_H
#define API_CLI_HTTP_H

#include "appliance/base/op.h"
#include "appliance/base/secret.h"

struct http_request {
    const char *method, *url;
    const char *content_type; /* NULL = no body */
    struct span body;
    const char *accept;          /* NULL = anything */
    const char *idempotency_key; /* NULL = none */
    const char *ca_file;         /* NULL = the machine's */
    const struct secret *token;  /* NULL = none; only ever sent over TLS */
    bool plain_too;              /* http:// is acceptable */
    int64_t timeout_ns;
    size_t answer_max;
};

struct http_answer {
    long status;
    struct buf body; /* the caller frees it */
    char content_type[96], retry_after[16];
    bool replayed;
};

/* IO when there was no answer; `why` then says why not, and what to do. The answer's status is not judged. */
struct fault http_send(const struct http_request *request, char *why, size_t why_size, struct http_answer *answer);

#endif
