/* Shared by the files of the provider; nobody else includes this. */
#ifndef SIGNER_PROVIDER_INTERNAL_H
#define SIGNER_PROVIDER_INTERNAL_H

#include "signer-pkcs11/provider/provider.h"

#include <openssl/core_dispatch.h>
#include <openssl/types.h>

#define SVC_PROVIDER_NAME "svc"

/* The parameters by which svc_pkey_new makes a key through OpenSSL's import. */
#define SVC_PARAM_TENANT  "svc-tenant"
#define SVC_PARAM_PURPOSE "svc-purpose"
#define SVC_PARAM_ID      "svc-id"
#define SVC_PARAM_TOKEN   "svc-token"
#define SVC_PARAM_SPKI    "svc-spki"

/* Key data of an EVP_PKEY of this provider: where the private half is, and the public half as a key of the FIPS (or
 * default) provider, which answers whatever OpenSSL asks about it. Immutable once imported. */
struct svc_key {
    unsigned refs; /* __atomic */
    bool imported;
    struct key_ref ref;
    EVP_PKEY *public;
};
struct svc_key *svc_key_ref(struct svc_key *key);
void svc_key_unref(struct svc_key *key);

OSSL_LIB_CTX *svc_provider_libctx(void);
/* One private operation for the operation bound to this thread; keeps its fault for svc_provider_fault. */
bool svc_provider_sign(const struct svc_key *key, enum sign_scheme scheme, enum hash_algorithm hash, struct span digest,
                       struct buf *signature);

/* AlgorithmIdentifier of (scheme, hash), DER, constant. Empty when the pair does not exist. */
struct span svc_algorithm_id(enum sign_scheme scheme, enum hash_algorithm hash);

extern const OSSL_DISPATCH svc_keymgmt_ec[];
extern const OSSL_DISPATCH svc_keymgmt_rsa[];
extern const OSSL_DISPATCH svc_signature_ecdsa[];
extern const OSSL_DISPATCH svc_signature_rsa[];

#endif
