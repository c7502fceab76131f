/* What is called how often, by the counters of the fault-injecting module. */
#include "tests/unit/token/faulty.h"

#include <pthread.h>

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

static void a_key_is_looked_for_once(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    unsigned before = calls_of("C_FindObjectsInit");
    for (int i = 0; i < 20; i++) {
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        assert_ok(token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature));
    }
    assert_int_equal(calls_of("C_FindObjectsInit") - before, 1);
}

static void one_recovery_runs_at_a_time_however_many_notice(void **state)
{
    (void)state;
    static const CK_RV codes[] = { CKR_DEVICE_ERROR, CKR_USER_NOT_LOGGED_IN, CKR_CRYPTOKI_NOT_INITIALIZED };
    static const char *const steps[] = { "C_Initialize", "C_Finalize", "C_Login", "C_GetTokenInfo" };
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        struct caller callers[4];
        plan(.function = "C_SignInit", .rv = codes[i], .times = 12);
        plan(.function = "C_Login", .effect = P11FAULT_HOLD, .hold_ms = 5);
        plan(.function = "C_Initialize", .effect = P11FAULT_HOLD, .hold_ms = 5);
        for (size_t j = 0; j < COUNT_OF(callers); j++) {
            callers[j] = (struct caller){ .ms = PATIENCE_MS };
            assert_int_equal(pthread_create(&callers[j].thread, NULL, call_once, &callers[j]), 0);
        }
        for (size_t j = 0; j < COUNT_OF(callers); j++) {
            assert_int_equal(pthread_join(callers[j].thread, NULL), 0);
        }
        assert_works_again();
    }
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        assert_int_equal(most_of(steps[i]), 1);
    }
}

struct crowd {
    pthread_t thread;
    unsigned rounds, signed_;
};

static void *sign_often(void *arg)
{
    struct crowd *member = arg;
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    for (unsigned i = 0; i < member->rounds; i++) {
        CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
        member->signed_ +=
            !FAULTED(token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature));
    }
    return NULL;
}

/* By counters: what a signature costs, and that a crowd that meets a new epoch looks for its key once. */
static void a_crowd_finds_its_key_once_an_epoch_and_signs_with_two_calls(void **state)
{
    (void)state;
    static const char *const never[] = { "C_Login", "C_GetAttributeValue", "C_CloseSession" };
    for (int epoch = 0; epoch < 5; epoch++) {
        struct crowd crowd[4];
        unsigned costs[COUNT_OF(never)];
        clear_rules();
        token_forget_handles(token);
        plan(.function = "C_FindObjectsInit", .times = 1, .effect = P11FAULT_HOLD, .hold_ms = 50); /* all are there */
        unsigned finds = calls_of("C_FindObjectsInit"), inits = calls_of("C_SignInit"), signs = calls_of("C_Sign");
        for (size_t i = 0; i < COUNT_OF(never); i++) {
            costs[i] = calls_of(never[i]);
        }
        for (size_t i = 0; i < COUNT_OF(crowd); i++) {
            crowd[i] = (struct crowd){ .rounds = 100 };
            assert_int_equal(pthread_create(&crowd[i].thread, NULL, sign_often, &crowd[i]), 0);
        }
        for (size_t i = 0; i < COUNT_OF(crowd); i++) {
            assert_int_equal(pthread_join(crowd[i].thread, NULL), 0);
            assert_int_equal(crowd[i].signed_, 100);
        }
        assert_int_equal(calls_of("C_FindObjectsInit") - finds, 1);
        assert_int_equal(calls_of("C_SignInit") - inits, 400);
        assert_int_equal(calls_of("C_Sign") - signs, 400);
        assert_int_equal(calls_of("C_Login"), costs[0]);
        assert_true(calls_of("C_GetAttributeValue") - costs[1] <= 2); /* the two halves of the one key that was found */
        assert_true(calls_of("C_CloseSession") - costs[2] <= 4);      /* those of the epoch before */
    }
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, token_for_each, no_token_for_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_key_is_looked_for_once),
        EACH(one_recovery_runs_at_a_time_however_many_notice),
        EACH(a_crowd_finds_its_key_once_an_epoch_and_signs_with_two_calls),
    };
    return cmocka_run_group_tests_name("recovery_counts", tests, module_for_all, nothing_for_all);
}
