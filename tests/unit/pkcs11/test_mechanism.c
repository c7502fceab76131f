/* What a mechanism's parameter may say. */
#include "tests/testlib.h"

#include "api/pkcs11/mechanism.h"

static CK_RV read_pss(CK_MECHANISM_TYPE type, CK_MECHANISM_TYPE hash, CK_RSA_PKCS_MGF_TYPE mgf, CK_ULONG salt)
{
    CK_RSA_PKCS_PSS_PARAMS params = { hash, mgf, salt };
    const struct mechanism *mechanism = NULL;
    const struct hash *read = NULL;
    CK_RV rv = mechanism_read(&(CK_MECHANISM){ type, &params, sizeof(params) }, &mechanism, &read);
    assert_true(rv == CKR_OK ? read != NULL && read->mechanism == hash : read == NULL && mechanism == NULL);
    return rv;
}

static void nothing_and_the_unknown_are_refused(void **state)
{
    (void)state;
    const struct mechanism *mechanism = NULL;
    const struct hash *hash = NULL;
    assert_int_equal(mechanism_read(NULL, &mechanism, &hash), CKR_ARGUMENTS_BAD);
    static const CK_MECHANISM_TYPE unknown[] = { CKM_SHA1_RSA_PKCS, CKM_RSA_X_509, CKM_ECDSA_SHA1, CKM_AES_CBC, 0 };
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        assert_int_equal(mechanism_read(&(CK_MECHANISM){ unknown[i], NULL, 0 }, &mechanism, &hash),
                         CKR_MECHANISM_INVALID);
    }
}

static void a_parameter_where_none_belongs_is_refused(void **state)
{
    (void)state;
    uint8_t byte = 0;
    const struct mechanism *mechanism = NULL;
    const struct hash *hash = NULL;
    assert_int_equal(mechanism_read(&(CK_MECHANISM){ CKM_ECDSA, &byte, 1 }, &mechanism, &hash),
                     CKR_MECHANISM_PARAM_INVALID);
    assert_int_equal(mechanism_read(&(CK_MECHANISM){ CKM_SHA256_RSA_PKCS, &byte, 1 }, &mechanism, &hash),
                     CKR_MECHANISM_PARAM_INVALID);
}

static void pss_other_than_the_appliances_is_refused(void **state)
{
    (void)state;
    const struct mechanism *mechanism = NULL;
    const struct hash *hash = NULL;
    uint8_t bytes[64] = { 0 };
    assert_int_equal(mechanism_read(&(CK_MECHANISM){ CKM_RSA_PKCS_PSS, NULL, 0 }, &mechanism, &hash),
                     CKR_MECHANISM_PARAM_INVALID);
    assert_int_equal(
        mechanism_read(&(CK_MECHANISM){ CKM_RSA_PKCS_PSS, NULL, sizeof(CK_RSA_PKCS_PSS_PARAMS) }, &mechanism, &hash),
        CKR_MECHANISM_PARAM_INVALID);
    assert_int_equal(mechanism_read(&(CK_MECHANISM){ CKM_RSA_PKCS_PSS, bytes, sizeof(bytes) }, &mechanism, &hash),
                     CKR_MECHANISM_PARAM_INVALID);
    static const struct {
        CK_MECHANISM_TYPE type, hash;
        CK_RSA_PKCS_MGF_TYPE mgf;
        CK_ULONG salt;
    } bad[] = {
        { CKM_RSA_PKCS_PSS, CKM_SHA_1, CKG_MGF1_SHA1, 20 },
        { CKM_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA1, 32 },
        { CKM_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA384, 32 },
        { CKM_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA256, 0 },
        { CKM_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA256, 31 },
        { CKM_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA256, 222 },
        { CKM_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA256, (CK_ULONG)-1 },
        { CKM_SHA384_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA256, 32 },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(read_pss(bad[i].type, bad[i].hash, bad[i].mgf, bad[i].salt), CKR_MECHANISM_PARAM_INVALID);
    }
}

static void pss_as_the_appliance_does_it_is_taken(void **state)
{
    (void)state;
    assert_int_equal(read_pss(CKM_RSA_PKCS_PSS, CKM_SHA256, CKG_MGF1_SHA256, 32), CKR_OK);
    assert_int_equal(read_pss(CKM_RSA_PKCS_PSS, CKM_SHA512, CKG_MGF1_SHA512, 64), CKR_OK);
    assert_int_equal(read_pss(CKM_SHA384_RSA_PKCS_PSS, CKM_SHA384, CKG_MGF1_SHA384, 48), CKR_OK);
}

static void a_hash_is_settled_where_the_mechanism_says_it(void **state)
{
    (void)state;
    size_t count = 0;
    const struct mechanism *all = mechanism_all(&count);
    for (size_t i = 0; i < count; i++) {
        const struct mechanism *mechanism = NULL;
        const struct hash *hash = NULL;
        if (all[i].scheme == SCHEME_PSS) {
            continue;
        }
        assert_int_equal(mechanism_read(&(CK_MECHANISM){ all[i].type, NULL, 0 }, &mechanism, &hash), CKR_OK);
        assert_ptr_equal(mechanism, &all[i]);
        assert_int_equal(hash != NULL ? hash->mechanism : 0, all[i].hash);
        assert_int_equal(all[i].scheme == SCHEME_DIGEST, scheme_text(all[i].scheme) == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_and_the_unknown_are_refused),
        cmocka_unit_test(a_parameter_where_none_belongs_is_refused),
        cmocka_unit_test(pss_other_than_the_appliances_is_refused),
        cmocka_unit_test(pss_as_the_appliance_does_it_is_taken),
        cmocka_unit_test(a_hash_is_settled_where_the_mechanism_says_it),
    };
    return cmocka_run_group_tests_name("pkcs11_mechanism", tests, NULL, NULL);
}
