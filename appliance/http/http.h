/*
 * One HTTP exchange, by libcurl, which is at home here only. The server's certificate is always verified: against the
 * CA file that was given, else against the machine's. Redirects are not followed, proxies of the environment are not
 * used, answers are bounded. TLS takes its algorithms from crypto_context(), so from the FIPS module where that is
 * active. Thread-safe.
 */
#ifndef APPLIANCE_HTTP_HTTP_H
#define APPLIANCE_HTTP_HTTP_H

#include "appliance/base/op.h"
#include "appliance/base/secret.h"

#include <stdatomic.h>

/* Takes the body of a 2xx answer as it comes, whatever its size; its fault ends the exchange and is http_send's. */
struct http_sink {
    struct fault (*put)(void *arg, struct span bytes);
    void *arg;
};

struct http_request {
    const char *method, *url;
    const char *content_type; /* NULL = no body */
    struct span body;
    const char *accept;          /* NULL = anything */
    const char *idempotency_key; /* NULL = none */
    const char *ca_file;         /* NULL = the machine's */
    struct span ca_pem;          /* the same as text, instead of a file; empty = none */
    const struct secret *token;  /* NULL = none; only ever sent over TLS */
    const char *token_scheme;    /* of the Authorization header, "Splunk"; NULL = Bearer */
    const char *const *headers;  /* further ones, "Name: value", NULL-terminated; may be NULL */
    const char *user_agent;      /* NULL = "svc/<version>" */
    bool plain_too;              /* http:// is acceptable */
    bool advise;                 /* `why` also says what the user of svc-cli can do */
    bool keep;                   /* take a kept connection of this process, and keep it afterwards */
    int64_t timeout_ns;
    int64_t stall_ns;             /* > 0: instead, given up when nothing comes for so long */
    const struct http_sink *sink; /* NULL = into the answer's body, of answer_max bytes */
    size_t answer_max;
    const atomic_bool *stopping; /* once it is true the exchange is given up, within a second or so; may be NULL */
    const char *want;            /* one more header of the answer, "x-log-index:"; NULL = none */
};

struct http_answer {
    long status;
    struct buf body; /* the caller frees it */
    char content_type[96], retry_after[16];
    char location[1024]; /* as sent; "" = none. Cut when longer: then it names nothing */
    char wanted[64];     /* of the request's `want`; "" = none */
    bool replayed;
};
static inline void http_answer_clear(struct http_answer *answer)
{
    buf_free(&answer->body);
}

/* IO when there was no answer; `why` then says why not, and what to do. The answer's status is not judged. */
struct fault http_send(const struct http_request *request, char *why, size_t why_size, struct http_answer *answer);
/* Closes the connections that were kept. */
void http_forget(void);
/* For the child of a fork, in its handler: forgets the kept connections and closes none of them, because they are the
 * parent's too and a goodbye on one would end it for both. */
void http_forked(void);

#endif
