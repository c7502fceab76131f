#include "fips/internal.h"

#include "appliance/base/crypto.h"
#include "appliance/base/secret.h"

#include <openssl/core_names.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

DEFINE_FREEP(OSSL_PARAM, OSSL_PARAM_free)
DEFINE_FREEP(OSSL_PARAM_BLD, OSSL_PARAM_BLD_free)

enum padding { PADDING_NONE, PADDING_PKCS1, PADDING_PSS };

struct signing {
    OSSL_LIB_CTX *libctx;
    EVP_PKEY *key;
    const char *digest;
    enum padding padding;
};

static bool set_padding(EVP_PKEY_CTX *ctx, enum padding padding)
{
    switch (padding) {
    case PADDING_NONE:
        return true;
    case PADDING_PKCS1:
        return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1;
    case PADDING_PSS:
        return EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
               EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1;
    default:
        return false;
    }
}

static struct fault sign(const struct signing *with, struct span message, uint8_t *out, size_t *len)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL; /* belongs to ctx */
    REQUIRE(ctx != NULL &&
                EVP_DigestSignInit_ex(ctx, &options, with->digest, with->libctx, NULL, with->key, NULL) == 1 &&
                set_padding(options, with->padding) && EVP_DigestSign(ctx, out, len, message.at, message.len) == 1,
            CRYPTO);
    return OK;
}

static struct fault verify(const struct signing *with, struct span message, struct span signature, bool *ret_valid)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL;
    REQUIRE(ctx != NULL &&
                EVP_DigestVerifyInit_ex(ctx, &options, with->digest, with->libctx, NULL, with->key, NULL) == 1 &&
                set_padding(options, with->padding),
            CRYPTO);
    *ret_valid = EVP_DigestVerify(ctx, signature.at, signature.len, message.at, message.len) == 1;
    return OK;
}

/* Accepts the signature, and refuses it with one bit of its last byte changed and over another message. */
static struct fault verify_and_reject(const struct signing *with, struct span message, struct span signature)
{
    uint8_t spoilt[512];
    BUG_IF(signature.len > sizeof(spoilt) || signature.len == 0);
    bool valid = false;
    TRY(verify(with, message, signature, &valid));
    REQUIRE(valid, FIPS_SELF_TEST);
    memcpy(spoilt, signature.at, signature.len);
    spoilt[signature.len - 1] ^= 1;
    TRY(verify(with, message, span_of(spoilt, signature.len), &valid));
    REQUIRE(!valid, FIPS_SELF_TEST);
    TRY(verify(with, span_text("another message"), signature, &valid));
    REQUIRE(!valid, FIPS_SELF_TEST);
    return OK;
}

static struct fault sign_and_verify(const struct signing *with, struct span message)
{
    uint8_t made[512];
    size_t len = sizeof(made);
    TRY(sign(with, message, made, &len));
    return verify_and_reject(with, message, span_of(made, len));
}

static struct fault ecdsa_key(OSSL_LIB_CTX *libctx, const struct kat_ecdsa *vector, EVP_PKEY **ret_key)
{
    CLEANUP(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    CLEANUP(BN_freep) BIGNUM *scalar = BN_bin2bn(vector->scalar.at, (int)vector->scalar.len, NULL);
    REQUIRE(build != NULL && scalar != NULL, NO_MEMORY);
    REQUIRE(OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, vector->group, 0) == 1 &&
                OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, vector->point.at, vector->point.len) ==
                    1 &&
                OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, scalar) == 1,
            CRYPTO);
    CLEANUP(OSSL_PARAM_freep) OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(libctx, "EC", NULL);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    REQUIRE(params != NULL && ctx != NULL && EVP_PKEY_fromdata_init(ctx) == 1 &&
                EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params) == 1,
            CRYPTO);
    *ret_key = TAKE(key);
    return OK;
}

struct fault kat_ecdsa_run(OSSL_LIB_CTX *libctx, const struct kat_ecdsa *vector)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    TRY(ecdsa_key(libctx, vector, &key));
    struct signing with = { .libctx = libctx, .key = key, .digest = vector->digest, .padding = PADDING_NONE };
    TRY(verify_and_reject(&with, vector->message, vector->signature));
    return sign_and_verify(&with, vector->message);
}

struct fault kat_rsa_run(OSSL_LIB_CTX *libctx, const struct kat_rsa *vector)
{
    const unsigned char *at = vector->key.at;
    CLEANUP(EVP_PKEY_freep)
    EVP_PKEY *key = d2i_PrivateKey_ex(EVP_PKEY_RSA, NULL, &at, (long)vector->key.len, libctx, NULL);
    REQUIRE(key != NULL, CRYPTO);

    struct signing with = { .libctx = libctx, .key = key, .digest = vector->digest, .padding = PADDING_PKCS1 };
    uint8_t made[512];
    size_t len = sizeof(made);
    TRY(sign(&with, vector->message, made, &len)); /* deterministic, so the answer is known */
    REQUIRE(secret_equal(span_of(made, len), vector->pkcs1), FIPS_SELF_TEST);
    TRY(verify_and_reject(&with, vector->message, vector->pkcs1));

    with.padding = PADDING_PSS;
    TRY(verify_and_reject(&with, vector->message, vector->pss));
    return sign_and_verify(&with, vector->message);
}
