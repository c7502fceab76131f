#include "signer-pkcs11/protocol/key.h"
#include "testlib.h"

static void unknown_texts_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "", "codesig", "codesignx", "CODESIGN", " codesign", "none", "ec-p521", "sha1"
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        enum key_purpose purpose = KEY_PURPOSE_COUNT;
        enum key_algorithm algorithm = KEY_ALGORITHM_COUNT;
        enum hash_algorithm hash = HASH_COUNT;
        assert_fault(key_purpose_parse(span_text(wrong[i]), &purpose), BAD_ARGUMENT);
        assert_fault(key_algorithm_parse(span_text(wrong[i]), &algorithm), BAD_ARGUMENT);
        assert_fault(hash_algorithm_parse(span_text(wrong[i]), &hash), BAD_ARGUMENT);
        assert_int_equal(purpose, KEY_PURPOSE_COUNT);
        assert_int_equal(algorithm, KEY_ALGORITHM_COUNT);
        assert_int_equal(hash, HASH_COUNT);
    }
}

static void values_outside_the_tables_have_no_text_and_no_size(void **state)
{
    (void)state;
    static const int outside[] = { 0, 99, -1 };
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        assert_string_equal(key_purpose_text((enum key_purpose)outside[i]), "");
        assert_string_equal(key_algorithm_text((enum key_algorithm)outside[i]), "");
        assert_string_equal(hash_algorithm_text((enum hash_algorithm)outside[i]), "");
        assert_int_equal(hash_size((enum hash_algorithm)outside[i]), 0);
        assert_int_equal(key_default_scheme((enum key_algorithm)outside[i]), SIGN_SCHEME_NONE);
    }
}

static void every_value_has_a_text_that_parses_back(void **state)
{
    (void)state;
    for (int i = 1; i < KEY_PURPOSE_COUNT; i++) {
        enum key_purpose back = KEY_PURPOSE_NONE;
        assert_fault(key_purpose_parse(span_text(key_purpose_text((enum key_purpose)i)), &back), NONE);
        assert_int_equal(back, i);
    }
    for (int i = 1; i < KEY_ALGORITHM_COUNT; i++) {
        enum key_algorithm back = KEY_ALGORITHM_NONE;
        assert_fault(key_algorithm_parse(span_text(key_algorithm_text((enum key_algorithm)i)), &back), NONE);
        assert_int_equal(back, i);
    }
    for (int i = 1; i < HASH_COUNT; i++) {
        enum hash_algorithm back = HASH_NONE;
        assert_fault(hash_algorithm_parse(span_text(hash_algorithm_text((enum hash_algorithm)i)), &back), NONE);
        assert_int_equal(back, i);
    }
}

/* They stand in token labels and on the wire: a change of one of these loses keys. */
static void the_numbers_and_texts_are_those_of_the_first_release(void **state)
{
    (void)state;
    assert_int_equal(KEY_PURPOSE_CODESIGN, 1);
    assert_int_equal(KEY_PURPOSE_TSA, 3);
    assert_int_equal(KEY_PURPOSE_SEAL, 13);
    assert_int_equal(KEY_PURPOSE_POST, 14);
    assert_int_equal(KEY_PURPOSE_KEY_SEAL, 15);
    assert_int_equal(KEY_PURPOSE_COUNT, 16);
    assert_string_equal(key_purpose_text(KEY_PURPOSE_CODESIGN_EPHEMERAL), "codesign-ephemeral");
    assert_string_equal(key_purpose_text(KEY_PURPOSE_AUDIT_EXPORT), "audit-export");
    assert_int_equal(KEY_ALGORITHM_EC_P256, 1);
    assert_int_equal(KEY_ALGORITHM_AES_256, 5);
    assert_int_equal(KEY_ALGORITHM_ML_DSA_65, 6);
    assert_string_equal(key_algorithm_text(KEY_ALGORITHM_RSA_3072), "rsa-3072");
    assert_string_equal(key_algorithm_text(KEY_ALGORITHM_ML_DSA_65), "ml-dsa-65");
    assert_int_equal(SIGN_SCHEME_ECDSA, 1);
    assert_int_equal(SIGN_SCHEME_RSA_PSS, 3);
    assert_int_equal(SIGN_SCHEME_ML_DSA, 4);
    assert_int_equal(HASH_SHA256, 1);
    assert_int_equal(hash_size(HASH_SHA256), 32);
    assert_int_equal(hash_size(HASH_SHA384), 48);
    assert_int_equal(hash_size(HASH_SHA512), 64);
}

static void schemes_follow_the_kind_of_key(void **state)
{
    (void)state;
    assert_int_equal(key_default_scheme(KEY_ALGORITHM_EC_P256), SIGN_SCHEME_ECDSA);
    assert_int_equal(key_default_scheme(KEY_ALGORITHM_EC_P384), SIGN_SCHEME_ECDSA);
    assert_int_equal(key_default_scheme(KEY_ALGORITHM_RSA_3072), SIGN_SCHEME_RSA_PKCS1);
    assert_int_equal(key_default_scheme(KEY_ALGORITHM_RSA_4096), SIGN_SCHEME_RSA_PKCS1);
    assert_int_equal(key_default_scheme(KEY_ALGORITHM_ML_DSA_65), SIGN_SCHEME_ML_DSA);
    assert_int_equal(key_default_scheme(KEY_ALGORITHM_AES_256), SIGN_SCHEME_NONE);
}

static void a_tokens_name_is_short_plain_and_never_empty(void **state)
{
    (void)state;
    static const char *const wrong[] = { "",    "Main",     "a b",
                                         "a/b", ".",        "a_b",
                                         "a\n", "\xc3\xa4", "0123456789abcdefghijklmno" };
    struct token_name name = { "before" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_fault(token_name_parse(span_text(wrong[i]), &name), BAD_ARGUMENT);
        assert_string_equal(name.text, "before");
    }
    assert_fault(token_name_parse(span_of((const uint8_t *)"a\0b", 3), &name), BAD_ARGUMENT);
    static const char *const right[] = { "a", "0", "-", "hsm-2", "0123456789abcdefghijklmn" };
    for (size_t i = 0; i < COUNT_OF(right); i++) {
        assert_fault(token_name_parse(span_text(right[i]), &name), NONE);
        assert_string_equal(name.text, right[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_texts_are_refused),
        cmocka_unit_test(values_outside_the_tables_have_no_text_and_no_size),
        cmocka_unit_test(every_value_has_a_text_that_parses_back),
        cmocka_unit_test(the_numbers_and_texts_are_those_of_the_first_release),
        cmocka_unit_test(schemes_follow_the_kind_of_key),
        cmocka_unit_test(a_tokens_name_is_short_plain_and_never_empty),
    };
    return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
