/*
 * The addresses of the remote signer's host, looked up anew for each connection, so that it may move. A name is looked
 * up by the C library's own thread: no caller waits beyond its deadline, however long a name server takes. Thread-safe.
 */
#ifndef SIGNER_CLIENT_RESOLVE_H
#define SIGNER_CLIENT_RESOLVE_H

#include "appliance/base/op.h"
#include "signer-pkcs11/protocol/tcp.h"

#include <sys/socket.h>

#define RESOLVED_MAX 4

struct resolved {
    struct {
        struct sockaddr_storage at;
        socklen_t len;
    } addresses[RESOLVED_MAX];
    size_t count; /* at least one */
};

struct resolver;
struct fault resolver_new(const struct tcp_address *address, struct resolver **ret_resolver);
void resolver_free(struct resolver *resolver);
DEFINE_FREEP(struct resolver, resolver_free)
/* SIGNER_UNAVAILABLE with op's note. */
struct fault resolver_ask(struct op *op, struct resolver *resolver, mono_ns deadline, struct resolved *ret_resolved);

#endif
