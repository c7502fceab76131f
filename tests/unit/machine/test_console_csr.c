/* The certificate of the HTTPS listener: what a request says, and which certificates are taken for it. */
#include "appliance/base/crypto.h"
#include "appliance/machine/csr.h"
#include "testlib.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static const char *const names[] = { "signer-1", "sign.example", "192.0.2.10", "2001:db8::10", NULL };

static EVP_PKEY *ca_key;
static X509 *ca;
static struct buf key = BUF_INIT(CSR_PEM_MAX);

static struct op *new_op(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 60000, &op), NONE);
    return op;
}

static void extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *made = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(made);
    assert_int_equal(X509_add_ext(certificate, made, -1), 1);
    X509_EXTENSION_free(made);
}

static X509 *certificate(const char *name, EVP_PKEY *public, X509 *issuer, long from, long until, const char *san,
                         const char *use)
{
    X509 *made = X509_new();
    assert_non_null(made);
    assert_int_equal(X509_set_version(made, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(made), 7), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(made), from));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(made), until));
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                                                (const unsigned char *)name, -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(made, X509_get_subject_name(issuer != NULL ? issuer : made)), 1);
    assert_int_equal(X509_set_pubkey(made, public), 1);
    extend(made, issuer != NULL ? issuer : made, NID_basic_constraints,
           issuer == NULL ? "critical,CA:TRUE" : "CA:FALSE");
    if (san != NULL) {
        extend(made, issuer, NID_subject_alt_name, san);
    }
    if (use != NULL) {
        extend(made, issuer, NID_ext_key_usage, use);
    }
    assert_true(X509_sign(made, ca_key, EVP_sha256()) > 0);
    return made;
}

static void put(X509 *one, struct buf *out)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    char *at = NULL;
    assert_int_equal(PEM_write_bio_X509(bio, one), 1);
    long len = BIO_get_mem_data(bio, &at);
    assert_fault(buf_put(out, span_of(at, (size_t)len)), NONE);
}

static int make_authority(void **state)
{
    (void)state;
    ca_key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    assert_non_null(ca_key);
    ca = certificate("site authority", ca_key, NULL, -3600, 86400, NULL, NULL);
    assert_fault(csr_key_new(&key), NONE);
    return 0;
}

static int drop_authority(void **state)
{
    (void)state;
    X509_free(ca);
    EVP_PKEY_free(ca_key);
    buf_free(&key);
    return 0;
}

static EVP_PKEY *listener_key(void)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(key.at, (int)key.len);
    EVP_PKEY *made = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    assert_non_null(made);
    return made;
}

static void a_request_has_every_name_and_is_signed_by_its_key(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CSR_PEM_MAX);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *own = listener_key();
    assert_fault(csr_print(op, names, buf_span(&key), &pem), NONE);
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    X509_REQ *request = PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL);
    assert_non_null(request);
    assert_int_equal(X509_REQ_verify(request, own), 1);
    STACK_OF(X509_EXTENSION) *extensions = X509_REQ_get_extensions(request);
    GENERAL_NAMES *sans = X509V3_get_d2i(extensions, NID_subject_alt_name, NULL, NULL);
    assert_int_equal(sk_GENERAL_NAME_num(sans), 4);
    GENERAL_NAMES_free(sans);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    X509_REQ_free(request);
    assert_fault(csr_print(op, names, span_text("no key"), &pem), CRYPTO);
}

#define ALL "DNS:signer-1,DNS:sign.example,IP:192.0.2.10,IP:2001:db8::10"

static void assert_refused(X509 *leaf, X509 *issuer, const char *why)
{
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf chain = BUF_INIT(CSR_CHAIN_MAX);
    put(leaf, &chain);
    if (issuer != NULL) {
        put(issuer, &chain);
    }
    struct fault checked = csr_check(op, names, buf_span(&key), buf_span(&chain));
    if (why == NULL) {
        assert_fault(checked, NONE);
    } else {
        assert_fault(checked, BAD_ARGUMENT);
        assert_non_null(strstr(op->note.detail, why));
    }
    X509_free(leaf);
}

static void only_a_certificate_that_can_serve_is_taken(void **state)
{
    (void)state;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *own = listener_key();
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *other = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    assert_refused(certificate("x", other, ca, -60, 3600, ALL, "serverAuth"), ca, "does not belong to this machine's");
    assert_refused(certificate("x", own, ca, -60, 3600, "DNS:signer-1,DNS:sign.example", "serverAuth"), ca,
                   "it is not good for 192.0.2.10");
    assert_refused(certificate("x", own, ca, -7200, -3600, ALL, "serverAuth"), ca, "it has expired");
    assert_refused(certificate("x", own, ca, 3600, 7200, ALL, "serverAuth"), ca, "not valid yet");
    assert_refused(certificate("x", own, ca, -60, 3600, ALL, "clientAuth"), ca, "not for a TLS server");
    CLEANUP(X509_freep) X509 *stranger = certificate("site authority", other, NULL, -60, 3600, NULL, NULL);
    assert_refused(certificate("x", own, ca, -60, 3600, ALL, "serverAuth"), stranger, "issued by the one behind it");
    assert_refused(certificate("x", own, ca, -60, 3600, ALL, "serverAuth"), ca, NULL);
    assert_refused(certificate("x", own, ca, -60, 3600, ALL, "serverAuth"), NULL, NULL);
}

static void what_is_no_chain_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "", "hello", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
                                         "-----BEGIN CERTIFICATE-----\n" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        CLEANUP(op_freep) struct op *op = new_op();
        assert_fault(csr_check(op, names, buf_span(&key), span_text(wrong[i])), BAD_ARGUMENT);
        assert_non_null(strstr(op->note.detail, "not a chain"));
    }
}

static void a_fingerprint_is_the_one_that_others_print(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CSR_CHAIN_MAX);
    struct certificate_view view;
    uint8_t digest[32];
    unsigned len = 0;
    char want[100] = "";
    put(ca, &pem);
    assert_fault(certificate_view(op, buf_span(&pem), &view), NONE);
    assert_int_equal(X509_digest(ca, EVP_sha256(), digest, &len), 1);
    for (size_t i = 0; i < 32; i++) {
        (void)snprintf(want + 3 * i, sizeof(want) - 3 * i, "%02X%s", digest[i], i < 31 ? ":" : "");
    }
    assert_string_equal(view.fingerprint, want);
    assert_string_equal(view.subject, "/CN=site authority");
    assert_true(view.not_after > clock_utc());
    assert_fault(certificate_view(op, span_text("x"), &view), CRYPTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_has_every_name_and_is_signed_by_its_key),
        cmocka_unit_test(only_a_certificate_that_can_serve_is_taken),
        cmocka_unit_test(what_is_no_chain_is_refused),
        cmocka_unit_test(a_fingerprint_is_the_one_that_others_print),
    };
    return cmocka_run_group_tests(tests, make_authority, drop_authority);
}
