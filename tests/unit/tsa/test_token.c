#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/tsa/authority.h"

#include "appliance/base/file.h"

#include <openssl/pem.h>
#include <openssl/ts.h>
#include <stdio.h>
#include <unistd.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static struct op *op;
static struct sha256 digest;
static const uint8_t nonce[] = { 0x00, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10 };

static const uint8_t policy_body[] = { 0x2a, 0x03, 0x04, 0x01 }; /* 1.2.3.4.1 */

/* A response over `digest`, made as /tsa makes it. */
static struct span respond(const struct tsa_unit *unit, struct span request_der, utc_us time)
{
    struct tsq request;
    struct span token_der;
    struct span reply;
    assert_fault(tsq_parse(op, request_der, &request), NONE);
    struct tsa_statement statement = {
        .request = &request,
        .policy = SPAN_ARRAY(policy_body),
        .serial = 0x8000000000001,
        .time = time,
        .digits = 3,
    };
    assert_fault(authority_token(op, unit, &statement, &token_der), NONE);
    assert_fault(tsa_reply_granted(op, token_der, &reply), NONE);
    return reply;
}

static struct span request_with(struct span nonce_body)
{
    struct span der;
    assert_fault(tst_request(op, "sha256", SPAN_ARRAY(digest.at), nonce_body, &der), NONE);
    return der;
}

static struct span respond_now(int kind)
{
    return respond(authority.units[kind], request_with(SPAN_ARRAY(nonce)), clock_utc());
}

static struct tst_expect expect_all(void)
{
    return (struct tst_expect){
        .hash = "sha256",
        .digest = SPAN_ARRAY(digest.at),
        .nonce = SPAN_ARRAY(nonce),
        .roots_pem = buf_span(&authority.root_pem),
    };
}

/* Refused, with `word` in the reason, and nothing told. */
static void assert_refused(struct span der, const struct tst_expect *expect, const char *word)
{
    struct tst_info info = { 0 };
    op->note = (struct fault_note){ 0 };
    assert_fault(tst_verify(op, der, expect, &info), TST_INVALID);
    assert_int_equal(info.time, 0);
    if (strstr(op->note.detail, word) == NULL) {
        fail_msg("\"%s\" is not in: %s", word, op->note.detail);
    }
}

static void another_digest_hash_or_nonce_is_refused(void **state)
{
    (void)state;
    struct span reply = respond_now(UNIT_P256);
    struct tst_expect expect = expect_all();
    uint8_t other[64] = { 1 };
    expect.digest = span_of(other, 32);
    assert_refused(reply, &expect, "another sha256 digest");
    expect = expect_all();
    expect.hash = "sha384";
    assert_refused(reply, &expect, "another");
    expect = expect_all();
    expect.nonce = span_of(nonce + 1, 4);
    assert_refused(reply, &expect, "nonce");
    expect = expect_all();
    assert_refused(respond(authority.units[UNIT_P256], request_with((struct span){ 0 }), clock_utc()), &expect,
                   "nonce");
}

static void without_a_pinned_root_or_under_another_one_it_is_refused(void **state)
{
    (void)state;
    struct span reply = respond_now(UNIT_P256);
    struct tst_expect expect = expect_all();
    expect.roots_pem = (struct span){ 0 };
    assert_refused(reply, &expect, "no pinned root");
    expect.roots_pem = span_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert_refused(reply, &expect, "no PEM certificate");

    struct buf spki = { 0 };
    struct buf pem = BUF_INIT(8192);
    struct span der;
    struct key_ref key = token_make_key("P-384", KEY_PURPOSE_CA, &spki);
    struct certificate_issuer self = { .key = key, .spki = buf_span(&spki) };
    struct certificate_profile profile = {
        .common_name = "Test Root", /* the same name, another key */
        .authority = true,
        .valid_days = 3652,
        .not_before = clock_utc() - 3600 * US_PER_S,
    };
    assert_fault(certificate_issue(op, token_client(), &self, self.spki, &profile, &der), NONE);
    assert_fault(certificate_pem(der, &pem), NONE);
    expect.roots_pem = buf_span(&pem);
    assert_refused(reply, &expect, "pinned root");
    buf_free(&pem);
    buf_free(&spki);
}

static void the_certificate_is_judged_at_the_stated_time(void **state)
{
    (void)state;
    struct tst_expect expect = expect_all();
    struct span request = request_with(SPAN_ARRAY(nonce));
    struct tst_info info;
    utc_us now = clock_utc();
    utc_us year = 366 * 86400 * US_PER_S;
    assert_refused(respond(authority.units[UNIT_P256], request, now - year), &expect, "not yet valid");
    assert_refused(respond(authority.units[UNIT_P256], request, now + 6 * year), &expect, "expired");

    /* expired today, valid when it stamped: a stamp outlives its certificate */
    struct span leaf;
    struct tsa_unit *unit = NULL;
    authority_leaf(UNIT_P256, "critical,timeStamping", 1, now - 3600 * US_PER_S, &leaf);
    authority_unit(UNIT_P256, leaf, &unit);
    assert_fault(tst_verify(op, respond(unit, request, now), &expect, &info), NONE);
    assert_refused(respond(unit, request, now + 2 * 86400 * US_PER_S), &expect, "expired");
    tsa_unit_free(unit);
}

static void a_certificate_for_other_uses_is_refused(void **state)
{
    (void)state;
    static const char *const usages[] = { NULL, "timeStamping", "critical,timeStamping,codeSigning",
                                          "critical,codeSigning" };
    struct tst_expect expect = expect_all();
    for (size_t i = 0; i < COUNT_OF(usages); i++) {
        struct span leaf;
        struct tsa_unit *unit = NULL;
        authority_leaf(UNIT_P256, usages[i], 30, clock_utc() - 3600 * US_PER_S, &leaf);
        authority_unit(UNIT_P256, leaf, &unit);
        assert_refused(respond(unit, request_with(SPAN_ARRAY(nonce)), clock_utc()), &expect,
                       "not good for time stamping");
        tsa_unit_free(unit);
    }
}

/* Two certificates over one key: the signature fits both, the binding names one (RFC 5035 2). */
static void a_token_is_bound_to_the_exact_certificate(void **state)
{
    (void)state;
    struct span other;
    struct tsa_unit *made = NULL;
    struct tst_expect expect = expect_all();
    authority_leaf(UNIT_P256, "critical,timeStamping", 30, clock_utc() - 3600 * US_PER_S, &other);
    authority_unit(UNIT_P256, other, &made);
    struct buf kept = made->certificate_attribute;
    made->certificate_attribute = authority.units[UNIT_P256]->certificate_attribute;
    assert_refused(respond(made, request_with(SPAN_ARRAY(nonce)), clock_utc()), &expect, "names another certificate");
    made->certificate_attribute = kept;
    tsa_unit_free(made);
}

static void a_refusal_of_the_authority_is_told_as_such(void **state)
{
    (void)state;
    struct span reply;
    struct tst_expect expect = expect_all();
    assert_fault(tsa_reply_refused(op, FAULT(TSA_BAD_ALG), "use sha256", &reply), NONE);
    assert_refused(reply, &expect, "use sha256");
    assert_refused(span_text("rubbish"), &expect, "not an RFC 3161");
    assert_refused((struct span){ 0 }, &expect, "not an RFC 3161");
}

/* Every byte of the reply, changed: either refused, or it was one that says nothing about the stamp. */
static void no_changed_byte_changes_what_is_believed(void **state)
{
    (void)state;
    struct tst_expect expect = expect_all();
    struct tst_info truth;
    struct span reply = respond_now(UNIT_P256);
    assert_fault(tst_verify(op, reply, &expect, &truth), NONE);
    size_t believed = 0;
    for (size_t i = 0; i < reply.len; i++) {
        struct op *inner = NULL;
        struct tst_info info;
        uint8_t *altered = malloc(reply.len);
        assert_fault(op_new("test", (struct tenant_id){ "default" }, 60000, &inner), NONE);
        memcpy(altered, reply.at, reply.len);
        altered[i] ^= 0x01;
        struct fault fault = tst_verify(inner, span_of(altered, reply.len), &expect, &info);
        if (!FAULTED(fault)) {
            believed++;
            assert_int_equal(info.time, truth.time);
            assert_string_equal(info.serial, truth.serial);
            assert_string_equal(info.policy, truth.policy);
            assert_true(span_equal(info.imprint, truth.imprint) && span_equal(info.certificate, truth.certificate));
        }
        op_free(inner);
        free(altered);
    }
    assert_int_equal(believed, 3); /* the status 1 "granted with modifications", and two version numbers of CMS */
}

static void what_the_token_says_is_what_was_asked(void **state)
{
    (void)state;
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        struct tst_info info;
        struct tst_expect expect = expect_all();
        utc_us now = clock_utc();
        struct span reply = respond(authority.units[kind], request_with(SPAN_ARRAY(nonce)), now);
        struct fault fault = tst_verify(op, reply, &expect, &info);
        if (FAULTED(fault)) {
            fail_msg("%s: %s (%s)", unit_types[kind], op->note.detail, op->note.log_detail);
        }
        assert_int_equal(info.time, now - now % 1000);
        assert_int_equal(info.accuracy_us, 1500000);
        assert_string_equal(info.serial, "0x08000000000001");
        assert_string_equal(info.policy, "1.2.3.4.1");
        assert_string_equal(info.hash, "sha256");
        assert_string_equal(info.signer, "CN=Test Time Stamping Unit");
        assert_true(span_equal(info.certificate, authority.leaves[kind]));
        assert_true(span_equal(info.nonce, SPAN_ARRAY(nonce)));
    }
}

static void without_cert_req_the_certificate_is_left_out(void **state)
{
    (void)state;
    struct span request = request_with(SPAN_ARRAY(nonce));
    uint8_t bytes[512];
    memcpy(bytes, request.at, request.len - 3); /* without the BOOLEAN at its end */
    bytes[1] = (uint8_t)(bytes[1] - 3);
    struct span reply = respond(authority.units[UNIT_P256], span_of(bytes, request.len - 3), clock_utc());
    struct tst_expect expect = expect_all();
    struct tst_info info;
    assert_fault(tst_inspect(op, reply, &info), NONE);
    assert_int_equal(info.certificate.len, 0);
    assert_refused(reply, &expect, "neither in it nor among those given");
    struct buf pem = BUF_INIT(8192);
    assert_fault(certificate_pem(authority.leaves[UNIT_P256], &pem), NONE);
    expect.extra_pem = buf_span(&pem);
    assert_fault(tst_verify(op, reply, &expect, &info), NONE);
    buf_free(&pem);
}

static void a_signer_that_cannot_sign_gives_no_token(void **state)
{
    (void)state;
    struct tsq request;
    struct span untouched = { 0 };
    assert_fault(tsq_parse(op, request_with(SPAN_ARRAY(nonce)), &request), NONE);
    struct tsa_statement statement = { .request = &request, .policy = SPAN_ARRAY(policy_body), .serial = 1 };
    token.refuse = FAULT(SIGNER_UNAVAILABLE);
    assert_fault(authority_token(op, authority.units[UNIT_P256], &statement, &untouched), SIGNER_UNAVAILABLE);
    token.refuse = OK;
    assert_null(untouched.at);
}

static void write_to(const char *path, struct span bytes)
{
    assert_fault(file_write(path, bytes, 0644), NONE);
}

/* The interop oracle: the `openssl ts` of the system, by request and by digest, response and bare token. */
static void openssl_verifies_every_kind(void **state)
{
    (void)state;
    char folder[] = "/tmp/svc-test-tsa-XXXXXX";
    char command[1024];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    write_to("root.pem", buf_span(&authority.root_pem));
    write_to("artifact", span_text("artifact"));
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        struct span request = request_with(SPAN_ARRAY(nonce));
        write_to("request.tsq", request);
        write_to("reply.tsr", respond(authority.units[kind], request, clock_utc()));
        static const char *const commands[] = {
            "openssl ts -verify -queryfile request.tsq -in reply.tsr -CAfile root.pem >out 2>&1 && grep -q "
            "'Verification: OK' out",
            "openssl ts -verify -data artifact -in reply.tsr -CAfile root.pem >out 2>&1 && grep -q 'Verification: OK' "
            "out",
            "openssl ts -reply -in reply.tsr -token_out -out token.der >out 2>&1 && "
            "openssl ts -verify -data artifact -in token.der -token_in -CAfile root.pem >>out 2>&1",
            "openssl cms -verify -inform DER -in token.der -CAfile root.pem -purpose timestampsign >/dev/null 2>out",
            "openssl ts -reply -in reply.tsr -text 2>&1 | tee out | grep -q 'seconds, 0x01F4 millis'",
        };
        for (size_t i = 0; i < COUNT_OF(commands); i++) {
            (void)snprintf(command, sizeof(command), "%s", commands[i]);
            if (system(command) != 0) {
                fail_msg("%s: %s", unit_types[kind], commands[i]);
            }
        }
    }
    assert_int_equal(chdir("/"), 0);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
    (void)state;
    authority_start();
    return FAULTED(sha256_of(span_text("artifact"), &digest)) ? -1 : 0;
}
static int teardown(void **state)
{
    (void)state;
    authority_stop();
    return 0;
}
static int new_op(void **state)
{
    (void)state;
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)) ? -1 : 0;
}
static int free_op(void **state)
{
    (void)state;
    op_free(TAKE(op));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, new_op, free_op)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(another_digest_hash_or_nonce_is_refused),
        TEST(without_a_pinned_root_or_under_another_one_it_is_refused),
        TEST(the_certificate_is_judged_at_the_stated_time),
        TEST(a_certificate_for_other_uses_is_refused),
        TEST(a_token_is_bound_to_the_exact_certificate),
        TEST(a_refusal_of_the_authority_is_told_as_such),
        TEST(no_changed_byte_changes_what_is_believed),
        TEST(what_the_token_says_is_what_was_asked),
        TEST(without_cert_req_the_certificate_is_left_out),
        TEST(a_signer_that_cannot_sign_gives_no_token),
        TEST(openssl_verifies_every_kind),
    };
    return cmocka_run_group_tests_name("time-stamp token", tests, setup, teardown);
}
