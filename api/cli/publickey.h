/* A public key from the user's file, and what it says to a signature over a digest. Offline; by OpenSSL alone. */
#ifndef API_CLI_PUBLICKEY_H
#define API_CLI_PUBLICKEY_H

#include "appliance/base/op.h"

#include <openssl/types.h>

/* PEM or DER; a public key (PKIX) or a certificate. BAD_ARGUMENT. The caller frees it. */
struct fault public_key_parse(struct op *op, struct span bytes, EVP_PKEY **ret_key);

/* "ecdsa", "rsa-pkcs1v15", "rsa-pss" (salt as long as the digest) or "ml-dsa" (ML-DSA-65, pure, over the digest's
 * bytes, with an empty context). NULL `scheme` = whatever goes with the key, for RSA either. SIGNATURE_INVALID, or
 * BAD_ARGUMENT when key and scheme do not go together. */
struct fault public_key_verify(struct op *op, EVP_PKEY *key, const char *scheme, const char *hash, struct span digest,
                               struct span signature, const char **ret_scheme);
/* The scheme of what the server calls a signature's encoding; NULL: it is none that is known here. */
const char *public_key_scheme_of(const char *encoding);
/* Is it a key of post-quantum signatures, which are outside approved mode? */
bool public_key_is_fenced(EVP_PKEY *key);
/* "EC P-256", "RSA 3072", "ML-DSA-65". */
void public_key_print(EVP_PKEY *key, char *text, size_t size);

#endif
