/* The TLS side of the HTTPS listener: an SSL_CTX of the FIPS library context with approved groups and ciphers only. */
#ifndef API_SERVER_TLS_H
#define API_SERVER_TLS_H

#include "appliance/base/bytes.h"

#include <openssl/types.h>

/* What the listener offers, by OpenSSL's names; also what the bill of materials says of it. */
#define SERVER_TLS12_CIPHERS                                                                                    \
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-" \
    "GCM-SHA256"
#define SERVER_TLS13_CIPHERS "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"
#define SERVER_TLS_GROUPS    "P-256:P-384" /* the default would offer hybrids, which are fenced */

/* TLS 1.2 and 1.3, ECDHE over P-256 and P-384, AES-GCM, SHA-2 signatures; no renegotiation, compression or session
 * tickets (so forward secrecy does not hang on a ticket key). The chain is PEM, leaf first. CONFIG with one line in
 * `why` when a file is unreadable, the key does not belong to the leaf, or is not usable under FIPS. */
struct fault tls_context_new(OSSL_LIB_CTX *libctx, const char *chain_file, const char *key_file, struct buf *why,
                             SSL_CTX **ret_context);

#endif
