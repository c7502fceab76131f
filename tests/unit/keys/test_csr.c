/* Certificate requests by keys of a token: what they say, and that the same command says the same. */
#include "testlib.h"

#include "tests/unit/provider/token.h"

#include "api/keys/internal.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

#include <openssl/x509v3.h>

#define JOURNAL_ID "01900000-0000-8000-8000-000000000001"

static struct bench {
    struct op *op;
    struct managed_key ec, ec384, rsa;
    struct buf spki[3];
} bench;

static struct fault make(const struct managed_key *key, const char *text, const char *email, struct span *ret_der)
{
    struct key_subject subject;
    TRY(key_subject_parse(bench.op, text, &subject));
    return key_csr_make(bench.op, key, &subject, email, (struct uuid){ JOURNAL_ID }, ret_der);
}

static X509_REQ *decode(struct span der)
{
    const unsigned char *at = der.at;
    X509_REQ *request = d2i_X509_REQ(NULL, &at, (long)der.len);
    assert_non_null(request);
    assert_ptr_equal(at, der.at + der.len);
    return request;
}

static void the_signers_fault_comes_through(void **state)
{
    (void)state;
    struct span untouched = { 0 };
    token.refuse = FAULT(SIGNER_UNAVAILABLE);
    assert_fault(make(&bench.ec, "CN=Release", NULL, &untouched), SIGNER_UNAVAILABLE);
    token.refuse = OK;
    assert_null(untouched.at);
}

static void a_key_of_another_public_half_is_found_out(void **state)
{
    (void)state;
    struct span untouched = { 0 };
    struct managed_key mixed = bench.ec;
    mixed.spki = bench.ec384.spki;
    assert_true(FAULTED(make(&mixed, "CN=Release", NULL, &untouched)));
    assert_null(untouched.at);
    mixed.spki = span_text("rubbish");
    assert_fault(make(&mixed, "CN=Release", NULL, &untouched), CRYPTO);
}

static void a_request_says_the_name_and_the_use_and_verifies(void **state)
{
    (void)state;
    const struct managed_key *const keys[] = { &bench.ec, &bench.ec384, &bench.rsa };
    static const int signatures[] = { NID_ecdsa_with_SHA256, NID_ecdsa_with_SHA384, NID_sha256WithRSAEncryption };
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct span der;
        unsigned char *spki = NULL;
        char name[256];
        assert_fault(make(keys[i], "CN=Release,OU=CI,O=S\xc3\xb6hne,C=DE", "release@acme.example", &der), NONE);
        X509_REQ *request = decode(der);
        assert_string_equal(token_last_op_id.text, JOURNAL_ID);
        assert_int_equal(X509_REQ_verify(request, X509_REQ_get0_pubkey(request)), 1);
        assert_int_equal(X509_REQ_get_signature_nid(request), signatures[i]);
        int len = i2d_PUBKEY(X509_REQ_get0_pubkey(request), &spki);
        assert_true(span_equal(span_of(spki, (size_t)len), keys[i]->spki));
        OPENSSL_free(spki);
        (void)X509_NAME_oneline(X509_REQ_get_subject_name(request), name, sizeof(name));
        assert_string_equal(name, "/C=DE/O=S\\xC3\\xB6hne/OU=CI/CN=Release");
        STACK_OF(X509_EXTENSION) *extensions = X509_REQ_get_extensions(request);
        assert_int_equal(sk_X509_EXTENSION_num(extensions), 3);
        GENERAL_NAMES *names = X509V3_get_d2i(extensions, NID_subject_alt_name, NULL, NULL);
        assert_int_equal(sk_GENERAL_NAME_num(names), 1);
        assert_int_equal(sk_GENERAL_NAME_value(names, 0)->type, GEN_EMAIL);
        GENERAL_NAMES_free(names);
        sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
        X509_REQ_free(request);
    }
}

static void the_same_again_is_the_same_bytes(void **state)
{
    (void)state;
    struct span first, again;
    assert_fault(make(&bench.rsa, "CN=Release,O=Acme", NULL, &first), NONE);
    assert_fault(make(&bench.rsa, "CN=Release,O=Acme", NULL, &again), NONE);
    assert_true(span_equal(first, again));
}

static struct managed_key key_made(const char *type, enum key_algorithm algorithm, struct buf *spki)
{
    struct managed_key key = { .algorithm = algorithm };
    key.ref = token_make_key(type, KEY_PURPOSE_CODESIGN, spki);
    key.spki = buf_span(spki);
    return key;
}

static int setup(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf detail = BUF_INIT(2048);
    struct config config = { .fips_required = true, .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so" };
    BUG_IF(FAULTED(fips_start(&config, &detail)));
    BUG_IF(FAULTED(svc_provider_load(fips_libctx(), token_client())));
    bench.ec = key_made("P-256", KEY_ALGORITHM_EC_P256, &bench.spki[0]);
    bench.ec384 = key_made("P-384", KEY_ALGORITHM_EC_P384, &bench.spki[1]);
    bench.rsa = key_made("RSA", KEY_ALGORITHM_RSA_3072, &bench.spki[2]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bench.spki); i++) {
        buf_free(&bench.spki[i]);
    }
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
        TEST(the_signers_fault_comes_through),
        TEST(a_key_of_another_public_half_is_found_out),
        TEST(a_request_says_the_name_and_the_use_and_verifies),
        TEST(the_same_again_is_the_same_bytes),
    };
    return cmocka_run_group_tests_name("csr", tests, setup, teardown);
}
