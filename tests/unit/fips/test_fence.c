/* The self-test of what is fenced off: a spoilt vector, or an algorithm that is not there, is found. */
#include "testlib.h"

#include "fips/fence.h"
#include "fips/internal.h"

#include <openssl/crypto.h>
#include <openssl/provider.h>

static OSSL_PROVIDER *loaded;

static OSSL_LIB_CTX *context_with(const char *provider)
{
    OSSL_LIB_CTX *libctx = OSSL_LIB_CTX_new();
    assert_non_null(libctx);
    loaded = OSSL_PROVIDER_load(libctx, provider);
    assert_non_null(loaded);
    return libctx;
}

static void context_free(OSSL_LIB_CTX *libctx)
{
    (void)OSSL_PROVIDER_unload(loaded);
    OSSL_LIB_CTX_free(libctx);
}

static void a_context_without_the_algorithm_fails_the_self_test(void **state)
{
    (void)state;
    OSSL_LIB_CTX *libctx = context_with("null");
    assert_fault(kat_ml_dsa_run(libctx, &kat_ml_dsa), CRYPTO);
    context_free(libctx);
}

static void another_public_key_or_signature_than_the_known_one_fails_the_self_test(void **state)
{
    (void)state;
    OSSL_LIB_CTX *libctx = context_with("default");
    struct kat_ml_dsa spoilt = kat_ml_dsa;
    spoilt.spki_sha256[31] ^= 1;
    assert_fault(kat_ml_dsa_run(libctx, &spoilt), FIPS_SELF_TEST);
    spoilt = kat_ml_dsa;
    spoilt.signature_sha256[0] ^= 1;
    assert_fault(kat_ml_dsa_run(libctx, &spoilt), FIPS_SELF_TEST);
    uint8_t seed[ML_DSA_65_SEED_LEN];
    memcpy(seed, kat_ml_dsa.seed.at, sizeof(seed));
    seed[5] ^= 1;
    spoilt = kat_ml_dsa;
    spoilt.seed = SPAN_ARRAY(seed);
    assert_fault(kat_ml_dsa_run(libctx, &spoilt), FIPS_SELF_TEST);
    assert_fault(kat_ml_dsa_run(libctx, &kat_ml_dsa), NONE);
    context_free(libctx);
}

static void nothing_is_fetched_before_the_fence_is_opened(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(8192);
    assert_fault(fence_check(NULL), PQC_DISABLED);
    assert_fault(ml_dsa_65_public(NULL, kat_ml_dsa.seed, &out), PQC_DISABLED);
    assert_int_equal(out.len, 0);
}

static void an_open_fence_signs_and_refuses_what_does_not_belong_together(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(256);
    CLEANUP(buf_free) struct buf spki = BUF_INIT(8192);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(8192);
    const struct span message = span_text("message");
    assert_fault(fence_start(FENCE_OPEN, &why), NONE);
    assert_fault(ml_dsa_65_public(NULL, span_of("short", 5), &spki), BAD_ARGUMENT);
    assert_fault(ml_dsa_65_public(NULL, kat_ml_dsa.seed, &spki), NONE);
    assert_true(ml_dsa_65_is_spki(buf_span(&spki)));
    assert_false(ml_dsa_65_is_spki(span_of(spki.at, spki.len - 1)));
    assert_false(ml_dsa_65_is_spki(span_of("", 0)));
    assert_fault(ml_dsa_65_sign(NULL, kat_ml_dsa.seed, buf_span(&spki), message, &signature), NONE);
    assert_fault(ml_dsa_65_verify(NULL, buf_span(&spki), message, buf_span(&signature)), NONE);
    assert_fault(ml_dsa_65_verify(NULL, buf_span(&spki), span_text("messagf"), buf_span(&signature)),
                 SIGNATURE_INVALID);
    assert_fault(ml_dsa_65_verify(NULL, span_text("no key"), message, buf_span(&signature)), BAD_ARGUMENT);
    spki.at[spki.len - 1] ^= 1;
    size_t before = signature.len;
    assert_fault(ml_dsa_65_sign(NULL, kat_ml_dsa.seed, buf_span(&spki), message, &signature), CRYPTO);
    assert_int_equal(signature.len, before);
    assert_fault(ml_dsa_65_verify(NULL, buf_span(&spki), message, buf_span(&signature)), SIGNATURE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_without_the_algorithm_fails_the_self_test),
        cmocka_unit_test(another_public_key_or_signature_than_the_known_one_fails_the_self_test),
        cmocka_unit_test(nothing_is_fetched_before_the_fence_is_opened),
        cmocka_unit_test(an_open_fence_signs_and_refuses_what_does_not_belong_together), /* last: it stays open */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
