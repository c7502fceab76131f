/* The token's profile: what is configurable in it, and the check before it leaves. */
#include "tests/testlib.h"

#include "tests/unit/tsa/authority.h"

#include <openssl/asn1t.h>
#include <openssl/ts.h>
#include <stdio.h>

static struct op *op;
static struct sha256 digest;
static const uint8_t nonce[] = { 0x00, 0xfe, 0xdc };
static const uint8_t policy_body[] = { 0x2a, 0x03, 0x04, 0x01 };
static const uint8_t other_policy[] = { 0x2a, 0x03, 0x04, 0x02 };

struct made {
    struct tsq request;
    struct tsa_statement statement;
    struct span token;
};

static void make(int kind, utc_us time, unsigned digits, bool name, struct made *made)
{
    struct span der;
    *made = (struct made){ 0 };
    assert_fault(tst_request(op, "sha256", SPAN_ARRAY(digest.at), SPAN_ARRAY(nonce), &der), NONE);
    assert_fault(tsq_parse(op, der, &made->request), NONE);
    made->statement = (struct tsa_statement){
        .request = &made->request,
        .policy = SPAN_ARRAY(policy_body),
        .serial = 0x1000a,
        .time = time,
        .digits = digits,
        .name = name,
    };
    assert_fault(authority_token(op, authority.units[kind], &made->statement, &made->token), NONE);
}

/* OpenSSL's reading of the TSTInfo. */
static TS_TST_INFO *read_back(struct span token_der)
{
    const unsigned char *at = token_der.at;
    PKCS7 *cms = d2i_PKCS7(NULL, &at, (long)token_der.len);
    assert_non_null(cms);
    TS_TST_INFO *info = PKCS7_to_TS_TST_INFO(cms);
    assert_non_null(info);
    PKCS7_free(cms);
    return info;
}

static utc_us now_whole(void)
{
    utc_us now = clock_utc();
    return now - now % US_PER_S;
}

static void assert_check_refuses(int kind, const struct made *made, struct span token_der, const char *word)
{
    op->note = (struct fault_note){ 0 };
    assert_fault(tsa_check(op, authority.units[kind], &made->statement, token_der, true), CRYPTO);
    assert_non_null(strstr(op->note.detail, "thrown away"));
    if (strstr(op->note.log_detail, word) == NULL) {
        fail_msg("\"%s\" is not in: %s", word, op->note.log_detail);
    }
}

static void a_token_that_says_something_else_does_not_pass_the_check(void **state)
{
    (void)state;
    struct made made;
    make(UNIT_P256, now_whole() + 123456, 3, false, &made);
    struct tsa_statement meant = made.statement;
    made.statement.serial++;
    assert_check_refuses(UNIT_P256, &made, made.token, "something else");
    made.statement = meant;
    made.statement.time += 1000;
    assert_check_refuses(UNIT_P256, &made, made.token, "something else");
    made.statement = meant;
    made.statement.policy = SPAN_ARRAY(other_policy);
    assert_check_refuses(UNIT_P256, &made, made.token, "something else");
    made.statement = meant;
    struct sha256 other = { { 1 } };
    made.request.digest = SPAN_ARRAY(other.at);
    assert_check_refuses(UNIT_P256, &made, made.token, "another sha256 digest");
    made.request.digest = SPAN_ARRAY(digest.at);
    made.request.nonce = (struct span){ 0 };
    assert_check_refuses(UNIT_P256, &made, made.token, "something else");
}

static void a_token_of_another_unit_or_a_damaged_one_does_not_pass_the_check(void **state)
{
    (void)state;
    struct made made;
    make(UNIT_P256, now_whole(), 3, false, &made);
    /* of the same root, with a certificate of its own: another one all the same */
    assert_check_refuses(UNIT_RSA, &made, made.token, "something else");
    uint8_t *damaged = NULL;
    assert_fault(arena_take(op->arena, made.token.len, 1, &damaged), NONE);
    memcpy(damaged, made.token.at, made.token.len);
    damaged[made.token.len - 3] ^= 0x01;
    assert_check_refuses(UNIT_P256, &made, span_of(damaged, made.token.len), "signature does not verify");
    /* beyond the certificate's time */
    make(UNIT_P256, now_whole() + INT64_C(86400) * 366 * 6 * US_PER_S, 3, false, &made);
    assert_check_refuses(UNIT_P256, &made, made.token, "expired");
}

static void every_kind_of_token_passes_the_check(void **state)
{
    (void)state;
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        for (int variant = 0; variant < 8; variant++) {
            struct made made;
            make(kind, now_whole() + 654321, variant & 1 ? 6 : 0, (variant & 2) != 0, &made);
            made.request.certificate_wanted = (variant & 4) != 0;
            assert_fault(authority_token(op, authority.units[kind], &made.statement, &made.token), NONE);
            struct fault fault = tsa_check(op, authority.units[kind], &made.statement, made.token, (variant & 1) != 0);
            if (FAULTED(fault)) {
                fail_msg("%s %d: %s", unit_types[kind], variant, op->note.log_detail);
            }
        }
    }
}

/* X.690 11.7: cut, never rounded, no trailing zeros and no point behind which nothing stands. */
static void the_time_has_the_configured_digits_and_no_trailing_zeros(void **state)
{
    (void)state;
    static const struct {
        int64_t fraction;
        unsigned digits;
        const char *expected;
    } rows[] = {
        { 999999, 0, "Z" },    { 0, 6, "Z" },        { 123456, 6, ".123456Z" }, { 123456, 3, ".123Z" },
        { 129999, 2, ".12Z" }, { 199999, 1, ".1Z" }, { 100000, 6, ".1Z" },      { 120000, 4, ".12Z" },
        { 900, 3, "Z" },       { 1000, 3, ".001Z" }, { 10, 5, ".00001Z" },      { 1, 5, "Z" },
        { 50, 4, "Z" },        { 990000, 1, ".9Z" }, { 9, 6, ".000009Z" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct made made;
        struct tst_info info;
        utc_us second = now_whole();
        make(UNIT_P256, second + rows[i].fraction, rows[i].digits, false, &made);
        TS_TST_INFO *read = read_back(made.token);
        const ASN1_GENERALIZEDTIME *time = TS_TST_INFO_get_time(read);
        assert_int_equal(ASN1_STRING_length(time), 14 + (int)strlen(rows[i].expected));
        assert_memory_equal(ASN1_STRING_get0_data(time) + 14, rows[i].expected, strlen(rows[i].expected));
        TS_TST_INFO_free(read);
        assert_fault(tst_inspect(op, made.token, &info), NONE);
        assert_int_equal(info.time, second + rows[i].fraction - rows[i].fraction % tsa_time_step(rows[i].digits));
    }
}

/* What is cut off is a part of the error: it is in the accuracy. */
static void fewer_digits_state_less_accuracy(void **state)
{
    (void)state;
    static const int64_t expected[] = { 1500, 600, 510, 500, 500, 500, 500 };
    for (size_t digits = 0; digits < COUNT_OF(expected); digits++) {
        const struct config config = { .tsa_accuracy_ms = 500, .tsa_time_digits = (int64_t)digits };
        assert_int_equal(tsa_accuracy_stated_ms(&config), expected[digits]);
    }
}

static void the_name_is_the_certificates_subject_and_stands_only_where_wanted(void **state)
{
    (void)state;
    for (int named = 0; named < 2; named++) {
        struct made made;
        make(UNIT_P384, now_whole(), 3, named != 0, &made);
        TS_TST_INFO *read = read_back(made.token);
        GENERAL_NAME *name = TS_TST_INFO_get_tsa(read);
        assert_int_equal(name != NULL, named);
        if (named) {
            assert_int_equal(name->type, GEN_DIRNAME);
            char text[256];
            assert_non_null(X509_NAME_oneline(name->d.directoryName, text, sizeof(text)));
            assert_string_equal(text, "/CN=Test Time Stamping Unit");
        }
        assert_int_equal(TS_TST_INFO_get_ordering(read), 0);
        assert_int_equal(TS_TST_INFO_get_version(read), 1);
        unsigned char *again = NULL;
        int len = i2d_TS_TST_INFO(read, &again);
        assert_true(len > 0);
        /* the one DER encoding: found as it stands in the token */
        assert_non_null(memmem(made.token.at, made.token.len, again, (size_t)len));
        OPENSSL_free(again);
        TS_TST_INFO_free(read);
    }
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
        TEST(a_token_that_says_something_else_does_not_pass_the_check),
        TEST(a_token_of_another_unit_or_a_damaged_one_does_not_pass_the_check),
        TEST(every_kind_of_token_passes_the_check),
        TEST(the_time_has_the_configured_digits_and_no_trailing_zeros),
        TEST(fewer_digits_state_less_accuracy),
        TEST(the_name_is_the_certificates_subject_and_stands_only_where_wanted),
    };
    return cmocka_run_group_tests_name("token profile", tests, setup, teardown);
}
