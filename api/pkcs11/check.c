#include "api/pkcs11/check.h"

#include "api/pkcs11/ecdsa.h"

#include <openssl/err.h>
#include <openssl/rsa.h>

static bool set_padding(EVP_PKEY_CTX *context, enum scheme scheme, const EVP_MD *md)
{
    if (scheme == SCHEME_ECDSA) {
        return true;
    }
    if (scheme == SCHEME_PKCS1) {
        return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1;
    }
    return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_mgf1_md(context, md) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1;
}

static CK_RV verify(EVP_PKEY *pkey, enum scheme scheme, const struct hash *hash, struct span digest,
                    struct span signature)
{
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), hash->openssl_name, NULL);
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(crypto_context(), pkey, NULL);
    if (md == NULL || context == NULL || EVP_PKEY_verify_init(context) != 1 || !set_padding(context, scheme, md) ||
        EVP_PKEY_CTX_set_signature_md(context, md) != 1) {
        return CKR_HOST_MEMORY;
    }
    int verified = EVP_PKEY_verify(context, signature.at, signature.len, digest.at, digest.len);
    return verified == 1 ? CKR_OK : CKR_SIGNATURE_INVALID;
}

CK_RV signature_check(const struct token_key *key, enum scheme scheme, const struct hash *hash, struct span digest,
                      struct span signature)
{
    uint8_t der[ECDSA_DER_MAX];
    if (signature.len != key->signature_len) {
        return CKR_SIGNATURE_LEN_RANGE;
    }
    if (scheme == SCHEME_ECDSA && FAULTED(ecdsa_to_der(signature, der, &signature))) {
        return CKR_SIGNATURE_INVALID;
    }
    /* What goes wrong here is told by its result: the error queue of the host's thread stays as it was. */
    (void)ERR_set_mark();
    const unsigned char *at = key->spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *pkey = d2i_PUBKEY_ex(NULL, &at, (long)key->spki.len, crypto_context(), NULL);
    CK_RV rv = pkey != NULL ? verify(pkey, scheme, hash, digest, signature) : CKR_HOST_MEMORY;
    (void)ERR_pop_to_mark();
    return rv;
}
