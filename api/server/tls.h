/* The TLS side of the HTTPS listener: an SSL_CTX of the FIPS library context with approved groups and ciphers only. */
#ifndef API_SERVER_TLS_H
#define API_SERVER_TLS_H

#include "appliance/base/bytes.h"

#include <openssl/types.h>

/* TLS 1.2 and 1.3, ECDHE over P-256 and P-384, AES-GCM, SHA-2 signatures; no renegotiation, compression or session
 * tickets (so forward secrecy does not hang on a ticket key). The chain is PEM, leaf first. CONFIG with one line in
 * `why` when a file is unreadable, the key does not belong to the leaf, or is not usable under FIPS. */
struct fault tls_context_new(OSSL_LIB_CTX *libctx, const char *chain_file, const char *key_file, struct buf *why,
                             SSL_CTX **ret_context);

#endif
