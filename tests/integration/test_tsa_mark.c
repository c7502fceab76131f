/*
 * No time is stamped that lies before one that was issued: what the clock gate of an instance reads from a real log and
 * a real read model, at its start and later, and what it records about itself.
 */
#include "projection_testlib.h"

#include "api/tsa/internal.h"
#include "api/tsa/tsa.h"

#define TENANT "acme"

static struct services services;
static struct clock_watch *watch;

/* What an instance records before a token leaves. */
static void issued(struct fixture *fixture, utc_us time)
{
    CLEANUP(op_freep) struct op *op = op_of(TENANT, 10000);
    char data[128], text[RFC3339_MAX];
    uint64_t sequence = 0;
    rfc3339_print(time, text);
    (void)snprintf(data, sizeof(data), "{\"gen_time\":\"%s\",\"serial\":\"1\"}", text);
    struct event event = { "tsa.timestamp.issued", 1, span_text(data) };
    struct event_append append = { .lane = "tsa", .events = &event, .count = 1 };
    assert_fault(events_append(op, fixture->a.log, &append, &sequence), NONE);
    assert_fault(wait_for(&fixture->a, sequence, 10000), NONE);
}

static void start_watch(void)
{
    CLEANUP(op_freep) struct op *op = op_of(TENANT, 10000);
    assert_fault(clock_watch_start(op, &services, &watch), NONE);
}

/* trusted, or the reason. */
static const char *now_is(utc_us *ret_now)
{
    CLEANUP(op_freep) struct op *op = op_of(TENANT, 10000);
    struct clock_state state;
    if (!FAULTED(clock_watch_now(op, watch, ret_now))) {
        return "trusted";
    }
    clock_watch_state(watch, &state);
    return clock_reason_text(state.reason);
}

static void until_it_is(const char *reason)
{
    utc_us now = 0;
    mono_ns end = clock_mono() + 30 * NS_PER_S;
    while (strcmp(now_is(&now), reason) != 0) {
        assert_true(clock_mono() < end);
        (void)poll(NULL, 0, 10);
    }
}

static int64_t records_of(struct fixture *fixture, const char *type)
{
    char query[256];
    (void)snprintf(
        query, sizeof(query),
        "SELECT count(*) FROM svc.audit_records WHERE convert_from(record, 'UTF8') LIKE '%%\"type\":\"%s\"%%'", type);
    return admin_int(&fixture->config, query);
}

static void a_start_waits_until_the_last_issued_time_has_passed(void **state)
{
    struct fixture *fixture = *state;
    utc_us last = clock_utc() + 3 * US_PER_S, now = 0;
    issued(fixture, last);
    start_watch();
    assert_string_equal(now_is(&now), "behind");
    until_it_is("trusted");
    assert_string_equal(now_is(&now), "trusted");
    assert_true(now >= last); /* two that race may get the same */
}

static void the_newest_message_of_stamps_counts_and_nothing_of_other_tenants(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of(TENANT, 10000);
    CLEANUP(op_freep) struct op *other = op_of("beta", 10000);
    utc_us mark = 7, last = clock_utc() + 3600 * US_PER_S;
    assert_fault(clock_mark_read(op, &services, &mark), NONE);
    assert_int_equal(mark, 0);
    issued(fixture, last);
    assert_fault(clock_mark_read(op, &services, &mark), NONE);
    assert_int_equal(mark, last);
    assert_fault(clock_mark_read(other, &services, &mark), NONE);
    assert_int_equal(mark, 0);
}

static void what_another_instance_issues_is_noticed_and_recorded_once(void **state)
{
    struct fixture *fixture = *state;
    utc_us now = 0;
    start_watch();
    assert_string_equal(now_is(&now), "trusted");
    issued(fixture, clock_utc() + 3600 * US_PER_S);
    until_it_is("behind");
    mono_ns end = clock_mono() + 30 * NS_PER_S;
    while (records_of(fixture, "tsa.clock.lost") == 0) {
        assert_true(clock_mono() < end);
        (void)poll(NULL, 0, 10);
    }
    clock_watch_stop(TAKE(watch));
    assert_int_equal(records_of(fixture, "tsa.clock.trusted"), 1);
    assert_int_equal(records_of(fixture, "tsa.clock.lost"), 1);
}

static int begin(void **state)
{
    if (set_up(state) != 0) {
        return -1;
    }
    struct fixture *fixture = *state;
    fixture->config.tsa_trust_host = true;
    fixture->config.tsa_accuracy_ms = 1000;
    fixture->config.tsa_clock_leap = "pause";
    fixture->config.tsa_clock_max_offset = 500 * NS_PER_MS;
    fixture->config.tsa_clock_interval = 64 * NS_PER_S;
    static const struct event_row *tables[1];
    static size_t counts[1];
    tables[0] = tsa_feature.events;
    counts[0] = tsa_feature.event_count;
    struct projector_config config = projector_config_of(&fixture->a);
    config.tables = tables;
    config.counts = counts;
    assert_fault(projector_start(&config, &fixture->a.projector), NONE);
    services = (struct services){
        .config = &fixture->config, .store = fixture->a.store, .log = fixture->a.log, .projector = fixture->a.projector
    };
    assert_fault(uuid_new(&services.instance), NONE);
    assert_fault(metrics_new(&services.metrics), NONE);
    return 0;
}

static int end(void **state)
{
    clock_watch_stop(TAKE(watch));
    metrics_free(services.metrics);
    return tear_down(state);
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_start_waits_until_the_last_issued_time_has_passed),
        TEST(the_newest_message_of_stamps_counts_and_nothing_of_other_tenants),
        TEST(what_another_instance_issues_is_noticed_and_recorded_once),
    };
    return cmocka_run_group_tests_name("the mark of the last issued time", tests, NULL, NULL);
}
