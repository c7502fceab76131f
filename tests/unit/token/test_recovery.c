/* The token dies in every way that the fault-injecting module knows; nothing is restarted by hand. */
#include "tests/unit/token/faulty.h"

/* ---- the PIN ---- */

static void a_wrong_pin_is_shown_to_the_token_once(void **state)
{
    (void)state;
    struct token *none = NULL;
    CLEANUP(secret_freep) struct secret *wrong = pin_of("1234-wrong");
    unsigned before = calls_of("C_Login");
    struct token_settings with = softhsm_settings(P11FAULT_MODULE, wrong);
    assert_fault(token_open(&with, NULL, &none), TOKEN_PIN);
    assert_null(none);
    assert_int_equal(calls_of("C_Login") - before, 1);
}

static void a_pin_refused_later_is_latched(void **state)
{
    (void)state;
    unsigned before = calls_of("C_Login");
    plan(.function = "C_SignInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_LOGOUT);
    plan(.function = "C_Login", .rv = CKR_PIN_INCORRECT, .times = 1);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_PIN);
    assert_int_equal(calls_of("C_Login") - before, 1);
    clear_rules();
    for (int i = 0; i < 3; i++) {
        assert_fault(sign_within(PATIENCE_MS), TOKEN_PIN);
    }
    assert_int_equal(calls_of("C_Login") - before, 1);
    assert_int_equal(status_now().state, TOKEN_DOWN);
    assert_non_null(strstr(status_now().cause, "not tried again"));
}

/* ---- opening ---- */

static void what_initialise_refuses_with_is_told(void **state)
{
    (void)state;
    static const struct {
        CK_RV rv;
        const char *says;
    } ways[] = { { CKR_DEVICE_ERROR, "C_Initialize: CKR_DEVICE_ERROR" },
                 { CKR_GENERAL_ERROR, "C_Initialize: CKR_GENERAL_ERROR" },
                 { CKR_LIBRARY_LOAD_FAILED, "install what the module needs" } };
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
        struct token *none = NULL;
        const char *text = NULL;
        plan(.function = "C_Initialize", .rv = ways[i].rv);
        assert_fault(token_open(&settings, &why, &none), TOKEN_UNAVAILABLE);
        clear_rules();
        assert_ok(buf_cstr(&why, &text));
        if (strstr(text, ways[i].says) == NULL) {
            fail_msg("'%s' does not say '%s'", text, ways[i].says);
        }
    }
}

/* ---- lost once ---- */

static void a_lost_session_is_replaced(void **state)
{
    (void)state;
    assert_ok(sign_within(PATIENCE_MS));
    plan(.function = "C_SignInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_CLOSE_SESSIONS);
    assert_ok(sign_within(PATIENCE_MS));
    assert_works_again();
}

static void a_session_lost_between_init_and_sign_is_replaced(void **state)
{
    (void)state;
    plan(.function = "C_Sign", .rv = CKR_OK, .times = 1, .effect = P11FAULT_CLOSE_SESSIONS);
    assert_ok(sign_within(PATIENCE_MS));
    assert_works_again();
}

static void a_lost_login_is_renewed(void **state)
{
    (void)state;
    assert_ok(sign_within(PATIENCE_MS));
    unsigned before = calls_of("C_Login");
    plan(.function = "C_SignInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_LOGOUT);
    assert_ok(sign_within(PATIENCE_MS));
    assert_int_equal(calls_of("C_Login") - before, 1);
    assert_works_again();
}

static void a_lost_login_is_not_a_missing_key(void **state)
{
    (void)state;
    token_forget_handles(token);
    plan(.function = "C_FindObjectsInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_LOGOUT);
    assert_ok(sign_within(PATIENCE_MS));
    assert_works_again();
}

static void already_logged_in_is_success(void **state)
{
    (void)state;
    plan(.function = "C_Sign", .rv = CKR_USER_NOT_LOGGED_IN, .times = 1);
    plan(.function = "C_GetSessionInfo", .rv = CKR_USER_NOT_LOGGED_IN, .times = 1);
    plan(.function = "C_Login", .rv = CKR_USER_ALREADY_LOGGED_IN, .times = 1);
    assert_ok(sign_within(PATIENCE_MS));
    assert_works_again();
}

static void a_finalised_module_is_initialised_again(void **state)
{
    (void)state;
    assert_ok(sign_within(PATIENCE_MS));
    unsigned before = calls_of("C_Initialize");
    plan(.function = "C_Sign", .rv = CKR_OK, .times = 1, .effect = P11FAULT_FINALIZE);
    assert_ok(sign_within(PATIENCE_MS));
    assert_int_equal(calls_of("C_Initialize") - before, 1);
    assert_int_equal(status_now().recoveries, 1);
    assert_works_again();
}

static void a_lost_handle_is_found_again_without_recovery(void **state)
{
    (void)state;
    assert_ok(sign_within(PATIENCE_MS));
    unsigned before = calls_of("C_FindObjectsInit");
    plan(.function = "C_SignInit", .rv = CKR_KEY_HANDLE_INVALID, .times = 1);
    assert_ok(sign_within(PATIENCE_MS));
    assert_int_equal(calls_of("C_FindObjectsInit") - before, 2); /* one to sign, one to verify */
    assert_int_equal(status_now().recoveries, 0);
    assert_works_again();
}

/* ---- every way, everywhere ---- */

static const CK_RV ways_to_fail[] = {
    CKR_SESSION_CLOSED,     CKR_SESSION_HANDLE_INVALID,
    CKR_OPERATION_ACTIVE,   CKR_USER_NOT_LOGGED_IN,
    CKR_KEY_HANDLE_INVALID, CKR_OBJECT_HANDLE_INVALID,
    CKR_DEVICE_ERROR,       CKR_DEVICE_REMOVED,
    CKR_TOKEN_NOT_PRESENT,  CKR_DEVICE_MEMORY,
    CKR_HOST_MEMORY,        CKR_GENERAL_ERROR,
    CKR_FUNCTION_FAILED,    CKR_CRYPTOKI_NOT_INITIALIZED,
    CKR_SLOT_ID_INVALID,    CKR_OPERATION_NOT_INITIALIZED,
    CKR_VENDOR_DEFINED + 1,
};
static const char *const places[] = {
    "C_OpenSession", "C_FindObjectsInit", "C_FindObjects",    "C_FindObjectsFinal", "C_GetAttributeValue", "C_SignInit",
    "C_Sign",        "C_CloseSession",    "C_GetSessionInfo",
};

static void what_fails_once_is_healed_within_the_operation(void **state)
{
    (void)state;
    for (size_t place = 0; place < COUNT_OF(places); place++) {
        for (size_t way = 0; way < COUNT_OF(ways_to_fail); way++) {
            struct p11fault_rule rule = { .rv = ways_to_fail[way], .times = 1 };
            (void)snprintf(rule.function, sizeof(rule.function), "%s", places[place]);
            token_forget_handles(token);
            plan_rule(&rule);
            struct fault fault = sign_within(PATIENCE_MS);
            if (FAULTED(fault)) {
                fail_msg("%s answering %s: %s", places[place], ckr_row(ways_to_fail[way])->name,
                         fault_row(fault.code)->text);
            }
            assert_works_again();
        }
    }
}

static void what_goes_on_failing_is_refused_cleanly_and_heals_when_it_ends(void **state)
{
    (void)state;
    static const char *const signing[] = { "C_OpenSession", "C_SignInit", "C_Sign" };
    for (size_t place = 0; place < COUNT_OF(signing); place++) {
        for (size_t way = 0; way < COUNT_OF(ways_to_fail); way++) {
            struct p11fault_rule rule = { .rv = ways_to_fail[way] };
            (void)snprintf(rule.function, sizeof(rule.function), "%s", signing[place]);
            token_forget_handles(token);
            plan_rule(&rule);
            assert_fault(sign_within(PATIENCE_MS), TOKEN_UNAVAILABLE);
            assert_works_again();
        }
    }
}

static void a_refusal_of_one_call_recovers_nothing(void **state)
{
    (void)state;
    plan(.function = "C_SignInit", .rv = CKR_MECHANISM_INVALID, .times = 1);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_MECHANISM);
    plan(.function = "C_SignInit", .rv = CKR_KEY_FUNCTION_NOT_PERMITTED, .times = 1);
    assert_fault(sign_within(PATIENCE_MS), SIGNER_REFUSED);
    assert_int_equal(status_now().recoveries, 0);
    assert_int_equal(status_now().state, TOKEN_OK);
}

/* ---- down ---- */

static void while_down_callers_are_refused_without_a_call(void **state)
{
    (void)state;
    plan(.function = "C_Sign", .rv = CKR_DEVICE_ERROR);
    plan(.function = "C_Initialize", .rv = CKR_DEVICE_ERROR);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_UNAVAILABLE);
    assert_int_equal(status_now().state, TOKEN_DOWN);
    assert_true(status_now().cause[0] != '\0');
    unsigned before = calls_of("C_SignInit") + calls_of("C_OpenSession");
    for (int i = 0; i < 50; i++) {
        assert_fault(sign_within(PATIENCE_MS), TOKEN_UNAVAILABLE);
    }
    assert_int_equal(calls_of("C_SignInit") + calls_of("C_OpenSession"), before);
    assert_works_again();
}

static void a_module_that_initialises_late_comes_back_by_itself(void **state)
{
    (void)state;
    plan(.function = "C_Initialize", .rv = CKR_DEVICE_ERROR, .times = 3);
    plan(.function = "C_Sign", .rv = CKR_CRYPTOKI_NOT_INITIALIZED, .times = 1);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_UNAVAILABLE);
    wait_until_not_down();
    assert_ok(sign_within(PATIENCE_MS));
    assert_works_again();
}

static void a_dead_token_is_noticed_without_a_request(void **state)
{
    (void)state;
    plan(.function = "C_GetSessionInfo", .rv = CKR_DEVICE_REMOVED);
    plan(.function = "C_OpenSession", .rv = CKR_TOKEN_NOT_PRESENT);
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    token_lock(&token->lock);
    while (token->state != TOKEN_DOWN && token_wait(&token->changed, &token->lock, deadline)) {
    }
    assert_int_equal(token->state, TOKEN_DOWN);
    token_unlock(&token->lock);
    assert_non_null(strstr(status_now().cause, "connect the token again"));
    assert_works_again();
}

struct caller {
    pthread_t thread;
    int ms;
    struct fault fault;
};

static void *call_once(void *arg)
{
    struct caller *caller = arg;
    CLEANUP(op_freep) struct op *op = op_within(caller->ms);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    caller->fault = token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature);
    return NULL;
}

static void wait_until_held(void)
{
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    while (rule_hits() == 0) {
        assert_true(clock_mono() < deadline);
        (void)poll(NULL, 0, 1);
    }
}

static void one_operation_at_a_time_is_on_trial_after_being_down(void **state)
{
    (void)state;
    plan(.function = "C_Sign", .rv = CKR_DEVICE_ERROR);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_UNAVAILABLE);
    wait_until_not_down();
    clear_rules();
    plan(.function = "C_SignInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_HOLD);
    unsigned before = calls_of("C_SignInit");
    struct caller trial = { .ms = PATIENCE_MS }, others[3] = { { .ms = 20 }, { .ms = 20 }, { .ms = 20 } };
    assert_int_equal(pthread_create(&trial.thread, NULL, call_once, &trial), 0);
    wait_until_held();
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_int_equal(pthread_create(&others[i].thread, NULL, call_once, &others[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_int_equal(pthread_join(others[i].thread, NULL), 0);
        assert_fault(others[i].fault, TOKEN_UNAVAILABLE);
    }
    assert_int_equal(calls_of("C_SignInit") - before, 1);
    clear_rules();
    assert_int_equal(pthread_join(trial.thread, NULL), 0);
    assert_ok(trial.fault);
    assert_works_again();
}

static void many_callers_of_a_dead_module_initialise_it_once(void **state)
{
    (void)state;
    struct caller callers[4];
    assert_ok(sign_within(PATIENCE_MS));
    unsigned before = calls_of("C_Initialize");
    plan(.function = "C_SignInit", .rv = CKR_OK, .after = 2, .times = 1, .effect = P11FAULT_DIE);
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        callers[i] = (struct caller){ .ms = PATIENCE_MS };
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_once, &callers[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_ok(callers[i].fault);
    }
    assert_int_equal(calls_of("C_Initialize") - before, 1);
    assert_works_again();
}

static void news_of_what_is_healed_already_heals_nothing_again(void **state)
{
    (void)state;
    struct caller late = { .ms = PATIENCE_MS };
    plan(.function = "C_Sign", .rv = CKR_DEVICE_ERROR, .times = 1, .effect = P11FAULT_HOLD);
    plan(.function = "C_Sign", .rv = CKR_DEVICE_ERROR, .times = 1);
    assert_int_equal(pthread_create(&late.thread, NULL, call_once, &late), 0);
    wait_until_held();
    assert_ok(sign_within(PATIENCE_MS)); /* met the error, was healed; and cleared the rules, so the late one goes on */
    assert_int_equal(pthread_join(late.thread, NULL), 0);
    assert_ok(late.fault);
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    token_lock(&token->lock);
    while (token->wanted != CKR_CLASS_CALL && token_wait(&token->changed, &token->lock, deadline)) {
    }
    assert_int_equal(token->recoveries, 1);
    token_unlock(&token->lock);
}

static void a_call_that_hangs_blocks_only_itself(void **state)
{
    (void)state;
    struct caller hung = { .ms = PATIENCE_MS };
    plan(.function = "C_Sign", .rv = CKR_OK, .times = 1, .effect = P11FAULT_HOLD);
    assert_int_equal(pthread_create(&hung.thread, NULL, call_once, &hung), 0);
    wait_until_held();
    struct caller other = { .ms = PATIENCE_MS };
    assert_int_equal(pthread_create(&other.thread, NULL, call_once, &other), 0);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    assert_ok(other.fault);
    clear_rules();
    assert_int_equal(pthread_join(hung.thread, NULL), 0);
    assert_ok(hung.fault);
    assert_works_again();
}

static void a_module_is_not_finalised_under_a_call_that_hangs(void **state)
{
    (void)state;
    struct caller hung = { .ms = PATIENCE_MS };
    unsigned before = calls_of("C_Finalize");
    plan(.function = "C_Sign", .rv = CKR_OK, .times = 1, .effect = P11FAULT_HOLD);
    plan(.function = "C_Sign", .rv = CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_int_equal(pthread_create(&hung.thread, NULL, call_once, &hung), 0);
    wait_until_held();
    assert_fault(sign_within(PATIENCE_MS), TOKEN_UNAVAILABLE);
    assert_int_equal(calls_of("C_Finalize"), before);
    assert_true(status_now().restart_advised);
    clear_rules();
    assert_int_equal(pthread_join(hung.thread, NULL), 0);
    assert_works_again();
    assert_false(status_now().restart_advised);
}

static void a_restart_of_the_module_waits_for_the_calls_that_are_inside(void **state)
{
    (void)state;
    struct caller slow = { .ms = PATIENCE_MS };
    unsigned before = calls_of("C_Initialize");
    plan(.function = "C_Sign", .rv = CKR_OK, .times = 1, .effect = P11FAULT_HOLD, .hold_ms = 300);
    plan(.function = "C_Sign", .rv = CKR_CRYPTOKI_NOT_INITIALIZED, .times = 1);
    assert_int_equal(pthread_create(&slow.thread, NULL, call_once, &slow), 0);
    wait_until_held();
    struct caller hit = { .ms = PATIENCE_MS };
    (void)call_once(&hit);
    assert_ok(hit.fault);
    assert_int_equal(pthread_join(slow.thread, NULL), 0);
    assert_ok(slow.fault);
    assert_int_equal(calls_of("C_Initialize") - before, 1);
    assert_false(status_now().restart_advised);
    assert_works_again();
}

static void a_library_that_cannot_be_initialised_again_advises_a_restart(void **state)
{
    (void)state;
    plan(.function = "C_SignInit", .rv = CKR_CRYPTOKI_NOT_INITIALIZED);
    plan(.function = "C_OpenSession", .rv = CKR_CRYPTOKI_NOT_INITIALIZED);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_UNAVAILABLE);
    assert_false(status_now().restart_advised); /* not at once: the next attempt may help */
    token_lock(&token->lock);
    token->broken_since -= 60 * NS_PER_S; /* a minute later */
    token_unlock(&token->lock);
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    while (!status_now().restart_advised) {
        assert_true(clock_mono() < deadline);
        (void)poll(NULL, 0, 1);
    }
    assert_non_null(strstr(status_now().cause, "cannot be initialised again"));
    assert_works_again();
    assert_false(status_now().restart_advised);
}

/* ---- the other operations ---- */

static void a_key_whose_making_was_interrupted_is_made_once(void **state)
{
    (void)state;
    static const CK_RV ways[] = { CKR_DEVICE_ERROR, CKR_SESSION_HANDLE_INVALID };
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
        CLEANUP(token_session_putp) struct token_session *session = session_of(op);
        CLEANUP(buf_free) struct buf spki = BUF_INIT(4096), again = BUF_INIT(4096);
        enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
        struct key_ref made = key_new(KEY_PURPOSE_TSA);
        plan(.function = "C_GenerateKeyPair", .rv = ways[i], .times = 1, .effect = P11FAULT_DO_IT);
        assert_fault(token_generate(op, session, &made, KEY_ALGORITHM_EC_P256, &spki), KEY_EXISTS);
        assert_ok(token_public_key(op, session, &made, &algorithm, &again));
        /* made, but the answer about it was lost on the way: then it is still this call's key */
        made = key_new(KEY_PURPOSE_TSA);
        clear_rules();
        buf_clear(&again);
        plan(.function = "C_GetAttributeValue", .rv = ways[i], .times = 1);
        assert_ok(token_generate(op, session, &made, KEY_ALGORITHM_EC_P256, &spki));
        assert_ok(token_public_key(op, session, &made, &algorithm, &again));
        assert_true(span_equal(buf_span(&spki), buf_span(&again)));
        assert_works_again();
    }
}

struct maker {
    pthread_t thread;
    struct key_ref key;
    int ms;
    struct fault fault;
};

static void *make_once(void *arg)
{
    struct maker *maker = arg;
    CLEANUP(op_freep) struct op *op = op_within(maker->ms);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    CLEANUP(buf_free) struct buf spki = BUF_INIT(4096);
    maker->fault = token_generate(op, session, &maker->key, KEY_ALGORITHM_EC_P256, &spki);
    return NULL;
}

static void a_second_maker_of_a_key_waits_for_the_first(void **state)
{
    (void)state;
    struct maker first = { .key = key_new(KEY_PURPOSE_TSA), .ms = PATIENCE_MS };
    struct maker second = { .key = first.key, .ms = 20 };
    unsigned before = calls_of("C_GenerateKeyPair");
    plan(.function = "C_GenerateKeyPair", .rv = CKR_OK, .times = 1, .effect = P11FAULT_HOLD);
    assert_int_equal(pthread_create(&first.thread, NULL, make_once, &first), 0);
    wait_until_held();
    (void)make_once(&second);
    assert_fault(second.fault, SATURATED);
    assert_int_equal(calls_of("C_GenerateKeyPair") - before, 1);
    clear_rules();
    assert_int_equal(pthread_join(first.thread, NULL), 0);
    assert_ok(first.fault);
    (void)make_once(&second);
    assert_fault(second.fault, KEY_EXISTS);
}

static void sealing_and_unsealing_heal_too(void **state)
{
    (void)state;
    static const char *const where[] = { "C_GenerateRandom", "C_EncryptInit", "C_Encrypt", "C_DecryptInit",
                                         "C_Decrypt" };
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    struct key_ref seal = key_new(KEY_PURPOSE_SEAL);
    CLEANUP(buf_free) struct buf none = BUF_INIT(1);
    assert_ok(token_generate(op, session, &seal, KEY_ALGORITHM_AES_256, &none));
    for (size_t i = 0; i < COUNT_OF(where); i++) {
        for (size_t way = 0; way < COUNT_OF(ways_to_fail); way++) {
            CLEANUP(buf_free) struct buf sealed = BUF_INIT(4096), plain = BUF_INIT(4096);
            struct p11fault_rule rule = { .rv = ways_to_fail[way], .times = 1 };
            (void)snprintf(rule.function, sizeof(rule.function), "%s", where[i]);
            plan_rule(&rule);
            assert_ok(token_seal(op, session, &seal, span_text("aad"), span_text("plain"), &sealed));
            assert_ok(token_unseal(op, session, &seal, span_text("aad"), buf_span(&sealed), &plain));
            assert_true(span_equal_text(buf_span(&plain), "plain"));
            assert_works_again();
        }
    }
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, token_for_each, no_token_for_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_pin_is_shown_to_the_token_once),
        cmocka_unit_test(what_initialise_refuses_with_is_told),
        EACH(a_pin_refused_later_is_latched),
        EACH(a_lost_session_is_replaced),
        EACH(a_session_lost_between_init_and_sign_is_replaced),
        EACH(a_lost_login_is_renewed),
        EACH(a_lost_login_is_not_a_missing_key),
        EACH(already_logged_in_is_success),
        EACH(a_finalised_module_is_initialised_again),
        EACH(a_lost_handle_is_found_again_without_recovery),
        EACH(what_fails_once_is_healed_within_the_operation),
        EACH(what_goes_on_failing_is_refused_cleanly_and_heals_when_it_ends),
        EACH(a_refusal_of_one_call_recovers_nothing),
        EACH(while_down_callers_are_refused_without_a_call),
        EACH(a_module_that_initialises_late_comes_back_by_itself),
        EACH(a_dead_token_is_noticed_without_a_request),
        EACH(one_operation_at_a_time_is_on_trial_after_being_down),
        EACH(many_callers_of_a_dead_module_initialise_it_once),
        EACH(news_of_what_is_healed_already_heals_nothing_again),
        EACH(a_call_that_hangs_blocks_only_itself),
        EACH(a_module_is_not_finalised_under_a_call_that_hangs),
        EACH(a_restart_of_the_module_waits_for_the_calls_that_are_inside),
        EACH(a_library_that_cannot_be_initialised_again_advises_a_restart),
        EACH(a_key_whose_making_was_interrupted_is_made_once),
        EACH(a_second_maker_of_a_key_waits_for_the_first),
        EACH(sealing_and_unsealing_heal_too),
    };
    return cmocka_run_group_tests_name("recovery", tests, module_for_all, nothing_for_all);
}
