/*
 * The hashes that are signed with, and the OpenSSL context in which this module works.
 *
 * The context is the module's own: the host process may have configured its default context so that it uses this very
 * module (pkcs11-provider), and then a TLS handshake of ours would come back to us. It is made at the first
 * C_Initialize and never freed: threads of the host may keep state of it that OpenSSL frees when they end.
 */
#ifndef API_PKCS11_HASH_H
#define API_PKCS11_HASH_H

#include "appliance/base/bytes.h"
#include "appliance/base/crypto.h"

#include <p11-kit/pkcs11.h>

#define HASH_LEN_MAX 64

struct hash {
    const char *name;         /* as the appliance writes it: "sha256" */
    const char *openssl_name; /* for EVP_MD_fetch */
    CK_MECHANISM_TYPE mechanism;
    CK_RSA_PKCS_MGF_TYPE mgf;
    size_t len;
    uint8_t digest_info[19]; /* RFC 8017 9.2, note 1: what stands before the digest */
};

/* NULL when it is none of SHA-256, SHA-384 and SHA-512. */
const struct hash *hash_by_mechanism(CK_MECHANISM_TYPE mechanism);
const struct hash *hash_by_len(size_t len);
/* A DER DigestInfo, exactly as RFC 8017 9.2 writes it; NULL for anything else. The digest borrows. */
const struct hash *hash_unwrap(struct span digest_info, struct span *ret_digest);

/* Makes crypto_context() this module's own. Call with the module's lock held. */
struct fault context_ready(void);
/* In the child of a fork: the next context_ready makes another, because locks of the present one may be held by threads
 * that are not in the child. */
void context_forked(void);

struct fault hash_start(const struct hash *hash, EVP_MD_CTX **ret_md);

#endif
