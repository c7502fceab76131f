/* The file of further tenants, and their limits: what is wrong is refused with its line. */
#include "testlib.h"

#include "api/tsa/limits.h"
#include "api/tsa/tenants.h"

static struct config base_config(void)
{
    return (struct config){ .tsa_tenant = "default",
                            .tsa_algorithm = "ec-p256",
                            .tsa_policy = "1.2.3.1",
                            .tsa_accuracy_ms = 1000,
                            .tsa_unit_issuance = "own",
                            .tsa_unit_validity = 1000 * NS_PER_S,
                            .tsa_unit_usage = 500 * NS_PER_S,
                            .tsa_unit_prepare = 100 * NS_PER_S,
                            .tsa_unit_activate = 50 * NS_PER_S,
                            .tsa_tenants_file = "" };
}

static void expect_refused(const struct config *config, const char *yaml, const char *said)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(2048);
    struct tsa_tenants *untouched = NULL;
    const char *text = NULL;
    assert_fault(tsa_tenants_parse(config, span_text(yaml), "t.yaml", &why, &untouched), CONFIG);
    assert_null(untouched);
    assert_fault(buf_cstr(&why, &text), NONE);
    if (strstr(text, said) == NULL) {
        fail_msg("said \"%s\", not \"%s\"", text, said);
    }
}

static void a_wrong_file_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        { "tenants: []\n", "t.yaml:1: one key is due" },
        { "other: 1\n", "one key is due" },
        { "tenants:\n  - acme\n", "t.yaml:2: tenants: each item is a mapping" },
        { "tenants:\n  - public: true\n", "t.yaml:2: tenant: is missing" },
        { "tenants:\n  - tenant: A B\n", "t.yaml:2: tenant: 'A B' is no tenant id" },
        { "tenants:\n  - tenant: default\n", "whose settings are protocols.tsa.*" },
        { "tenants:\n  - tenant: a\n  - tenant: a\n", "t.yaml:3: tenant: 'a' is there already" },
        { "tenants:\n  - tenant: a\n    enabled: false\n  - tenant: a\n", "t.yaml:4: tenant: 'a' is there already" },
        { "tenants:\n  - tenant: a\n    colour: red\n", "t.yaml:3: unknown key 'colour'" },
        { "tenants:\n  - tenant: a\n    public: yes\n", "t.yaml:3: public: must be true or false" },
        { "tenants:\n  - tenant: a\n    accuracy_ms: 999\n", "t.yaml:3: accuracy_ms: must be a number from 1000" },
        { "tenants:\n  - tenant: a\n    key_algorithm: rsa-1024\n", "t.yaml:3: key_algorithm: must be" },
        { "tenants:\n  - tenant: a\n    issuance: both\n", "t.yaml:3: issuance: must be own or external" },
        { "tenants:\n  - tenant: a\n    in_flight: -1\n", "t.yaml:3: in_flight: must be a number" },
        { "tenants:\n  - tenant: a\n    requests_per_second: 99999999999999999999\n", "must be a number" },
        { "tenants:\n  - tenant: a\n    burst: 5\n", "burst: goes with requests_per_second" },
        { "tenants:\n  - tenant: a\n    policies: 1.2.3\n", "t.yaml:3: policies: must be a list" },
    };
    const struct config config = base_config();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        expect_refused(&config, bad[i][0], bad[i][1]);
    }
}

static void periods_that_contradict_each_other_are_refused(void **state)
{
    (void)state;
    struct config config = base_config();
    config.tsa_unit_usage = 1001 * NS_PER_S;
    expect_refused(&config, "", "protocols.tsa.unit.key_usage_period");
    config = base_config();
    config.tsa_unit_activate = 101 * NS_PER_S;
    expect_refused(&config, "", "protocols.tsa.unit.activate_ahead");
    config = base_config();
    config.tsa_unit_prepare = 500 * NS_PER_S;
    expect_refused(&config, "", "protocols.tsa.unit.prepare_ahead");
    config = base_config();
    config.tsa_algorithm = "ed25519";
    expect_refused(&config, "", "protocols.tsa.key_algorithm");
    config = base_config();
    config.tsa_unit_issuance = "";
    expect_refused(&config, "", "protocols.tsa.unit.issuance");
}

static void each_tenant_has_its_own_view_of_the_settings(void **state)
{
    (void)state;
    static const char yaml[] = "tenants:\n  - tenant: acme\n    policy_oid: 1.2.3.9\n    hash_algorithms: [sha512]\n"
                               "    key_algorithm: rsa-3072\n    issuance: external\n    public: false\n"
                               "    accuracy_ms: 1500\n    requests_per_second: 7\n    burst: 9\n    in_flight: 3\n"
                               "  - tenant: off\n    enabled: false\n  - tenant: plain\n";
    CLEANUP(buf_free) struct buf why = BUF_INIT(2048);
    CLEANUP(tsa_tenants_freep) struct tsa_tenants *tenants = NULL;
    const struct config config = base_config();
    assert_fault(tsa_tenants_parse(&config, span_text(yaml), "t.yaml", &why, &tenants), NONE);
    assert_int_equal(tsa_tenants_count(tenants), 3);
    const struct tsa_settings *first = tsa_tenants_at(tenants, 0), *acme = tsa_tenants_at(tenants, 1),
                              *plain = tsa_tenants_at(tenants, 2);
    assert_true(first->first && first->open && !first->external);
    assert_ptr_equal(first->config, &config);
    assert_string_equal(acme->tenant.text, "acme");
    assert_true(!acme->first && !acme->open && acme->external);
    assert_int_equal(acme->algorithm, KEY_ALGORITHM_RSA_3072);
    assert_string_equal(acme->config->tsa_policy, "1.2.3.9");
    assert_string_equal(acme->config->tsa_hashes.at[0], "sha512");
    assert_int_equal(acme->config->tsa_accuracy_ms, 1500);
    assert_int_equal(acme->rate, 7);
    assert_int_equal(acme->burst, 9);
    assert_int_equal(acme->in_flight, 3);
    assert_string_equal(plain->tenant.text, "plain");
    assert_string_equal(plain->config->tsa_policy, "1.2.3.1");
    assert_int_equal(plain->rate, 0);
    assert_int_equal(plain->in_flight, 16);
}

static struct fault enter_at(struct tsa_limits *limits, mono_ns now)
{
    struct fault fault = tsa_limits_enter(NULL, limits, now);
    if (!FAULTED(fault)) {
        tsa_limits_leave(limits);
    }
    return fault;
}

static void beyond_the_burst_one_comes_in_for_each_interval(void **state)
{
    (void)state;
    struct tsa_limits limits;
    mono_ns now = 1000 * NS_PER_S;
    tsa_limits_init(&limits, 10, 3, 0);
    for (int i = 0; i < 3; i++) {
        assert_fault(enter_at(&limits, now), NONE);
    }
    assert_fault(enter_at(&limits, now), RATE_LIMITED);
    assert_fault(enter_at(&limits, now + 99 * NS_PER_MS), RATE_LIMITED);
    assert_fault(enter_at(&limits, now + 100 * NS_PER_MS), NONE);
    assert_fault(enter_at(&limits, now + 100 * NS_PER_MS), RATE_LIMITED);
    assert_fault(enter_at(&limits, now + 3600 * NS_PER_S), NONE); /* a pause saves up no more than the burst */
    assert_fault(enter_at(&limits, now + 3600 * NS_PER_S), NONE);
    assert_fault(enter_at(&limits, now + 3600 * NS_PER_S), NONE);
    assert_fault(enter_at(&limits, now + 3600 * NS_PER_S), RATE_LIMITED);
}

static void no_more_are_inside_than_may_be(void **state)
{
    (void)state;
    struct tsa_limits limits;
    tsa_limits_init(&limits, 0, 0, 2);
    assert_fault(tsa_limits_enter(NULL, &limits, 1), NONE);
    assert_fault(tsa_limits_enter(NULL, &limits, 1), NONE);
    assert_fault(tsa_limits_enter(NULL, &limits, 1), SATURATED);
    tsa_limits_leave(&limits);
    assert_fault(tsa_limits_enter(NULL, &limits, 1), NONE);
    assert_fault(tsa_limits_enter(NULL, &limits, 1), SATURATED);
}

static void who_is_sent_away_is_told_when_to_come_again(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    struct tsa_limits limits;
    assert_fault(op_new("test", (struct tenant_id){ "default" }, 10000, &op), NONE);
    tsa_limits_init(&limits, 1, 1, 0);
    assert_fault(tsa_limits_enter(op, &limits, NS_PER_S), NONE);
    assert_fault(tsa_limits_enter(op, &limits, NS_PER_S), RATE_LIMITED);
    assert_int_equal(op->note.retry_after_s, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_file_is_refused_with_its_line),
        cmocka_unit_test(periods_that_contradict_each_other_are_refused),
        cmocka_unit_test(each_tenant_has_its_own_view_of_the_settings),
        cmocka_unit_test(beyond_the_burst_one_comes_in_for_each_interval),
        cmocka_unit_test(no_more_are_inside_than_may_be),
        cmocka_unit_test(who_is_sent_away_is_told_when_to_come_again),
    };
    return cmocka_run_group_tests_name("tenants of the time-stamping authority", tests, NULL, NULL);
}
