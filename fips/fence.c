#include "fips/fence.h"

#include "appliance/base/crypto.h"
#include "fips/internal.h"

#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/provider.h>

DEFINE_FREEP(OSSL_LIB_CTX, OSSL_LIB_CTX_free)

/* SubjectPublicKeyInfo up to the 1952 bytes of the key (RFC 9881): SEQUENCE, id-ml-dsa-65 without parameters, BIT
 * STRING without unused bits. There is no other DER of it. */
static const uint8_t spki_head[] = { 0x30, 0x82, 0x07, 0xb2, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48,
                                     0x01, 0x65, 0x03, 0x04, 0x03, 0x12, 0x03, 0x82, 0x07, 0xa1, 0x00 };

/* Written by fence_start, before threads. */
static struct {
    bool started;
    enum fence fence;
    OSSL_LIB_CTX *libctx; /* of FENCE_OPEN; lives as long as the process */
} state;

enum fence fence_of(const struct config *config)
{
    if (config->fips_required) {
        return FENCE_FIPS;
    }
    return config->features_pqc ? FENCE_OPEN : FENCE_OFF;
}

struct fault fence_check(struct op *op)
{
    if (state.fence == FENCE_FIPS) {
        return op_fail(op, FAULT(ALGORITHM_FENCED),
                       "ml-dsa-65 is outside approved mode, and this appliance requires FIPS (fips.required): use "
                       "ec-p256, ec-p384 or rsa-3072; verify such a signature offline with svc-cli or openssl");
    }
    if (state.fence != FENCE_OPEN || state.libctx == NULL) {
        return op_fail(op, FAULT(PQC_DISABLED),
                       "ml-dsa-65 is switched off here: set features.pqc in the configuration and restart; verify "
                       "such a signature offline with svc-cli or openssl");
    }
    return OK;
}

bool ml_dsa_65_is_spki(struct span spki)
{
    return spki.len == ML_DSA_65_SPKI_LEN && memcmp(spki.at, spki_head, sizeof(spki_head)) == 0;
}

/* ---- keys ---- */

static struct fault key_of(struct op *op, OSSL_LIB_CTX *libctx, const char *part, struct span bytes, EVP_PKEY **ret_key)
{
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(libctx, "ML-DSA-65", NULL);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    int selection = strcmp(part, OSSL_PKEY_PARAM_PUB_KEY) == 0 ? EVP_PKEY_PUBLIC_KEY : EVP_PKEY_KEYPAIR;
    OSSL_PARAM params[] = { OSSL_PARAM_construct_octet_string(part, (void *)(uintptr_t)bytes.at, bytes.len),
                            OSSL_PARAM_construct_end() };
    if (ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 || EVP_PKEY_fromdata(ctx, &key, selection, params) != 1) {
        return crypto_fail(op, "the ML-DSA key cannot be used");
    }
    *ret_key = TAKE(key);
    return OK;
}

static struct fault private_key(struct op *op, OSSL_LIB_CTX *libctx, struct span seed, EVP_PKEY **ret_key)
{
    REQUIRE(seed.len == ML_DSA_65_SEED_LEN, BAD_ARGUMENT);
    return key_of(op, libctx, OSSL_PKEY_PARAM_ML_DSA_SEED, seed, ret_key);
}

static struct fault spki_of(struct op *op, const EVP_PKEY *key, uint8_t out[ML_DSA_65_SPKI_LEN])
{
    size_t len = 0, room = ML_DSA_65_SPKI_LEN - sizeof(spki_head);
    memcpy(out, spki_head, sizeof(spki_head));
    if (EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_PUB_KEY, out + sizeof(spki_head), room, &len) != 1 ||
        len != room) {
        return crypto_fail(op, "the ML-DSA key shows no public half");
    }
    return OK;
}

static struct fault public_of(struct op *op, OSSL_LIB_CTX *libctx, struct span seed, uint8_t out[ML_DSA_65_SPKI_LEN])
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    TRY(private_key(op, libctx, seed, &key));
    return spki_of(op, key, out);
}

/* ---- signatures ---- */

enum hedge { HEDGED, DETERMINISTIC };

static struct fault sign_with(struct op *op, OSSL_LIB_CTX *libctx, EVP_PKEY *key, enum hedge hedge, struct span message,
                              uint8_t out[ML_DSA_65_SIGNATURE_LEN])
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int deterministic = hedge == DETERMINISTIC;
    const OSSL_PARAM params[] = { OSSL_PARAM_construct_int(OSSL_SIGNATURE_PARAM_DETERMINISTIC, &deterministic),
                                  OSSL_PARAM_construct_end() };
    size_t len = ML_DSA_65_SIGNATURE_LEN;
    if (ctx == NULL || EVP_DigestSignInit_ex(ctx, NULL, NULL, libctx, NULL, key, params) != 1 ||
        EVP_DigestSign(ctx, out, &len, message.at, message.len) != 1 || len != ML_DSA_65_SIGNATURE_LEN) {
        return crypto_fail(op, "the ML-DSA key does not sign");
    }
    return OK;
}

static struct fault verify_with(struct op *op, OSSL_LIB_CTX *libctx, struct span spki, struct span message,
                                struct span signature)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (!ml_dsa_65_is_spki(spki)) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the public key is not PKIX DER of an ML-DSA-65 key");
    }
    struct span bytes = span_of(spki.at + sizeof(spki_head), spki.len - sizeof(spki_head));
    TRY(key_of(op, libctx, OSSL_PKEY_PARAM_PUB_KEY, bytes, &key));
    if (ctx == NULL || EVP_DigestVerifyInit_ex(ctx, NULL, NULL, libctx, NULL, key, NULL) != 1) {
        return crypto_fail(op, "the ML-DSA key does not verify");
    }
    if (signature.len != ML_DSA_65_SIGNATURE_LEN ||
        EVP_DigestVerify(ctx, signature.at, signature.len, message.at, message.len) != 1) {
        IGNORE(crypto_fail(NULL, "signature"));
        return op_fail(op, FAULT(SIGNATURE_INVALID), "the signature does not belong to this digest and key");
    }
    return OK;
}

struct fault ml_dsa_65_public(struct op *op, struct span seed, struct buf *spki)
{
    uint8_t made[ML_DSA_65_SPKI_LEN];
    TRY(fence_check(op));
    TRY(public_of(op, state.libctx, seed, made));
    return buf_put(spki, SPAN_ARRAY(made));
}

struct fault ml_dsa_65_sign(struct op *op, struct span seed, struct span spki, struct span message,
                            struct buf *signature)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    uint8_t public[ML_DSA_65_SPKI_LEN], made[ML_DSA_65_SIGNATURE_LEN];
    TRY(fence_check(op));
    TRY(private_key(op, state.libctx, seed, &key));
    TRY(spki_of(op, key, public));
    if (!span_equal(SPAN_ARRAY(public), spki)) {
        return op_fail(op, FAULT(CRYPTO), "the private and the public half of the ML-DSA key do not belong together");
    }
    TRY(sign_with(op, state.libctx, key, HEDGED, message, made));
    return buf_put(signature, SPAN_ARRAY(made));
}

struct fault ml_dsa_65_verify(struct op *op, struct span spki, struct span message, struct span signature)
{
    TRY(fence_check(op));
    return verify_with(op, state.libctx, spki, message, signature);
}

/* ---- known answers ---- */

static struct fault accepts(OSSL_LIB_CTX *libctx, struct span spki, struct span message, struct span signature,
                            bool *ret_accepts)
{
    struct fault fault = verify_with(NULL, libctx, spki, message, signature);
    *ret_accepts = !FAULTED(fault);
    return fault.code == FAULT_SIGNATURE_INVALID ? OK : fault;
}

/* The key, accepted under the right message and refused under another, and with one bit changed. */
static struct fault judge(OSSL_LIB_CTX *libctx, struct span spki, struct span message, uint8_t *signature)
{
    bool right = false, other = true, spoilt = true;
    struct span shown = span_of(signature, ML_DSA_65_SIGNATURE_LEN);
    TRY(accepts(libctx, spki, message, shown, &right));
    TRY(accepts(libctx, spki, span_text("another message"), shown, &other));
    signature[0] ^= 1;
    TRY(accepts(libctx, spki, message, shown, &spoilt));
    REQUIRE(right && !other && !spoilt, FIPS_SELF_TEST);
    return OK;
}

static struct fault digest_is(struct span bytes, const uint8_t expected[SHA256_LEN])
{
    struct sha256 digest;
    TRY(sha256_of(bytes, &digest));
    REQUIRE(memcmp(digest.at, expected, SHA256_LEN) == 0, FIPS_SELF_TEST);
    return OK;
}

struct fault kat_ml_dsa_run(OSSL_LIB_CTX *libctx, const struct kat_ml_dsa *vector)
{
    uint8_t spki[ML_DSA_65_SPKI_LEN], signature[ML_DSA_65_SIGNATURE_LEN];
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    TRY(private_key(NULL, libctx, vector->seed, &key));
    TRY(spki_of(NULL, key, spki));
    TRY(digest_is(SPAN_ARRAY(spki), vector->spki_sha256));
    TRY(sign_with(NULL, libctx, key, DETERMINISTIC, vector->message, signature));
    TRY(digest_is(SPAN_ARRAY(signature), vector->signature_sha256));
    TRY(judge(libctx, SPAN_ARRAY(spki), vector->message, signature));
    TRY(sign_with(NULL, libctx, key, HEDGED, vector->message, signature));
    return judge(libctx, SPAN_ARRAY(spki), vector->message, signature);
}

/* ---- start ---- */

static struct fault open_fence(OSSL_LIB_CTX **ret_libctx, struct buf *detail)
{
    CLEANUP(OSSL_LIB_CTX_freep) OSSL_LIB_CTX *libctx = OSSL_LIB_CTX_new();
    char reason[256];
    REQUIRE(libctx != NULL, NO_MEMORY);
    if (OSSL_PROVIDER_load(libctx, "default") == NULL) {
        crypto_last_error(reason, sizeof(reason));
        TRY(buf_printf(detail, "OpenSSL's provider default does not load for ML-DSA: %s", reason));
        return FAULT(CRYPTO);
    }
    struct fault fault = kat_ml_dsa_run(libctx, &kat_ml_dsa);
    if (FAULTED(fault)) {
        crypto_last_error(reason, sizeof(reason));
        TRY(buf_printf(detail,
                       "known-answer test failed: ML-DSA-65%s%s; switch features.pqc off, or reinstall OpenSSL (3.5 or "
                       "newer)",
                       reason[0] != '\0' ? ": " : "", reason));
        return FAULT(FIPS_SELF_TEST);
    }
    *ret_libctx = TAKE(libctx);
    return OK;
}

struct fault fence_start(enum fence fence, struct buf *detail)
{
    BUG_IF(detail == NULL);
    BUG_IF(state.started);
    state.started = true;
    state.fence = fence;
    return fence == FENCE_OPEN ? open_fence(&state.libctx, detail) : OK;
}
