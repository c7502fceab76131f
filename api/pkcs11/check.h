/* Does this signature fit? By OpenSSL and the public key, in this process. */
#ifndef API_PKCS11_CHECK_H
#define API_PKCS11_CHECK_H

#include "api/pkcs11/operation.h"

/* `signature` in the form of PKCS#11 (ECDSA: r || s). CKR_SIGNATURE_LEN_RANGE, CKR_SIGNATURE_INVALID, CKR_HOST_MEMORY.
 */
CK_RV signature_check(const struct token_key *key, enum scheme scheme, const struct hash *hash, struct span digest,
                      struct span signature);

#endif
