/* Where FIPS is required: a sealed key of earlier days is neither used nor believed, but can be destroyed. */
#include "tests/unit/token/softhsm.h"

#include "appliance/base/file.h"
#include "fips/fence.h"
#include "signer-pkcs11/sealed/internal.h"

static void fips_closes_the_fence_whatever_the_feature_says(void **state)
{
    (void)state;
    struct config config = { .fips_required = true, .features_pqc = true };
    assert_int_equal(fence_of(&config), FENCE_FIPS);
    config.features_pqc = false;
    assert_int_equal(fence_of(&config), FENCE_FIPS);
    config.fips_required = false;
    assert_int_equal(fence_of(&config), FENCE_OFF);
    config.features_pqc = true;
    assert_int_equal(fence_of(&config), FENCE_OPEN);
}

static void where_fips_is_required_only_destroying_is_left(void **state)
{
    (void)state;
    struct softhsm hsm = { 0 };
    CLEANUP(buf_free) struct buf why = BUF_INIT(256);
    CLEANUP(buf_free) struct buf out = BUF_INIT(8192);
    CLEANUP(op_freep) struct op *op = op_within(20000);
    CLEANUP(secret_freep) struct secret *pin = pin_of(SOFTHSM_PIN);
    struct token_settings settings;
    struct token *token = NULL;
    struct token_session *session = NULL;
    struct sealed_keys *keys = NULL;
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    char folder[96], path[320];
    size_t count = 0;
    const uint8_t digest[32] = { 1 };
    softhsm_new(&hsm);
    settings = softhsm_settings(SOFTHSM_MODULE, pin);
    (void)snprintf(folder, sizeof(folder), "%s/sealed", hsm.folder);
    assert_ok(fence_start(FENCE_FIPS, &why));
    assert_ok(token_open(&settings, NULL, &token));
    assert_ok(token_session_take(op, token, &session));
    assert_ok(sealed_keys_open(folder, NULL, &count, &keys));

    /* As an appliance left it that did not require FIPS; opening it is never tried. */
    uint8_t spki[ML_DSA_65_SPKI_LEN] = { 0x30, 0x82, 0x07, 0xb2, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48,
                                         0x01, 0x65, 0x03, 0x04, 0x03, 0x12, 0x03, 0x82, 0x07, 0xa1, 0x00 };
    const uint8_t blob[77] = { 1 };
    const struct sealed_record record = {
        .key = key, .algorithm = KEY_ALGORITHM_ML_DSA_65, .spki = SPAN_ARRAY(spki), .blob = SPAN_ARRAY(blob)
    };
    assert_ok(sealed_record_print(&record, &out));
    (void)snprintf(path, sizeof(path), "%s/acme.codesign.%s.key", folder, key.id.text);
    assert_ok(file_write(path, buf_span(&out), 0600));
    buf_clear(&out);

    struct key_ref other = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(sealed_generate(op, keys, session, &other, KEY_ALGORITHM_ML_DSA_65, &out), ALGORITHM_FENCED);
    assert_non_null(strstr(op->note.detail, "approved mode"));
    assert_fault(sealed_public_key(op, keys, session, &key, &algorithm, &out), ALGORITHM_FENCED);
    assert_fault(sealed_sign(op, keys, session, &key, SIGN_SCHEME_ML_DSA, HASH_SHA256, SPAN_ARRAY(digest), &out),
                 ALGORITHM_FENCED);
    assert_fault(
        sealed_verify(op, keys, session, &key, SIGN_SCHEME_ML_DSA, HASH_SHA256, SPAN_ARRAY(digest), SPAN_ARRAY(blob)),
        ALGORITHM_FENCED);
    assert_fault(ml_dsa_65_verify(op, SPAN_ARRAY(spki), SPAN_ARRAY(digest), SPAN_ARRAY(blob)), ALGORITHM_FENCED);
    assert_int_equal(out.len, 0);
    assert_true(sealed_has(keys, &key));
    assert_ok(sealed_destroy(op, keys, session, &key));
    assert_false(sealed_has(keys, &key));

    sealed_keys_close(keys);
    token_session_put(session);
    token_close(token);
    softhsm_free(&hsm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fips_closes_the_fence_whatever_the_feature_says),
        cmocka_unit_test(where_fips_is_required_only_destroying_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
