/* Who makes whose stamp, together with whom. The source itself, so that a test sees the queue; what it calls is here.
 */
#include "tests/testlib.h"

#define EXCHANGE_NS (60 * NS_PER_S)
#include "api/tsa/press.c"

#include <sched.h>
#include <stdio.h>

#define THREADS 40

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool hold_sign, hold_finish;
    unsigned signing, finishing; /* callers inside, held back */
    struct fault refuse_sign, refuse_finish;
    unsigned exchanges, stamps, messages;
    size_t largest;
    uint64_t next_sequence;
} works = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };
static struct tsa authority;
static struct tsa_snapshot shown;

struct tsa_snapshot *tsa_current_take(struct tsa_current *current)
{
    (void)current;
    return &shown;
}
void tsa_current_give(struct tsa_current *current, struct tsa_snapshot *snapshot)
{
    (void)current;
    BUG_IF(snapshot != &shown);
}
mono_ns tsa_record_expect(struct tsa_recorder *recorder)
{
    (void)recorder;
    return 1;
}
void tsa_record_arrived(struct tsa_recorder *recorder, mono_ns begun)
{
    (void)recorder;
    BUG_IF(begun != 1);
}

static void move_locked(void)
{
    BUG_IF(pthread_cond_broadcast(&works.moved) != 0);
}

static void hold_here(const bool *held, unsigned *inside)
{
    ++*inside;
    move_locked();
    while (*held) {
        BUG_IF(pthread_cond_wait(&works.moved, &works.lock) != 0);
    }
    --*inside;
}

struct fault stamping_sign(struct stamping *stamping)
{
    BUG_IF(pthread_mutex_lock(&works.lock) != 0);
    hold_here(&works.hold_sign, &works.signing);
    works.exchanges++;
    works.largest = stamping->count > works.largest ? stamping->count : works.largest;
    struct fault fault = works.refuse_sign;
    BUG_IF(pthread_mutex_unlock(&works.lock) != 0);
    for (size_t i = 0; i < stamping->count; i++) { /* nobody's stamp is made as another's */
        BUG_IF(strcmp(stamping->stamps[i]->op->principal.subject, stamping->op->principal.subject) != 0);
    }
    return FAULTED(fault) ? op_fail(stamping->op, fault, "the token of this test refuses") : OK;
}

struct fault stamping_finish(struct stamping *stamping)
{
    BUG_IF(pthread_mutex_lock(&works.lock) != 0);
    hold_here(&works.hold_finish, &works.finishing);
    struct fault fault = works.refuse_finish;
    if (!FAULTED(fault)) {
        works.messages++;
        works.stamps += (unsigned)stamping->count;
        stamping->sequence = ++works.next_sequence;
    }
    BUG_IF(pthread_mutex_unlock(&works.lock) != 0);
    for (size_t i = 0; i < stamping->count; i++) {
        struct tsa_stamp *stamp = stamping->stamps[i];
        BUG_IF(FAULTED(arena_copy(stamp->op->arena, stamp->policy, &stamp->token))); /* a token that says whose it is */
    }
    return FAULTED(fault) ? op_fail(stamping->op, fault, "the log of this test refuses") : OK;
}

/* ---- callers ---- */

struct caller {
    pthread_t thread;
    const char *subject;
    int timeout_ms;
    struct fault fault;
    char note[256];
    uint64_t sequence;
};

static void *call(void *arg)
{
    struct caller *caller = arg;
    struct op *op = NULL;
    char own[32];
    BUG_IF(FAULTED(op_new(caller->subject, (struct tenant_id){ "default" }, caller->timeout_ms, &op)));
    (void)snprintf(own, sizeof(own), "%p", (void *)caller);
    struct tsa_stamp stamp = { .policy = span_text(own) };
    caller->fault = tsa_press(op, NULL, &authority, &stamp);
    if (FAULTED(caller->fault)) {
        (void)snprintf(caller->note, sizeof(caller->note), "%s", op->note.detail);
    } else {
        BUG_IF(stamp.token.len != strlen(own) || memcmp(stamp.token.at, own, stamp.token.len) != 0); /* not another's */
        caller->sequence = op->recorded_seq;
    }
    op_free(op);
    return NULL;
}

static void start(struct caller *caller, const char *subject, int timeout_ms)
{
    *caller = (struct caller){ .subject = subject, .timeout_ms = timeout_ms };
    BUG_IF(pthread_create(&caller->thread, NULL, call, caller) != 0);
}

static struct fault finish(struct caller *caller)
{
    BUG_IF(pthread_join(caller->thread, NULL) != 0);
    return caller->fault;
}

static void wait_until_queued(size_t count)
{
    for (size_t queued = SIZE_MAX; queued != count; (void)sched_yield()) {
        queued = 0;
        lock(authority.press);
        for (const struct entry *at = authority.press->first; at != NULL; at = at->next) {
            queued++;
        }
        unlock(authority.press);
    }
}

static void set(bool *held, bool value)
{
    BUG_IF(pthread_mutex_lock(&works.lock) != 0);
    *held = value;
    move_locked();
    BUG_IF(pthread_mutex_unlock(&works.lock) != 0);
}

static void wait_inside(const unsigned *inside, unsigned count)
{
    BUG_IF(pthread_mutex_lock(&works.lock) != 0);
    while (*inside != count) {
        BUG_IF(pthread_cond_wait(&works.moved, &works.lock) != 0);
    }
    BUG_IF(pthread_mutex_unlock(&works.lock) != 0);
}

/* One caller is with the token, the others stand in the queue. */
static void crowd(struct caller *callers, size_t count, const char *const *subjects, size_t kinds)
{
    set(&works.hold_sign, true);
    start(&callers[0], subjects[0], 60000);
    wait_inside(&works.signing, 1);
    for (size_t i = 1; i < count; i++) {
        start(&callers[i], subjects[i % kinds], 60000);
        wait_until_queued(i);
    }
}

static const char *const one_subject[] = { "alice" };

static void what_the_token_refuses_is_told_to_all_of_the_exchange(void **state)
{
    (void)state;
    struct caller callers[6];
    works.refuse_sign = FAULT(TOKEN_UNAVAILABLE);
    crowd(callers, COUNT_OF(callers), one_subject, 1);
    set(&works.hold_sign, false);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), TOKEN_UNAVAILABLE);
        assert_string_equal(callers[i].note, "the token of this test refuses");
    }
    assert_int_equal(works.exchanges, 2);
    assert_int_equal(works.messages, 0);
}

static void what_the_log_refuses_leaves_nobody_with_a_token(void **state)
{
    (void)state;
    struct caller callers[6];
    works.refuse_finish = FAULT(LOG_UNAVAILABLE);
    crowd(callers, COUNT_OF(callers), one_subject, 1);
    set(&works.hold_sign, false);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), LOG_UNAVAILABLE);
        assert_string_equal(callers[i].note, "the log of this test refuses");
    }
}

static void who_waits_too_long_leaves_and_the_others_are_served(void **state)
{
    (void)state;
    struct caller callers[4];
    struct caller late;
    crowd(callers, COUNT_OF(callers), one_subject, 1);
    start(&late, "alice", 20);
    assert_fault(finish(&late), DEADLINE);
    assert_string_equal(late.note, "the time stamp could not be made in time; try again");
    wait_until_queued(COUNT_OF(callers) - 1);
    set(&works.hold_sign, false);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
    }
    assert_int_equal(works.stamps, COUNT_OF(callers));
}

static void who_is_in_a_leader_s_hands_waits_for_the_end(void **state)
{
    (void)state;
    struct caller callers[3];
    struct caller hurried;
    crowd(callers, COUNT_OF(callers), one_subject, 1);
    start(&hurried, "alice", 2500); /* more than SHARE_NS, so it is taken with the others */
    wait_until_queued(COUNT_OF(callers));
    set(&works.hold_finish, true);
    set(&works.hold_sign, false);
    wait_inside(&works.finishing, 2); /* the first one, and whoever took all the others */
    wait_until_queued(0);
    for (mono_ns until = clock_mono() + 2600 * NS_PER_MS; clock_mono() < until; (void)sched_yield()) {
    }
    set(&works.hold_finish, false);
    struct fault fault = finish(&hurried); /* on a machine that stands still it may have left before it was taken */
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
    }
    assert_int_equal(works.stamps, COUNT_OF(callers) + (fault.code == FAULT_NONE));
}

/* Told to lead after its deadline: its place is the next one's, or nobody would ever stamp again. */
static void who_is_told_to_lead_too_late_passes_its_place_on(void **state)
{
    (void)state;
    struct op *late = NULL, *next = NULL;
    assert_fault(op_new("alice", (struct tenant_id){ "default" }, 1, &late), NONE);
    assert_fault(op_new("alice", (struct tenant_id){ "default" }, 60000, &next), NONE);
    late->deadline = clock_mono() - 1;
    struct tsa_stamp stamps[] = { { .op = late }, { .op = next } };
    struct entry entries[] = { { .stamp = &stamps[0] }, { .stamp = &stamps[1] } };
    struct tsa_press *press = authority.press;
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        assert_int_equal(sem_init(&entries[i].told, 0, 0), 0);
        put_locked(press, &entries[i]);
    }
    press->leaders = 1;
    tell(&entries[0], ENTRY_LEADS);
    assert_false(await(press, &entries[0]));
    assert_fault(stamps[0].fault, DEADLINE);
    assert_ptr_equal(press->first, &entries[1]);
    assert_int_equal(entries[1].state, ENTRY_LEADS);
    assert_int_equal(press->leaders, 1);
    entries[1].stamp->op->deadline = clock_mono() - 1; /* and when nobody is left the place is free */
    assert_false(await(press, &entries[1]));
    assert_null(press->first);
    assert_int_equal(press->leaders, 0);
    for (size_t i = 0; i < COUNT_OF(entries); i++) {
        (void)sem_destroy(&entries[i].told);
    }
    op_free(late);
    op_free(next);
}

static void who_is_in_a_hurry_is_served_alone_and_hurries_nobody(void **state)
{
    (void)state;
    struct caller callers[3];
    struct caller hurried;
    crowd(callers, COUNT_OF(callers), one_subject, 1);
    start(&hurried, "alice", 900); /* less than SHARE_NS */
    wait_until_queued(COUNT_OF(callers));
    set(&works.hold_sign, false);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
    }
    struct fault fault = finish(&hurried); /* on a machine that stands still it may be too late */
    assert_true(fault.code == FAULT_NONE || fault.code == FAULT_DEADLINE);
    assert_true(works.exchanges == 3 || fault.code == FAULT_DEADLINE); /* the first, the two who waited, the hurried */
}

static void those_who_come_meanwhile_are_made_in_one_exchange_and_one_message(void **state)
{
    (void)state;
    struct caller callers[20];
    crowd(callers, COUNT_OF(callers), one_subject, 1);
    set(&works.hold_sign, false);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
        assert_int_equal(callers[i].sequence, i == 0 ? callers[0].sequence : callers[1].sequence);
    }
    assert_int_equal(works.exchanges, 2);
    assert_int_equal(works.messages, 2);
    assert_int_equal(works.largest, COUNT_OF(callers) - 1);
}

static void the_next_one_signs_while_the_last_one_is_being_recorded(void **state)
{
    (void)state;
    struct caller first;
    struct caller second;
    set(&works.hold_finish, true);
    start(&first, "alice", 60000);
    wait_inside(&works.finishing, 1);
    start(&second, "alice", 60000);
    wait_inside(&works.finishing, 2);
    set(&works.hold_finish, false);
    assert_fault(finish(&first), NONE);
    assert_fault(finish(&second), NONE);
    assert_int_equal(works.exchanges, 2);
}

static void nobody_s_stamp_is_made_together_with_another_actor_s(void **state)
{
    (void)state;
    static const char *const subjects[] = { "alice", "bob", "carol" };
    struct caller callers[12];
    crowd(callers, COUNT_OF(callers), subjects, COUNT_OF(subjects));
    set(&works.hold_sign, false);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE); /* stamping_sign compares the subjects */
    }
    assert_int_equal(works.exchanges, COUNT_OF(callers));
}

static void no_exchange_has_more_than_its_share(void **state)
{
    (void)state;
    struct caller callers[THREADS];
    crowd(callers, COUNT_OF(callers), one_subject, 1);
    set(&works.hold_sign, false);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
    }
    assert_true(works.largest <= TSA_BATCH_MAX);
    assert_int_equal(works.stamps, COUNT_OF(callers));
}

static void with_a_slow_token_nobody_waits_for_another(void **state)
{
    (void)state;
    struct caller callers[8];
    authority.press->look = clock_mono() + 60 * NS_PER_S;
    set(&works.hold_sign, true);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        start(&callers[i], "alice", 60000);
    }
    wait_inside(&works.signing, COUNT_OF(callers)); /* all of them at once */
    set(&works.hold_sign, false);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(finish(&callers[i]), NONE);
    }
    assert_int_equal(works.largest, 1);
}

static void a_token_is_slow_after_several_looks_and_quick_after_one(void **state)
{
    (void)state;
    struct tsa_press *press = authority.press;
    lock(press);
    for (unsigned i = 0; i < LOOKS; i++) {
        assert_true(quick_locked(press));
        learn_locked(press, 8 * (mono_ns)QUICK_NS, 2);
    }
    assert_false(quick_locked(press));
    assert_int_equal(batch_max_locked(press), 1);
    press->look = 1; /* it is time to look again */
    assert_true(quick_locked(press));
    learn_locked(press, 8 * (mono_ns)QUICK_NS, 2);
    assert_false(quick_locked(press));
    learn_locked(press, 60 * 1000, 1);
    assert_true(quick_locked(press));
    assert_int_equal(batch_max_locked(press), TSA_BATCH_MAX);
    press->usual = EXCHANGE_NS / 4; /* the more a signature takes, the fewer at once */
    assert_int_equal(batch_max_locked(press), 4);
    press->usual = 2 * EXCHANGE_NS;
    assert_int_equal(batch_max_locked(press), 1);
    unlock(press);
}

static void *call_often(void *arg)
{
    for (unsigned i = 0; i < 300; i++) {
        struct caller caller = { .subject = arg, .timeout_ms = 60000 };
        (void)call(&caller);
        BUG_IF(FAULTED(caller.fault));
    }
    return NULL;
}

static void many_callers_each_get_their_own(void **state)
{
    (void)state;
    static char subjects[][8] = { "alice", "bob" };
    pthread_t threads[8];
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, subjects[i / 4]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(works.stamps, 8 * 300);
}

static int renew(void **state)
{
    (void)state;
    works.hold_sign = works.hold_finish = false;
    works.refuse_sign = works.refuse_finish = OK;
    works.exchanges = works.stamps = works.messages = 0;
    works.largest = 0;
    if (FAULTED(tsa_press_new(&authority.press))) {
        return -1;
    }
    authority.press->places = 1; /* as on a small machine, whatever this one is */
    return 0;
}

static int end(void **state)
{
    (void)state;
    tsa_press_free(TAKE(authority.press)); /* finds whoever is left inside */
    return 0;
}

#define TEST_(name) cmocka_unit_test_setup_teardown(name, renew, end)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_(what_the_token_refuses_is_told_to_all_of_the_exchange),
        TEST_(what_the_log_refuses_leaves_nobody_with_a_token),
        TEST_(who_waits_too_long_leaves_and_the_others_are_served),
        TEST_(who_is_in_a_leader_s_hands_waits_for_the_end),
        TEST_(who_is_told_to_lead_too_late_passes_its_place_on),
        TEST_(who_is_in_a_hurry_is_served_alone_and_hurries_nobody),
        TEST_(those_who_come_meanwhile_are_made_in_one_exchange_and_one_message),
        TEST_(the_next_one_signs_while_the_last_one_is_being_recorded),
        TEST_(nobody_s_stamp_is_made_together_with_another_actor_s),
        TEST_(no_exchange_has_more_than_its_share),
        TEST_(with_a_slow_token_nobody_waits_for_another),
        TEST_(a_token_is_slow_after_several_looks_and_quick_after_one),
        TEST_(many_callers_each_get_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
