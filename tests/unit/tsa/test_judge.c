/* The verifier's closed reasons, and what else it reads: statuses and queries. */
#include "tests/testlib.h"

#include "tests/unit/tsa/authority.h"

static struct op *op;
static struct sha256 digest;
static const uint8_t nonce[] = { 0x7e, 0xdc };
static const uint8_t policy_body[] = { 0x2a, 0x03, 0x04, 0x01 };

static struct span respond(int kind, utc_us time, bool certificate)
{
    struct tsq request;
    struct span der, token_der, reply;
    assert_fault(tst_request(op, "sha256", SPAN_ARRAY(digest.at), SPAN_ARRAY(nonce), &der), NONE);
    assert_fault(tsq_parse(op, der, &request), NONE);
    request.certificate_wanted = certificate;
    struct tsa_statement statement = { .request = &request, .policy = SPAN_ARRAY(policy_body), .time = time };
    statement.serial = 7;
    assert_fault(authority_token(op, authority.units[kind], &statement, &token_der), NONE);
    assert_fault(tsa_reply_granted(op, token_der, &reply), NONE);
    return reply;
}

static struct tst_expect expect_all(void)
{
    return (struct tst_expect){ .hash = "sha256",
                                .digest = SPAN_ARRAY(digest.at),
                                .nonce = SPAN_ARRAY(nonce),
                                .roots_pem = buf_span(&authority.root_pem) };
}

static void assert_reason(struct span der, const struct tst_expect *expect, const char *expected)
{
    struct tst_info info = { 0 };
    enum tst_reason reason = TST_REASON_COUNT;
    op->note = (struct fault_note){ 0 };
    struct fault fault = tst_judge(op, der, expect, &info, &reason);
    assert_string_equal(tst_reason_text(reason), expected);
    assert_int_equal(fault.code == FAULT_TST_INVALID, reason != TST_HOLDS);
    assert_int_equal(info.time == 0, reason != TST_HOLDS);
}

static struct span altered(struct span der, size_t at)
{
    uint8_t *copy = NULL;
    assert_fault(arena_take(op->arena, der.len, 1, &copy), NONE);
    memcpy(copy, der.at, der.len);
    copy[at] ^= 0x01;
    return span_of(copy, der.len);
}

static void each_failing_has_its_reason(void **state)
{
    (void)state;
    utc_us now = clock_utc();
    struct tst_expect expect = expect_all();
    struct span reply = respond(UNIT_P256, now, true), refusal;
    assert_reason(span_text("rubbish"), &expect, "malformed");
    assert_reason((struct span){ 0 }, &expect, "malformed");
    assert_reason(span_of(reply.at, reply.len - 1), &expect, "malformed");
    assert_fault(tsa_reply_refused(op, FAULT(TSA_POLICY), "no", &refusal), NONE);
    assert_reason(refusal, &expect, "not_granted");
    expect.roots_pem = (struct span){ 0 };
    assert_reason(reply, &expect, "no_root");
    expect.roots_pem = span_text("no certificate");
    assert_reason(reply, &expect, "no_root");
    expect = expect_all();
    assert_reason(respond(UNIT_P256, now, false), &expect, "signer");
    assert_reason(altered(reply, reply.len - 3), &expect, "signature");
    assert_reason(respond(UNIT_P256, now + INT64_C(86400) * 366 * 6 * US_PER_S, true), &expect, "certificate");
    expect.digest = SPAN_ARRAY(nonce);
    assert_reason(reply, &expect, "digest");
    expect = expect_all();
    expect.nonce = span_of(nonce, 1);
    assert_reason(reply, &expect, "nonce");
    expect = expect_all();
    assert_reason(reply, &expect, "holds");
}

/* Asking for more than the stated time makes the judgement stricter, never milder. */
static void a_given_time_is_judged_beside_the_stated_one(void **state)
{
    (void)state;
    utc_us now = clock_utc(), years = INT64_C(86400) * 366 * 6 * US_PER_S;
    struct tst_expect expect = expect_all();
    expect.at = now + years;
    assert_reason(respond(UNIT_P256, now, true), &expect, "certificate");
    expect.at = now - years;
    assert_reason(respond(UNIT_P256, now, true), &expect, "certificate");
    expect.at = now;
    assert_reason(respond(UNIT_P256, now + years, true), &expect, "certificate");
    assert_reason(respond(UNIT_P256, now, true), &expect, "holds");
}

static void a_refusal_tells_its_failure_and_words(void **state)
{
    (void)state;
    static const struct {
        enum fault_code code;
        const char *name;
    } rows[] = {
        { FAULT_TSA_BAD_ALG, "badAlg" },           { FAULT_TSA_BAD_REQUEST, "badRequest" },
        { FAULT_TSA_BAD_FORMAT, "badDataFormat" }, { FAULT_TSA_TIME, "timeNotAvailable" },
        { FAULT_TSA_POLICY, "unacceptedPolicy" },  { FAULT_TSA_EXTENSION, "unacceptedExtension" },
        { FAULT_INTERNAL, "systemFailure" },
    };
    struct tst_status status;
    struct span reply;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_fault(tsa_reply_refused(op, (struct fault){ rows[i].code }, "because", &reply), NONE);
        assert_int_equal(tst_kind_of(reply), TST_KIND_REPLY);
        assert_fault(tst_status_of(op, reply, &status), NONE);
        assert_int_equal(status.status, 2);
        assert_string_equal(status.failure, rows[i].name);
        assert_string_equal(status.text, "because");
        for (size_t len = 0; len < reply.len; len++) {
            assert_fault(tst_status_of(op, span_of(reply.at, len), &status), TST_INVALID);
        }
    }
    assert_fault(tst_status_of(op, respond(UNIT_RSA, clock_utc(), true), &status), NONE);
    assert_int_equal(status.status, 0);
    assert_null(status.failure);
    assert_int_equal(tst_kind_of(span_text("0")), TST_KIND_NONE);
    assert_int_equal(tst_kind_of((struct span){ 0 }), TST_KIND_NONE);
}

static void a_query_tells_what_it_asks(void **state)
{
    (void)state;
    struct tst_query query = { 0 };
    struct span der;
    assert_fault(tst_query_of(op, span_text("rubbish"), &query), TSA_BAD_FORMAT);
    assert_fault(tst_request(op, "sha256", SPAN_ARRAY(digest.at), SPAN_ARRAY(nonce), &der), NONE);
    assert_int_equal(tst_kind_of(der), TST_KIND_QUERY);
    assert_fault(tst_query_of(op, der, &query), NONE);
    assert_string_equal(query.hash, "sha256");
    assert_true(span_equal(query.imprint, SPAN_ARRAY(digest.at)) && span_equal(query.nonce, SPAN_ARRAY(nonce)));
    assert_null(query.policy);
    assert_true(query.certificate_wanted && !query.extensions);
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
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 600000, &op)) ? -1 : 0;
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
        TEST(each_failing_has_its_reason),
        TEST(a_given_time_is_judged_beside_the_stated_one),
        TEST(a_refusal_tells_its_failure_and_words),
        TEST(a_query_tells_what_it_asks),
    };
    return cmocka_run_group_tests_name("judging time stamps", tests, setup, teardown);
}
