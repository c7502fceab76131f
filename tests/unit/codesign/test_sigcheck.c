/* The worker's own look at a signature, against keys that OpenSSL makes here. */
#include "testlib.h"

#include "api/codesign/internal.h"
#include "fips/fence.h"

#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

static uint8_t digest[SHA256_LEN] = { 1, 2, 3, 4 };

struct made {
    EVP_PKEY *key;
    unsigned char *spki;
    int spki_len;
};

static struct made make(const char *type, const char *curve)
{
    struct made made = { .key = curve != NULL              ? EVP_PKEY_Q_keygen(NULL, NULL, type, curve)
                                : strcmp(type, "RSA") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, type, (size_t)3072)
                                                           : EVP_PKEY_Q_keygen(NULL, NULL, type) };
    assert_non_null(made.key);
    made.spki_len = i2d_PUBKEY(made.key, &made.spki);
    assert_true(made.spki_len > 0);
    return made;
}

static void made_clear(struct made *made)
{
    EVP_PKEY_free(made->key);
    OPENSSL_free(made->spki);
}

static struct span spki_of(const struct made *made)
{
    return span_of(made->spki, (size_t)made->spki_len);
}

static size_t sign_with(const struct made *made, int padding, unsigned char out[SIGNATURE_MAX])
{
    size_t len = SIGNATURE_MAX;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(made->key, NULL);
    assert_int_equal(EVP_PKEY_sign_init(ctx), 1);
    assert_int_equal(EVP_PKEY_CTX_set_signature_md(ctx, EVP_sha256()), 1);
    if (padding != 0) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(ctx, padding), 1);
    }
    if (padding == RSA_PKCS1_PSS_PADDING) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    assert_int_equal(EVP_PKEY_sign(ctx, out, &len, digest, sizeof(digest)), 1);
    EVP_PKEY_CTX_free(ctx);
    return len;
}

static void assert_checks(const struct made *made, enum sign_scheme scheme, int padding, enum sign_scheme wrong)
{
    unsigned char signature[SIGNATURE_MAX];
    size_t len = sign_with(made, padding, signature);
    uint8_t other[SHA256_LEN] = { 1, 2, 3, 5 };
    struct span bytes = span_of(signature, len);
    assert_fault(codesign_signature_check(spki_of(made), scheme, HASH_SHA256, SPAN_ARRAY(other), bytes),
                 SIGNATURE_INVALID);
    assert_fault(
        codesign_signature_check(spki_of(made), scheme, HASH_SHA256, SPAN_ARRAY(digest), span_of(signature, len - 1)),
        SIGNATURE_INVALID);
    assert_fault(
        codesign_signature_check(spki_of(made), scheme, HASH_SHA256, SPAN_ARRAY(digest), span_of(signature, 0)),
        SIGNATURE_INVALID);
    if (wrong != SIGN_SCHEME_NONE) {
        assert_fault(codesign_signature_check(spki_of(made), wrong, HASH_SHA256, SPAN_ARRAY(digest), bytes),
                     SIGNATURE_INVALID);
    }
    signature[len / 2] ^= 1;
    assert_fault(codesign_signature_check(spki_of(made), scheme, HASH_SHA256, SPAN_ARRAY(digest), bytes),
                 SIGNATURE_INVALID);
    signature[len / 2] ^= 1;
    assert_fault(codesign_signature_check(spki_of(made), scheme, HASH_SHA256, SPAN_ARRAY(digest), bytes), NONE);
}

static void a_signature_of_another_key_or_no_key_is_refused(void **state)
{
    (void)state;
    CLEANUP(made_clear) struct made one = make("EC", "P-256");
    CLEANUP(made_clear) struct made two = make("EC", "P-256");
    unsigned char signature[SIGNATURE_MAX];
    struct span bytes = span_of(signature, sign_with(&one, 0, signature));
    assert_fault(codesign_signature_check(spki_of(&two), SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), bytes),
                 SIGNATURE_INVALID);
    assert_fault(codesign_signature_check(span_of("", 0), SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), bytes),
                 CRYPTO);
    assert_fault(codesign_signature_check(span_of(one.spki, (size_t)one.spki_len - 1), SIGN_SCHEME_ECDSA, HASH_SHA256,
                                          SPAN_ARRAY(digest), bytes),
                 CRYPTO);
}

static void ecdsa_on_both_curves(void **state)
{
    (void)state;
    CLEANUP(made_clear) struct made p256 = make("EC", "P-256");
    CLEANUP(made_clear) struct made p384 = make("EC", "P-384");
    assert_checks(&p256, SIGN_SCHEME_ECDSA, 0, SIGN_SCHEME_NONE);
    assert_checks(&p384, SIGN_SCHEME_ECDSA, 0, SIGN_SCHEME_NONE);
}

static void rsa_in_both_paddings_and_never_one_for_the_other(void **state)
{
    (void)state;
    CLEANUP(made_clear) struct made rsa = make("RSA", NULL);
    assert_checks(&rsa, SIGN_SCHEME_RSA_PKCS1, RSA_PKCS1_PADDING, SIGN_SCHEME_RSA_PSS);
    assert_checks(&rsa, SIGN_SCHEME_RSA_PSS, RSA_PKCS1_PSS_PADDING, SIGN_SCHEME_RSA_PKCS1);
}

static size_t sign_ml_dsa(const struct made *made, unsigned char out[SIGNATURE_MAX])
{
    size_t len = SIGNATURE_MAX;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit_ex(ctx, NULL, NULL, NULL, NULL, made->key, NULL), 1);
    assert_int_equal(EVP_DigestSign(ctx, out, &len, digest, sizeof(digest)), 1);
    EVP_MD_CTX_free(ctx);
    return len;
}

static void ml_dsa_behind_the_fence_only_and_for_its_own_scheme_only(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(256);
    CLEANUP(made_clear) struct made key = make("ML-DSA-65", NULL), other = make("ML-DSA-65", NULL);
    CLEANUP(made_clear) struct made ec = make("EC", "P-256");
    unsigned char signature[SIGNATURE_MAX];
    struct span bytes = span_of(signature, sign_ml_dsa(&key, signature)), asked = SPAN_ARRAY(digest);
    assert_fault(codesign_signature_check(spki_of(&key), SIGN_SCHEME_ML_DSA, HASH_SHA256, asked, bytes), PQC_DISABLED);
    assert_fault(fence_start(FENCE_OPEN, &why), NONE);
    assert_fault(codesign_signature_check(spki_of(&other), SIGN_SCHEME_ML_DSA, HASH_SHA256, asked, bytes),
                 SIGNATURE_INVALID);
    assert_fault(codesign_signature_check(spki_of(&ec), SIGN_SCHEME_ML_DSA, HASH_SHA256, asked, bytes), CRYPTO);
    assert_fault(codesign_signature_check(spki_of(&key), SIGN_SCHEME_ECDSA, HASH_SHA256, asked, bytes), CRYPTO);
    assert_fault(codesign_signature_check(spki_of(&key), SIGN_SCHEME_ML_DSA, HASH_SHA384, asked, bytes),
                 SIGNATURE_INVALID);
    assert_fault(codesign_signature_check(spki_of(&key), SIGN_SCHEME_ML_DSA, HASH_SHA256, asked, bytes), NONE);
    signature[3308] ^= 0x80;
    assert_fault(codesign_signature_check(spki_of(&key), SIGN_SCHEME_ML_DSA, HASH_SHA256, asked, bytes),
                 SIGNATURE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_of_another_key_or_no_key_is_refused),
        cmocka_unit_test(ecdsa_on_both_curves),
        cmocka_unit_test(rsa_in_both_paddings_and_never_one_for_the_other),
        cmocka_unit_test(ml_dsa_behind_the_fence_only_and_for_its_own_scheme_only),
    };
    return cmocka_run_group_tests_name("codesign_sigcheck", tests, NULL, NULL);
}
