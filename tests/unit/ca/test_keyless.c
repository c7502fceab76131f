/* Certificates of ephemeral keys by the appliance's own authority. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/provider/token.h"

#include "api/ca/keyless.h"
#include "appliance/base/der.h"
#include "fips/fips.h"
#include "signer-pkcs11/provider/provider.h"

#include <openssl/x509v3.h>
#include <stdio.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

#define ISSUER    "https://token.actions.githubusercontent.com"
#define SAN       "https://github.com/acme/app/.github/workflows/release.yml@refs/heads/main"
#define OPERATION "01900000-0000-7000-8000-000000000001"
#define START     INT64_C(1700000000000000)

static struct bench {
    struct op *op;
    struct key_ref ca, ec_ca, ephemeral;
    struct buf ca_spki, ec_ca_spki, ephemeral_spki;
    struct config config;
} bench;

static const struct keyless_claim claims[] = {
    { 20, "push" }, { 1, ISSUER }, { 8, ISSUER }, { 2, "push" }, { 9, SAN }, { 22, "" }, { 12, "https://gh/\xc3\xa4" },
};

static struct keyless_subject subject_of(void)
{
    return (struct keyless_subject){
        .operation_id = { OPERATION },
        .key = bench.ephemeral,
        .spki = buf_span(&bench.ephemeral_spki),
        .san = SAN,
        .san_kind = KEYLESS_SAN_URI,
        .issuer = ISSUER,
        .subject = "repo:acme/app:ref:refs/heads/main",
        .claims = claims,
        .claim_count = COUNT_OF(claims),
        .not_before = START + 123456,
    };
}

static struct fault root_of(const struct key_ref *key, const struct buf *spki, struct keyless_authority *ret_authority)
{
    *ret_authority = (struct keyless_authority){ .key = *key, .spki = buf_span(spki) };
    return keyless_root_issue(bench.op, token_client(), key, buf_span(spki), START - 60 * US_PER_S,
                              &ret_authority->certificate);
}

static struct fault issue(const struct keyless_subject *subject, struct span **ret_chain)
{
    struct keyless_authority authority;
    size_t count = 0;
    TRY(root_of(&bench.ca, &bench.ca_spki, &authority));
    TRY(keyless_issue(bench.op, &bench.config, token_client(), &authority, subject, ret_chain, &count));
    assert_int_equal(count, 2);
    assert_true(span_equal((*ret_chain)[1], authority.certificate));
    return OK;
}

static X509 *decode(struct span der)
{
    const unsigned char *at = der.at;
    X509 *made = X509_new_ex(fips_libctx(), NULL);
    assert_non_null(d2i_X509(&made, &at, (long)der.len));
    assert_ptr_equal(at, der.at + der.len);
    return made;
}

static void refuses_san(enum keyless_san kind, const char *san)
{
    struct span *chain = NULL;
    struct keyless_subject subject = subject_of();
    unsigned before = atomic_load(&token.signatures);
    subject.san = san;
    subject.san_kind = kind;
    bench.op->note = (struct fault_note){ 0 };
    struct keyless_authority authority;
    size_t count = 0;
    assert_fault(root_of(&bench.ca, &bench.ca_spki, &authority), NONE);
    before++;
    struct fault fault = keyless_issue(bench.op, &bench.config, token_client(), &authority, &subject, &chain, &count);
    if (fault.code != FAULT_PROOF_CLAIM || bench.op->note.detail[0] == '\0' ||
        atomic_load(&token.signatures) != before) {
        fail_msg("'%s' gave %s", san, fault_row(fault.code)->text);
    }
    assert_null(chain);
}

static void a_name_that_is_none_is_refused_before_anything_is_signed(void **state)
{
    (void)state;
    static const char *const uris[] = {
        "",         "acme/app",   ":x",           "https:",         "1x://a",    "https://a b",      "https://a\nb",
        "ht tp://", "https://\"", "https://a/%2", "https://a/%zz1", "http://\\", "https://\xc3\xa4", "x:<",
    };
    static const char *const emails[] = { "",     "@",    "a@",   "@b",     "a b@c", "a@b c",
                                          "a@@b", "a@.b", "a@b.", "a@b..c", "a@b\n", "\"a\"@b" };
    static const char *const hosts[] = { "", ".", "a..b", "a b", "-_", "a/b", "*.example.com" };
    char longest[1100];
    for (size_t i = 0; i < COUNT_OF(uris); i++) {
        refuses_san(KEYLESS_SAN_URI, uris[i]);
    }
    for (size_t i = 0; i < COUNT_OF(emails); i++) {
        refuses_san(KEYLESS_SAN_EMAIL, emails[i]);
    }
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        refuses_san(KEYLESS_SAN_DNS, hosts[i]);
    }
    memset(longest, 'a', sizeof(longest));
    memcpy(longest, "https://", 8);
    longest[1025] = '\0';
    refuses_san(KEYLESS_SAN_URI, longest);
    longest[254] = '\0';
    memcpy(longest, "aaaaaaaa", 8);
    refuses_san(KEYLESS_SAN_DNS, longest);
}

static void refuses_claims(const struct keyless_claim *bad, size_t count)
{
    struct span *chain = NULL;
    struct keyless_subject subject = subject_of();
    subject.claims = bad;
    subject.claim_count = count;
    bench.op->note = (struct fault_note){ 0 };
    assert_fault(issue(&subject, &chain), PROOF_CLAIM);
    assert_null(chain);
}

static void claims_that_cannot_stand_in_a_certificate_are_refused(void **state)
{
    (void)state;
    char longest[1100];
    struct keyless_claim many[33];
    static const char *const bad[] = { "a\nb", "\x01", "\x7f", "\xc2\x85", "\xff", "\xc3" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        refuses_claims(&(struct keyless_claim){ 9, bad[i] }, 1);
    }
    memset(longest, 'a', sizeof(longest));
    longest[1025] = '\0';
    refuses_claims(&(struct keyless_claim){ 9, longest }, 1);
    refuses_claims((struct keyless_claim[]){ { 9, "a" }, { 9, "a" } }, 2);
    refuses_claims(&(struct keyless_claim){ 1, "https://other" }, 1);
    refuses_claims(&(struct keyless_claim){ 8, ISSUER "/" }, 1);
    for (unsigned i = 0; i < COUNT_OF(many); i++) {
        many[i] = (struct keyless_claim){ 30 + i, "x" };
    }
    refuses_claims(many, COUNT_OF(many));
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    subject.issuer = "";
    assert_fault(issue(&subject, &chain), PROOF_CLAIM);
}

static void the_signers_fault_comes_through(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct keyless_authority authority;
    struct span *chain = NULL;
    size_t count = 0;
    assert_fault(root_of(&bench.ca, &bench.ca_spki, &authority), NONE);
    token.refuse = FAULT(SIGNER_UNAVAILABLE);
    assert_fault(keyless_issue(bench.op, &bench.config, token_client(), &authority, &subject, &chain, &count),
                 SIGNER_UNAVAILABLE);
    assert_fault(root_of(&bench.ca, &bench.ca_spki, &authority), SIGNER_UNAVAILABLE);
    token.refuse = OK;
    assert_null(chain);
}

static void a_root_that_is_not_valid_then_issues_nothing(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    subject.not_before = START - 61 * US_PER_S;
    assert_fault(issue(&subject, &chain), KEY_STATE);
    subject.not_before = START + INT64_C(3652) * 86400 * US_PER_S;
    assert_fault(issue(&subject, &chain), KEY_STATE);
    assert_null(chain);
}

static void a_leaf_does_not_outlive_its_root(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    subject.not_before = START + (INT64_C(3652) * 86400 - 120) * US_PER_S;
    assert_fault(issue(&subject, &chain), NONE);
    CLEANUP(X509_freep) X509 *leaf = decode(chain[0]);
    CLEANUP(X509_freep) X509 *root = decode(chain[1]);
    assert_int_equal(ASN1_TIME_compare(X509_get0_notAfter(leaf), X509_get0_notAfter(root)), 0);
}

/* With PKCS#1 v1.5 the same bytes to sign are the same signature, so all of the certificate can be compared; what an
 * ECDSA authority does is the journal's business, and the integration test's. */
static void the_same_operation_gets_the_same_bytes_and_another_does_not(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct keyless_claim turned[COUNT_OF(claims)];
    struct span *first = NULL, *again = NULL, *other = NULL;
    struct uuid journal_id;
    assert_fault(issue(&subject, &first), NONE);
    journal_id = token_last_op_id;
    assert_int_equal(strlen(journal_id.text), 36);
    for (size_t i = 0; i < COUNT_OF(claims); i++) {
        turned[i] = claims[COUNT_OF(claims) - 1 - i];
    }
    subject.claims = turned;
    assert_fault(issue(&subject, &again), NONE);
    assert_true(span_equal(first[0], again[0]) && span_equal(first[1], again[1]));
    assert_true(uuid_equal(journal_id, token_last_op_id));
    subject.operation_id = (struct uuid){ "01900000-0000-7000-8000-000000000002" };
    assert_fault(issue(&subject, &other), NONE);
    assert_false(uuid_equal(journal_id, token_last_op_id));
    CLEANUP(X509_freep) X509 *a = decode(first[0]);
    CLEANUP(X509_freep) X509 *b = decode(other[0]);
    assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(a), X509_get0_serialNumber(b)), 0);
}

static void the_root_is_for_code_signing_certificates_only(void **state)
{
    (void)state;
    struct keyless_authority authority;
    assert_fault(root_of(&bench.ec_ca, &bench.ec_ca_spki, &authority), NONE);
    CLEANUP(X509_freep) X509 *root = decode(authority.certificate);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = X509_get_pubkey(root);
    assert_int_equal(X509_verify(root, key), 1);
    assert_int_equal(X509_check_ca(root), 1);
    assert_int_equal(X509_get_pathlen(root), 0);
    assert_int_equal(X509_get_key_usage(root), KU_KEY_CERT_SIGN);
    assert_int_equal(X509_get_extended_key_usage(root), XKU_CODE_SIGN);
    assert_int_equal(X509_get_signature_nid(root), NID_ecdsa_with_SHA384);
    char name[128];
    (void)X509_NAME_oneline(X509_get_subject_name(root), name, sizeof(name));
    assert_string_equal(name, "/O=default/CN=svc keyless CA");
    assert_int_equal(strlen(token_last_op_id.text), 36);
}

static struct span extension(const X509 *leaf, const char *oid)
{
    ASN1_OBJECT *object = OBJ_txt2obj(oid, 1);
    int at = X509_get_ext_by_OBJ(leaf, object, -1);
    assert_true(at < 0 || X509_get_ext_by_OBJ(leaf, object, at) < 0);
    ASN1_OBJECT_free(object);
    if (at < 0) {
        return (struct span){ 0 };
    }
    const X509_EXTENSION *found = X509_get_ext(leaf, at);
    assert_int_equal(X509_EXTENSION_get_critical(found), 0);
    const ASN1_OCTET_STRING *value = X509_EXTENSION_get_data((X509_EXTENSION *)found);
    return span_of(ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value));
}

static void assert_claim(const X509 *leaf, unsigned arc, const char *value)
{
    char oid[64];
    (void)snprintf(oid, sizeof(oid), KEYLESS_ARC ".%u", arc);
    struct span bytes = extension(leaf, oid);
    struct der_element text;
    if (value == NULL) {
        assert_int_equal(bytes.len, 0);
        return;
    }
    if (arc >= 8) {
        assert_fault(der_take(&bytes, DER_UTF8_STRING, &text), NONE);
        assert_int_equal(bytes.len, 0);
        bytes = text.body;
    }
    assert_true(span_equal_text(bytes, value));
}

static int critical_of(const X509 *leaf, int nid)
{
    int critical = -1;
    int at = X509_get_ext_by_NID(leaf, nid, -1);
    if (at >= 0) {
        critical = X509_EXTENSION_get_critical(X509_get_ext(leaf, at));
    }
    return critical;
}

static void the_leaf_says_what_fulcios_leaves_say(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    assert_fault(issue(&subject, &chain), NONE);
    CLEANUP(X509_freep) X509 *leaf = decode(chain[0]);
    CLEANUP(X509_freep) X509 *root = decode(chain[1]);
    assert_int_equal(X509_get_version(leaf), X509_VERSION_3);
    assert_int_equal(X509_NAME_entry_count(X509_get_subject_name(leaf)), 0);
    assert_int_equal(X509_NAME_cmp(X509_get_issuer_name(leaf), X509_get_subject_name(root)), 0);
    assert_int_equal(critical_of(leaf, NID_subject_alt_name), 1);
    assert_int_equal(critical_of(leaf, NID_key_usage), 1);
    assert_int_equal(critical_of(leaf, NID_ext_key_usage), 0);
    assert_int_equal(critical_of(leaf, NID_basic_constraints), -1);
    assert_int_equal(X509_get_key_usage(leaf), KU_DIGITAL_SIGNATURE);
    assert_int_equal(X509_get_extended_key_usage(leaf), XKU_CODE_SIGN);
    assert_int_equal(ASN1_STRING_length(X509_get0_subject_key_id(leaf)), 20);
    assert_int_equal(ASN1_OCTET_STRING_cmp(X509_get0_authority_key_id(leaf), X509_get0_subject_key_id(root)), 0);
    assert_int_equal(ASN1_TIME_cmp_time_t(X509_get0_notBefore(leaf), START / US_PER_S), 0);
    assert_int_equal(ASN1_TIME_cmp_time_t(X509_get0_notAfter(leaf), START / US_PER_S + 600), 0);
    BIGNUM *serial = ASN1_INTEGER_to_BN(X509_get0_serialNumber(leaf), NULL);
    assert_false(BN_is_negative(serial) || BN_is_zero(serial));
    assert_true(BN_num_bits(serial) <= 159);
    BN_free(serial);
    GENERAL_NAMES *names = X509_get_ext_d2i(leaf, NID_subject_alt_name, NULL, NULL);
    assert_int_equal(sk_GENERAL_NAME_num(names), 1);
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, 0);
    assert_int_equal(name->type, GEN_URI);
    assert_string_equal((const char *)ASN1_STRING_get0_data(name->d.uniformResourceIdentifier), SAN);
    GENERAL_NAMES_free(names);
    assert_claim(leaf, 1, ISSUER);
    assert_claim(leaf, 2, "push");
    assert_claim(leaf, 8, ISSUER);
    assert_claim(leaf, 9, SAN);
    assert_claim(leaf, 12, "https://gh/\xc3\xa4");
    assert_claim(leaf, 20, "push");
    assert_claim(leaf, 22, NULL); /* empty */
}

static void the_issuer_is_stated_where_no_claim_says_it(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    subject.claims = NULL;
    subject.claim_count = 0;
    subject.san = "release@acme.example";
    subject.san_kind = KEYLESS_SAN_EMAIL;
    assert_fault(issue(&subject, &chain), NONE);
    CLEANUP(X509_freep) X509 *leaf = decode(chain[0]);
    assert_claim(leaf, 1, ISSUER);
    assert_claim(leaf, 8, ISSUER);
    assert_int_equal(X509_check_email(leaf, subject.san, 0, 0), 1);
    subject.san = "build.acme.example";
    subject.san_kind = KEYLESS_SAN_DNS;
    assert_fault(issue(&subject, &chain), NONE);
    CLEANUP(X509_freep) X509 *host = decode(chain[0]);
    assert_int_equal(X509_check_host(host, subject.san, 0, 0, NULL), 1);
}

static void the_chain_verifies_strictly_for_code_signing(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    assert_fault(issue(&subject, &chain), NONE);
    CLEANUP(X509_freep) X509 *leaf = decode(chain[0]);
    CLEANUP(X509_freep) X509 *root = decode(chain[1]);
    CLEANUP(X509_STORE_freep) X509_STORE *store = X509_STORE_new();
    CLEANUP(X509_STORE_CTX_freep) X509_STORE_CTX *ctx = X509_STORE_CTX_new_ex(fips_libctx(), NULL);
    assert_int_equal(X509_STORE_add_cert(store, root), 1);
    assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
    assert_int_equal(X509_STORE_CTX_set_purpose(ctx, X509_PURPOSE_CODE_SIGN), 1);
    X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
    X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
    X509_VERIFY_PARAM_set_time(param, START / US_PER_S + 1);
    int good = X509_verify_cert(ctx);
    assert_string_equal(X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)), "ok");
    assert_int_equal(good, 1);
}

static int setup(void **state)
{
    (void)state;
    struct buf detail = BUF_INIT(2048);
    bench.config = (struct config){ .fips_required = true,
                                    .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so",
                                    .keyless_ttl = 600 * NS_PER_S,
                                    .fulcio_url = "" };
    BUG_IF(FAULTED(fips_start(&bench.config, &detail)));
    buf_free(&detail);
    BUG_IF(FAULTED(svc_provider_load(fips_libctx(), token_client())));
    bench.ca = token_make_key("RSA", KEY_PURPOSE_CA, &bench.ca_spki);
    bench.ec_ca = token_make_key("P-384", KEY_PURPOSE_CA, &bench.ec_ca_spki);
    bench.ephemeral = token_make_key("P-256", KEY_PURPOSE_CODESIGN_EPHEMERAL, &bench.ephemeral_spki);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_free(&bench.ca_spki);
    buf_free(&bench.ec_ca_spki);
    buf_free(&bench.ephemeral_spki);
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
        TEST(a_name_that_is_none_is_refused_before_anything_is_signed),
        TEST(claims_that_cannot_stand_in_a_certificate_are_refused),
        TEST(the_signers_fault_comes_through),
        TEST(a_root_that_is_not_valid_then_issues_nothing),
        TEST(a_leaf_does_not_outlive_its_root),
        TEST(the_same_operation_gets_the_same_bytes_and_another_does_not),
        TEST(the_root_is_for_code_signing_certificates_only),
        TEST(the_leaf_says_what_fulcios_leaves_say),
        TEST(the_issuer_is_stated_where_no_claim_says_it),
        TEST(the_chain_verifies_strictly_for_code_signing),
    };
    return cmocka_run_group_tests_name("keyless", tests, setup, teardown);
}
