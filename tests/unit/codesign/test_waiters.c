#include "testlib.h"

#include "api/codesign/internal.h"

#include <pthread.h>

static const struct uuid one = { "01900000-0000-8000-8000-000000000001" };
static const struct uuid two = { "01900000-0000-8000-8000-000000000002" };

static void a_wait_ends_at_its_time_and_not_for_another_operation(void **state)
{
    (void)state;
    CLEANUP(codesign_waiter_leave) struct codesign_waiter waiter;
    uint64_t seq = 0;
    codesign_waiter_enter(&waiter, one);
    codesign_waiters_ended(two, 7);
    assert_false(codesign_waiter_wait(&waiter, clock_mono() + NS_PER_MS, &seq));
    assert_false(codesign_waiter_wait(&waiter, clock_mono() - NS_PER_S, &seq));
    assert_int_equal(seq, 0);
}

static void what_a_try_met_is_kept_for_its_own_operation(void **state)
{
    (void)state;
    CLEANUP(codesign_waiter_leave) struct codesign_waiter waiter;
    codesign_waiter_enter(&waiter, one);
    codesign_waiters_met(two, FAULT(TOKEN_PIN));
    assert_int_equal(codesign_waiter_last(&waiter), FAULT_NONE);
    codesign_waiters_met(one, FAULT(TOKEN_UNAVAILABLE));
    assert_int_equal(codesign_waiter_last(&waiter), FAULT_TOKEN_UNAVAILABLE);
}

static void an_end_before_the_wait_is_not_missed_and_leaving_forgets(void **state)
{
    (void)state;
    struct codesign_waiter first, second;
    uint64_t seq = 0;
    codesign_waiter_enter(&first, one);
    codesign_waiter_enter(&second, one);
    codesign_waiters_ended(one, 41);
    assert_true(codesign_waiter_wait(&first, 0, &seq));
    assert_int_equal(seq, 41);
    codesign_waiter_leave(&first);
    codesign_waiter_leave(&first); /* twice is fine */
    assert_true(codesign_waiter_wait(&second, 0, &seq));
    codesign_waiter_leave(&second);
    codesign_waiters_ended(one, 42); /* nobody is there */
}

static void *wait_for_it(void *arg)
{
    struct codesign_waiter waiter;
    uint64_t seq = 0;
    struct uuid id = { "" };
    memcpy(id.text, arg, sizeof(id.text));
    codesign_waiter_enter(&waiter, id);
    while (!codesign_waiter_wait(&waiter, clock_mono() + 10 * NS_PER_S, &seq)) {
    }
    codesign_waiter_leave(&waiter);
    return (void *)(uintptr_t)seq;
}

#define THREADS 16
static void threads_are_woken_each_with_its_own_sequence(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    struct uuid ids[THREADS];
    bool joined[THREADS] = { false };
    for (size_t i = 0; i < THREADS; i++) {
        assert_fault(uuid_new(&ids[i]), NONE);
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_it, ids[i].text), 0);
    }
    for (size_t left = THREADS; left > 0;) { /* told again until it was there to hear it */
        for (size_t i = 0; i < THREADS; i++) {
            void *seq = NULL;
            codesign_waiters_ended(ids[i], 100 + i);
            if (!joined[i] && pthread_tryjoin_np(threads[i], &seq) == 0) {
                assert_int_equal((uintptr_t)seq, 100 + i);
                joined[i] = true;
                left--;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_ends_at_its_time_and_not_for_another_operation),
        cmocka_unit_test(what_a_try_met_is_kept_for_its_own_operation),
        cmocka_unit_test(an_end_before_the_wait_is_not_missed_and_leaving_forgets),
        cmocka_unit_test(threads_are_woken_each_with_its_own_sequence),
    };
    return cmocka_run_group_tests_name("codesign_waiters", tests, NULL, NULL);
}
