/* One listening address served by civetweb. Threads, framing and TLS are civetweb's; meaning is dispatch.c's. */
#ifndef API_SERVER_LISTENER_H
#define API_SERVER_LISTENER_H

#include "api/server/exchange.h"

#include <openssl/types.h>

struct listener;

struct listener_config {
    struct core *core; /* borrowed */
    enum listener_kind kind;
    const char *address; /* "127.0.0.1:8443", "[::1]:8443", "8443" */
    SSL_CTX *tls;        /* owned by the listener from success on; NULL: plain */
    unsigned threads;
    unsigned spare;    /* threads that are kept free: connections are relieved and requests refused beyond the others */
    int header_ms;     /* TLS handshake, header block, each stall of a body */
    int keep_alive_ms; /* between two requests */
};

/* IO with a line in `why` when the address cannot be had. */
struct fault listener_open(const struct listener_config *config, struct buf *why, struct listener **ret_listener);
int listener_port(const struct listener *listener);
/* Cuts who overstays or holds a thread that is needed. Called twice a second. */
void listener_relieve(struct listener *listener);
/* New connections are refused from now on; waiting ones are cut. */
void listener_stop_accepting(struct listener *listener);
void listener_cut(struct listener *listener);    /* every connection: what is still being answered is not heard */
size_t listener_busy(struct listener *listener); /* requests in hand */
/* Ends all threads. NULL is fine. */
void listener_close(struct listener *listener);

#endif
