#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define APPENDS_MAX     2 /* the recorder can do more than one, whatever it is told to do */
#define GATHER_LEAST_NS (60 * NS_PER_S)
#define GATHER_MOST_NS  (60 * NS_PER_S)
/* The source itself, so that a test can wait until its callers stand in the queue. */
#include "api/tsa/record.c"

#include <sched.h>
#include <stdio.h>

#include "tests/unit/tsa/log.h"

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)
#define THREADS                 100

static struct tsa_recorder *recorder;

struct caller {
    pthread_t thread;
    unsigned number;
    int timeout_ms;
    struct fault fault;
    const char *subject; /* NULL = "test" */
    unsigned events;     /* `number` and those behind it */
};

static void *record_one(void *arg)
{
    struct caller *caller = arg;
    struct op *op = NULL;
    char data[32];
    BUG_IF(FAULTED(op_new(caller->subject != NULL ? caller->subject : "test", (struct tenant_id){ "default" },
                          caller->timeout_ms, &op)));
    (void)snprintf(data, sizeof(data), "{\"n\":%u}", caller->number);
    struct span events[TSA_BATCH_MAX];
    uint64_t sequence = 0;
    for (unsigned i = 0; i < caller->events; i++) {
        BUG_IF(FAULTED(arena_copy(op->arena, span_text(data), &events[i])));
        (void)snprintf(data, sizeof(data), "{\"n\":%u}", caller->number + i + 1);
    }
    caller->fault = tsa_record(op, log_handle(), recorder, events, caller->events, &sequence);
    BUG_IF(FAULTED(caller->fault) != (sequence == 0) || (sequence > 0 && op->recorded_seq != sequence));
    op_free(op);
    return NULL;
}

static void start_for(const char *subject, struct caller *caller, unsigned number, int timeout_ms)
{
    *caller = (struct caller){ .number = number, .timeout_ms = timeout_ms, .subject = subject, .events = 1 };
    BUG_IF(pthread_create(&caller->thread, NULL, record_one, caller) != 0);
}
static void start(struct caller *caller, unsigned number, int timeout_ms)
{
    start_for(NULL, caller, number, timeout_ms);
}

static size_t queued(void)
{
    size_t count = 0;
    BUG_IF(pthread_mutex_lock(&recorder->lock) != 0);
    for (const struct entry *at = recorder->first; at != NULL; at = at->next) {
        count++;
    }
    BUG_IF(pthread_mutex_unlock(&recorder->lock) != 0);
    return count;
}

static void wait_until_queued(size_t count)
{
    while (queued() != count) {
        (void)sched_yield();
    }
}

static struct fault finish(struct caller *caller)
{
    BUG_IF(pthread_join(caller->thread, NULL) != 0);
    return caller->fault;
}

/* Callers who hold all places: inside the log, held back. */
static void fill_places(struct caller inside[APPENDS_MAX])
{
    log_hold(true);
    for (unsigned i = 0; i < APPENDS_MAX; i++) {
        start(&inside[i], 4000 + i, 60000);
        log_wait_for_appends(i + 1);
    }
}

static void finish_places(struct caller inside[APPENDS_MAX])
{
    log_hold(false);
    for (unsigned i = 0; i < APPENDS_MAX; i++) {
        assert_fault(finish(&inside[i]), NONE);
    }
}

static void a_log_that_refuses_is_told_to_everybody_of_the_message(void **state)
{
    (void)state;
    struct caller callers[8];
    event_store.refuse = FAULT(LOG_UNAVAILABLE);
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        start(&callers[i], i, 60000);
    }
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), LOG_UNAVAILABLE);
    }
    assert_int_equal(event_store.events, 0);
}

/* All places are inside the log, held back; those behind give up at their deadlines, also the one being carried. */
static void a_deadline_ends_the_wait_in_the_queue(void **state)
{
    (void)state;
    struct caller inside[APPENDS_MAX];
    struct caller late[3];
    fill_places(inside);
    for (unsigned i = 0; i < COUNT_OF(late); i++) {
        start(&late[i], 1 + i, 20);
    }
    for (unsigned i = 0; i < COUNT_OF(late); i++) {
        assert_fault(finish(&late[i]), DEADLINE);
    }
    finish_places(inside);
    assert_int_equal(event_store.events, APPENDS_MAX); /* who left the queue is not recorded */
    assert_false(event_store.seen[1] || event_store.seen[2] || event_store.seen[3]);
}

/* The next message carries them all and is held back; one of those it carries has no time for that. Nobody can say
 * who leads: where it is that one, its deadline is everybody's. */
static void who_is_carried_may_leave_and_the_leader_cleans_up(void **state)
{
    (void)state;
    struct caller inside[APPENDS_MAX];
    struct caller patient[7];
    struct caller hurried;
    fill_places(inside);
    for (unsigned i = 0; i < COUNT_OF(patient); i++) {
        start(&patient[i], 1 + i, 60000);
    }
    start(&hurried, 100, 1000);
    wait_until_queued(COUNT_OF(patient) + 1);
    log_allow_one();
    assert_fault(finish(&hurried), DEADLINE);
    finish_places(inside);
    for (unsigned i = 0; i < COUNT_OF(patient); i++) {
        struct fault fault = finish(&patient[i]);
        assert_true(fault.code == FAULT_DEADLINE || event_store.seen[1 + i]);
    }
}

static void two_messages_are_under_way_and_who_comes_then_waits(void **state)
{
    (void)state;
    struct caller inside[APPENDS_MAX];
    struct caller third;
    fill_places(inside);
    start(&third, 1, 60000);
    wait_until_queued(1);
    assert_int_equal(recorder->leaders, APPENDS_MAX);
    log_allow_one(); /* one place is free: the third has it while the other is still inside */
    while (queued() != 0) {
        (void)sched_yield();
    }
    log_wait_for_appends(APPENDS_MAX);
    finish_places(inside);
    assert_fault(finish(&third), NONE);
    assert_int_equal(event_store.messages, APPENDS_MAX + 1);
}

static void what_waits_goes_as_one_message(void **state)
{
    (void)state;
    struct caller inside[APPENDS_MAX];
    struct caller callers[THREADS];
    fill_places(inside);
    for (unsigned i = 0; i < THREADS; i++) {
        start(&callers[i], i, 60000);
    }
    wait_until_queued(THREADS);
    finish_places(inside);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_fault(finish(&callers[i]), NONE);
    }
    assert_int_equal(event_store.events, APPENDS_MAX + THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_true(event_store.seen[i]);
    }
    assert_int_equal(event_store.largest, 64);
    assert_int_equal(event_store.messages, APPENDS_MAX + 2); /* those inside, 64, and the rest */
    assert_string_equal(event_store.lane, "tsa");
    assert_string_equal(event_store.last_type, "tsa.timestamp.issued");
}

static void a_leader_waits_until_half_of_those_on_their_way_are_there(void **state)
{
    (void)state;
    struct caller callers[4];
    mono_ns begun = 0;
    for (unsigned i = 0; i < 8; i++) {
        begun = tsa_record_expect(recorder);
    }
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        tsa_record_arrived(recorder, begun);
        start(&callers[i], i, 60000);
        if (i + 1 < COUNT_OF(callers)) {
            wait_until_queued(i + 1);
            assert_int_equal(event_store.events, 0);
        }
    }
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
    }
    assert_int_equal(event_store.messages, 1);
    assert_int_equal(event_store.events, COUNT_OF(callers));
    for (unsigned i = 0; i < 4; i++) {
        tsa_record_arrived(recorder, begun);
    }
}

/* An entry is recorded whole, in one message, or not yet. */
static void what_one_caller_brings_stays_together(void **state)
{
    (void)state;
    struct caller inside[APPENDS_MAX];
    struct caller callers[5];
    fill_places(inside);
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        callers[i] = (struct caller){ .number = i * 100, .timeout_ms = 60000, .events = 30 };
        BUG_IF(pthread_create(&callers[i].thread, NULL, record_one, &callers[i]) != 0);
        wait_until_queued(i + 1);
    }
    finish_places(inside);
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
        assert_true(event_store.seen[callers[i].number + callers[i].events - 1]);
    }
    assert_int_equal(event_store.events, APPENDS_MAX + 5 * 30);
    assert_int_equal(event_store.largest, 60);
    assert_int_equal(event_store.messages, APPENDS_MAX + 3); /* 60, 60, 30 */
}

/* A message has one actor: nobody's stamp is recorded as another's. */
static void each_event_is_recorded_as_its_own_caller_s(void **state)
{
    (void)state;
    static const char *const subjects[] = { "alice", "bob", "carol" };
    struct caller inside[APPENDS_MAX];
    struct caller callers[60];
    fill_places(inside);
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        start_for(subjects[i / 4 % 3], &callers[i], i, 60000);
    }
    wait_until_queued(COUNT_OF(callers));
    finish_places(inside);
    for (unsigned i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
        assert_int_equal(event_store.actor[i], callers[i].subject[0]);
    }
    assert_int_equal(event_store.events, APPENDS_MAX + COUNT_OF(callers));
}

static void *record_many(void *arg)
{
    unsigned base = *(unsigned *)arg;
    for (unsigned i = 0; i < 200; i++) {
        struct caller caller = { .number = base + i, .timeout_ms = 60000, .events = 1 };
        (void)record_one(&caller);
        BUG_IF(FAULTED(caller.fault));
    }
    return NULL;
}

static void many_threads_record_each_event_once(void **state)
{
    (void)state;
    pthread_t threads[8];
    unsigned bases[8];
    for (unsigned i = 0; i < COUNT_OF(threads); i++) {
        bases[i] = i * 200;
        assert_int_equal(pthread_create(&threads[i], NULL, record_many, &bases[i]), 0);
    }
    for (unsigned i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(event_store.events, 1600);
}

static int setup(void **state)
{
    (void)state;
    log_reset();
    return FAULTED(tsa_recorder_new(&recorder)) ? -1 : 0;
}
static int teardown(void **state)
{
    (void)state;
    tsa_recorder_free(TAKE(recorder));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_log_that_refuses_is_told_to_everybody_of_the_message),
        TEST(a_deadline_ends_the_wait_in_the_queue),
        TEST(who_is_carried_may_leave_and_the_leader_cleans_up),
        TEST(two_messages_are_under_way_and_who_comes_then_waits),
        TEST(what_waits_goes_as_one_message),
        TEST(a_leader_waits_until_half_of_those_on_their_way_are_there),
        TEST(what_one_caller_brings_stays_together),
        TEST(each_event_is_recorded_as_its_own_caller_s),
        TEST(many_threads_record_each_event_once),
    };
    return cmocka_run_group_tests_name("time-stamp record", tests, NULL, NULL);
}
