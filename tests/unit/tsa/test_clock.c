#include "tests/testlib.h"

#include "api/tsa/clock.h"

#include <pthread.h>
#include <stdatomic.h>

/* The clocks of this test: set by hand. */
static struct {
    _Atomic int64_t boot_ns, apart_ns; /* wall = boot + apart */
    struct clock_kernel kernel;
} hand;
static int64_t hand_boot(void *arg)
{
    (void)arg;
    return hand.boot_ns;
}
static struct clock_reading hand_read(void *arg)
{
    (void)arg;
    return (struct clock_reading){ .boot_ns = hand.boot_ns, .wall_ns = hand.boot_ns + hand.apart_ns };
}
static struct clock_kernel hand_kernel(void *arg)
{
    (void)arg;
    return hand.kernel;
}
static const struct clock_source by_hand = { .boot = hand_boot, .read = hand_read, .kernel = hand_kernel };

#define EPOCH_NS (INT64_C(1795257000) * NS_PER_S) /* some time in 2026 */
static const struct clock_rules kernel_rules = { .accuracy_us = US_PER_S,
                                                 .max_offset_us = US_PER_S / 2,
                                                 .interval_ns = 64 * NS_PER_S };
static const struct clock_rules server_rules = {
    .accuracy_us = US_PER_S, .max_offset_us = US_PER_S / 2, .interval_ns = 64 * NS_PER_S, .servers = 3, .quorum = 2
};
static struct clock_gate *gate;
static struct op *op;

static void make(const struct clock_rules *rules)
{
    clock_gate_free(TAKE(gate));
    assert_fault(clock_gate_new(rules, &by_hand, &gate), NONE);
}

static void pass(int64_t ns)
{
    hand.boot_ns += ns;
}

static void expect_reason(const char *reason)
{
    utc_us untouched = 7;
    enum clock_reason why = CLOCK_TRUSTED;
    op->note = (struct fault_note){ 0 };
    assert_fault(clock_gate_now(op, gate, &untouched, &why), TSA_TIME);
    assert_int_equal(untouched, 7);
    assert_string_equal(clock_reason_text(why), reason);
    assert_string_equal(op->note.detail, clock_reason_says(why));
}

static utc_us expect_time(void)
{
    utc_us now = 0;
    assert_fault(clock_gate_now(op, gate, &now, NULL), NONE);
    return now;
}

static int64_t wall_us(void)
{
    return (hand.boot_ns + hand.apart_ns) / 1000;
}

/* Servers that see the truth `off` from the wall clock, give or take `radius`. */
static void agree(int64_t off_ns, int64_t radius_ns)
{
    struct clock_agreement agreement = { .at_boot_ns = hand.boot_ns,
                                         .low_ns = hand.apart_ns + off_ns - radius_ns,
                                         .high_ns = hand.apart_ns + off_ns + radius_ns,
                                         .answered = 3,
                                         .agreed = 3 };
    clock_gate_agreed(gate, &agreement);
    clock_gate_round_over(gate, 3);
}

static void nothing_is_stamped_before_the_first_check(void **state)
{
    (void)state;
    expect_reason("starting");
}

static void an_unsynchronised_kernel_is_refused_unless_the_host_is_trusted(void **state)
{
    (void)state;
    struct clock_rules trusting = kernel_rules;
    hand.kernel.synchronised = false;
    hand.kernel.max_error_us = 16000000;
    assert_int_equal(clock_gate_check(gate), CLOCK_UNSYNCHRONISED);
    expect_reason("unsynchronised");
    trusting.trust_host = true;
    make(&trusting);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    assert_int_equal(expect_time(), wall_us());
    struct clock_state shown;
    clock_gate_state(gate, &shown);
    assert_true(shown.trusts_host);
    assert_int_equal(shown.bound_us, -1);
}

static void an_error_beyond_the_stated_accuracy_is_refused(void **state)
{
    (void)state;
    hand.kernel.max_error_us = US_PER_S + 1;
    (void)clock_gate_check(gate);
    expect_reason("error_too_large");
    hand.kernel.max_error_us = US_PER_S;
    (void)clock_gate_check(gate);
    assert_int_equal(expect_time(), wall_us());
}

static void checks_that_stopped_are_refused(void **state)
{
    (void)state;
    (void)clock_gate_check(gate);
    pass(CLOCK_FRESH_NS);
    (void)expect_time();
    pass(1);
    expect_reason("stale");
    struct clock_state shown;
    clock_gate_state(gate, &shown);
    assert_int_equal(shown.reason, CLOCK_STALE);
}

/* The time of a token is counted from the last check, so a step in between cannot be in it. */
static void a_step_between_two_checks_reaches_no_token_and_the_next_check_refuses(void **state)
{
    (void)state;
    (void)clock_gate_check(gate);
    utc_us before = expect_time();
    hand.apart_ns += 3600 * NS_PER_S;
    pass(NS_PER_S);
    assert_int_equal(expect_time(), before + US_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_STEPPED);
    expect_reason("stepped");
    hand.apart_ns -= 7200 * NS_PER_S;
    pass(NS_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_STEPPED);
    struct clock_state shown;
    clock_gate_state(gate, &shown);
    assert_int_equal(shown.steps, 2);
}

static void a_step_is_settled_by_calm_where_no_servers_are_asked(void **state)
{
    (void)state;
    (void)clock_gate_check(gate);
    hand.apart_ns += 10 * NS_PER_S;
    for (int i = 0; i < CLOCK_CALM_CHECKS; i++) {
        pass(NS_PER_S);
        assert_int_equal(clock_gate_check(gate), CLOCK_STEPPED);
    }
    pass(NS_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    assert_int_equal(expect_time(), wall_us());
}

static void a_small_step_back_never_makes_an_issued_time_come_again(void **state)
{
    (void)state;
    (void)clock_gate_check(gate);
    utc_us last = expect_time();
    hand.apart_ns -= 100 * NS_PER_MS;
    (void)clock_gate_check(gate);
    expect_reason("behind");
    pass(99 * NS_PER_MS + NS_PER_MS / 2); /* within what two processors may differ: the same time again */
    assert_int_equal(expect_time(), last);
    pass(NS_PER_MS);
    assert_true(expect_time() > last);
}

static void what_others_issued_holds_a_clock_back_that_is_behind(void **state)
{
    (void)state;
    clock_gate_raise(gate, wall_us() + 5 * US_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_BEHIND);
    expect_reason("behind");
    clock_gate_raise(gate, 1); /* an older mark changes nothing */
    expect_reason("behind");
    pass(6 * NS_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    (void)expect_time();
}

static void servers_that_never_answered_are_starting_and_then_missing(void **state)
{
    (void)state;
    make(&server_rules);
    assert_int_equal(clock_gate_check(gate), CLOCK_STARTING);
    clock_gate_round_over(gate, 1);
    assert_int_equal(clock_gate_check(gate), CLOCK_SERVERS);
    expect_reason("no_quorum");
}

static void an_agreement_ages_until_it_counts_no_more(void **state)
{
    (void)state;
    make(&server_rules);
    agree(0, NS_PER_MS);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    struct clock_state young, old;
    clock_gate_state(gate, &young);
    pass(200 * NS_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    clock_gate_state(gate, &old);
    assert_true(old.bound_us >= young.bound_us + 99000); /* 200 s at 500 ppm */
    pass(100 * NS_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_SERVERS);
}

static void an_offset_that_the_servers_agree_on_is_refused_either_way(void **state)
{
    (void)state;
    static const int64_t offs[] = { 501, -501 };
    for (size_t i = 0; i < COUNT_OF(offs); i++) {
        make(&server_rules);
        agree(offs[i] * NS_PER_MS, NS_PER_MS);
        assert_int_equal(clock_gate_check(gate), CLOCK_OFFSET);
        expect_reason("offset");
        struct clock_state shown;
        clock_gate_state(gate, &shown);
        assert_in_range(shown.offset_us * (offs[i] > 0 ? 1 : -1), 500999, 501001);
    }
}

static void servers_too_far_away_to_confirm_the_accuracy_are_refused(void **state)
{
    (void)state;
    make(&server_rules);
    agree(0, 1100 * NS_PER_MS);
    assert_int_equal(clock_gate_check(gate), CLOCK_BOUND);
    expect_reason("bound");
}

static void servers_do_not_replace_the_kernels_word(void **state)
{
    (void)state;
    make(&server_rules);
    agree(0, NS_PER_MS);
    hand.kernel.synchronised = false;
    assert_int_equal(clock_gate_check(gate), CLOCK_UNSYNCHRONISED);
}

static void a_step_is_seen_against_the_servers_and_settled_by_asking_them_again(void **state)
{
    (void)state;
    make(&server_rules);
    agree(0, NS_PER_MS);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    (void)clock_gate_wants_round(gate);
    hand.apart_ns += 2 * NS_PER_S;
    pass(NS_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_STEPPED);
    assert_true(clock_gate_wants_round(gate));
    assert_false(clock_gate_wants_round(gate));
    for (int i = 0; i < 10; i++) { /* calm alone does not do */
        pass(NS_PER_S);
        assert_int_equal(clock_gate_check(gate), CLOCK_STEPPED);
    }
    agree(-2 * NS_PER_S, NS_PER_MS);
    assert_int_equal(clock_gate_check(gate), CLOCK_OFFSET);
    hand.apart_ns -= 2 * NS_PER_S; /* the operator sets it right: a step again, confirmed by the next round */
    pass(NS_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_STEPPED);
    pass(1);
    agree(0, NS_PER_MS);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
}

/* ---- leap seconds ---- */

static void at_wall(int64_t before_midnight_ns)
{
    int64_t wall_ns = hand.boot_ns + hand.apart_ns;
    int64_t midnight_ns = (wall_ns / (86400 * NS_PER_S) + 1) * 86400 * NS_PER_S;
    hand.apart_ns += midnight_ns - before_midnight_ns - wall_ns;
}

static void stamps_pause_around_an_inserted_second_and_on_time(void **state)
{
    (void)state;
    at_wall(4500 * NS_PER_MS);
    hand.kernel.leap_ahead = true;
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    pass(2499 * NS_PER_MS);
    (void)expect_time();
    pass(2 * NS_PER_MS); /* two seconds before midnight, with no check in between */
    expect_reason("leap_second");
    pass(2499 * NS_PER_MS); /* 23:59:59.5 within the inserted second */
    hand.apart_ns -= NS_PER_S;
    hand.kernel.leap_now = true;
    assert_int_equal(clock_gate_check(gate), CLOCK_LEAP_SECOND);
    hand.kernel.leap_now = hand.kernel.leap_ahead = false;
    pass(2000 * NS_PER_MS);
    assert_int_equal(clock_gate_check(gate), CLOCK_LEAP_SECOND);
    pass(1000 * NS_PER_MS);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED); /* and no step was counted */
    struct clock_state shown;
    clock_gate_state(gate, &shown);
    assert_int_equal(shown.steps, 0);
    (void)expect_time();
}

static void without_an_announcement_midnight_is_like_any_other_time(void **state)
{
    (void)state;
    at_wall(NS_PER_S);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    (void)expect_time();
}

static void a_smearing_clock_keeps_half_a_second_of_its_accuracy(void **state)
{
    (void)state;
    struct clock_rules rules = kernel_rules;
    rules.leap = CLOCK_LEAP_SMEAR;
    make(&rules);
    at_wall(NS_PER_S);
    hand.kernel.leap_ahead = true;
    hand.kernel.max_error_us = 500001;
    assert_int_equal(clock_gate_check(gate), CLOCK_ERROR);
    hand.kernel.max_error_us = 500000;
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED); /* it does not pause */
}

static void servers_announce_for_a_month_and_mean_its_end(void **state)
{
    (void)state;
    struct clock_facts facts = { .agreement.leap_ahead = true };
    facts.now.wall_ns = INT64_C(1782863990) * NS_PER_S; /* 2026-06-30T23:59:50Z */
    assert_int_equal(clock_leap_midnight(&facts, 0), INT64_C(1782864000) * NS_PER_S);
    facts.now.wall_ns -= 86400 * NS_PER_S;
    assert_int_equal(clock_leap_midnight(&facts, 0), 0);
    facts.kernel.leap_ahead = true; /* the kernel means this day */
    assert_int_equal(clock_leap_midnight(&facts, 0), INT64_C(1782777600) * NS_PER_S);
}

/* ---- configuration ---- */

static void expect_config(struct config *config, const char *key)
{
    struct clock_rules rules = { 0 };
    op->note = (struct fault_note){ 0 };
    assert_fault(clock_rules_init(op, config, &rules), CONFIG);
    assert_string_equal(op->note.pointer, key);
}

static void a_quorum_that_liars_could_outvote_is_refused(void **state)
{
    (void)state;
    static const char *names[17] = { "a", "b", "c", "d" };
    struct config config = { .tsa_accuracy_ms = 1000, .tsa_clock_leap = "pause", .tsa_clock_interval = NS_PER_S };
    struct clock_rules rules = { 0 };
    config.tsa_clock_servers = (struct config_list){ names, 4 };
    config.tsa_clock_quorum = 2;
    expect_config(&config, "protocols.tsa.clock.quorum");
    config.tsa_clock_quorum = 5;
    expect_config(&config, "protocols.tsa.clock.quorum");
    config.tsa_clock_quorum = 0;
    assert_fault(clock_rules_init(op, &config, &rules), NONE);
    assert_int_equal(rules.quorum, 3);
    config.tsa_clock_servers.count = 17;
    expect_config(&config, "protocols.tsa.clock.servers");
    config.tsa_clock_servers.count = 0;
    config.tsa_clock_leap = "ignore";
    expect_config(&config, "protocols.tsa.clock.leap");
    config.tsa_clock_leap = "smear";
    config.tsa_accuracy_ms = 500;
    expect_config(&config, "protocols.tsa.clock.leap");
}

/* ---- many at once ---- */

static atomic_bool done;
static _Atomic int64_t latest;
static void *stamp(void *arg)
{
    uint64_t *refusals = arg;
    struct op *own = NULL;
    BUG_IF(FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &own)));
    for (int i = 0; i < 20000; i++) {
        int64_t before = atomic_load(&latest);
        utc_us now = 0;
        own->note = (struct fault_note){ 0 };
        if (FAULTED(clock_gate_now(own, gate, &now, NULL))) {
            ++*refusals;
            continue;
        }
        BUG_IF(now < before); /* what was finished before this began is not later */
        int64_t seen = atomic_load(&latest);
        while (seen < now && !atomic_compare_exchange_weak(&latest, &seen, now)) {
        }
    }
    op_free(own);
    return NULL;
}
static void *keep_checking(void *arg)
{
    (void)arg;
    while (!atomic_load(&done)) {
        (void)clock_gate_check(gate);
    }
    return NULL;
}

static void the_hosts_clock_never_goes_back_among_threads(void **state)
{
    (void)state;
    struct clock_rules rules = kernel_rules;
    pthread_t threads[4], checker;
    uint64_t refusals[4] = { 0 };
    rules.trust_host = true;
    clock_gate_free(TAKE(gate));
    assert_fault(clock_gate_new(&rules, &clock_source_host, &gate), NONE);
    assert_int_equal(clock_gate_check(gate), CLOCK_TRUSTED);
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&checker, NULL, keep_checking, NULL), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, stamp, &refusals[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(refusals[i], 0);
    }
    atomic_store(&done, true);
    assert_int_equal(pthread_join(checker, NULL), 0);
}

static void every_reason_has_its_words(void **state)
{
    (void)state;
    for (int reason = 0; reason < CLOCK_REASON_COUNT; reason++) {
        assert_true(strlen(clock_reason_text((enum clock_reason)reason)) > 0);
        assert_in_range(strlen(clock_reason_says((enum clock_reason)reason)), 10, 200);
        assert_true((strlen(clock_reason_recovery((enum clock_reason)reason)) > 0) == (reason != CLOCK_TRUSTED));
    }
}

static int setup(void **state)
{
    (void)state;
    hand.boot_ns = 1000 * NS_PER_S;
    hand.apart_ns = EPOCH_NS - hand.boot_ns;
    hand.kernel = (struct clock_kernel){ .synchronised = true, .max_error_us = 2000, .estimated_error_us = 100 };
    make(&kernel_rules);
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)) ? -1 : 0;
}
static int teardown(void **state)
{
    (void)state;
    clock_gate_free(TAKE(gate));
    op_free(TAKE(op));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_stamped_before_the_first_check),
        TEST(an_unsynchronised_kernel_is_refused_unless_the_host_is_trusted),
        TEST(an_error_beyond_the_stated_accuracy_is_refused),
        TEST(checks_that_stopped_are_refused),
        TEST(a_step_between_two_checks_reaches_no_token_and_the_next_check_refuses),
        TEST(a_step_is_settled_by_calm_where_no_servers_are_asked),
        TEST(a_small_step_back_never_makes_an_issued_time_come_again),
        TEST(what_others_issued_holds_a_clock_back_that_is_behind),
        TEST(servers_that_never_answered_are_starting_and_then_missing),
        TEST(an_agreement_ages_until_it_counts_no_more),
        TEST(an_offset_that_the_servers_agree_on_is_refused_either_way),
        TEST(servers_too_far_away_to_confirm_the_accuracy_are_refused),
        TEST(servers_do_not_replace_the_kernels_word),
        TEST(a_step_is_seen_against_the_servers_and_settled_by_asking_them_again),
        TEST(stamps_pause_around_an_inserted_second_and_on_time),
        TEST(without_an_announcement_midnight_is_like_any_other_time),
        TEST(a_smearing_clock_keeps_half_a_second_of_its_accuracy),
        TEST(servers_announce_for_a_month_and_mean_its_end),
        TEST(a_quorum_that_liars_could_outvote_is_refused),
        TEST(the_hosts_clock_never_goes_back_among_threads),
        TEST(every_reason_has_its_words),
    };
    return cmocka_run_group_tests_name("clock gate", tests, NULL, NULL);
}
