#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/tsa/internal.h"
#include "appliance/base/codec.h"
#include "tests/unit/tsa/golden.h"

#include <openssl/ts.h>
#include <stdio.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static const char *policies[] = { "1.2.3.4.5.6" };
static const char *hashes[] = { "sha256", "sha384", "sha512" };
static const struct config config = {
    .tsa_policy = "1.3.6.1.4.1.57264.2.1.1",
    .tsa_policies = { policies, 1 },
    .tsa_hashes = { hashes, 3 },
};

struct bench {
    struct op *op;
    struct tsa_rules rules;
    struct buf bytes;
};

static struct fault judge(struct bench *bench, const char *hex, struct tsq *request, struct span *policy)
{
    const struct tst_hash *hash = NULL;
    buf_clear(&bench->bytes);
    assert_fault(hex_decode(span_text(hex), &bench->bytes), NONE);
    TRY(tsq_parse(bench->op, buf_span(&bench->bytes), request));
    return tsq_judge(bench->op, &bench->rules, request, &hash, policy);
}

static void each_golden_refusal_is_the_right_one(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        struct tsq request;
        struct span policy;
        bench->op->note = (struct fault_note){ 0 };
        struct fault fault = judge(bench, refused[i].hex, &request, &policy);
        if (fault.code != refused[i].fault || !bench->op->note.set || bench->op->note.detail[0] == '\0') {
            fail_msg("%s: %s", refused[i].name, fault_row(fault.code)->text);
        }
    }
}

/* The same bytes with every possible cut: never accepted, never read past the end (ASan looks on). */
static void every_truncation_is_refused(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        buf_clear(&bench->bytes);
        assert_fault(hex_decode(span_text(accepted[i].hex), &bench->bytes), NONE);
        for (size_t len = 0; len < bench->bytes.len; len++) {
            struct tsq request;
            uint8_t *cut = malloc(len > 0 ? len : 1);
            memcpy(cut, bench->bytes.at, len);
            assert_fault(tsq_parse(bench->op, span_of(cut, len), &request), TSA_BAD_FORMAT);
            free(cut);
        }
    }
}

static void a_hash_that_is_switched_off_is_refused(void **state)
{
    struct bench *bench = *state;
    struct tsq request;
    struct span policy;
    bench->rules.hashes[TST_SHA256] = false;
    assert_fault(judge(bench, accepted[0].hex, &request, &policy), TSA_BAD_ALG);
    assert_non_null(strstr(bench->op->note.detail, "sha256"));
    bench->rules.hashes[TST_SHA256] = true;
}

static void rules_that_make_no_sense_are_refused_by_key(void **state)
{
    struct bench *bench = *state;
    const char *wrong[] = { "sha256", "sha1" };
    const char *no_oid[] = { "1.2.x" };
    struct config bad[] = { config, config, config, config, config };
    bad[0].tsa_policy = "";
    bad[1].tsa_policy = "3.1";
    bad[2].tsa_policies = (struct config_list){ no_oid, 1 };
    bad[3].tsa_hashes = (struct config_list){ wrong, 2 };
    bad[4].tsa_hashes = (struct config_list){ 0 };
    static const char *const keys[] = { "policy_oid", "policy_oid", "policies", "hash_algorithms", "hash_algorithms" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct tsa_rules untouched = { 0 };
        bench->op->note = (struct fault_note){ 0 };
        assert_fault(tsa_rules_init(bench->op, &bad[i], &untouched), CONFIG);
        assert_int_equal(untouched.policy_count, 0);
        assert_non_null(strstr(bench->op->note.detail, keys[i]));
    }
}

static void the_golden_requests_are_accepted(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        struct tsq request;
        struct span policy = { 0 };
        struct fault fault = judge(bench, accepted[i].hex, &request, &policy);
        if (FAULTED(fault)) {
            fail_msg("%s: %s", accepted[i].name, bench->op->note.detail);
        }
        assert_true(policy.len > 0);
    }
}

/* OpenSSL reads the same thing out of what is accepted. */
static void openssl_agrees_on_what_was_asked(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < COUNT_OF(accepted); i++) {
        struct tsq request;
        struct span policy;
        assert_fault(judge(bench, accepted[i].hex, &request, &policy), NONE);
        const unsigned char *at = bench->bytes.at;
        TS_REQ *read = d2i_TS_REQ(NULL, &at, (long)bench->bytes.len);
        assert_non_null(read);
        assert_int_equal(TS_REQ_get_version(read), 1);
        assert_int_equal(TS_REQ_get_cert_req(read) != 0, request.certificate_wanted);
        assert_int_equal(TS_REQ_get_nonce(read) != NULL, request.nonce.len > 0);
        assert_int_equal(TS_REQ_get_policy_id(read) != NULL, request.policy.len > 0);
        ASN1_OCTET_STRING *digest = TS_MSG_IMPRINT_get_msg(TS_REQ_get_msg_imprint(read));
        assert_true(
            span_equal(request.digest, span_of(ASN1_STRING_get0_data(digest), (size_t)ASN1_STRING_length(digest))));
        TS_REQ_free(read);
    }
}

/* PKIFailureInfo, bit by bit, as OpenSSL reads it. */
static void rejections_carry_the_failure_and_say_why(void **state)
{
    struct bench *bench = *state;
    static const struct {
        enum fault_code code;
        int bit;
    } rows[] = {
        { FAULT_TSA_BAD_ALG, 0 },         { FAULT_TSA_BAD_REQUEST, 2 }, { FAULT_TSA_BAD_FORMAT, 5 },
        { FAULT_TSA_TIME, 14 },           { FAULT_TSA_POLICY, 15 },     { FAULT_TSA_EXTENSION, 16 },
        { FAULT_SIGNER_UNAVAILABLE, 25 }, { FAULT_DEADLINE, 25 },       { FAULT_INTERNAL, 25 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct span reply;
        assert_fault(tsa_reply_refused(bench->op, (struct fault){ rows[i].code }, "because", &reply), NONE);
        const unsigned char *at = reply.at;
        TS_RESP *read = d2i_TS_RESP(NULL, &at, (long)reply.len);
        assert_non_null(read);
        assert_ptr_equal(at, reply.at + reply.len);
        TS_STATUS_INFO *status = TS_RESP_get_status_info(read);
        assert_int_equal(ASN1_INTEGER_get(TS_STATUS_INFO_get0_status(status)), 2);
        const ASN1_BIT_STRING *failure = TS_STATUS_INFO_get0_failure_info(status);
        for (int bit = 0; bit < 32; bit++) {
            assert_int_equal(ASN1_BIT_STRING_get_bit(failure, bit), bit == rows[i].bit);
        }
        const ASN1_UTF8STRING *text = sk_ASN1_UTF8STRING_value(TS_STATUS_INFO_get0_text(status), 0);
        assert_true(span_equal_text(span_of(ASN1_STRING_get0_data(text), (size_t)ASN1_STRING_length(text)), "because"));
        unsigned char *again = NULL;
        int len = i2d_TS_RESP(read, &again);
        assert_true(len > 0 && span_equal(span_of(again, (size_t)len), reply)); /* it is DER: the one encoding */
        OPENSSL_free(again);
        TS_RESP_free(read);
    }
}

static int setup(void **state)
{
    static struct bench bench;
    bench = (struct bench){ .bytes = BUF_INIT(TSA_REQUEST_MAX) };
    *state = &bench;
    BUG_IF(FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &bench.op)));
    BUG_IF(FAULTED(tsa_rules_init(bench.op, &config, &bench.rules)));
    return 0;
}
static int teardown(void **state)
{
    struct bench *bench = *state;
    tsa_rules_clear(&bench->rules);
    buf_free(&bench->bytes);
    op_free(bench->op);
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_golden_refusal_is_the_right_one),     TEST(every_truncation_is_refused),
        TEST(a_hash_that_is_switched_off_is_refused),   TEST(rules_that_make_no_sense_are_refused_by_key),
        TEST(the_golden_requests_are_accepted),         TEST(openssl_agrees_on_what_was_asked),
        TEST(rejections_carry_the_failure_and_say_why),
    };
    return cmocka_run_group_tests_name("time-stamp request", tests, NULL, NULL);
}
