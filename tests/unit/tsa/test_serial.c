#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/tsa/internal.h"

#include <stdio.h>

#include "tests/unit/tsa/log.h"

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static struct services services;
static struct op *op;

static void without_a_lease_there_is_no_serial(void **state)
{
    (void)state;
    CLEANUP(tsa_serials_freep) struct tsa_serials *serials = NULL;
    uint64_t untouched = 7;
    assert_fault(tsa_serials_new(&serials), NONE);
    event_store.refuse = FAULT(LOG_UNAVAILABLE);
    assert_fault(tsa_serial_next(op, &services, serials, &untouched), LOG_UNAVAILABLE);
    assert_int_equal(untouched, 7);
    event_store.refuse = OK;
    assert_fault(tsa_serial_next(op, &services, serials, &untouched), NONE);
    assert_int_equal(untouched, event_store.sequence << 20);
}

static void serials_rise_and_a_used_up_lease_is_renewed(void **state)
{
    (void)state;
    CLEANUP(tsa_serials_freep) struct tsa_serials *serials = NULL;
    uint64_t last = 0;
    assert_fault(tsa_serials_new(&serials), NONE);
    for (size_t i = 0; i < ((size_t)1 << 20) + 3; i++) {
        uint64_t serial = 0;
        assert_fault(tsa_serial_next(op, &services, serials, &serial), NONE);
        BUG_IF(serial <= last);
        last = serial;
    }
    assert_int_equal(event_store.messages, 2);
    assert_string_equal(event_store.lane, "tsa-serial");
    assert_string_equal(event_store.last_type, "tsa.serial.leased");
    assert_int_equal(last, (event_store.sequence << 20) + 2);
}

/* A restart and a replica are the same thing here: another holder of the same log. */
static void two_instances_never_share_a_serial(void **state)
{
    (void)state;
    CLEANUP(tsa_serials_freep) struct tsa_serials *one = NULL;
    CLEANUP(tsa_serials_freep) struct tsa_serials *two = NULL;
    uint64_t a = 0;
    uint64_t b = 0;
    assert_fault(tsa_serials_new(&one), NONE);
    assert_fault(tsa_serials_new(&two), NONE);
    assert_fault(tsa_serial_next(op, &services, one, &a), NONE);
    assert_fault(tsa_serial_next(op, &services, two, &b), NONE);
    assert_true(b >= a + ((uint64_t)1 << 20));
}

static struct tsa_serials *shared;
static void *take_many(void *arg)
{
    uint64_t *taken = arg;
    struct op *own = NULL;
    BUG_IF(FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &own)));
    for (size_t i = 0; i < 1000; i++) {
        BUG_IF(FAULTED(tsa_serial_next(own, &services, shared, &taken[i])));
        BUG_IF(i > 0 && taken[i] <= taken[i - 1]);
    }
    op_free(own);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

static void threads_share_one_lease_without_a_double(void **state)
{
    (void)state;
    static uint64_t taken[8][1000];
    pthread_t threads[8];
    assert_fault(tsa_serials_new(&shared), NONE);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, take_many, taken[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    uint64_t *all = &taken[0][0];
    qsort(all, 8000, sizeof(*all), compare);
    for (size_t i = 1; i < 8000; i++) {
        assert_true(all[i] > all[i - 1]);
    }
    assert_int_equal(event_store.messages, 1);
    tsa_serials_free(TAKE(shared));
}

static void a_deadline_ends_the_wait_for_a_lease(void **state)
{
    (void)state;
    CLEANUP(tsa_serials_freep) struct tsa_serials *serials = NULL;
    static uint64_t taken[1000];
    pthread_t leaser;
    struct op *hurried = NULL;
    uint64_t untouched = 7;
    assert_fault(tsa_serials_new(&serials), NONE);
    shared = serials;
    log_hold(true);
    assert_int_equal(pthread_create(&leaser, NULL, take_many, taken), 0);
    log_wait_for_appends(1);
    assert_fault(op_new("test", (struct tenant_id){ "default" }, 20, &hurried), NONE);
    assert_fault(tsa_serial_next(hurried, &services, serials, &untouched), DEADLINE);
    assert_int_equal(untouched, 7);
    op_free(hurried);
    log_hold(false);
    assert_int_equal(pthread_join(leaser, NULL), 0);
    shared = NULL;
}

static int setup(void **state)
{
    (void)state;
    log_reset();
    services = (struct services){ .log = log_handle(), .instance = { "018f0000-0000-7000-8000-000000000001" } };
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)) ? -1 : 0;
}
static int teardown(void **state)
{
    (void)state;
    op_free(TAKE(op));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_lease_there_is_no_serial),   TEST(serials_rise_and_a_used_up_lease_is_renewed),
        TEST(two_instances_never_share_a_serial),   TEST(threads_share_one_lease_without_a_double),
        TEST(a_deadline_ends_the_wait_for_a_lease),
    };
    return cmocka_run_group_tests_name("time-stamp serial", tests, NULL, NULL);
}
