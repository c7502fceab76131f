/* From the appliance's descriptions of keys to objects, and their handles. */
#include "tests/testlib.h"

#include "api/pkcs11/der_fields.h"
#include "api/pkcs11/keyring.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#include <openssl/ec.h>
#include <openssl/rsa.h>

#define ID_1 "01234567-89ab-8cde-8f01-23456789abcd"
#define ID_2 "11234567-89ab-8cde-8f01-23456789abcd"

static EVP_PKEY *ec, *ec384, *rsa, *ed;

static int set_up(void **state)
{
    (void)state;
    ec = EVP_EC_gen("P-256");
    ec384 = EVP_EC_gen("P-384");
    rsa = EVP_RSA_gen(2048);
    ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    return ec != NULL && ec384 != NULL && rsa != NULL && ed != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    EVP_PKEY_free(ec);
    EVP_PKEY_free(ec384);
    EVP_PKEY_free(rsa);
    EVP_PKEY_free(ed);
    return 0;
}

static struct op *op_made(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 10000, &op), NONE);
    return op;
}

static struct span spki_made(struct op *op, EVP_PKEY *pkey)
{
    unsigned char *der = NULL;
    struct span copy = { 0 };
    int len = i2d_PUBKEY(pkey, &der);
    assert_true(len > 0);
    assert_fault(arena_copy(op->arena, span_of(der, (size_t)len), &copy), NONE);
    OPENSSL_free(der);
    return copy;
}

static struct span certificate_made(struct op *op, const char *name, EVP_PKEY *pkey)
{
    unsigned char *der = NULL;
    struct span copy = { 0 };
    CLEANUP(X509_freep) X509 *made = X509_new();
    assert_int_equal(X509_set_version(made, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(made), 1), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(made), 0));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(made), 60));
    X509_NAME *subject = X509_get_subject_name(made);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC, (const unsigned char *)"Org", -1, -1, 0),
                     1);
    if (name != NULL) {
        assert_int_equal(
            X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0), 1);
    }
    assert_int_equal(X509_set_pubkey(made, pkey), 1);
    assert_int_not_equal(X509_sign(made, ec, EVP_sha256()), 0);
    int len = i2d_X509(made, &der);
    assert_fault(arena_copy(op->arena, span_of(der, (size_t)len), &copy), NONE);
    OPENSSL_free(der);
    return copy;
}

static struct view described(struct op *op, const char *id, const char *name, struct span spki,
                             const struct span *chain, size_t chain_count)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
    struct jout jout;
    struct view view;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", id);
    jout_key_text(&jout, "name", name);
    jout_key_base64(&jout, "public_key_der", spki);
    jout_key(&jout, "certificate_chain");
    jout_array(&jout);
    for (size_t i = 0; i < chain_count; i++) {
        jout_base64(&jout, chain[i]);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    assert_fault(jout_end(&jout), NONE);
    assert_fault(view_of(op, buf_span(&json), &view), NONE);
    return view;
}

static struct keyring *keyring_made(void)
{
    struct keyring *keyring = NULL;
    assert_fault(keyring_new(&keyring), NONE);
    return keyring;
}

#define OP      CLEANUP(op_freep) struct op *op = op_made()
#define KEYRING CLEANUP(keyring_unrefp) struct keyring *keyring = keyring_made()

static CK_ULONG ulong_of(const struct object *object, CK_ATTRIBUTE_TYPE type)
{
    CK_ULONG value = 0;
    CK_ATTRIBUTE wanted = { type, &value, sizeof(value) };
    assert_int_equal(attributes_get(&object->attributes, &wanted, 1), CKR_OK);
    assert_int_equal(wanted.ulValueLen, sizeof(value));
    return value;
}

static bool has_bytes(const struct object *object, CK_ATTRIBUTE_TYPE type, struct span bytes)
{
    return attributes_match(&object->attributes, &(CK_ATTRIBUTE){ type, (void *)bytes.at, bytes.len }, 1);
}

static void what_describes_no_key_adds_nothing(void **state)
{
    (void)state;
    OP;
    KEYRING;
    struct view view;
    static const char *const bad[] = {
        "{}",
        "[]",
        "7",
        "{\"key_id\":\"" ID_1 "\",\"name\":\"n\"}",
        "{\"key_id\":\"" ID_1 "\",\"name\":\"n\",\"public_key_der\":\"?\"}",
        "{\"key_id\":\"" ID_1 "\",\"name\":\"n\",\"public_key_der\":\"MAA=\"}",
        "{\"key_id\":\"" ID_1 "\",\"public_key_der\":\"MAA=\"}",
        "{\"key_id\":\"x\",\"name\":\"n\",\"public_key_der\":\"MAA=\"}",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(view_of(op, span_text(bad[i]), &view), NONE);
        assert_true(FAULTED(keyring_add(keyring, op, view)));
        assert_int_equal(keyring_count(keyring), 0);
    }
    assert_fault(keyring_add(keyring, op, described(op, ID_1, "ed", spki_made(op, ed), NULL, 0)), BAD_ARGUMENT);
    assert_int_equal(keyring_count(keyring), 0);
}

static void truncated_der_is_refused_everywhere(void **state)
{
    (void)state;
    OP;
    struct public_fields public_fields;
    struct certificate_fields certificate_fields;
    struct span keys[] = { spki_made(op, ec), spki_made(op, rsa) };
    struct span certificate = certificate_made(op, "leaf", rsa);
    for (size_t k = 0; k < COUNT_OF(keys); k++) {
        for (size_t len = 0; len < keys[k].len; len++) {
            assert_fault(public_fields_read(span_of(keys[k].at, len), &public_fields), BAD_ARGUMENT);
        }
        assert_fault(public_fields_read(keys[k], &public_fields), NONE);
    }
    for (size_t len = 0; len < certificate.len; len++) {
        assert_fault(certificate_fields_read(span_of(certificate.at, len), &certificate_fields), BAD_ARGUMENT);
    }
    assert_fault(certificate_fields_read(certificate, &certificate_fields), NONE);
}

static void a_certificate_that_cannot_be_read_is_left_out(void **state)
{
    (void)state;
    OP;
    KEYRING;
    struct span chain[] = { span_text("no certificate"), certificate_made(op, "ca", ec384) };
    assert_fault(keyring_add(keyring, op, described(op, ID_1, "k", spki_made(op, ec), chain, 2)), NONE);
    assert_int_equal(keyring_count(keyring), 3);
}

static void an_ec_key_has_its_curve_and_point(void **state)
{
    (void)state;
    static const uint8_t p384[] = { 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22 };
    static const uint8_t id[16] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x8c, 0xde,
                                    0x8f, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd };
    OP;
    KEYRING;
    struct span spki = spki_made(op, ec384);
    assert_fault(keyring_add(keyring, op, described(op, ID_1, "release", spki, NULL, 0)), NONE);
    assert_int_equal(keyring_count(keyring), 2);
    CLEANUP(buf_free) struct buf point = BUF_INIT(256);
    assert_fault(buf_put(&point, span_of("\x04\x61", 2)), NONE);
    assert_fault(buf_put(&point, span_of(spki.at + spki.len - 97, 97)), NONE);
    for (size_t i = 0; i < 2; i++) {
        const struct object *object = keyring_at(keyring, i);
        assert_int_equal(ulong_of(object, CKA_KEY_TYPE), CKK_EC);
        assert_true(has_bytes(object, CKA_EC_PARAMS, SPAN_ARRAY(p384)));
        assert_true(has_bytes(object, CKA_EC_POINT, buf_span(&point)));
        assert_true(has_bytes(object, CKA_ID, SPAN_ARRAY(id)));
        assert_true(has_bytes(object, CKA_LABEL, span_text("release")));
        assert_true(has_bytes(object, CKA_PUBLIC_KEY_INFO, spki));
        assert_int_equal(object->key->signature_len, 96);
    }
    CK_ATTRIBUTE secret = { CKA_VALUE, NULL, 0 };
    assert_int_equal(attributes_get(&keyring_at(keyring, 0)->attributes, &secret, 1), CKR_ATTRIBUTE_SENSITIVE);
}

static void an_rsa_key_has_its_modulus(void **state)
{
    (void)state;
    OP;
    KEYRING;
    uint8_t modulus[256];
    CLEANUP(BN_freep) BIGNUM *n = NULL;
    assert_int_equal(EVP_PKEY_get_bn_param(rsa, "n", &n), 1);
    assert_int_equal(BN_bn2binpad(n, modulus, sizeof(modulus)), sizeof(modulus));
    assert_fault(keyring_add(keyring, op, described(op, ID_1, "r", spki_made(op, rsa), NULL, 0)), NONE);
    const struct object *object = keyring_at(keyring, 1);
    assert_int_equal(ulong_of(object, CKA_KEY_TYPE), CKK_RSA);
    assert_int_equal(ulong_of(object, CKA_MODULUS_BITS), 2048);
    assert_true(has_bytes(object, CKA_MODULUS, SPAN_ARRAY(modulus)));
    assert_true(has_bytes(object, CKA_PUBLIC_EXPONENT, span_of("\1\0\1", 3)));
    assert_int_equal(object->key->signature_len, 256);
}

static void a_leaf_is_found_by_its_key_and_an_authority_by_its_name(void **state)
{
    (void)state;
    OP;
    KEYRING;
    struct span chain[] = { certificate_made(op, "leaf", ec), certificate_made(op, "The CA", ec384),
                            certificate_made(op, NULL, rsa) };
    struct certificate_fields leaf;
    assert_fault(keyring_add(keyring, op, described(op, ID_1, "release", spki_made(op, ec), chain, 3)), NONE);
    assert_int_equal(keyring_count(keyring), 5);
    assert_fault(certificate_fields_read(chain[0], &leaf), NONE);
    assert_true(has_bytes(keyring_at(keyring, 0), CKA_SUBJECT, leaf.subject)); /* the private key's, too */
    const struct object *certificates[] = { keyring_at(keyring, 2), keyring_at(keyring, 3), keyring_at(keyring, 4) };
    assert_true(has_bytes(certificates[0], CKA_LABEL, span_text("release")));
    assert_true(has_bytes(certificates[0], CKA_SUBJECT, leaf.subject));
    assert_true(has_bytes(certificates[1], CKA_LABEL, span_text("The CA")));
    assert_true(has_bytes(certificates[2], CKA_LABEL, span_text("certificate authority")));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ulong_of(certificates[i], CKA_CERTIFICATE_TYPE), CKC_X_509);
        assert_true(has_bytes(certificates[i], CKA_VALUE, chain[i]));
        assert_true(has_bytes(certificates[i], CKA_TRUSTED, span_of("\0", 1)));
        assert_null(certificates[i]->key);
    }
}

static void an_authority_of_two_chains_is_one_object(void **state)
{
    (void)state;
    OP;
    KEYRING;
    struct span ca = certificate_made(op, "The CA", ec384);
    struct span first[] = { certificate_made(op, "a", ec), ca }, second[] = { certificate_made(op, "b", rsa), ca };
    assert_fault(keyring_add(keyring, op, described(op, ID_1, "a", spki_made(op, ec), first, 2)), NONE);
    assert_fault(keyring_add(keyring, op, described(op, ID_2, "b", spki_made(op, rsa), second, 2)), NONE);
    assert_int_equal(keyring_count(keyring), 4 + 3);
}

static void handles_stay_while_keys_come_and_go(void **state)
{
    (void)state;
    OP;
    struct handles handles = { 0 };
    CLEANUP(keyring_unrefp) struct keyring *first = keyring_made();
    CLEANUP(keyring_unrefp) struct keyring *second = keyring_made();
    CLEANUP(keyring_unrefp) struct keyring *third = keyring_made();
    struct view a = described(op, ID_1, "a", spki_made(op, ec), NULL, 0);
    struct view b = described(op, ID_2, "b", spki_made(op, rsa), NULL, 0);
    assert_fault(keyring_add(first, op, a), NONE);
    assert_fault(handles_give(&handles, first), NONE);
    CK_OBJECT_HANDLE of_a = keyring_at(first, 0)->handle;
    assert_int_not_equal(of_a, 0);
    assert_fault(keyring_add(second, op, b), NONE);
    assert_fault(handles_give(&handles, second), NONE);
    assert_null(keyring_find(second, of_a)); /* gone, and its handle is not another's */
    assert_fault(keyring_add(third, op, b), NONE);
    assert_fault(keyring_add(third, op, a), NONE);
    assert_fault(handles_give(&handles, third), NONE);
    assert_string_equal(keyring_find(third, of_a)->key->name, "a");
    assert_string_equal(keyring_find(third, keyring_at(second, 0)->handle)->key->name, "b");
    assert_null(keyring_find(third, 0));
    assert_null(keyring_find(third, 99));
    handles_clear(&handles);
}

static struct op *oom_op;
static struct view oom_view;

static struct fault add_and_drop(void)
{
    CLEANUP(keyring_unrefp) struct keyring *keyring = NULL;
    struct handles handles = { 0 };
    TRY(keyring_new(&keyring));
    TRY(keyring_add(keyring, oom_op, oom_view));
    struct fault fault = handles_give(&handles, keyring);
    handles_clear(&handles);
    return fault;
}

static void without_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    OP;
    struct span chain[] = { certificate_made(op, "leaf", ec), certificate_made(op, "ca", rsa) };
    oom_op = op;
    oom_view = described(op, ID_1, "k", spki_made(op, ec), chain, 2);
    unsigned failed = 0;
    for (long successes = 0; successes < 100; successes++) { /* a look into JSON without memory finds nothing */
        mem_fail_after(successes);
        failed += FAULTED(add_and_drop());
        mem_fail_after(-1);
    }
    assert_true(failed > 3 && failed < 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_describes_no_key_adds_nothing),
        cmocka_unit_test(truncated_der_is_refused_everywhere),
        cmocka_unit_test(a_certificate_that_cannot_be_read_is_left_out),
        cmocka_unit_test(an_ec_key_has_its_curve_and_point),
        cmocka_unit_test(an_rsa_key_has_its_modulus),
        cmocka_unit_test(a_leaf_is_found_by_its_key_and_an_authority_by_its_name),
        cmocka_unit_test(an_authority_of_two_chains_is_one_object),
        cmocka_unit_test(handles_stay_while_keys_come_and_go),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
    };
    return cmocka_run_group_tests_name("pkcs11_keyring", tests, set_up, tear_down);
}
