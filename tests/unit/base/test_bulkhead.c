#include "appliance/base/bulkhead.h"
#include "testlib.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define FAR (clock_mono() + 60 * NS_PER_S)

static void limits_out_of_range_are_refused(void **state)
{
    (void)state;
    struct bulkhead *untouched = NULL;
    assert_fault(bulkhead_new(0, 0, &untouched), BAD_ARGUMENT);
    assert_fault(bulkhead_new(BULKHEAD_LIMIT_MAX + 1, 0, &untouched), BAD_ARGUMENT);
    assert_fault(bulkhead_new(1, BULKHEAD_LIMIT_MAX + 1, &untouched), BAD_ARGUMENT);
    assert_null(untouched);
}

static struct fault enter_then_fail(struct bulkhead *bulkhead, mono_ns deadline)
{
    CLEANUP(permit_release) struct permit permit = { 0 };
    TRY(bulkhead_enter(bulkhead, deadline, &permit));
    return FAULT(BAD_ARGUMENT);
}

static void full_refuses_at_once_and_early_returns_give_back(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 0, &bulkhead), NONE);
    struct permit first = { 0 };
    assert_fault(bulkhead_enter(bulkhead, FAR, &first), NONE);
    assert_fault(enter_then_fail(bulkhead, FAR), SATURATED);
    permit_release(&first);
    permit_release(&first);
    assert_fault(enter_then_fail(bulkhead, FAR), BAD_ARGUMENT);
    assert_int_equal(bulkhead_in_use(bulkhead), 0);
}

static void a_waiter_leaves_at_its_deadline(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 5, &bulkhead), NONE);
    CLEANUP(permit_release) struct permit first = { 0 };
    assert_fault(enter_then_fail(bulkhead, INT64_MIN), BAD_ARGUMENT); /* no wait, no deadline */
    assert_fault(bulkhead_enter(bulkhead, 0, &first), NONE);
    assert_fault(enter_then_fail(bulkhead, clock_mono() + 2 * NS_PER_MS), SATURATED);
    assert_fault(enter_then_fail(bulkhead, 0), SATURATED);
    assert_fault(enter_then_fail(bulkhead, INT64_MIN), SATURATED);
    assert_int_equal(bulkhead_waiting(bulkhead), 0);
    assert_int_equal(bulkhead_in_use(bulkhead), 1);
    permit_release(&first);
}

struct waiter_run {
    struct bulkhead *bulkhead;
    atomic_uint *order;
    unsigned came;
};

static void *wait_and_note(void *arg)
{
    struct waiter_run *run = arg;
    CLEANUP(permit_release) struct permit permit = { 0 };
    BUG_IF(FAULTED(bulkhead_enter(run->bulkhead, FAR, &permit)));
    run->came = atomic_fetch_add(run->order, 1);
    return NULL;
}

static void waiters_are_served_in_their_order(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 8, &bulkhead), NONE);
    struct permit first = { 0 };
    assert_fault(bulkhead_enter(bulkhead, FAR, &first), NONE);
    atomic_uint order = 0;
    struct waiter_run runs[8];
    pthread_t threads[8];
    for (unsigned i = 0; i < 8; i++) {
        runs[i] = (struct waiter_run){ .bulkhead = bulkhead, .order = &order };
        assert_int_equal(pthread_create(&threads[i], NULL, wait_and_note, &runs[i]), 0);
        while (bulkhead_waiting(bulkhead) != i + 1) {
            (void)sched_yield();
        }
    }
    assert_fault(enter_then_fail(bulkhead, FAR), SATURATED); /* the queue is full too */
    permit_release(&first);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(runs[i].came, i);
    }
    assert_int_equal(bulkhead_in_use(bulkhead), 0);
}

struct crowd {
    struct bulkhead *bulkhead;
    atomic_uint inside, entered;
};

static void *come_and_go(void *arg)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 5000; i++) {
        CLEANUP(permit_release) struct permit permit = { 0 };
        mono_ns deadline = i % 3 == 0 ? clock_mono() + 1000 : FAR; /* some give up while they are served */
        if (!FAULTED(bulkhead_enter(crowd->bulkhead, deadline, &permit))) {
            BUG_IF(atomic_fetch_add(&crowd->inside, 1) >= 2);
            atomic_fetch_add(&crowd->entered, 1);
            (void)sched_yield();
            atomic_fetch_sub(&crowd->inside, 1);
        }
    }
    return NULL;
}

static void threads_never_exceed_the_limit(void **state)
{
    (void)state;
    struct crowd crowd = { 0 };
    assert_fault(bulkhead_new(2, 3, &crowd.bulkhead), NONE);
    pthread_t threads[6];
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_true(atomic_load(&crowd.entered) > 0);
    assert_int_equal(bulkhead_in_use(crowd.bulkhead), 0);
    assert_int_equal(bulkhead_waiting(crowd.bulkhead), 0);
    bulkhead_free(crowd.bulkhead);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_out_of_range_are_refused),
        cmocka_unit_test(full_refuses_at_once_and_early_returns_give_back),
        cmocka_unit_test(a_waiter_leaves_at_its_deadline),
        cmocka_unit_test(waiters_are_served_in_their_order),
        cmocka_unit_test(threads_never_exceed_the_limit),
    };
    return cmocka_run_group_tests_name("bulkhead", tests, NULL, NULL);
}
