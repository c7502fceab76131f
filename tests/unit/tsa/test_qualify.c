#include "tests/testlib.h"

#include "api/tsa/qualify.h"
#include "appliance/base/json_view.h"
#include "tests/unit/tsa/authority.h"

static struct qualify qualify;

static void expect_only(enum qualify_condition condition, const char *word)
{
    assert_int_equal(qualify.count, 1);
    assert_int_equal(qualify.findings[0].condition, condition);
    assert_non_null(strstr(qualify.findings[0].explanation, word));
    assert_true(strlen(qualify.findings[0].recovery) > 10);
    qualify.count = 0;
}

static void a_certificate_out_of_its_time_is_found(void **state)
{
    (void)state;
    const struct tsa_unit *unit = authority.units[UNIT_P256];
    struct span recorded = buf_span(&unit->leaf);
    qualify_certificate(&qualify, unit, recorded, unit->not_before - 1);
    expect_only(QUALIFY_CERTIFICATE, "not valid now");
    qualify_certificate(&qualify, unit, recorded, unit->not_after + 1);
    expect_only(QUALIFY_CERTIFICATE, "not valid now");
    qualify_certificate(&qualify, unit, recorded, unit->not_after - 29 * 86400 * US_PER_S);
    expect_only(QUALIFY_CERTIFICATE, "30 days");
}

static void a_certificate_for_more_than_time_stamping_is_found(void **state)
{
    (void)state;
    static const char *const usages[] = { "timeStamping", "critical,timeStamping,codeSigning", "critical,codeSigning" };
    for (size_t i = 0; i < COUNT_OF(usages); i++) {
        struct span leaf;
        CLEANUP(tsa_unit_freep) struct tsa_unit *unit = NULL;
        authority_leaf(UNIT_P256, usages[i], 1826, clock_utc() - 3600 * US_PER_S, &leaf);
        authority_unit(UNIT_P256, leaf, &unit);
        qualify_certificate(&qualify, unit, leaf, clock_utc());
        expect_only(QUALIFY_CERTIFICATE, "time stamping alone");
    }
}

static void a_certificate_about_another_key_or_of_another_root_is_found(void **state)
{
    (void)state;
    struct tsa_unit mixed = *authority.units[UNIT_P256];
    mixed.key = authority.units[UNIT_RSA]->key;
    qualify_certificate(&qualify, &mixed, buf_span(&mixed.leaf), clock_utc());
    expect_only(QUALIFY_CERTIFICATE, "not about the key");
    mixed = *authority.units[UNIT_P256];
    mixed.root = mixed.issuer = authority.units[UNIT_P384]->leaf;
    qualify_certificate(&qualify, &mixed, buf_span(&mixed.leaf), clock_utc());
    expect_only(QUALIFY_CERTIFICATE, "root");
}

static void a_certificate_that_is_not_on_record_is_found(void **state)
{
    (void)state;
    const struct tsa_unit *unit = authority.units[UNIT_P256];
    qualify_certificate(&qualify, unit, (struct span){ 0 }, clock_utc());
    expect_only(QUALIFY_CERTIFICATE, "on record");
    qualify_certificate(&qualify, unit, authority.leaves[UNIT_RSA], clock_utc());
    expect_only(QUALIFY_CERTIFICATE, "on record");
}

static void certificates_of_all_our_kinds_of_keys_are_met(void **state)
{
    (void)state;
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        qualify_certificate(&qualify, authority.units[kind], authority.leaves[kind], clock_utc());
        assert_int_equal(qualify.count, 0);
    }
}

static void each_failing_of_the_signer_is_found(void **state)
{
    (void)state;
    struct signer_health health = { .state = SIGNER_OK, .fips_active = true, .self_test_passed = true };
    qualify_signer(&qualify, FAULT(SIGNER_UNAVAILABLE), &health, true);
    expect_only(QUALIFY_SIGNER, "does not answer");
    health.state = SIGNER_DOWN;
    qualify_signer(&qualify, OK, &health, true);
    expect_only(QUALIFY_SIGNER, "token does not work");
    health.state = SIGNER_DEGRADED;
    health.self_test_passed = false;
    qualify_signer(&qualify, OK, &health, true);
    expect_only(QUALIFY_SIGNER, "self-test");
    health.self_test_passed = true;
    health.fips_active = false;
    qualify_signer(&qualify, OK, &health, true);
    expect_only(QUALIFY_SIGNER, "FIPS");
    qualify_signer(&qualify, OK, &health, false);
    assert_int_equal(qualify.count, 0);
}

static void each_failing_of_the_audit_path_is_found(void **state)
{
    (void)state;
    struct event_log_state log = { .connected = true, .replicas_actual = 3 };
    struct projector_state projection = { .log_trusted = true };
    qualify_audit(&qualify, FAULT(LOG_UNAVAILABLE), &log, &projection, 3);
    expect_only(QUALIFY_AUDIT, "not reachable");
    log.connected = false;
    qualify_audit(&qualify, OK, &log, &projection, 3);
    expect_only(QUALIFY_AUDIT, "not reachable");
    log.connected = true;
    log.replicas_actual = 2;
    qualify_audit(&qualify, OK, &log, &projection, 3);
    expect_only(QUALIFY_AUDIT, "replicas");
    log.replicas_actual = 3;
    log.first_missing = 12;
    qualify_audit(&qualify, OK, &log, &projection, 3);
    expect_only(QUALIFY_AUDIT, "differs");
    log.first_missing = 0;
    projection.log_trusted = false;
    qualify_audit(&qualify, OK, &log, &projection, 3);
    expect_only(QUALIFY_AUDIT, "differs");
    projection = (struct projector_state){ .log_trusted = true, .stopped_at_failure = true };
    qualify_audit(&qualify, OK, &log, &projection, 3);
    expect_only(QUALIFY_AUDIT, "stopped");
    projection.stopped_at_failure = false;
    qualify_audit(&qualify, OK, &log, &projection, 3);
    assert_int_equal(qualify.count, 0);
}

static void capacity_is_bounded_and_there_must_be_room(void **state)
{
    (void)state;
    qualify_capacity(&qualify, 0, 0, 0, 0);
    expect_only(QUALIFY_CAPACITY, "not bounded");
    qualify_capacity(&qualify, 24, 64, 24, 64);
    expect_only(QUALIFY_CAPACITY, "As many");
    qualify_capacity(&qualify, 24, 64, 24, 63);
    assert_int_equal(qualify.count, 0);
}

static void each_reason_of_the_clock_is_found_with_its_recovery(void **state)
{
    (void)state;
    for (int reason = CLOCK_TRUSTED + 1; reason < CLOCK_REASON_COUNT; reason++) {
        const struct clock_state clock = { .reason = (enum clock_reason)reason };
        qualify_clock(&qualify, &clock, 1000);
        expect_only(QUALIFY_CLOCK, clock_reason_says((enum clock_reason)reason));
    }
    const struct clock_state wide = { .reason = CLOCK_TRUSTED, .bound_us = 1000001 };
    qualify_clock(&qualify, &wide, 1000);
    expect_only(QUALIFY_CLOCK, "accuracy");
    const struct clock_state fine = { .reason = CLOCK_TRUSTED, .bound_us = 1000000 };
    qualify_clock(&qualify, &fine, 1000);
    assert_int_equal(qualify.count, 0);
}

static void the_answer_says_what_is_met_and_what_is_not(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(16384);
    struct qualify_subject subject = {
        .endpoint = "https://tsa.example/tsa", .policy = "1.2.3", .clock = "host", .trusts_host = true
    };
    struct view answer;
    qualify_find(&qualify, QUALIFY_CLOCK, "It is off.", "Set it right.");
    assert_fault(qualify_print(&qualify, &subject, &out), NONE);
    assert_fault(view_of(authority.op, buf_span(&out), &answer), NONE);
    assert_span_text(view_get(answer, "ready").json, "false");
    assert_span_text(view_get(answer, "conditions.trusted_clock").json, "false");
    assert_span_text(view_get(answer, "conditions.isolated_signer").json, "true");
    assert_span_text(
        view_get(answer, "unmet").json,
        "[{\"condition\":\"trusted_clock\",\"explanation\":\"It is off.\",\"recovery\":\"Set it right.\"}]");
    assert_non_null(strstr(view_text(authority.op, view_get(answer, "notices")), "trust_host"));
    qualify.count = 0;
    buf_clear(&out);
    subject = (struct qualify_subject){ 0 };
    assert_fault(qualify_print(&qualify, &subject, &out), NONE);
    assert_fault(view_of(authority.op, buf_span(&out), &answer), NONE);
    assert_span_text(view_get(answer, "ready").json, "true");
    assert_span_text(view_get(answer, "endpoint").json, "null");
    assert_span_text(view_get(answer, "notices").json, "[]");
}

static int setup(void **state)
{
    (void)state;
    qualify.count = 0;
    return 0;
}
static int start(void **state)
{
    (void)state;
    authority_start();
    return 0;
}
static int stop(void **state)
{
    (void)state;
    authority_stop();
    return 0;
}
#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_certificate_out_of_its_time_is_found),
        TEST(a_certificate_for_more_than_time_stamping_is_found),
        TEST(a_certificate_about_another_key_or_of_another_root_is_found),
        TEST(a_certificate_that_is_not_on_record_is_found),
        TEST(certificates_of_all_our_kinds_of_keys_are_met),
        TEST(each_failing_of_the_signer_is_found),
        TEST(each_failing_of_the_audit_path_is_found),
        TEST(capacity_is_bounded_and_there_must_be_room),
        TEST(each_reason_of_the_clock_is_found_with_its_recovery),
        TEST(the_answer_says_what_is_met_and_what_is_not),
    };
    return cmocka_run_group_tests_name("qualification", tests, start, stop);
}
