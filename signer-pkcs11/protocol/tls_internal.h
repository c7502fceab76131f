/* For tls_*.c only: what an end and its streams share. */
#ifndef SIGNER_PROTOCOL_TLS_INTERNAL_H
#define SIGNER_PROTOCOL_TLS_INTERNAL_H

#include "signer-pkcs11/protocol/tls_end.h"
#include "signer-pkcs11/protocol/tls_stream.h"

#include <openssl/ssl.h>

struct tls_stream {
    SSL *ssl;
    int fd;                   /* borrowed */
    bool established, broken; /* broken: nothing more may be written, not even a farewell */
    enum tls_side side;
    const struct config_list *names; /* borrowed from the end's settings */
    char peer[TLS_NAME_MAX + 1];     /* the name of `names` that its certificate carries; "" = not accepted */
    char others[96];                 /* what it carries instead */
};

/* ---- tls_end.c ---- */
enum tls_side tls_end_side(const struct tls_end *end);
const struct config_list *tls_end_names(const struct tls_end *end);
/* The context for a new connection, made anew when the files have changed. The caller's reference. */
SSL_CTX *tls_end_context(struct tls_end *end, struct tls_report *report);

/* ---- tls_context.c ---- */
/* Everything that both ends agree on. CONFIG, and `why` gets a line. */
struct fault tls_context_make(const struct tls_settings *settings, struct buf *why, SSL_CTX **ret_context);

/* ---- tls_verify.c ---- */
/* Is the certificate for this side? An absent extended key usage is not. */
bool tls_certificate_is_for(X509 *certificate, enum tls_side side);
/* For SSL_CTX_set_verify; the SSL's app data is its tls_stream. */
int tls_verify(int ok, X509_STORE_CTX *store);
/* After a failed handshake, before its error queue is cleared. */
void tls_refusal_of(const struct tls_stream *stream, bool late, struct tls_report *report);

#endif
