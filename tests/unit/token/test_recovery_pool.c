/* Sessions: who waits, who is refused, and what becomes of a call that does not come back. */
#include "tests/unit/token/faulty.h"

#include <pthread.h>

struct caller {
    pthread_t thread;
    int ms;
    struct token_session *session;
    struct fault fault;
};

/* One that has a session already: what the broker does. */
static void *sign_with_own(void *arg)
{
    struct caller *caller = arg;
    CLEANUP(op_freep) struct op *op = op_within(caller->ms);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    caller->fault =
        token_sign(op, caller->session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature);
    token_session_put(caller->session);
    return NULL;
}

static void *take_only(void *arg)
{
    struct caller *caller = arg;
    CLEANUP(op_freep) struct op *op = op_within(caller->ms);
    caller->fault = token_session_take(op, token, &caller->session);
    return NULL;
}

static void begin(struct caller *caller, void *(*what)(void *))
{
    assert_int_equal(pthread_create(&caller->thread, NULL, what, caller), 0);
}

static void finish(struct caller *caller)
{
    assert_int_equal(pthread_join(caller->thread, NULL), 0);
}

static void take_all(struct token_session *held[4])
{
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    for (size_t i = 0; i < 4; i++) {
        assert_ok(token_session_take(op, token, &held[i]));
    }
}

static void put_all(struct token_session *held[4])
{
    for (size_t i = 0; i < 4; i++) {
        token_session_put(held[i]);
    }
}

static void wait_until_waiting(unsigned count)
{
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    while (status_now().waiting != count) {
        assert_true(clock_mono() < deadline);
        (void)poll(NULL, 0, 1);
    }
}

static void wait_until_hits(unsigned count)
{
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    while (rule_hits() < count) {
        assert_true(clock_mono() < deadline);
        (void)poll(NULL, 0, 1);
    }
}

/* ---- waiting ---- */

static void a_queue_that_is_full_refuses_at_once(void **state)
{
    (void)state;
    struct token_session *held[4], *none = NULL;
    struct caller waiting[2] = { { .ms = PATIENCE_MS }, { .ms = PATIENCE_MS } };
    settings.queue = 2;
    take_all(held);
    for (size_t i = 0; i < 2; i++) {
        begin(&waiting[i], take_only);
        wait_until_waiting((unsigned)i + 1);
    }
    CLEANUP(op_freep) struct op *op = op_within(3600000); /* nobody waits that long for this test */
    assert_fault(token_session_take(op, token, &none), SATURATED);
    assert_non_null(strstr(op->note.detail, "2 requests wait already"));
    assert_null(none);
    put_all(held);
    for (size_t i = 0; i < 2; i++) {
        finish(&waiting[i]);
        assert_ok(waiting[i].fault);
        token_session_put(waiting[i].session);
    }
    assert_int_equal(status_now().waiting, 0);
    assert_int_equal(status_now().in_use, 0);
    settings.queue = 16;
}

static void who_waits_past_the_deadline_leaves_the_queue(void **state)
{
    (void)state;
    struct token_session *held[4];
    struct caller hasty = { .ms = 20 }, patient[2] = { { .ms = PATIENCE_MS }, { .ms = PATIENCE_MS } };
    take_all(held);
    begin(&patient[0], take_only);
    wait_until_waiting(1);
    begin(&hasty, take_only);
    finish(&hasty);
    assert_fault(hasty.fault, SATURATED);
    begin(&patient[1], take_only);
    wait_until_waiting(2);
    put_all(held);
    for (size_t i = 0; i < 2; i++) {
        finish(&patient[i]);
        assert_ok(patient[i].fault);
        token_session_put(patient[i].session);
    }
    take_all(held); /* all four are there again, and no fifth */
    assert_int_equal(status_now().in_use, 4);
    put_all(held);
}

static void who_came_first_is_served_first(void **state)
{
    (void)state;
    struct token_session *held[4];
    struct caller waiting[3];
    take_all(held);
    for (size_t i = 0; i < COUNT_OF(waiting); i++) {
        waiting[i] = (struct caller){ .ms = PATIENCE_MS };
        begin(&waiting[i], take_only);
        wait_until_waiting((unsigned)i + 1);
    }
    for (size_t i = 0; i < COUNT_OF(waiting); i++) {
        token_session_put(held[i]);
        finish(&waiting[i]);
        assert_ok(waiting[i].fault);
        assert_ptr_equal(waiting[i].session, held[i]);
        held[i] = waiting[i].session;
    }
    put_all(held);
}

struct crowd {
    pthread_t thread;
    unsigned taken;
};

static void *take_and_put(void *arg)
{
    struct crowd *member = arg;
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    for (int i = 0; i < 3000; i++) {
        struct token_session *session = NULL;
        struct fault fault = token_session_take(op, token, &session);
        if (FAULTED(fault)) {
            return NULL;
        }
        member->taken++;
        token_session_put(session);
    }
    return NULL;
}

static void nobody_is_forgotten_in_a_crowd(void **state)
{
    (void)state;
    struct crowd crowd[12] = { 0 };
    for (size_t i = 0; i < COUNT_OF(crowd); i++) {
        assert_int_equal(pthread_create(&crowd[i].thread, NULL, take_and_put, &crowd[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(crowd); i++) {
        assert_int_equal(pthread_join(crowd[i].thread, NULL), 0);
        assert_int_equal(crowd[i].taken, 3000);
    }
    struct token_session *held[4];
    take_all(held);
    put_all(held);
}

/* ---- set aside ---- */

static struct caller hung_in(const char *function)
{
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    struct caller hung = { .ms = 50, .session = session_of(op) };
    struct p11fault_rule rule = { .times = 1, .effect = P11FAULT_HOLD };
    (void)snprintf(rule.function, sizeof(rule.function), "%s", function);
    plan_rule(&rule);
    return hung;
}

static void a_call_that_hangs_gives_its_place_to_another_session(void **state)
{
    (void)state;
    static const char *const places[] = { "C_OpenSession", "C_FindObjectsInit", "C_FindObjects", "C_SignInit",
                                          "C_Sign" };
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        struct token_session *held[4];
        clear_rules();
        token_forget_handles(token);
        struct caller hung = hung_in(places[i]);
        begin(&hung, sign_with_own);
        wait_until_hits(1);
        token_session_set_aside(hung.session);
        token_session_set_aside(hung.session);
        assert_int_equal(status_now().set_aside, 1);
        assert_int_equal(status_now().in_use, 0);
        assert_false(status_now().restart_advised);
        take_all(held);
        assert_int_equal(status_now().in_use, 4);
        put_all(held);
        CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
        CLEANUP(token_session_putp) struct token_session *session = session_of(op);
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        assert_ok(token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature));
        clear_rules();
        finish(&hung);
        assert_int_equal(status_now().set_aside, 0);
    }
}

static void what_comes_back_from_aside_is_closed_and_stands_by_again(void **state)
{
    (void)state;
    for (int round = 0; round < 3 * SPARES_MAX; round++) {
        clear_rules();
        struct caller hung = hung_in("C_Sign");
        begin(&hung, sign_with_own);
        wait_until_hits(1);
        unsigned closed = calls_of("C_CloseSession");
        token_session_set_aside(hung.session);
        clear_rules();
        finish(&hung);
        assert_int_equal(calls_of("C_CloseSession") - closed, 1);
        assert_int_equal(status_now().set_aside, 0);
        assert_false(status_now().restart_advised);
    }
    assert_works_again();
}

static void too_many_calls_that_hang_advise_a_restart_and_say_why(void **state)
{
    (void)state;
    struct caller hung[SPARES_MAX + 2];
    struct token_session *held[4];
    for (size_t i = 0; i < COUNT_OF(hung); i++) {
        assert_int_equal(status_now().restart_advised, i >= SPARES_MAX);
        hung[i] = hung_in("C_Sign");
        begin(&hung[i], sign_with_own);
        wait_until_hits((unsigned)i + 1);
        token_session_set_aside(hung[i].session);
    }
    struct token_status status = status_now();
    assert_true(status.restart_advised);
    assert_int_not_equal(status.state, TOKEN_OK);
    assert_int_equal(status.set_aside, SPARES_MAX + 2);
    assert_non_null(strstr(status.cause, "10 calls do not return"));
    /* Two places are lost now; those that are left work. */
    clear_rules();
    for (size_t i = 0; i < COUNT_OF(hung); i++) {
        finish(&hung[i]);
    }
    take_all(held);
    CLEANUP(op_freep) struct op *hasty = op_within(1);
    struct token_session *fifth = NULL;
    assert_fault(token_session_take(hasty, token, &fifth), SATURATED);
    put_all(held);
    assert_false(status_now().restart_advised);
    assert_works_again();
}

static void a_token_without_a_session_for_the_stand_in_advises_a_restart(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    struct caller hung = hung_in("C_Sign");
    begin(&hung, sign_with_own);
    wait_until_hits(1);
    token_session_set_aside(hung.session);
    plan(.function = "C_OpenSession", .rv = CKR_SESSION_COUNT);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    assert_fault(token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature),
                 TOKEN_UNAVAILABLE);
    assert_true(status_now().restart_advised);
    clear_rules();
    finish(&hung);
    assert_false(status_now().restart_advised);
}

static void a_trial_that_hangs_does_not_bar_the_others(void **state)
{
    (void)state;
    plan(.function = "C_Sign", .rv = CKR_DEVICE_ERROR);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_UNAVAILABLE);
    wait_until_not_down();
    clear_rules();
    struct caller trial = hung_in("C_SignInit");
    begin(&trial, sign_with_own);
    wait_until_hits(1);
    token_session_set_aside(trial.session);
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    assert_ok(token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature));
    clear_rules();
    finish(&trial);
    assert_works_again();
}

/* ---- the keeper ---- */

static void a_keeper_that_hangs_is_seen_and_holds_up_nobody(void **state)
{
    (void)state;
    static const char *const places[] = { "C_GetSessionInfo", "C_OpenSession", "C_Login", "C_FindObjects" };
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        token->patience_ms = 50;
        assert_ok(sign_within(PATIENCE_MS)); /* a session that is open, and a handle that is known */
        struct p11fault_rule hang = { .effect = P11FAULT_HOLD };
        (void)snprintf(hang.function, sizeof(hang.function), "%s", places[i]);
        plan_rule(&hang);
        if (i > 0) { /* there, the keeper comes only when the login was lost */
            plan(.function = "C_GetSessionInfo", .rv = CKR_USER_NOT_LOGGED_IN);
        }
        mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
        while (!status_now().restart_advised) {
            assert_true(clock_mono() < deadline);
            (void)poll(NULL, 0, 1);
        }
        assert_non_null(strstr(status_now().cause, "recovery itself"));
        CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
        CLEANUP(token_session_putp) struct token_session *session = session_of(op);
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        assert_ok(token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature));
        token->patience_ms = PATIENCE_MS;
        assert_works_again();
    }
}

static void a_hang_in_initialise_is_seen(void **state)
{
    (void)state;
    token->patience_ms = 50;
    plan(.function = "C_Sign", .rv = CKR_CRYPTOKI_NOT_INITIALIZED, .times = 1);
    plan(.function = "C_Initialize", .effect = P11FAULT_HOLD);
    assert_fault(sign_within(200), TOKEN_UNAVAILABLE);
    assert_true(status_now().restart_advised);
    token->patience_ms = PATIENCE_MS;
    assert_works_again();
    assert_false(status_now().restart_advised);
}

/* ---- what is told ---- */

static void refusals_are_counted_by_class(void **state)
{
    (void)state;
    assert_ok(sign_within(PATIENCE_MS));
    struct token_status before = status_now();
    plan(.function = "C_SignInit", .rv = CKR_KEY_HANDLE_INVALID, .times = 1);
    assert_ok(sign_within(PATIENCE_MS));
    plan(.function = "C_Sign", .rv = CKR_SESSION_HANDLE_INVALID, .times = 1);
    assert_ok(sign_within(PATIENCE_MS));
    plan(.function = "C_Sign", .rv = CKR_DEVICE_ERROR, .times = 1);
    assert_ok(sign_within(PATIENCE_MS));
    struct token_status after = status_now();
    assert_int_equal(after.refusals[CKR_CLASS_HANDLE] - before.refusals[CKR_CLASS_HANDLE], 1);
    assert_int_equal(after.refusals[CKR_CLASS_SESSION] - before.refusals[CKR_CLASS_SESSION], 1);
    assert_int_equal(after.refusals[CKR_CLASS_DEVICE] - before.refusals[CKR_CLASS_DEVICE], 1);
    assert_int_equal(after.refusals[CKR_CLASS_PIN], 0);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, token_for_each, no_token_for_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_queue_that_is_full_refuses_at_once),
        EACH(who_waits_past_the_deadline_leaves_the_queue),
        EACH(who_came_first_is_served_first),
        EACH(nobody_is_forgotten_in_a_crowd),
        EACH(a_call_that_hangs_gives_its_place_to_another_session),
        EACH(what_comes_back_from_aside_is_closed_and_stands_by_again),
        EACH(too_many_calls_that_hang_advise_a_restart_and_say_why),
        EACH(a_token_without_a_session_for_the_stand_in_advises_a_restart),
        EACH(a_trial_that_hangs_does_not_bar_the_others),
        EACH(a_keeper_that_hangs_is_seen_and_holds_up_nobody),
        EACH(a_hang_in_initialise_is_seen),
        EACH(refusals_are_counted_by_class),
    };
    return cmocka_run_group_tests_name("pool", tests, module_for_all, nothing_for_all);
}
