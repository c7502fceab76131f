/* svc-signer over a token that hangs or fails: the module of tests/p11fault, told what to do by its control file. */
#include "signer.h"

#include <pthread.h>

/* "" lets go of what is held and forgets the rules. */
static void control(const struct rig *rig, const char *rules)
{
    rig_write(rig, "control", rules, 0600);
}

static void rig_faulty(struct rig *rig)
{
    char more[1024];
    rig_new(rig, "");
    assert_int_equal(setenv("P11FAULT_CONTROL", rig_path(rig, "control"), 1), 0);
    control(rig, "\n");
    (void)snprintf(more, sizeof(more),
                   "token: {module: \"%.*s/../lib/libp11fault.so\", pin_file: \"%s/data/signer/pin\"}\n",
                   (int)(strrchr(rig->program, '/') - rig->program), rig->program, rig->folder);
    rig_configure(rig, more);
    rig_start(rig);
}

static struct key_ref key_made(struct rig *rig)
{
    CLEANUP(op_freep) struct op *op = op_within(60000);
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(signer_generate(op, rig->client, &key, KEY_ALGORITHM_EC_P256, &spki), NONE);
    return key;
}

static struct fault sign_in(struct rig *rig, const struct sign_request *request, int ms)
{
    CLEANUP(op_freep) struct op *op = op_within(ms);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    return signer_sign(op, rig->client, request, &signature);
}

static struct signer_health health_of(struct rig *rig)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    struct signer_health health = { 0 };
    assert_fault(signer_health(op, rig->client, &health), NONE);
    return health;
}

struct caller {
    struct rig *rig;
    const struct sign_request *request;
    pthread_t thread;
    struct fault fault;
};

static void *call_main(void *arg)
{
    struct caller *caller = arg;
    caller->fault = sign_in(caller->rig, caller->request, 1500);
    return NULL;
}

static void a_token_that_hangs_holds_up_its_callers_only_and_health_goes_on(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    struct caller callers[2];
    rig_faulty(&rig);
    struct sign_request request = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
    assert_fault(sign_in(&rig, &request, 20000), NONE);
    control(&rig, "C_Sign effect=hold times=0\n");
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        callers[i] = (struct caller){ .rig = &rig, .request = &request };
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_main, &callers[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        assert_true(health_of(&rig).self_test_passed);
    }
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_fault(callers[i].fault, DEADLINE); /* told by the signer, not found out by waiting in vain */
    }
    /* Their sessions are set aside; others take their place, and hang as well. */
    assert_fault(sign_in(&rig, &request, 1000), DEADLINE);
    assert_true(health_of(&rig).self_test_passed);
    assert_int_equal(health_of(&rig).tokens[0].set_aside, 3);
    control(&rig, "\n");
    assert_fault(sign_in(&rig, &request, 20000), NONE);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

static void a_token_that_is_gone_fails_closed_is_told_by_health_and_comes_back(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    rig_faulty(&rig);
    struct sign_request request = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
    assert_fault(uuid_new(&request.op_id), NONE);
    control(&rig, "C_Sign rv=0x32 times=0\nC_OpenSession rv=0x32 times=0\nC_Initialize rv=0x30 times=0\n");
    struct fault fault = sign_in(&rig, &request, 2000);
    assert_true(fault.code == FAULT_TOKEN_UNAVAILABLE || fault.code == FAULT_SIGNER_UNAVAILABLE);
    struct signer_health health = health_of(&rig);
    assert_int_not_equal(health.state, SIGNER_OK);
    assert_int_not_equal(strlen(health.cause), 0);
    control(&rig, "\n");
    mono_ns limit = clock_mono() + RIG_LIMIT;
    do { /* the same operation: a failure leaves its id free */
        fault = sign_in(&rig, &request, 5000);
    } while (FAULTED(fault) && clock_mono() < limit);
    assert_fault(fault, NONE);
    health = health_of(&rig);
    assert_int_equal(health.state, SIGNER_OK);
    assert_true(health.recoveries > 0);
    while (!rig_log_has(&rig, "\"event\":\"token_state\"") && clock_mono() < limit) {
        (void)poll(NULL, 0, 20); /* the log looks once a second */
    }
    assert_true(rig_log_has(&rig, "\"event\":\"token_state\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_that_hangs_holds_up_its_callers_only_and_health_goes_on),
        cmocka_unit_test(a_token_that_is_gone_fails_closed_is_told_by_health_and_comes_back),
    };
    return cmocka_run_group_tests_name("token", tests, NULL, NULL);
}
