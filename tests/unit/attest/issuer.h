/* An OIDC issuer for tests: keys made on the spot, their JWKS as others write it, and tokens with any header. */
#ifndef TESTS_UNIT_ATTEST_ISSUER_H
#define TESTS_UNIT_ATTEST_ISSUER_H

#include "testlib.h"

#include "api/attest/internal.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/file.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ISSUER_TEXT_MAX ((size_t)128 << 10)

static inline const char *issuer_keep(struct op *op, const struct buf *text)
{
    const char *kept = NULL;
    assert_fault(arena_text(op->arena, buf_span(text), &kept), NONE);
    return kept;
}

static inline void issuer_number(struct buf *out, const char *name, EVP_PKEY *key, const char *param, size_t width)
{
    BIGNUM *number = NULL;
    uint8_t bytes[1024];
    assert_int_equal(EVP_PKEY_get_bn_param(key, param, &number), 1);
    size_t len = width != 0 ? width : (size_t)BN_num_bytes(number);
    assert_int_equal(BN_bn2binpad(number, bytes, (int)len), len);
    assert_fault(buf_printf(out, ",\"%s\":\"", name), NONE);
    assert_fault(base64url_encode(span_of(bytes, len), out), NONE);
    assert_fault(buf_text(out, "\""), NONE);
    BN_free(number);
}

/* {"kid":...,"kty":...}, with `more` members before its end (",\"use\":\"sig\""). */
static inline const char *issuer_jwk(struct op *op, EVP_PKEY *key, const char *kid, const char *more)
{
    struct buf out = BUF_INIT(ISSUER_TEXT_MAX);
    bool rsa = EVP_PKEY_is_a(key, "RSA") == 1;
    char group[64] = "";
    size_t len = 0;
    assert_fault(buf_printf(&out, "{\"kty\":\"%s\"", rsa ? "RSA" : "EC"), NONE);
    if (kid != NULL) {
        assert_fault(buf_printf(&out, ",\"kid\":\"%s\"", kid), NONE);
    }
    if (rsa) {
        issuer_number(&out, "n", key, OSSL_PKEY_PARAM_RSA_N, 0);
        issuer_number(&out, "e", key, OSSL_PKEY_PARAM_RSA_E, 0);
    } else {
        assert_int_equal(EVP_PKEY_get_group_name(key, group, sizeof(group), &len), 1);
        bool small = strcmp(group, "prime256v1") == 0;
        size_t width = small ? 32 : strcmp(group, "secp384r1") == 0 ? 48 : 66;
        assert_fault(buf_printf(&out, ",\"crv\":\"%s\"", small ? "P-256" : width == 48 ? "P-384" : "P-521"), NONE);
        issuer_number(&out, "x", key, OSSL_PKEY_PARAM_EC_PUB_X, width);
        issuer_number(&out, "y", key, OSSL_PKEY_PARAM_EC_PUB_Y, width);
    }
    assert_fault(buf_printf(&out, "%s}", more), NONE);
    const char *kept = issuer_keep(op, &out);
    buf_free(&out);
    return kept;
}

static inline struct span issuer_hmac(struct op *op, struct span secret, struct span message)
{
    uint8_t mac[64];
    unsigned len = 0;
    struct span kept;
    assert_non_null(HMAC(EVP_sha256(), secret.at, (int)secret.len, message.at, message.len, mac, &len));
    assert_fault(arena_copy(op->arena, span_of(mac, len), &kept), NONE);
    return kept;
}

static inline struct span issuer_raw_ecdsa(struct op *op, struct span der, size_t width)
{
    const unsigned char *at = der.at;
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &at, (long)der.len);
    uint8_t raw[132];
    struct span kept;
    assert_non_null(sig);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, (int)width), width);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + width, (int)width), width);
    ECDSA_SIG_free(sig);
    assert_fault(arena_copy(op->arena, span_of(raw, 2 * width), &kept), NONE);
    return kept;
}

/* As `alg` would have it: its last three letters are the digest's size. */
static inline struct span issuer_sign(struct op *op, EVP_PKEY *key, const char *alg, struct span message)
{
    char digest[8];
    uint8_t der[1024];
    size_t len = sizeof(der);
    EVP_PKEY_CTX *options = NULL;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    struct span kept;
    (void)snprintf(digest, sizeof(digest), "SHA%s", alg + 2);
    assert_int_equal(EVP_DigestSignInit_ex(ctx, &options, digest, NULL, NULL, key, NULL), 1);
    if (alg[0] == 'P') {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    assert_int_equal(EVP_DigestSign(ctx, der, &len, message.at, message.len), 1);
    EVP_MD_CTX_free(ctx);
    if (EVP_PKEY_is_a(key, "EC") == 1) {
        return issuer_raw_ecdsa(op, span_of(der, len), (size_t)(EVP_PKEY_get_bits(key) + 7) / 8);
    }
    assert_fault(arena_copy(op->arena, span_of(der, len), &kept), NONE);
    return kept;
}

/* b64url(header).b64url(payload). */
static inline const char *issuer_input(struct op *op, const char *header, const char *payload)
{
    struct buf out = BUF_INIT(ISSUER_TEXT_MAX);
    assert_fault(base64url_encode(span_text(header), &out), NONE);
    assert_fault(buf_text(&out, "."), NONE);
    assert_fault(base64url_encode(span_text(payload), &out), NONE);
    const char *kept = issuer_keep(op, &out);
    buf_free(&out);
    return kept;
}

static inline const char *issuer_join(struct op *op, const char *input, struct span signature)
{
    struct buf out = BUF_INIT(ISSUER_TEXT_MAX);
    assert_fault(buf_printf(&out, "%s.", input), NONE);
    assert_fault(base64url_encode(signature, &out), NONE);
    const char *kept = issuer_keep(op, &out);
    buf_free(&out);
    return kept;
}

static inline const char *issuer_token(struct op *op, EVP_PKEY *key, const char *alg, const char *header,
                                       const char *payload)
{
    const char *input = issuer_input(op, header, payload);
    return issuer_join(op, input, issuer_sign(op, key, alg, span_text(input)));
}

/* A file in `folder`; its path. */
static inline const char *issuer_file(struct op *op, const char *folder, const char *name, const char *text)
{
    const char *path = NULL;
    assert_fault(arena_printf(op->arena, &path, "%s/%s", folder, name), NONE);
    assert_fault(file_write(path, span_text(text), 0600), NONE);
    return path;
}

#endif
