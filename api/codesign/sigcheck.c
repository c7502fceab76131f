#include "api/codesign/internal.h"

#include "fips/fence.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

struct check {
    EVP_PKEY *key;
    EVP_PKEY_CTX *ctx;
};

static void check_clear(struct check *check)
{
    EVP_PKEY_CTX_free(check->ctx);
    EVP_PKEY_free(check->key);
    ERR_clear_error();
}

static bool set_scheme(EVP_PKEY_CTX *ctx, enum sign_scheme scheme, enum hash_algorithm hash)
{
    const EVP_MD *md = hash == HASH_SHA512 ? EVP_sha512() : hash == HASH_SHA384 ? EVP_sha384() : EVP_sha256();
    if (EVP_PKEY_CTX_set_signature_md(ctx, md) != 1) {
        return false;
    }
    if (scheme == SIGN_SCHEME_RSA_PKCS1) {
        return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1;
    }
    if (scheme == SIGN_SCHEME_RSA_PSS) {
        return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
               EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1;
    }
    return true;
}

struct fault codesign_signature_check(struct span spki, enum sign_scheme scheme, enum hash_algorithm hash,
                                      struct span digest, struct span signature)
{
    REQUIRE(hash != HASH_NONE && digest.len == hash_size(hash), SIGNATURE_INVALID);
    if (scheme == SIGN_SCHEME_ML_DSA) {
        struct fault fault = ml_dsa_65_verify(NULL, spki, digest, signature);
        return fault.code == FAULT_BAD_ARGUMENT ? FAULT(CRYPTO) : fault;
    }
    CLEANUP(check_clear) struct check check = { 0 };
    const unsigned char *at = spki.at;
    check.key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    REQUIRE(check.key != NULL && at == spki.at + spki.len, CRYPTO);
    check.ctx = EVP_PKEY_CTX_new_from_pkey(crypto_context(), check.key, NULL);
    REQUIRE(check.ctx != NULL && EVP_PKEY_verify_init(check.ctx) == 1 && set_scheme(check.ctx, scheme, hash), CRYPTO);
    REQUIRE(EVP_PKEY_verify(check.ctx, signature.at, signature.len, digest.at, digest.len) == 1, SIGNATURE_INVALID);
    return OK;
}
