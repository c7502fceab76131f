/* What is asked of Fulcio, and what of its answers is believed. The network is this file's: http_send answers as told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/ca/fulcio_fake.h"
#include "tests/unit/provider/token.h"

#include "appliance/base/codec.h"
#include "appliance/base/file.h"
#include "appliance/base/json_view.h"
#include "appliance/http/http.h"
#include "fips/fips.h"

#include <stdio.h>
#include <unistd.h>

#define assert_fault(expr, sym) assert_string_equal(fault_row((expr).code)->text, fault_row(FAULT_##sym)->text)

#define ISSUER "https://token.actions.githubusercontent.com"
#define SAN    "https://github.com/acme/app/.github/workflows/release.yml@refs/heads/main"
#define PROOF  "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJyZXBvIn0.c2lnbmF0dXJl"

static struct bench {
    struct op *op;
    struct key_ref ephemeral, other, rsa;
    struct buf ephemeral_spki, other_spki, rsa_spki;
    struct config config;
    struct fake_ca ca;
    char root_path[64];
    int64_t now_s;
} bench;

/* ---- the network ---- */

static struct network {
    bool gone;
    long status;
    const char *retry_after;
    struct buf answer, asked;
    char url[256];
    bool plain_too, keep, has_token;
    const char *ca_file;
    unsigned calls;
} network;

struct fault http_send(const struct http_request *request, char *why, size_t why_size, struct http_answer *answer)
{
    network.calls++;
    (void)snprintf(network.url, sizeof(network.url), "%s", request->url);
    network.plain_too = request->plain_too;
    network.keep = request->keep;
    network.ca_file = request->ca_file;
    network.has_token = request->token != NULL;
    assert_string_equal(request->method, "POST");
    assert_string_equal(request->content_type, "application/json");
    assert_true(request->timeout_ns > 0 && request->timeout_ns <= 30 * NS_PER_S);
    buf_clear(&network.asked);
    assert_fault(buf_put(&network.asked, request->body), NONE);
    if (network.gone) {
        (void)snprintf(why, why_size, "connection refused");
        return FAULT(IO);
    }
    answer->status = network.status;
    (void)snprintf(answer->retry_after, sizeof(answer->retry_after), "%s", network.retry_after);
    answer->body.max = request->answer_max;
    return buf_put(&answer->body, buf_span(&network.answer));
}

/* ---- what is issued ---- */

static struct fake_leaf right_leaf(void)
{
    return (struct fake_leaf){
        .san = "critical,URI:" SAN,
        .usage = "critical,digitalSignature",
        .extended_usage = "codeSigning",
        .issuer = ISSUER,
        .issuer_2 = ISSUER,
        .spki = buf_span(&bench.ephemeral_spki),
        .from_s = bench.now_s,
        .until_s = bench.now_s + 600,
    };
}

static struct keyless_subject subject_of(void)
{
    return (struct keyless_subject){
        .operation_id = { "01900000-0000-7000-8000-000000000001" },
        .key = bench.ephemeral,
        .spki = buf_span(&bench.ephemeral_spki),
        .san = SAN,
        .san_kind = KEYLESS_SAN_URI,
        .issuer = ISSUER,
        .subject = "repo:acme/app:ref:refs/heads/main",
        .proof = span_text(PROOF),
        .not_before = bench.now_s * US_PER_S,
    };
}

static struct fault ask(const struct keyless_subject *subject, struct span **ret_chain, size_t *ret_count)
{
    bench.op->note = (struct fault_note){ 0 };
    struct fault fault = keyless_issue(bench.op, &bench.config, token_client(), NULL, subject, ret_chain, ret_count);
    assert_true(!FAULTED(fault) || bench.op->note.detail[0] != '\0');
    return fault;
}

static void answer_with(const struct fake_leaf *leaf, const char *member)
{
    X509 *chain[] = { fake_leaf_new(&bench.ca, leaf), bench.ca.intermediate, bench.ca.root };
    buf_clear(&network.answer);
    network.status = 201;
    fake_answer(member, chain, COUNT_OF(chain), &network.answer);
    X509_free(chain[0]);
}

static void assert_leaf_refused(const struct fake_leaf *leaf, const char *because)
{
    struct span *chain = NULL;
    size_t count = 0;
    struct keyless_subject subject = subject_of();
    answer_with(leaf, "signedCertificateEmbeddedSct");
    assert_fault(ask(&subject, &chain, &count), FULCIO_REFUSED);
    if (strstr(bench.op->note.detail, because) == NULL) {
        fail_msg("wanted '%s', got '%s'", because, bench.op->note.detail);
    }
    assert_null(chain);
}

static void a_leaf_that_says_anything_else_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *san, *usage, *extended_usage, *issuer, *issuer_2, *constraints;
        const char *because;
    } wrong[] = {
        { .san = "critical,URI:https://github.com/evil/app", .because = "another identity" },
        { .san = "critical,URI:" SAN "x", .because = "another identity" },
        { .san = "critical,DNS:github.com", .because = "another identity" },
        { .san = "critical,URI:" SAN ",URI:https://github.com/evil", .because = "exactly one" },
        { .san = "", .because = "exactly one" },
        { .usage = "", .because = "code signing" },
        { .usage = "critical,digitalSignature,keyCertSign", .because = "code signing" },
        { .usage = "critical,keyEncipherment", .because = "code signing" },
        { .extended_usage = "", .because = "code signing" },
        { .extended_usage = "serverAuth", .because = "code signing" },
        { .extended_usage = "codeSigning,serverAuth", .because = "code signing" },
        { .extended_usage = "anyExtendedKeyUsage", .because = "code signing" },
        { .issuer = "https://accounts.example", .because = "another issuer" },
        { .issuer_2 = "https://accounts.example", .because = "another issuer" },
        { .issuer = "", .issuer_2 = "", .because = "another issuer" },
        { .constraints = "critical,CA:TRUE", .because = "authority" },
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct fake_leaf leaf = right_leaf();
#define TAKE_OVER(member)                                                  \
    if (wrong[i].member != NULL) {                                         \
        leaf.member = wrong[i].member[0] != '\0' ? wrong[i].member : NULL; \
    }
        TAKE_OVER(san)
        TAKE_OVER(usage)
        TAKE_OVER(extended_usage)
        TAKE_OVER(issuer)
        TAKE_OVER(issuer_2)
        TAKE_OVER(constraints)
        assert_leaf_refused(&leaf, wrong[i].because);
    }
    struct fake_leaf leaf = right_leaf();
    leaf.two_issuers = true;
    assert_leaf_refused(&leaf, "another issuer");
    leaf = right_leaf();
    leaf.spki = buf_span(&bench.other_spki);
    assert_leaf_refused(&leaf, "another key");
}

static void a_leaf_that_is_not_valid_now_is_refused(void **state)
{
    (void)state;
    struct fake_leaf leaf = right_leaf();
    leaf.from_s = bench.now_s - 1200;
    leaf.until_s = bench.now_s - 600;
    assert_leaf_refused(&leaf, "not valid now");
    leaf.from_s = bench.now_s + 3600;
    leaf.until_s = bench.now_s + 4200;
    assert_leaf_refused(&leaf, "not valid now");
}

static void a_chain_to_another_root_is_refused(void **state)
{
    (void)state;
    struct fake_ca other;
    struct fake_leaf leaf = right_leaf();
    leaf.signed_by = bench.ca.root_key; /* not the intermediate's, whom it names */
    assert_leaf_refused(&leaf, "does not lead to a root");
    fake_ca_new(&other, bench.now_s);
    leaf = right_leaf();
    X509 *chain[] = { fake_leaf_new(&other, &leaf), other.intermediate, other.root };
    struct keyless_subject subject = subject_of();
    struct span *got = NULL;
    size_t count = 0;
    buf_clear(&network.answer);
    fake_answer("signedCertificateEmbeddedSct", chain, COUNT_OF(chain), &network.answer);
    assert_fault(ask(&subject, &got, &count), FULCIO_REFUSED);
    assert_non_null(strstr(bench.op->note.detail, "does not lead to a root"));
    X509_free(chain[0]);
    fake_ca_free(&other);
    chain[0] = bench.ca.root; /* an authority alone */
    buf_clear(&network.answer);
    fake_answer("signedCertificateEmbeddedSct", chain, 1, &network.answer);
    assert_fault(ask(&subject, &got, &count), FULCIO_REFUSED);
    assert_null(got);
}

static void answers_of_another_form_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "<html>",
        "[]",
        "{}",
        "{\"signedCertificateEmbeddedSct\":[]}",
        "{\"signedCertificateEmbeddedSct\":{\"chain\":{\"certificates\":[]}}}",
        "{\"signedCertificateEmbeddedSct\":{\"chain\":{\"certificates\":[1]}}}",
        "{\"signedCertificateEmbeddedSct\":{\"chain\":{\"certificates\":[\"\"]}}}",
        "{\"signedCertificateEmbeddedSct\":{\"chain\":{\"certificates\":[null]}}}",
        "{\"signedCertificateEmbeddedSct\":{\"chain\":{\"certificates\":[[\"x\"]]}}}",
        "{\"signedCertificateEmbeddedSct\":{\"chain\":{\"certificates\":[\"-----BEGIN CERTIFICATE-----\\nAA==\\n"
        "-----END CERTIFICATE-----\\n\"]}}}",
        "{\"signedCertificateEmbeddedSct\":{\"chain\":{\"certificates\":[\"-----BEGIN PUBLIC KEY-----\\nAA==\\n"
        "-----END PUBLIC KEY-----\\n\"]}}}",
    };
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    network.status = 200;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        buf_clear(&network.answer);
        assert_fault(buf_text(&network.answer, bad[i]), NONE);
        assert_fault(ask(&subject, &chain, &count), FULCIO_REFUSED);
    }
    X509 *long_chain[9];
    for (size_t i = 0; i < COUNT_OF(long_chain); i++) {
        long_chain[i] = bench.ca.root;
    }
    buf_clear(&network.answer);
    fake_answer("signedCertificateEmbeddedSct", long_chain, COUNT_OF(long_chain), &network.answer);
    assert_fault(ask(&subject, &chain, &count), FULCIO_REFUSED);
    assert_null(chain);
}

static void two_certificates_in_one_text_are_refused(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    CLEANUP(buf_free) struct buf pem = BUF_INIT(65536);
    struct jout jout;
    struct span *chain = NULL;
    size_t count = 0;
    fake_pem(bench.ca.root, &pem);
    fake_pem(bench.ca.intermediate, &pem);
    buf_clear(&network.answer);
    assert_fault(buf_text(&network.answer, "{\"signedCertificateEmbeddedSct\":{\"chain\":{\"certificates\":["), NONE);
    jout_init(&jout, &network.answer);
    jout_span_text(&jout, buf_span(&pem));
    assert_fault(jout_end(&jout), NONE);
    assert_fault(buf_text(&network.answer, "]}}}"), NONE);
    assert_fault(ask(&subject, &chain, &count), FULCIO_REFUSED);
    assert_non_null(strstr(bench.op->note.detail, "one PEM certificate"));
}

static void an_outage_is_told_from_a_refusal(void **state)
{
    (void)state;
    static const struct {
        long status;
        enum fault_code code;
    } rows[] = {
        { 500, FAULT_FULCIO_UNAVAILABLE }, { 502, FAULT_FULCIO_UNAVAILABLE }, { 503, FAULT_FULCIO_UNAVAILABLE },
        { 429, FAULT_FULCIO_UNAVAILABLE }, { 400, FAULT_FULCIO_REFUSED },     { 401, FAULT_FULCIO_REFUSED },
        { 404, FAULT_FULCIO_REFUSED },     { 302, FAULT_FULCIO_REFUSED },     { 204, FAULT_FULCIO_REFUSED },
    };
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    buf_clear(&network.answer);
    assert_fault(buf_text(&network.answer, "{\"code\":3,\"message\":\"token eyJhbGciOi is bad\"}"), NONE);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        network.status = rows[i].status;
        network.retry_after = "17";
        assert_int_equal(ask(&subject, &chain, &count).code, rows[i].code);
        assert_int_equal(bench.op->note.retry_after_s, rows[i].code == FAULT_FULCIO_UNAVAILABLE ? 17 : 0);
        assert_null(strstr(bench.op->note.log_detail, "eyJ"));
    }
    network.retry_after = "Wed, 21 Oct 2026 07:28:00 GMT";
    network.status = 503;
    assert_fault(ask(&subject, &chain, &count), FULCIO_UNAVAILABLE);
    assert_int_equal(bench.op->note.retry_after_s, 0);
    network.gone = true;
    assert_fault(ask(&subject, &chain, &count), FULCIO_UNAVAILABLE);
    network.gone = false;
    assert_null(chain);
}

static void without_roots_or_signer_nobody_is_asked(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct span *chain = NULL;
    size_t count = 0;
    unsigned calls = network.calls;
    bench.config.fulcio_root = "/nowhere/root.pem";
    assert_fault(ask(&subject, &chain, &count), FULCIO_REFUSED);
    bench.config.fulcio_root = bench.root_path;
    token.refuse = FAULT(SIGNER_UNAVAILABLE);
    assert_fault(ask(&subject, &chain, &count), SIGNER_UNAVAILABLE);
    token.refuse = OK;
    subject.key = bench.rsa;
    subject.spki = buf_span(&bench.rsa_spki);
    assert_fault(ask(&subject, &chain, &count), UNSUPPORTED);
    assert_int_equal(network.calls, calls);
}

static void a_roots_file_that_holds_something_else_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "rubbish",
                                       "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n" };
    struct keyless_subject subject = subject_of();
    struct fake_leaf leaf = right_leaf();
    struct span *chain = NULL;
    size_t count = 0;
    char path[80];
    answer_with(&leaf, "signedCertificateEmbeddedSct");
    (void)snprintf(path, sizeof(path), "%s.bad", bench.root_path);
    bench.config.fulcio_root = path;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(buf_free) struct buf pem = BUF_INIT(65536);
        assert_fault(file_write(path, span_text(bad[i]), 0600), NONE);
        assert_fault(ask(&subject, &chain, &count), FULCIO_REFUSED);
        assert_non_null(strstr(bench.op->note.detail, "fulcio_root_file"));
        fake_pem(bench.ca.root, &pem); /* a good one in front does not make it good */
        assert_fault(buf_text(&pem, bad[i]), NONE);
        assert_fault(file_write(path, buf_span(&pem), 0600), NONE);
        assert_int_equal(FAULTED(ask(&subject, &chain, &count)), i == 2);
        chain = NULL;
    }
    bench.config.fulcio_root = bench.root_path;
    (void)unlink(path);
}

static void both_forms_of_the_answer_give_the_whole_chain(void **state)
{
    (void)state;
    static const char *const members[] = { "signedCertificateEmbeddedSct", "signedCertificateDetachedSct" };
    struct keyless_subject subject = subject_of();
    struct fake_leaf leaf = right_leaf();
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        struct span *chain = NULL;
        size_t count = 0;
        leaf.issuer_2 = i == 0 ? ISSUER : NULL; /* as Fulcio wrote before it knew arc 8 */
        answer_with(&leaf, members[i]);
        assert_fault(ask(&subject, &chain, &count), NONE);
        assert_int_equal(count, 3);
        unsigned char *der = NULL;
        int len = i2d_X509(bench.ca.root, &der);
        assert_true(span_equal(chain[2], span_of(der, (size_t)len)));
        OPENSSL_free(der);
    }
}

static void the_question_is_as_fulcio_wants_it(void **state)
{
    (void)state;
    struct keyless_subject subject = subject_of();
    struct fake_leaf leaf = right_leaf();
    struct span *chain = NULL, signature;
    struct view asked;
    struct uuid journal_id;
    size_t count = 0;
    answer_with(&leaf, "signedCertificateEmbeddedSct");
    assert_fault(ask(&subject, &chain, &count), NONE);
    journal_id = token_last_op_id;
    assert_string_equal(network.url, "https://fulcio.example/base/api/v2/signingCert");
    assert_true(network.keep && !network.plain_too && !network.has_token && network.ca_file == NULL);
    assert_fault(view_of(bench.op, buf_span(&network.asked), &asked), NONE);
    assert_string_equal(view_member(bench.op, asked, "credentials.oidcIdentityToken"), PROOF);
    assert_string_equal(view_member(bench.op, asked, "publicKeyRequest.publicKey.algorithm"), "ECDSA");
    const char *pem = view_member(bench.op, asked, "publicKeyRequest.publicKey.content");
    assert_fault(view_base64(bench.op, view_get(asked, "publicKeyRequest.proofOfPossession"), &signature), NONE);
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key), 1);
    assert_int_equal(EVP_DigestVerify(ctx, signature.at, signature.len, (const unsigned char *)subject.subject,
                                      strlen(subject.subject)),
                     1);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    BIO_free(bio);
    assert_fault(ask(&subject, &chain, &count), NONE);
    assert_true(uuid_equal(journal_id, token_last_op_id));
    assert_int_equal(strlen(journal_id.text), 36);
}

static void only_a_neighbour_is_asked_in_the_clear(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool plain;
    } rows[] = {
        { "http://127.0.0.1:5555", true },  { "http://[::1]:5555/", true },     { "http://localhost", true },
        { "http://fulcio.example", false }, { "http://127.0.0.1.evil", false }, { "http://localhost.evil/", false },
        { "https://127.0.0.1", false },
    };
    struct keyless_subject subject = subject_of();
    struct fake_leaf leaf = right_leaf();
    struct span *chain = NULL;
    size_t count = 0;
    answer_with(&leaf, "signedCertificateEmbeddedSct");
    bench.config.fulcio_ca = "/etc/fulcio-ca.pem";
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bench.config.fulcio_url = rows[i].url;
        assert_fault(ask(&subject, &chain, &count), NONE);
        assert_int_equal(network.plain_too, rows[i].plain);
        assert_string_equal(network.ca_file, "/etc/fulcio-ca.pem");
    }
    bench.config.fulcio_url = "https://fulcio.example/base/";
    bench.config.fulcio_ca = "";
}

static int setup(void **state)
{
    (void)state;
    struct buf detail = BUF_INIT(2048), pem = BUF_INIT(65536);
    (void)snprintf(bench.root_path, sizeof(bench.root_path), "/tmp/fulcio-root-%d.pem", (int)getpid());
    bench.config = (struct config){ .fips_required = true,
                                    .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so",
                                    .keyless_ttl = 600 * NS_PER_S,
                                    .fulcio_url = "https://fulcio.example/base/",
                                    .fulcio_ca = "",
                                    .fulcio_root = bench.root_path };
    bench.now_s = clock_utc() / US_PER_S;
    network.answer = (struct buf)BUF_INIT((size_t)1 << 20);
    network.asked = (struct buf)BUF_INIT((size_t)1 << 20);
    network.retry_after = "";
    BUG_IF(FAULTED(fips_start(&bench.config, &detail)));
    fake_ca_new(&bench.ca, bench.now_s);
    fake_pem(bench.ca.root, &pem);
    BUG_IF(FAULTED(file_write(bench.root_path, buf_span(&pem), 0600)));
    bench.ephemeral = token_make_key("P-256", KEY_PURPOSE_CODESIGN_EPHEMERAL, &bench.ephemeral_spki);
    bench.other = token_make_key("P-256", KEY_PURPOSE_CODESIGN_EPHEMERAL, &bench.other_spki);
    bench.rsa = token_make_key("RSA", KEY_PURPOSE_CODESIGN_EPHEMERAL, &bench.rsa_spki);
    buf_free(&detail);
    buf_free(&pem);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(bench.root_path);
    fake_ca_free(&bench.ca);
    buf_free(&bench.ephemeral_spki);
    buf_free(&bench.other_spki);
    buf_free(&bench.rsa_spki);
    buf_free(&network.answer);
    buf_free(&network.asked);
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
        TEST(a_leaf_that_says_anything_else_is_refused),
        TEST(a_leaf_that_is_not_valid_now_is_refused),
        TEST(a_chain_to_another_root_is_refused),
        TEST(answers_of_another_form_are_refused),
        TEST(two_certificates_in_one_text_are_refused),
        TEST(an_outage_is_told_from_a_refusal),
        TEST(without_roots_or_signer_nobody_is_asked),
        TEST(a_roots_file_that_holds_something_else_is_refused),
        TEST(both_forms_of_the_answer_give_the_whole_chain),
        TEST(the_question_is_as_fulcio_wants_it),
        TEST(only_a_neighbour_is_asked_in_the_clear),
    };
    return cmocka_run_group_tests_name("fulcio", tests, setup, teardown);
}
