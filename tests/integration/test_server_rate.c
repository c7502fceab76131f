/* The request budget of tenants against a real PostgreSQL: several instances share it. Run inside with-postgres. */
#include "integration/store_testlib.h"

#include "api/server/rate.h"

#include <pthread.h>
#include <stdatomic.h>

#define INSTANCES 2
static struct store *stores[INSTANCES];
static struct metrics *metrics;

static int open_stores(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    use_config();
    migrate();
    test_config->postgres_max_conns = 8;
    for (int i = 0; i < INSTANCES; i++) {
        assert_ok(store_open(test_config, &why, &stores[i]));
    }
    assert_ok(metrics_new(&metrics));
    return 0;
}

static int close_stores(void **state)
{
    (void)state;
    for (int i = 0; i < INSTANCES; i++) {
        store_close(stores[i]);
    }
    metrics_free(metrics);
    return 0;
}

static struct rate *limiter(int instance, int64_t requests, int64_t window_ns)
{
    struct rate *rate = NULL;
    test_config->rate_limit_requests = requests;
    test_config->rate_limit_window = window_ns;
    assert_ok(rate_new(test_config, stores[instance], metrics, &rate));
    return rate;
}

#define DAY_NS (86400 * NS_PER_S)

static struct fault take(struct op *op, struct rate *rate)
{
    op->note = (struct fault_note){ .set = false };
    return rate_take(op, rate);
}

static void a_spent_budget_refuses_and_says_when_to_come_again(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("spent", 30000);
    CLEANUP(rate_freep) struct rate *rate = limiter(0, 5, DAY_NS);
    for (int i = 0; i < 5; i++) {
        assert_ok(take(op, rate));
    }
    assert_fault(take(op, rate), RATE_LIMITED);
    assert_in_range(op->note.retry_after_s, 17200, 17280); /* a fifth of a day */
    unsigned waits = op->store_waits;
    assert_fault(take(op, rate), RATE_LIMITED); /* known: not asked again */
    assert_int_equal(op->store_waits, waits);
    rate_refund(op, rate);
    CLEANUP(op_freep) struct op *other = test_op("not-spent", 30000);
    assert_ok(take(other, rate)); /* each tenant has its own */
}

#define BUDGET  1000
#define THREADS 16
static atomic_int granted, refused;
static struct rate *shared[INSTANCES];

static void *spend(void *arg)
{
    struct rate *rate = shared[(size_t)arg % INSTANCES];
    CLEANUP(op_freep) struct op *op = test_op("shared", 60000);
    for (int i = 0; i < 2 * BUDGET / THREADS; i++) {
        op->note = (struct fault_note){ .set = false };
        struct fault fault = rate_take(op, rate);
        (void)atomic_fetch_add(fault.code == FAULT_RATE_LIMITED ? &refused : &granted, 1);
        BUG_IF(FAULTED(fault) && fault.code != FAULT_RATE_LIMITED);
    }
    return NULL;
}

/* The window is a day, so nothing worth a token comes back while this runs. */
static void two_instances_never_spend_more_than_the_budget_and_waste_little_of_it(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < INSTANCES; i++) {
        shared[i] = limiter(i, BUDGET, DAY_NS);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, spend, (void *)i), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(granted + refused, 2 * BUDGET);
    assert_in_range(granted, BUDGET * 9 / 10, BUDGET + 1); /* one: a slow run earns it */
    for (int i = 0; i < INSTANCES; i++) {
        rate_free(shared[i]);
    }
}

static void what_a_dead_instance_had_leased_is_lost_and_not_spent_twice(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("dying", 30000);
    struct rate *dying = limiter(0, 640, DAY_NS);
    assert_ok(take(op, dying));
    rate_free(dying);
    CLEANUP(rate_freep) struct rate *rate = limiter(1, 640, DAY_NS);
    int spent = 0;
    while (!FAULTED(take(op, rate))) {
        spent++;
    }
    assert_int_equal(spent, 640 - 8); /* a first lease is eight */
}

/* The tenant's bucket is empty, and was filled last so many seconds ago. */
static void empty_since(const char *seconds)
{
    char script[256];
    (void)snprintf(script, sizeof(script),
                   "UPDATE svc.rate_buckets SET tokens = 0, refilled_us = (extract(epoch FROM clock_timestamp()) "
                   "* 1000000)::int8 - (%s::numeric * 1000000)::int8 WHERE tenant_id = 'refilled'",
                   seconds);
    assert_ok(as_superuser(script));
}

static void a_bucket_fills_with_time_and_the_hosts_clock_does_not_matter(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("refilled", 30000);
    static const struct {
        const char *since; /* seconds before now */
        int64_t expected;  /* of 60 a minute */
    } cases[] = { { "0", 0 }, { "3.5", 3 }, { "60", 60 }, { "100000", 60 }, { "-100000", 0 } };
    assert_ok(as_superuser("INSERT INTO svc.rate_buckets VALUES ('refilled', 0, 0)"));
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        empty_since(cases[i].since);
        CLEANUP(rate_freep) struct rate *rate = limiter(0, 60, 60 * NS_PER_S);
        mono_ns begun = clock_mono();
        int64_t spent = 0;
        while (!FAULTED(take(op, rate))) {
            spent++;
        }
        int64_t meanwhile = (clock_mono() - begun) / NS_PER_S + 1;
        assert_in_range(spent, cases[i].expected, cases[i].expected + meanwhile);
    }
}

static void a_part_of_a_request_is_kept_and_the_largest_budget_does_not_overflow(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("refilled", 30000);
    CLEANUP(rate_freep) struct rate *small = limiter(0, 1, DAY_NS);
    CLEANUP(rate_freep) struct rate *large = limiter(0, 1000000, DAY_NS);
    assert_ok(as_superuser("INSERT INTO svc.rate_buckets VALUES ('refilled', 0, 0) ON CONFLICT DO NOTHING"));
    empty_since("43200");
    assert_fault(take(op, small), RATE_LIMITED);
    assert_in_range(op->note.retry_after_s, 43000, 43200); /* half of it was there */
    empty_since("86399");
    assert_ok(take(op, large));
    assert_ok(
        as_superuser("DO $$ BEGIN ASSERT (SELECT tokens BETWEEN 999000000000 AND 999999999999 FROM svc.rate_buckets "
                     "WHERE tenant_id = 'refilled'); END $$"));
}

static void a_tenants_bucket_is_nobody_elses(void **state)
{
    (void)state;
    static const struct sql others = { "test_rate_others", "UPDATE svc.rate_buckets SET tokens = 0", 0 };
    CLEANUP(op_freep) struct op *op = test_op("mine", 30000);
    CLEANUP(op_freep) struct op *other = test_op("theirs", 30000);
    CLEANUP(rate_freep) struct rate *rate = limiter(0, 100, DAY_NS);
    assert_ok(take(op, rate));
    int64_t touched = 0;
    assert_ok(store_once(other, stores[0], STORE_REQUEST, STORE_DURABLE, &others, NULL, 0, NULL, &touched));
    assert_int_equal(touched, 0);
    for (int i = 1; i < 100; i++) {
        assert_ok(take(op, rate));
    }
}

static void a_busy_tenant_asks_seldom(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("busy", 60000);
    CLEANUP(rate_freep) struct rate *rate = limiter(0, 1000000, DAY_NS);
    mono_ns begun = clock_mono();
    for (int i = 0; i < 10000; i++) {
        assert_ok(take(op, rate));
    }
    unsigned slow = (unsigned)((clock_mono() - begun) / NS_PER_S); /* a lease ends after a second */
    assert_in_range(op->store_waits, 40, 60 + 2 * slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spent_budget_refuses_and_says_when_to_come_again),
        cmocka_unit_test(two_instances_never_spend_more_than_the_budget_and_waste_little_of_it),
        cmocka_unit_test(what_a_dead_instance_had_leased_is_lost_and_not_spent_twice),
        cmocka_unit_test(a_bucket_fills_with_time_and_the_hosts_clock_does_not_matter),
        cmocka_unit_test(a_part_of_a_request_is_kept_and_the_largest_budget_does_not_overflow),
        cmocka_unit_test(a_tenants_bucket_is_nobody_elses),
        cmocka_unit_test(a_busy_tenant_asks_seldom),
    };
    return cmocka_run_group_tests_name("server_rate", tests, open_stores, close_stores);
}
