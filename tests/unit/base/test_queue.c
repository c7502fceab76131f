#include "appliance/base/queue.h"
#include "testlib.h"

#include <pthread.h>
#include <sched.h>

static void a_depth_of_nothing_is_refused(void **state)
{
    (void)state;
    struct queue *untouched = NULL;
    assert_fault(queue_new(0, &untouched), BAD_ARGUMENT);
    assert_fault(queue_new(SIZE_MAX, &untouched), BAD_ARGUMENT);
    assert_null(untouched);
}

static void full_refuses_and_order_is_kept(void **state)
{
    (void)state;
    CLEANUP(queue_freep) struct queue *queue = NULL;
    assert_fault(queue_new(3, &queue), NONE);
    int items[10];
    size_t out = 0, in = 0;
    for (int round = 0; round < 3; round++) {
        while (queue_length(queue) < 3) {
            assert_fault(queue_push(queue, &items[in++ % 10]), NONE);
        }
        assert_fault(queue_push(queue, &items[0]), SATURATED);
        for (int i = 0; i < 2; i++) {
            void *item = NULL;
            assert_fault(queue_pop(queue, 0, &item), NONE);
            assert_ptr_equal(item, &items[out++ % 10]);
        }
    }
    void *item = NULL;
    assert_fault(queue_pop(queue, 0, &item), NONE);
    assert_fault(queue_pop(queue, 0, &item), DEADLINE);
    assert_fault(queue_pop(queue, INT64_MIN, &item), DEADLINE);
    assert_ptr_equal(item, &items[out % 10]);
}

static void a_closed_queue_drains_and_then_says_so(void **state)
{
    (void)state;
    CLEANUP(queue_freep) struct queue *queue = NULL;
    assert_fault(queue_new(3, &queue), NONE);
    int thing;
    void *item = NULL;
    assert_fault(queue_push(queue, &thing), NONE);
    queue_close(queue);
    assert_fault(queue_push(queue, &thing), CANCELLED);
    assert_fault(queue_pop(queue, 0, &item), NONE);
    assert_ptr_equal(item, &thing);
    assert_fault(queue_pop(queue, INT64_MAX, &item), CANCELLED);
}

static void *pop_all(void *arg)
{
    struct queue *queue = arg;
    uintptr_t count = 0;
    void *item = NULL;
    while (!FAULTED(queue_pop(queue, clock_mono() + 60 * NS_PER_S, &item))) {
        count++;
    }
    return (void *)count;
}

static void *push_many(void *arg)
{
    static int thing;
    for (int i = 0; i < 10000;) {
        i += !FAULTED(queue_push(arg, &thing));
        if (i % 64 == 0) {
            (void)sched_yield();
        }
    }
    return NULL;
}

static void nothing_is_lost_or_doubled_between_threads(void **state)
{
    (void)state;
    CLEANUP(queue_freep) struct queue *queue = NULL;
    assert_fault(queue_new(16, &queue), NONE);
    pthread_t poppers[3], pushers[3];
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&poppers[i], NULL, pop_all, queue), 0);
        assert_int_equal(pthread_create(&pushers[i], NULL, push_many, queue), 0);
    }
    uintptr_t total = 0;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(pushers[i], NULL), 0);
    }
    queue_close(queue);
    for (size_t i = 0; i < 3; i++) {
        void *count = NULL;
        assert_int_equal(pthread_join(poppers[i], &count), 0);
        total += (uintptr_t)count;
    }
    assert_int_equal(total, 30000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_depth_of_nothing_is_refused),
        cmocka_unit_test(full_refuses_and_order_is_kept),
        cmocka_unit_test(a_closed_queue_drains_and_then_says_so),
        cmocka_unit_test(nothing_is_lost_or_doubled_between_threads),
    };
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
