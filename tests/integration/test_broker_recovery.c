/* svc-signer over a token that hangs, dies and refuses: what its callers see, what a supervisor sees, and what is
 * called. The module is that of tests/p11fault, told what to do by its control file. */
#include "signer.h"
#include "tests/p11fault/p11fault.h"

#include <pthread.h>

#define EXIT_FAILED_CODE 1 /* svc-signer: failed while running; the supervisor starts it again */

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
    assert_int_equal(setenv("P11FAULT_COUNTS", rig_path(rig, "data/signer/counts"), 1), 0);
    control(rig, "\n");
    (void)snprintf(more, sizeof(more),
                   "signer: {sessions: 2}\n"
                   "token: {module: \"%.*s/../lib/libp11fault.so\", pin_file: \"%s/data/signer/pin\"}\n",
                   (int)(strrchr(rig->program, '/') - rig->program), rig->program, rig->folder);
    rig_configure(rig, more);
}

static struct key_ref key_made(struct rig *rig)
{
    CLEANUP(op_freep) struct op *op = op_within(60000);
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    assert_fault(signer_generate(op, rig->client, &key, KEY_ALGORITHM_EC_P256, &spki), NONE);
    return key;
}

static struct fault sign_into(struct rig *rig, const struct sign_request *request, int ms, struct buf *signature)
{
    CLEANUP(op_freep) struct op *op = op_within(ms);
    return signer_sign(op, rig->client, request, signature);
}

static struct fault sign_in(struct rig *rig, const struct sign_request *request, int ms)
{
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    return sign_into(rig, request, ms, &signature);
}

static struct signer_health health_of(struct rig *rig)
{
    CLEANUP(op_freep) struct op *op = op_within(20000);
    struct signer_health health = { 0 };
    assert_fault(signer_health(op, rig->client, &health), NONE);
    return health;
}

/* How often the running process called `function`; 0 before its first time. */
static unsigned long calls_of(const struct rig *rig, const char *function)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(1 << 16);
    size_t len = strlen(function);
    assert_fault(file_read(rig_path(rig, "data/signer/counts"), &text), NONE);
    for (size_t at = 0; at + P11FAULT_COUNTS_LINE <= text.len; at += P11FAULT_COUNTS_LINE) {
        const char *line = (const char *)text.at + at;
        if (strncmp(line, function, len) == 0 && line[len] == ' ') {
            return strtoul(line + len, NULL, 10);
        }
    }
    return 0;
}

struct caller {
    struct rig *rig;
    const struct sign_request *request;
    int ms;
    pthread_t thread;
    struct fault fault;
};

static void *call_main(void *arg)
{
    struct caller *caller = arg;
    caller->fault = sign_in(caller->rig, caller->request, caller->ms);
    return NULL;
}

static void begin(struct caller *caller, struct rig *rig, const struct sign_request *request, int ms)
{
    *caller = (struct caller){ .rig = rig, .request = request, .ms = ms };
    assert_int_equal(pthread_create(&caller->thread, NULL, call_main, caller), 0);
}

/* Told that it was too late, by the signer or by its own clock. */
static void assert_was_late(struct caller *caller)
{
    assert_int_equal(pthread_join(caller->thread, NULL), 0);
    assert_true(caller->fault.code == FAULT_DEADLINE || caller->fault.code == FAULT_SIGNER_UNAVAILABLE ||
                caller->fault.code == FAULT_SATURATED);
}

static void wait_until_set_aside(struct rig *rig, unsigned count)
{
    mono_ns limit = clock_mono() + RIG_LIMIT;
    while (health_of(rig).tokens[0].set_aside != count) {
        assert_true(clock_mono() < limit);
        (void)poll(NULL, 0, 5);
    }
}

static int ended(struct rig *rig)
{
    mono_ns limit = clock_mono() + RIG_LIMIT;
    int status = 0;
    while (waitpid(rig->pid, &status, WNOHANG) != rig->pid) {
        assert_true(clock_mono() < limit);
        (void)poll(NULL, 0, 5);
    }
    rig->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- hanging ---- */

static void a_call_that_hangs_fails_its_operation_and_takes_no_session_from_others(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    struct caller hung[3];
    rig_faulty(&rig);
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
    assert_fault(sign_in(&rig, &request, 20000), NONE);
    control(&rig, "C_Sign effect=hold times=3\n"); /* more than there are sessions */
    for (unsigned i = 0; i < COUNT_OF(hung); i++) {
        begin(&hung[i], &rig, &request, 800);
        assert_was_late(&hung[i]);
        wait_until_set_aside(&rig, i + 1);
    }
    for (int i = 0; i < 20; i++) {
        assert_fault(sign_in(&rig, &request, 20000), NONE);
    }
    assert_int_equal(health_of(&rig).state, SIGNER_OK);
    control(&rig, "\n");
    wait_until_set_aside(&rig, 0);
    assert_int_equal(health_of(&rig).tokens[0].in_use, 0);
    assert_fault(sign_in(&rig, &request, 20000), NONE);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

static void too_many_calls_that_hang_end_the_process_and_the_next_one_signs(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    struct caller hung[16];
    rig_faulty(&rig);
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
    assert_fault(sign_in(&rig, &request, 20000), NONE);
    control(&rig, "C_Sign effect=hold times=0\n");
    for (size_t round = 0; round < COUNT_OF(hung) / 2; round++) {
        begin(&hung[2 * round], &rig, &request, 500);
        begin(&hung[2 * round + 1], &rig, &request, 500);
        assert_was_late(&hung[2 * round]);
        assert_was_late(&hung[2 * round + 1]);
    }
    assert_int_equal(ended(&rig), EXIT_FAILED_CODE);
    assert_true(rig_log_has(&rig, "\"event\":\"token_stuck\""));
    control(&rig, "\n");
    rig_start(&rig);
    assert_fault(sign_in(&rig, &request, 20000), NONE);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

/* ---- dying ---- */

static void die_and_sign_again(const char *rule)
{
    CLEANUP(rig_free) struct rig rig;
    CLEANUP(buf_free) struct buf first = BUF_INIT(SIGNATURE_MAX), again = BUF_INIT(SIGNATURE_MAX);
    rig_faulty(&rig);
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
    assert_fault(uuid_new(&request.op_id), NONE);
    control(&rig, rule);
    assert_fault(sign_into(&rig, &request, 5000, &first), SIGNER_UNAVAILABLE);
    assert_int_equal(first.len, 0);
    assert_int_equal(ended(&rig), P11FAULT_EXIT_CODE);
    control(&rig, "\n");
    rig_start(&rig);
    assert_fault(sign_into(&rig, &request, 20000, &first), NONE);
    unsigned long signatures = calls_of(&rig, "C_Sign");
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
    rig_start(&rig);
    for (int i = 0; i < 3; i++) {
        buf_clear(&again);
        assert_fault(sign_into(&rig, &request, 20000, &again), NONE);
        assert_true(span_equal(buf_span(&first), buf_span(&again)));
    }
    assert_true(signatures > 0);
    CLEANUP(op_freep) struct op *op = op_within(20000);
    assert_fault(signer_verify(op, rig.client, &request, buf_span(&first)), NONE);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

static void an_operation_during_which_the_process_died_gives_one_signature(void **state)
{
    (void)state;
    die_and_sign_again("C_Sign effect=exit\n");
    die_and_sign_again("C_Sign effect=exit-late\n"); /* signed, but nobody ever saw it */
}

/* ---- away and back ---- */

/* How long after the token's return the first signature came. */
static mono_ns away_and_back(struct rig *rig, const struct sign_request *request, const char *away)
{
    mono_ns limit = clock_mono() + RIG_LIMIT;
    assert_fault(sign_in(rig, request, 20000), NONE);
    control(rig, away);
    while (health_of(rig).state != SIGNER_DOWN) {
        assert_true(FAULTED(sign_in(rig, request, 1000)));
        assert_true(clock_mono() < limit);
    }
    (void)poll(NULL, 0, 3000); /* away for so long that the attempts are as far apart as they get */
    control(rig, "\n");
    mono_ns back = clock_mono();
    limit = back + RIG_LIMIT;
    while (FAULTED(sign_in(rig, request, 2000))) {
        assert_true(clock_mono() < limit);
    }
    return clock_mono() - back;
}

static void a_token_that_comes_back_signs_within_two_seconds(void **state)
{
    (void)state;
    static const char *const aways[] = {
        "C_Sign rv=0x32 times=0\nC_OpenSession rv=0xE0 times=0\nC_GetSlotList rv=0x32 times=0\n",
        "C_SignInit rv=0x190 effect=die\nC_Initialize rv=0x30 times=0\n",
        "C_SignInit effect=close-sessions times=0\nC_Login rv=0x30 times=0\n",
    };
    CLEANUP(rig_free) struct rig rig;
    rig_faulty(&rig);
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
    for (size_t i = 0; i < COUNT_OF(aways); i++) {
        int tries = 1; /* a machine may stall; not each time */
        while (away_and_back(&rig, &request, aways[i]) > 2 * NS_PER_S) {
            assert_true(tries++ < 3);
        }
    }
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

static void a_token_that_is_away_at_the_start_is_waited_for(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    char *argv[] = { rig.program, (char *)"--config", rig.config_path, NULL };
    rig_faulty(&rig);
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
    assert_fault(uuid_new(&request.op_id), NONE);
    assert_fault(sign_in(&rig, &request, 20000), NONE);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
    control(&rig, "C_Initialize rv=0x30 times=0\n");
    (void)rig_run(&rig, argv, &rig.pid);
    mono_ns limit = clock_mono() + RIG_LIMIT;
    while (!rig_log_has(&rig, "\"event\":\"token_awaited\"")) {
        assert_true(clock_mono() < limit);
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(kill(rig.pid, 0), 0);
    control(&rig, "\n");
    limit = clock_mono() + RIG_LIMIT;
    while (FAULTED(sign_in(&rig, &request, 2000))) {
        assert_true(clock_mono() < limit);
        (void)poll(NULL, 0, 5);
    }
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
    control(&rig, "C_Initialize rv=0x30 times=0\n");
    (void)rig_run(&rig, argv, &rig.pid); /* and who stops it while it waits is heard */
    (void)poll(NULL, 0, 100);
    assert_int_equal(rig_end(&rig, SIGTERM), EXIT_FAILED_CODE);
}

/* ---- the PIN ---- */

static void a_supervisor_that_restarts_on_and_on_shows_a_wrong_pin_once(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    rig_faulty(&rig);
    rig_write(&rig, "data/signer/pin", "1234-wrong\n", 0600);
    unsigned long shown = 0;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(rig_signer_ends(&rig), EXIT_FAILED_CODE);
        shown += calls_of(&rig, "C_Login");
        assert_true(rig_log_has(&rig, i == 0 ? "the PIN is wrong" : "it is not shown again"));
    }
    assert_int_equal(shown, 1);
    rig_write(&rig, "data/signer/pin", RIG_PIN "\n", 0600);
    rig_start(&rig);
    assert_int_equal(calls_of(&rig, "C_Login"), 1);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

static void a_pin_refused_while_running_ends_the_process_once_its_file_changes(void **state)
{
    (void)state;
    CLEANUP(rig_free) struct rig rig;
    rig_faulty(&rig);
    rig_start(&rig);
    struct sign_request request = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
    control(&rig, "C_SignInit effect=logout\nC_Login rv=0xA0\n");
    assert_fault(sign_in(&rig, &request, 20000), TOKEN_PIN);
    assert_int_equal(calls_of(&rig, "C_Login"), 2); /* at the start, and the one that was refused */
    for (int i = 0; i < 20; i++) {
        assert_fault(sign_in(&rig, &request, 20000), TOKEN_PIN);
    }
    assert_int_equal(calls_of(&rig, "C_Login"), 2);
    assert_int_equal(health_of(&rig).state, SIGNER_DOWN);
    control(&rig, "\n");
    rig_write(&rig, "data/signer/pin", RIG_PIN "\n", 0600);
    assert_int_equal(ended(&rig), EXIT_FAILED_CODE);
    rig_start(&rig);
    assert_fault(sign_in(&rig, &request, 20000), NONE);
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

/* ---- what is called ---- */

static void a_signature_costs_two_calls_and_a_key_is_looked_for_once(void **state)
{
    (void)state;
    enum { ROUNDS = 300 };
    static const char *const never[] = { "C_FindObjectsInit", "C_FindObjects",     "C_GetAttributeValue",
                                         "C_Login",           "C_OpenSession",     "C_CloseSession",
                                         "C_GetTokenInfo",    "C_GetMechanismInfo" };
    unsigned long before[COUNT_OF(never)];
    CLEANUP(rig_free) struct rig rig;
    rig_faulty(&rig);
    rig_start(&rig);
    struct sign_request requests[3];
    unsigned long finds = 0;
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        requests[i] = request_for(key_made(&rig), KEY_ALGORITHM_EC_P256);
        finds = calls_of(&rig, "C_FindObjectsInit");
        assert_fault(sign_in(&rig, &requests[i], 20000), NONE);
        assert_int_equal(calls_of(&rig, "C_FindObjectsInit") - finds, 1);
    }
    for (size_t i = 0; i < COUNT_OF(never); i++) {
        before[i] = calls_of(&rig, never[i]);
    }
    unsigned long inits = calls_of(&rig, "C_SignInit"), signs = calls_of(&rig, "C_Sign");
    for (int i = 0; i < ROUNDS; i++) {
        assert_fault(sign_in(&rig, &requests[i % 3], 20000), NONE);
    }
    assert_int_equal(calls_of(&rig, "C_SignInit") - inits, ROUNDS);
    assert_int_equal(calls_of(&rig, "C_Sign") - signs, ROUNDS);
    for (size_t i = 0; i < COUNT_OF(never); i++) {
        assert_int_equal(calls_of(&rig, never[i]), before[i]);
    }
    assert_int_equal(rig_end(&rig, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_hangs_fails_its_operation_and_takes_no_session_from_others),
        cmocka_unit_test(too_many_calls_that_hang_end_the_process_and_the_next_one_signs),
        cmocka_unit_test(an_operation_during_which_the_process_died_gives_one_signature),
        cmocka_unit_test(a_token_that_comes_back_signs_within_two_seconds),
        cmocka_unit_test(a_token_that_is_away_at_the_start_is_waited_for),
        cmocka_unit_test(a_supervisor_that_restarts_on_and_on_shows_a_wrong_pin_once),
        cmocka_unit_test(a_pin_refused_while_running_ends_the_process_once_its_file_changes),
        cmocka_unit_test(a_signature_costs_two_calls_and_a_key_is_looked_for_once),
    };
    return cmocka_run_group_tests_name("broker_recovery", tests, NULL, NULL);
}
