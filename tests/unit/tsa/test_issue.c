/* tsa_answer: from bytes to bytes, and what is recorded for it. */
#include "tests/testlib.h"

#include "tests/unit/tsa/issuing.h"

#include "appliance/base/codec.h"
#include "tests/unit/tsa/golden.h"

static struct op *op;
static struct sha256 digest;

static struct span answer(struct span request)
{
    struct span reply;
    op->note = (struct fault_note){ 0 };
    assert_fault(tsa_answer(op, &issuing.services, &issuing.tsa, request, &reply), NONE);
    return reply;
}

static struct span ask(void)
{
    struct span der;
    assert_fault(tst_request(op, "sha256", SPAN_ARRAY(digest.at), (struct span){ 0 }, &der), NONE);
    return answer(der);
}

static struct tst_status status_of(struct span reply)
{
    struct tst_status status;
    assert_fault(tst_status_of(op, reply, &status), NONE);
    return status;
}

static void assert_metric(const char *line)
{
    struct buf text = BUF_INIT(65536);
    assert_fault(metrics_print(issuing.services.metrics, &text), NONE);
    if (memmem(text.at, text.len, line, strlen(line)) == NULL) {
        fail_msg("%s is not in %.*s", line, (int)text.len, (const char *)text.at);
    }
    buf_free(&text);
}

/* Bound to another certificate than its own: what no reader accepts. */
static void show_broken_unit(void)
{
    struct tsa_unit *broken = issuing_unit(UNIT_P256);
    buf_clear(&broken->certificate_attribute);
    assert_fault(buf_put(&broken->certificate_attribute, buf_span(&authority.units[UNIT_RSA]->certificate_attribute)),
                 NONE);
    issuing_show(broken);
}

static void a_token_that_fails_its_check_neither_leaves_nor_is_recorded(void **state)
{
    (void)state;
    show_broken_unit();
    (void)ask(); /* takes the lease of serial numbers */
    size_t events = event_store.events;
    struct tst_status status = status_of(ask());
    assert_int_equal(status.status, 2);
    assert_string_equal(status.failure, "systemFailure");
    assert_null(strstr(status.text, "certificate")); /* how it failed is for the log */
    assert_int_equal(event_store.events, events);
    assert_metric("svc_tsa_token_checks_total{result=\"failed\"} 2");

    /* and it is the check that stopped it */
    issuing.config.tsa_verify_every = 0;
    assert_int_equal(status_of(ask()).status, 0);
    assert_int_equal(event_store.events, events + 1);
}

static void each_so_many_th_token_is_checked_beginning_with_the_first(void **state)
{
    (void)state;
    issuing.config.tsa_verify_every = 4;
    for (int i = 0; i < 8; i++) {
        assert_int_equal(status_of(ask()).status, 0);
    }
    assert_metric("svc_tsa_token_checks_total{result=\"passed\"} 2");
    (void)ask();
    assert_metric("svc_tsa_token_checks_total{result=\"passed\"} 3");
    issuing_show(issuing_unit(UNIT_P384)); /* another unit's first token is, too */
    (void)ask();
    assert_metric("svc_tsa_token_checks_total{result=\"passed\"} 4");
    (void)ask();
    assert_metric("svc_tsa_token_checks_total{result=\"passed\"} 4");
}

/* The signature is good and the binding, too; but nobody's verifier takes the certificate. */
static void a_unit_whose_certificate_has_no_good_path_gives_no_token(void **state)
{
    (void)state;
    struct span leaf;
    struct tsa_unit *unit = NULL;
    issuing.config.tsa_verify_every = 1000;
    authority_leaf(UNIT_P256, "timeStamping", 30, clock_utc() - 3600 * US_PER_S, &leaf); /* not critical */
    authority_unit(UNIT_P256, leaf, &unit);
    issuing_show(unit);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(status_of(ask()).failure, "systemFailure");
    }
    assert_metric("svc_tsa_token_checks_total{result=\"failed\"} 3");
}

static void what_stands_in_the_way_becomes_the_right_failure_and_no_record(void **state)
{
    (void)state;
    assert_int_equal(status_of(ask()).status, 0);
    size_t events = event_store.events;
    issuing.clock = FAULT(TSA_TIME);
    assert_string_equal(status_of(ask()).failure, "timeNotAvailable");
    issuing.clock = OK;
    token.refuse = FAULT(SIGNER_UNAVAILABLE);
    assert_string_equal(status_of(ask()).failure, "systemFailure");
    token.refuse = OK;
    event_store.refuse = FAULT(LOG_UNAVAILABLE);
    assert_string_equal(status_of(ask()).failure, "systemFailure");
    event_store.refuse = OK;
    atomic_store(&issuing.tsa.mark, clock_utc() + 3600 * US_PER_S); /* what was issued elsewhere */
    assert_string_equal(status_of(ask()).failure, "timeNotAvailable");
    atomic_store(&issuing.tsa.mark, 0);
    issuing_show(NULL);
    assert_string_equal(status_of(ask()).failure, "systemFailure");
    assert_int_equal(event_store.events, events);
}

static void each_golden_request_gets_its_answer(void **state)
{
    (void)state;
    struct buf bytes = BUF_INIT(TSA_REQUEST_MAX);
    for (size_t i = 0; i < COUNT_OF(refused) + COUNT_OF(accepted); i++) {
        const struct golden *row = i < COUNT_OF(refused) ? &refused[i] : &accepted[i - COUNT_OF(refused)];
        buf_clear(&bytes);
        assert_fault(hex_decode(span_text(row->hex), &bytes), NONE);
        struct tst_status status = status_of(answer(buf_span(&bytes)));
        if (status.status != (row->fault == FAULT_NONE ? 0 : 2) || (status.failure == NULL) != (status.status == 0)) {
            fail_msg("%s: %s", row->name, status.text);
        }
    }
    buf_free(&bytes);
}

/* 4 hash parameters x policy x nonce x certReq for each hash, all kinds of units: checked each, by the stranger's way.
 */
static void every_combination_of_options_is_granted(void **state)
{
    (void)state;
    static const uint8_t yes[] = { 0xff }, no[] = { 0 }, second[] = { 0x2a, 3, 4, 5, 6 };
    static const uint8_t nonces[][9] = { { 0 }, { 0x7f }, { 0x80 }, { 0, 0xff, 1, 2, 3, 4, 5, 6, 7 } };
    static const size_t nonce_lens[] = { 1, 1, 1, 9 };
    static const uint8_t imprint[64] = { 1, 2, 3 };
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        issuing_show(issuing_unit(kind));
        for (size_t variant = 0; variant < (kind == UNIT_RSA ? 36 : 180); variant++) {
            const struct tst_hash *hash = &tst_hashes[variant % 3];
            size_t certificate = variant / 3 % 3, nonce = variant / 9 % 5, policy = variant / 45 % 2;
            bool null = variant / 90 % 2 == 0;
            uint8_t room[512];
            struct der_writer writer;
            struct span der;
            struct tst_status status;
            der_writer_init(&writer, room, sizeof(room));
            if (certificate > 0) {
                der_write_element(&writer, DER_BOOLEAN, certificate == 1 ? SPAN_ARRAY(yes) : SPAN_ARRAY(no));
            }
            if (nonce > 0) {
                der_write_element(&writer, DER_INTEGER, span_of(nonces[nonce - 1], nonce_lens[nonce - 1]));
            }
            if (policy > 0) {
                der_write_element(&writer, DER_OID, SPAN_ARRAY(second));
            }
            size_t mark = der_mark(&writer);
            der_write_element(&writer, DER_OCTET_STRING, span_of(imprint, hash->size));
            size_t algorithm = der_mark(&writer);
            if (null) {
                der_write_element(&writer, DER_NULL, (struct span){ 0 });
            }
            der_write_element(&writer, DER_OID, hash->oid);
            der_wrap(&writer, DER_SEQUENCE, algorithm);
            der_wrap(&writer, DER_SEQUENCE, mark);
            der_write_uint(&writer, DER_INTEGER, 1);
            der_wrap(&writer, DER_SEQUENCE, 0);
            assert_fault(der_written(&writer, &der), NONE);
            status = status_of(answer(der));
            if (status.status != 0) {
                fail_msg("%s %zu: %s", unit_types[kind], variant, status.text);
            }
            arena_clear(op->arena);
        }
    }
}

static int setup(void **state)
{
    (void)state;
    issuing_start();
    return FAULTED(sha256_of(span_text("artifact"), &digest)) ? -1 : 0;
}
static int teardown(void **state)
{
    (void)state;
    issuing_stop();
    return 0;
}
static int renew(void **state)
{
    (void)state;
    issuing_renew();
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 600000, &op)) ? -1 : 0;
}
static int free_op(void **state)
{
    (void)state;
    op_free(TAKE(op));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, renew, free_op)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_token_that_fails_its_check_neither_leaves_nor_is_recorded),
        TEST(each_so_many_th_token_is_checked_beginning_with_the_first),
        TEST(a_unit_whose_certificate_has_no_good_path_gives_no_token),
        TEST(what_stands_in_the_way_becomes_the_right_failure_and_no_record),
        TEST(each_golden_request_gets_its_answer),
        TEST(every_combination_of_options_is_granted),
    };
    return cmocka_run_group_tests_name("issuing", tests, setup, teardown);
}
