#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/provider/token.h"

#include "api/ca/certificate.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

#include <openssl/pem.h>
#include <openssl/provider.h>
#include <openssl/x509v3.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static struct bench {
    struct op *op;
    struct key_ref root, unit;
    struct buf root_spki, unit_spki;
} bench;

static struct certificate_profile root_profile(void)
{
    return (struct certificate_profile){
        .common_name = "Root",
        .organization = "Test & Söhne",
        .authority = true,
        .valid_days = 3652,
        .not_before = clock_utc() - US_PER_S,
    };
}

static struct fault issue_root(struct span *ret_der)
{
    struct certificate_issuer self = { .key = bench.root, .spki = buf_span(&bench.root_spki) };
    struct certificate_profile profile = root_profile();
    return certificate_issue(bench.op, token_client(), &self, self.spki, &profile, ret_der);
}

static struct fault issue_leaf(struct span root, int64_t days, struct span *ret_der)
{
    struct certificate_issuer issuer = {
        .key = bench.root,
        .spki = buf_span(&bench.root_spki),
        .certificate = root,
    };
    struct certificate_profile profile = {
        .common_name = "Unit",
        .extended_usage = "critical,timeStamping",
        .valid_days = days,
        .not_before = clock_utc() - US_PER_S,
    };
    return certificate_issue(bench.op, token_client(), &issuer, buf_span(&bench.unit_spki), &profile, ret_der);
}

static X509 *decode(struct span der)
{
    const unsigned char *at = der.at;
    X509 *made = X509_new_ex(fips_libctx(), NULL);
    assert_non_null(d2i_X509(&made, &at, (long)der.len));
    assert_ptr_equal(at, der.at + der.len);
    return made;
}

static void the_signers_fault_comes_through_and_nothing_is_issued(void **state)
{
    (void)state;
    struct span untouched = { 0 };
    token.refuse = FAULT(SIGNER_UNAVAILABLE);
    assert_fault(issue_root(&untouched), SIGNER_UNAVAILABLE);
    token.refuse = OK;
    assert_null(untouched.at);
}

static void an_issuer_certificate_that_does_not_decode_is_refused(void **state)
{
    (void)state;
    struct span untouched = { 0 };
    assert_fault(issue_leaf(span_text("rubbish"), 10, &untouched), CRYPTO);
    assert_null(untouched.at);
}

/* The public key that the caller names must be the one that signed. */
static void a_key_of_another_public_half_is_found_out(void **state)
{
    (void)state;
    struct span untouched = { 0 };
    EVP_PKEY *other = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(other, &der);
    struct certificate_issuer self = { .key = bench.root, .spki = span_of(der, (size_t)len) };
    struct certificate_profile profile = root_profile();
    assert_fault(certificate_issue(bench.op, token_client(), &self, self.spki, &profile, &untouched), CRYPTO);
    assert_null(untouched.at);
    OPENSSL_free(der);
    EVP_PKEY_free(other);
}

static void a_root_is_a_root(void **state)
{
    (void)state;
    struct span der;
    assert_fault(issue_root(&der), NONE);
    CLEANUP(X509_freep) X509 *root = decode(der);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = X509_get_pubkey(root);
    assert_int_equal(X509_verify(root, key), 1);
    assert_int_equal(X509_check_issued(root, root), X509_V_OK);
    assert_true((X509_get_extension_flags(root) & EXFLAG_SS) != 0);
    assert_int_equal(X509_check_ca(root), 1);
    assert_int_equal(X509_get_pathlen(root), 0);
    assert_int_equal(X509_get_key_usage(root), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
    assert_int_equal(X509_get_signature_nid(root), NID_ecdsa_with_SHA384);
    assert_int_equal(ASN1_STRING_length(X509_get0_subject_key_id(root)), 20);
    BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(root), NULL);
    assert_false(BN_is_negative(serial));
    assert_in_range(BN_num_bits(serial), 100, 159);
    BN_free(serial);
}

static void a_leaf_chains_to_its_root_for_time_stamping_only(void **state)
{
    (void)state;
    struct span root_der;
    struct span leaf_der;
    assert_fault(issue_root(&root_der), NONE);
    assert_fault(issue_leaf(root_der, 1826, &leaf_der), NONE);
    CLEANUP(X509_freep) X509 *root = decode(root_der);
    CLEANUP(X509_freep) X509 *leaf = decode(leaf_der);
    assert_int_equal(X509_check_ca(leaf), 0);
    assert_int_equal(X509_get_key_usage(leaf), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_extended_key_usage(leaf), XKU_TIMESTAMP);
    int at = X509_get_ext_by_NID(leaf, NID_ext_key_usage, -1);
    assert_int_equal(X509_EXTENSION_get_critical(X509_get_ext(leaf, at)), 1);
    at = X509_get_ext_by_NID(leaf, NID_key_usage, -1);
    assert_int_equal(X509_EXTENSION_get_critical(X509_get_ext(leaf, at)), 1);
    assert_int_equal(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(leaf), X509_get0_subject_key_id(root)), 0);

    CLEANUP(X509_STORE_freep) X509_STORE *store = X509_STORE_new();
    CLEANUP(X509_STORE_CTX_freep) X509_STORE_CTX *ctx = X509_STORE_CTX_new_ex(fips_libctx(), NULL);
    assert_int_equal(X509_STORE_add_cert(store, root), 1);
    assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
    assert_int_equal(X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_TIMESTAMP_SIGN), 1);
    X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(ctx), X509_V_FLAG_X509_STRICT);
    assert_int_equal(X509_verify_cert(ctx), 1);
}

static void a_leaf_does_not_outlive_its_root(void **state)
{
    (void)state;
    struct span root_der;
    struct span leaf_der;
    assert_fault(issue_root(&root_der), NONE);
    assert_fault(issue_leaf(root_der, 36520, &leaf_der), NONE);
    CLEANUP(X509_freep) X509 *root = decode(root_der);
    CLEANUP(X509_freep) X509 *leaf = decode(leaf_der);
    assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(leaf), X509_get0_notAfter(root)), 0);
}

static void pem_reads_back_as_the_same_bytes(void **state)
{
    (void)state;
    struct span der;
    struct buf pem = BUF_INIT(8192);
    assert_fault(issue_root(&der), NONE);
    assert_fault(certificate_pem(der, &pem), NONE);
    BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    X509 *read = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    unsigned char *again = NULL;
    int len = i2d_X509(read, &again);
    assert_true(len > 0 && span_equal(span_of(again, (size_t)len), der));
    OPENSSL_free(again);
    X509_free(read);
    BIO_free(bio);
    buf_free(&pem);
}

static int setup(void **state)
{
    (void)state;
    struct config config = { .fips_required = true, .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so" };
    struct buf detail = BUF_INIT(2048);
    BUG_IF(FAULTED(fips_start(&config, &detail)));
    buf_free(&detail);
    BUG_IF(FAULTED(svc_provider_load(fips_libctx(), token_client())));
    bench.root = token_make_key("P-384", KEY_PURPOSE_CA, &bench.root_spki);
    bench.unit = token_make_key("P-256", KEY_PURPOSE_TSA, &bench.unit_spki);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_free(&bench.root_spki);
    buf_free(&bench.unit_spki);
    token_clear();
    return 0;
}

static int new_op(void **state)
{
    (void)state;
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &bench.op)) ? -1 : 0;
}
static int free_op(void **state)
{
    (void)state;
    op_free(TAKE(bench.op));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, new_op, free_op)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_signers_fault_comes_through_and_nothing_is_issued),
        TEST(an_issuer_certificate_that_does_not_decode_is_refused),
        TEST(a_key_of_another_public_half_is_found_out),
        TEST(a_root_is_a_root),
        TEST(a_leaf_chains_to_its_root_for_time_stamping_only),
        TEST(a_leaf_does_not_outlive_its_root),
        TEST(pem_reads_back_as_the_same_bytes),
    };
    return cmocka_run_group_tests_name("certificate", tests, setup, teardown);
}
