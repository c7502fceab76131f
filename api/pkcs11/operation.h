/*
 * Hashing, signing or verifying under way in a session: what was asked for, and the data so far, hashed here or kept as
 * it is. What comes out in the end is a digest and its hash, for the appliance to sign or for OpenSSL to verify.
 */
#ifndef API_PKCS11_OPERATION_H
#define API_PKCS11_OPERATION_H

#include "api/pkcs11/keyring.h"
#include "api/pkcs11/mechanism.h"

#define OPERATION_RAW_MAX 128

struct operation {
    const struct mechanism *mechanism; /* NULL = none is under way */
    const struct hash *hash;           /* NULL = the data will tell */
    EVP_MD_CTX *md;                    /* NULL = the caller hashed */
    uint8_t raw[OPERATION_RAW_MAX];
    size_t raw_len;
    bool in_parts;           /* data came by an Update */
    struct keyring *keyring; /* a reference; NULL for a digest */
    const struct token_key *key;
};

static inline bool operation_active(const struct operation *operation)
{
    return operation->mechanism != NULL;
}
/* Begins a digest. CKR_OPERATION_ACTIVE, CKR_MECHANISM_INVALID ... */
CK_RV operation_begin_digest(struct operation *operation, const CK_MECHANISM *asked);
/* Begins a signing (class CKO_PRIVATE_KEY) or a verification (CKO_PUBLIC_KEY) with the object of this handle. */
CK_RV operation_begin(struct operation *operation, const CK_MECHANISM *asked, struct keyring *keyring,
                      CK_OBJECT_HANDLE handle, CK_OBJECT_CLASS class);
void operation_end(struct operation *operation); /* idempotent */

/* CKR_DATA_LEN_RANGE: longer than anything that can be signed unhashed. */
CK_RV operation_put(struct operation *operation, struct span data);
/* `digest` has room for HASH_LEN_MAX. CKR_DATA_LEN_RANGE, CKR_DATA_INVALID: what came is no digest (RSA: no DigestInfo)
 * of SHA-256, SHA-384 or SHA-512. */
CK_RV operation_digest(struct operation *operation, uint8_t *digest, const struct hash **ret_hash);

#endif
