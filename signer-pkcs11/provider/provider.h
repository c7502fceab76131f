/*
 * The OpenSSL 3 provider `svc`, built in (OSSL_PROVIDER_add_builtin): an EVP_PKEY whose private operation is a call to
 * svc-signer, so that OpenSSL's own TS, CMS, X509, CRL and OCSP code signs with token keys unchanged. Public operations
 * are left to the FIPS (or default) provider. Its algorithms are registered with "provider=svc,fips=yes": the private
 * operation runs in the token, whose own validation is the operator's evidence (docs/decisions.md).
 */
#ifndef SIGNER_PROVIDER_PROVIDER_H
#define SIGNER_PROVIDER_PROVIDER_H

#include "signer-pkcs11/client/client.h"

#include <openssl/types.h>

/* Once per process, before use; `client` is borrowed for ever. CRYPTO on failure. */
struct fault svc_provider_load(OSSL_LIB_CTX *libctx, struct signer_client *client);

/* A key of the token as EVP_PKEY (EC or RSA) with its public half from `spki` (PKIX DER). The caller frees it with
 * EVP_PKEY_free. No call to the signer is made until it signs. */
struct fault svc_pkey_new(OSSL_LIB_CTX *libctx, const struct key_ref *key, struct span spki, EVP_PKEY **ret_pkey);

/* OpenSSL's interface carries no operation: what signs on this thread between bind and unbind does so for `op` (its
 * deadline, its note) and, when op_id is not empty, under that journal id. Without a bound operation a private
 * operation is refused. svc_provider_fault gives the fault of the last private operation on this thread, so that
 * "OpenSSL failed" can be told as "signer_unavailable". */
void svc_provider_bind(struct op *op, struct uuid op_id);
void svc_provider_unbind(void);
struct fault svc_provider_fault(void);

#endif
