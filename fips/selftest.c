#include "fips/internal.h"

#include "appliance/base/crypto.h"
#include "appliance/base/secret.h"

#include <openssl/core_names.h>
#include <openssl/params.h>

#define KAT_BYTES_MAX 64

struct fault kat_digest_run(OSSL_LIB_CTX *libctx, const struct kat_digest *vector)
{
    uint8_t made[EVP_MAX_MD_SIZE];
    size_t len = sizeof(made);
    REQUIRE(EVP_Q_digest(libctx, vector->name, NULL, vector->message.at, vector->message.len, made, &len) == 1, CRYPTO);
    REQUIRE(secret_equal(span_of(made, len), vector->expected), FIPS_SELF_TEST);
    return OK;
}

struct fault kat_hmac_run(OSSL_LIB_CTX *libctx, const struct kat_digest *vector, struct span key)
{
    uint8_t made[EVP_MAX_MD_SIZE];
    size_t len = 0;
    REQUIRE(EVP_Q_mac(libctx, "HMAC", NULL, vector->name, NULL, key.at, key.len, vector->message.at,
                      vector->message.len, made, sizeof(made), &len) != NULL,
            CRYPTO);
    REQUIRE(secret_equal(span_of(made, len), vector->expected), FIPS_SELF_TEST);
    return OK;
}

static struct fault gcm_encrypt(const EVP_CIPHER *cipher, const struct kat_gcm *vector)
{
    CLEANUP(EVP_CIPHER_CTX_freep) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    uint8_t made[KAT_BYTES_MAX + EVP_MAX_BLOCK_LENGTH];
    uint8_t tag[16];
    int len = 0;
    int tail = 0;
    REQUIRE(ctx != NULL && EVP_EncryptInit_ex2(ctx, cipher, vector->key.at, vector->iv.at, NULL) == 1 &&
                EVP_EncryptUpdate(ctx, NULL, &len, vector->aad.at, (int)vector->aad.len) == 1 &&
                EVP_EncryptUpdate(ctx, made, &len, vector->plain.at, (int)vector->plain.len) == 1 &&
                EVP_EncryptFinal_ex(ctx, made + len, &tail) == 1 &&
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, sizeof(tag), tag) == 1,
            CRYPTO);
    REQUIRE(secret_equal(span_of(made, (size_t)(len + tail)), vector->cipher), FIPS_SELF_TEST);
    REQUIRE(secret_equal(SPAN_ARRAY(tag), vector->tag), FIPS_SELF_TEST);
    return OK;
}

/* *ret_authentic: did the tag fit? `flip` is xored into its first byte. */
static struct fault gcm_decrypt(const EVP_CIPHER *cipher, const struct kat_gcm *vector, uint8_t flip,
                                bool *ret_authentic)
{
    CLEANUP(EVP_CIPHER_CTX_freep) EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    uint8_t made[KAT_BYTES_MAX + EVP_MAX_BLOCK_LENGTH];
    uint8_t tag[16];
    int len = 0;
    int tail = 0;
    memcpy(tag, vector->tag.at, sizeof(tag));
    tag[0] ^= flip;
    REQUIRE(ctx != NULL && EVP_DecryptInit_ex2(ctx, cipher, vector->key.at, vector->iv.at, NULL) == 1 &&
                EVP_DecryptUpdate(ctx, NULL, &len, vector->aad.at, (int)vector->aad.len) == 1 &&
                EVP_DecryptUpdate(ctx, made, &len, vector->cipher.at, (int)vector->cipher.len) == 1 &&
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, sizeof(tag), tag) == 1,
            CRYPTO);
    bool authentic = EVP_DecryptFinal_ex(ctx, made + len, &tail) == 1;
    REQUIRE(!authentic || secret_equal(span_of(made, (size_t)(len + tail)), vector->plain), FIPS_SELF_TEST);
    *ret_authentic = authentic;
    return OK;
}

struct fault kat_gcm_run(OSSL_LIB_CTX *libctx, const struct kat_gcm *vector)
{
    BUG_IF(vector->plain.len > KAT_BYTES_MAX || vector->cipher.len > KAT_BYTES_MAX || vector->tag.len != 16);
    CLEANUP(EVP_CIPHER_freep) EVP_CIPHER *cipher = EVP_CIPHER_fetch(libctx, "AES-256-GCM", NULL);
    REQUIRE(cipher != NULL, CRYPTO);
    TRY(gcm_encrypt(cipher, vector));
    bool authentic = false;
    TRY(gcm_decrypt(cipher, vector, 0, &authentic));
    REQUIRE(authentic, FIPS_SELF_TEST);
    TRY(gcm_decrypt(cipher, vector, 1, &authentic));
    REQUIRE(!authentic, FIPS_SELF_TEST);
    return OK;
}

static struct fault run_all(OSSL_LIB_CTX *libctx, const struct kat_vectors *vectors, const char **ret_name)
{
    for (size_t i = 0; i < COUNT_OF(vectors->digests); i++) {
        *ret_name = vectors->digests[i].name;
        TRY(kat_digest_run(libctx, &vectors->digests[i]));
    }
    *ret_name = "HMAC-SHA-256";
    TRY(kat_hmac_run(libctx, &vectors->hmac, vectors->hmac_key));
    *ret_name = "AES-256-GCM";
    TRY(kat_gcm_run(libctx, &vectors->gcm));
    for (size_t i = 0; i < COUNT_OF(vectors->ecdsa); i++) {
        *ret_name = vectors->ecdsa[i].group;
        TRY(kat_ecdsa_run(libctx, &vectors->ecdsa[i]));
    }
    *ret_name = "RSA-3072";
    return kat_rsa_run(libctx, &vectors->rsa);
}

struct fault kat_run(OSSL_LIB_CTX *libctx, const struct kat_vectors *vectors, struct buf *detail)
{
    const char *name = "";
    struct fault fault = run_all(libctx, vectors, &name);
    if (!FAULTED(fault)) {
        return OK;
    }
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
    TRY(buf_printf(detail,
                   "known-answer test failed: %s%s%s; do not use this machine's cryptography, reinstall OpenSSL", name,
                   reason[0] != '\0' ? ": " : "", reason));
    return FAULT(FIPS_SELF_TEST);
}
