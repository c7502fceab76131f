/*
 * The way to the signer: its unix socket, or where signer.address names one, mutual TLS to another host. Each call
 * makes one connection, within its deadline. Thread-safe. What the other end's certificate must be is told in
 * tls_end.h; files that cannot be used now may be usable at the next call.
 */
#ifndef SIGNER_CLIENT_DIAL_H
#define SIGNER_CLIENT_DIAL_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"
#include "signer-pkcs11/protocol/tls_stream.h"

struct dial;

/* Reads and connects nothing yet. `config` is borrowed for the dial's life. CONFIG. */
struct fault dial_new(const struct config *config, struct dial **ret_dial);
void dial_free(struct dial *dial);
DEFINE_FREEP(struct dial, dial_free)

/* The caller owns both; *ret_tls is NULL on a unix socket. SIGNER_UNAVAILABLE with op's note. */
struct fault dial_connect(struct op *op, struct dial *dial, mono_ns deadline, int *ret_fd, struct tls_stream **ret_tls);

#endif
