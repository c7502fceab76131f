/* Keys of logs: which there may be, what they are called, and their signatures. */
#include "api/transparency/verify_internal.h"

#include "appliance/base/crypto.h"

#include <openssl/core_names.h>
#include <openssl/err.h>

#define ED25519_LEN       32
#define NOTE_TYPE_ED25519 0x01

static EVP_PKEY *key_of(struct span spki)
{
    const unsigned char *at = spki.at;
    if (spki.len == 0 || spki.len > 4096) {
        return NULL;
    }
    EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    if (key != NULL && at != spki.at + spki.len) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    ERR_clear_error();
    return key;
}

static bool on_curve(const EVP_PKEY *key, const char *name)
{
    char group[64] = "";
    return EVP_PKEY_is_a(key, "EC") == 1 &&
           EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, group, sizeof(group), NULL) == 1 &&
           strcmp(group, name) == 0;
}

static const char *details_of(const EVP_PKEY *key)
{
    if (on_curve(key, "prime256v1")) {
        return "PKIX_ECDSA_P256_SHA_256";
    }
    if (on_curve(key, "secp384r1")) {
        return "PKIX_ECDSA_P384_SHA_384";
    }
    return EVP_PKEY_is_a(key, "ED25519") == 1 ? "PKIX_ED25519" : NULL;
}

struct fault tlog_key_check(struct span spki, const char **ret_details)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = key_of(spki);
    REQUIRE(key != NULL && details_of(key) != NULL, BAD_ARGUMENT);
    *ret_details = details_of(key);
    return OK;
}

struct fault tlog_key_id(struct span spki, struct sha256 *ret_id)
{
    return sha256_of(spki, ret_id);
}

/* C2SP signed-note: SHA-256(name, newline, type, key) for Ed25519; ECDSA keys are called by their SPKI. */
struct fault tlog_note_key_id(struct span spki, struct span origin, struct sha256 *ret_id)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = key_of(spki);
    unsigned char raw[ED25519_LEN];
    size_t len = sizeof(raw);
    REQUIRE(key != NULL, BAD_ARGUMENT);
    if (EVP_PKEY_is_a(key, "ED25519") != 1) {
        return tlog_key_id(spki, ret_id);
    }
    REQUIRE(EVP_PKEY_get_raw_public_key(key, raw, &len) == 1 && len == sizeof(raw), CRYPTO);
    static const uint8_t between[] = { '\n', NOTE_TYPE_ED25519 };
    const struct span parts[] = { origin, SPAN_ARRAY(between), SPAN_ARRAY(raw) };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_id);
}

static bool verifies(EVP_PKEY *key, const char *hash, struct span message, struct span signature)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx != NULL && EVP_DigestVerifyInit_ex(ctx, NULL, hash, crypto_context(), NULL, key, NULL) == 1 &&
                EVP_DigestVerify(ctx, signature.at, signature.len, message.at, message.len) == 1;
    ERR_clear_error();
    return good;
}

bool tlog_signature_good(struct span spki, struct span message, struct span signature)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = key_of(spki);
    if (key == NULL || details_of(key) == NULL || signature.len == 0) {
        return false;
    }
    if (EVP_PKEY_is_a(key, "ED25519") == 1) {
        return verifies(key, NULL, message, signature);
    }
    return verifies(key, "SHA256", message, signature) ||
           (on_curve(key, "secp384r1") && verifies(key, "SHA384", message, signature));
}
