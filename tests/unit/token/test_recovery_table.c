/*
 * Every code that matters x every call that is made x every state that the token may be in x once or lasting: the
 * answer is a right signature or a clean refusal inside the deadline, and once the trouble is over signing works again
 * within two seconds, with nothing done by hand. The table is walked by several processes, each with a token of its
 * own, since most of the time is waiting.
 */
#include "tests/unit/token/faulty.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define WALKERS  6
#define OP_MS    250             /* of the operation that meets the trouble */
#define BACK_NS  (2 * NS_PER_S)  /* from the trouble's end to the next signature */
#define LIMIT_NS (60 * NS_PER_S) /* a machine may stall; then a few are late, but not many */
#define SLACK_NS (5 * NS_PER_S)  /* how late a busy machine may run us, beyond a deadline */

enum token_is { IS_FRESH, IS_IN_USE, IS_DEGRADED, IS_SHARED, IS_DOWN, IS_COUNT };
static const char *const is_texts[] = { "fresh", "in use", "degraded", "while another signs", "down" };

static const struct way {
    const char *name;
    CK_RV rv;
    enum p11fault_effect effect;
} ways[] = {
#define WAY(rv) { #rv, rv, P11FAULT_NONE }
    WAY(CKR_SESSION_HANDLE_INVALID),
    WAY(CKR_SESSION_CLOSED),
    WAY(CKR_OBJECT_HANDLE_INVALID),
    WAY(CKR_KEY_HANDLE_INVALID),
    WAY(CKR_USER_NOT_LOGGED_IN),
    WAY(CKR_TOKEN_NOT_PRESENT),
    WAY(CKR_TOKEN_NOT_RECOGNIZED),
    WAY(CKR_DEVICE_REMOVED),
    WAY(CKR_DEVICE_ERROR),
    WAY(CKR_DEVICE_MEMORY),
    WAY(CKR_CRYPTOKI_NOT_INITIALIZED),
    WAY(CKR_FUNCTION_FAILED),
    WAY(CKR_GENERAL_ERROR),
    WAY(CKR_HOST_MEMORY),
    WAY(CKR_SLOT_ID_INVALID),
    WAY(CKR_OPERATION_ACTIVE),
    WAY(CKR_OPERATION_NOT_INITIALIZED),
    WAY(CKR_SESSION_COUNT),
    WAY(CKR_FUNCTION_CANCELED),
    WAY(CKR_MUTEX_BAD),
    WAY(CKR_ARGUMENTS_BAD),
    WAY(CKR_MECHANISM_INVALID),
    WAY(CKR_BUFFER_TOO_SMALL),
    WAY(CKR_KEY_FUNCTION_NOT_PERMITTED),
    WAY(CKR_FUNCTION_NOT_SUPPORTED),
    WAY(CKR_CRYPTOKI_ALREADY_INITIALIZED),
    { "a value of the vendor's", CKR_VENDOR_DEFINED + 7, P11FAULT_NONE },
    { "a value that does not exist", 0x7777, P11FAULT_NONE },
    { "all sessions lost", CKR_OK, P11FAULT_CLOSE_SESSIONS },
    { "logged out", CKR_OK, P11FAULT_LOGOUT },
    { "finalised", CKR_OK, P11FAULT_FINALIZE },
    { "module dead", CKR_OK, P11FAULT_DIE },
    { "objects forgotten", CKR_OK, P11FAULT_FORGET },
    { "done, but refused", CKR_DEVICE_ERROR, P11FAULT_DO_IT },
};
/* Where, and what has to happen before so that the call is made at all. */
enum cause { OF_ITSELF, OF_LOST_LOGIN, OF_LOST_MODULE };
static const struct place {
    const char *function;
    enum cause cause;
} places[] = {
    { "C_Initialize", OF_LOST_MODULE },
    { "C_Finalize", OF_LOST_MODULE },
    { "C_GetSlotList", OF_LOST_MODULE },
    { "C_GetTokenInfo", OF_LOST_MODULE },
    { "C_GetMechanismList", OF_LOST_MODULE },
    { "C_GetMechanismInfo", OF_LOST_MODULE },
    { "C_OpenSession", OF_ITSELF },
    { "C_CloseSession", OF_ITSELF },
    { "C_GetSessionInfo", OF_ITSELF },
    { "C_Login", OF_LOST_LOGIN },
    { "C_FindObjectsInit", OF_ITSELF },
    { "C_FindObjects", OF_ITSELF },
    { "C_FindObjectsFinal", OF_ITSELF },
    { "C_GetAttributeValue", OF_ITSELF },
    { "C_SignInit", OF_ITSELF },
    { "C_Sign", OF_ITSELF },
};
/* What a caller may be told; anything else is not a clean answer to "sign this". */
static const enum fault_code clean[] = { FAULT_TOKEN_UNAVAILABLE, FAULT_TOKEN_MECHANISM, FAULT_SIGNER_REFUSED,
                                         FAULT_SATURATED, FAULT_INTERNAL };

struct tally { /* shared with the walkers */
    _Atomic unsigned walked, hit, signed_through, refused, late;
    _Atomic int64_t slowest_back;
};
static struct tally *tally;
static uint8_t spki_bytes[SPKI_MAX];
static size_t spki_len;

struct combination {
    const struct way *way;
    const struct place *place;
    enum token_is is;
    unsigned times;
};

static void complain(const struct combination *now, const char *what, const char *more)
{
    (void)fprintf(stderr, "%s answering %s (%s), token %s: %s %s\n", now->place->function, now->way->name,
                  now->times == 0 ? "lasting" : "once", is_texts[now->is], what, more);
    _exit(1);
}

static bool is_clean(const struct combination *now, struct fault fault)
{
    if (now->way->effect == P11FAULT_FORGET && fault.code == FAULT_KEY_NOT_FOUND) {
        return true; /* it cannot be told from a token without the key */
    }
    for (size_t i = 0; i < COUNT_OF(clean); i++) {
        if (clean[i] == fault.code) {
            return true;
        }
    }
    return false;
}

/* Signs once; a right signature or a clean refusal in time, or else. */
static struct fault sign_checked(const struct combination *now, int ms)
{
    CLEANUP(op_freep) struct op *op = op_within(ms);
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    struct fault fault = token_session_take(op, token, &session);
    if (!FAULTED(fault)) {
        fault = token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature);
    }
    if (clock_mono() > op->deadline + SLACK_NS) {
        complain(now, "answered long after the deadline", "");
    }
    if (FAULTED(fault)) {
        if (!is_clean(now, fault) || signature.len != 0 || op->note.detail[0] == '\0') {
            complain(now, "was not refused cleanly:", op->note.detail);
        }
        return fault;
    }
    CLEANUP(op_freep) struct op *checking = op_within(PATIENCE_MS);
    if (FAULTED(token_verify_under(checking, span_of(spki_bytes, spki_len), SIGN_SCHEME_ECDSA, HASH_SHA256,
                                   SPAN_ARRAY(digest), buf_span(&signature)))) {
        complain(now, "gave a wrong signature", "");
    }
    return OK;
}

/* ---- states ---- */

static void bring_down(void)
{
    plan(.function = "C_Sign", .rv = CKR_DEVICE_ERROR);
    plan(.function = "C_Initialize", .rv = CKR_DEVICE_ERROR);
    IGNORE(sign_within(PATIENCE_MS));
    if (status_now().state != TOKEN_DOWN) {
        (void)fprintf(stderr, "the token did not go down\n");
        _exit(1);
    }
}

static void bring_about(enum token_is is)
{
    token_forget_handles(token);
    if (is == IS_FRESH) {
        return;
    }
    assert_ok(sign_within(PATIENCE_MS));
    if (is == IS_DEGRADED) { /* healed, but not proven yet */
        plan(.function = "C_Sign", .rv = CKR_DEVICE_ERROR);
        IGNORE(sign_within(PATIENCE_MS));
        clear_rules();
        wait_until_not_down();
    } else if (is == IS_DOWN) {
        bring_down();
        clear_rules(); /* it is down still; what is planned next meets the attempts to bring it back */
    }
}

struct other {
    pthread_t thread;
    const struct combination *now;
    atomic_bool stop;
};

static void *go_on_signing(void *arg)
{
    struct other *other = arg;
    while (!atomic_load(&other->stop)) {
        IGNORE(sign_checked(other->now, OP_MS));
        (void)poll(NULL, 0, 1);
    }
    return NULL;
}

/* ---- one combination ---- */

static void assert_back(const struct combination *now)
{
    mono_ns begun = clock_mono();
    clear_rules();
    struct fault fault;
    while (fault = sign_checked(now, 2000), FAULTED(fault)) {
        if (clock_mono() - begun > LIMIT_NS) {
            complain(now, "does not sign again:", status_now().cause);
        }
        (void)poll(NULL, 0, 1);
    }
    int64_t took = clock_mono() - begun;
    if (took > BACK_NS) {
        (void)fprintf(stderr, "%s answering %s (%s), token %s: signed again after %lld ms only\n", now->place->function,
                      now->way->name, now->times == 0 ? "lasting" : "once", is_texts[now->is],
                      (long long)(took / NS_PER_MS));
        atomic_fetch_add(&tally->late, 1);
    }
    int64_t slowest = atomic_load(&tally->slowest_back);
    while (took > slowest && !atomic_compare_exchange_weak(&tally->slowest_back, &slowest, took)) {
    }
}

static void walk(const struct combination *now)
{
    struct other other = { .now = now };
    struct p11fault_rule rule = { .rv = now->way->rv, .effect = now->way->effect, .times = now->times };
    (void)snprintf(rule.function, sizeof(rule.function), "%s", now->place->function);
    bring_about(now->is);
    if (now->is == IS_SHARED) {
        assert_int_equal(pthread_create(&other.thread, NULL, go_on_signing, &other), 0);
    }
    plan_rule(&rule);
    if (now->place->cause == OF_LOST_LOGIN) {
        plan(.function = "C_SignInit", .times = 1, .effect = P11FAULT_LOGOUT);
    } else if (now->place->cause == OF_LOST_MODULE) {
        plan(.function = "C_SignInit", .rv = CKR_CRYPTOKI_NOT_INITIALIZED, .times = 1);
    }
    struct fault fault = sign_checked(now, OP_MS);
    atomic_fetch_add(&tally->hit, rule_hits() > (now->place->cause != OF_ITSELF));
    atomic_fetch_add(FAULTED(fault) ? &tally->refused : &tally->signed_through, 1);
    assert_back(now);
    if (now->is == IS_SHARED) {
        atomic_store(&other.stop, true);
        assert_int_equal(pthread_join(other.thread, NULL), 0);
    }
    atomic_fetch_add(&tally->walked, 1);
}

/* "forget" is for the one call that finds. A token that denies its own mechanisms is believed until the next start. */
static bool makes_sense(const struct combination *now)
{
    if (now->way->rv == CKR_MECHANISM_INVALID && strcmp(now->place->function, "C_GetMechanismInfo") == 0) {
        return false;
    }
    return now->way->effect != P11FAULT_FORGET || strcmp(now->place->function, "C_FindObjects") == 0;
}

static void walk_share(unsigned walker)
{
    unsigned turn = 0;
    for (size_t way = 0; way < COUNT_OF(ways); way++) {
        for (size_t place = 0; place < COUNT_OF(places); place++) {
            for (unsigned rest = 0; rest < IS_COUNT * 2; rest++) {
                struct combination now = { &ways[way], &places[place], (enum token_is)(rest / 2), rest % 2 };
                if (makes_sense(&now) && turn++ % WALKERS == walker) {
                    walk(&now);
                }
            }
        }
    }
}

static void walker_main(unsigned walker)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    softhsm_new(&hsm);
    (void)token_for_each(NULL);
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    struct token_session *session = session_of(op);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    assert_ok(token_public_key(op, session, &key, &algorithm, &spki));
    token_session_put(session);
    memcpy(spki_bytes, spki.at, spki.len);
    spki_len = spki.len;
    walk_share(walker);
    (void)no_token_for_each(NULL);
    softhsm_free(&hsm);
    _exit(0);
}

static void every_code_at_every_call_in_every_state_ends_well(void **state)
{
    (void)state;
    pid_t walkers[WALKERS];
    bool all = true;
    mono_ns begun = clock_mono();
    tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(tally, MAP_FAILED);
    for (unsigned i = 0; i < WALKERS; i++) {
        walkers[i] = fork();
        assert_true(walkers[i] >= 0);
        if (walkers[i] == 0) {
            walker_main(i);
        }
    }
    for (unsigned i = 0; i < WALKERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(walkers[i], &status, 0), walkers[i]);
        all = all && status == 0;
    }
    print_message("%u combinations walked in %lld ms (%u met their fault; %u signed all the same, %u were refused); "
                  "slowest return after the fault's end: %lld ms\n",
                  tally->walked, (long long)((clock_mono() - begun) / NS_PER_MS), tally->hit, tally->signed_through,
                  tally->refused, (long long)(tally->slowest_back / NS_PER_MS));
    assert_true(all);
    assert_true(tally->late * 100 <= tally->walked);
    assert_int_equal(tally->walked,
                     ((COUNT_OF(ways) - 1) * COUNT_OF(places) + 1 - 1) * IS_COUNT * 2); /* see makes_sense */
    (void)munmap(tally, sizeof(*tally));
}

/* ---- the PIN ---- */

struct caller {
    pthread_t thread;
};

/* Without a look at what comes out. */
static struct fault try_to_sign(int ms)
{
    CLEANUP(op_freep) struct op *op = op_within(ms);
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    TRY(token_session_take(op, token, &session));
    return token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature);
}

static void *call_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        IGNORE(try_to_sign(OP_MS));
    }
    return NULL;
}

static void wait_until_refused_for_the_pin(void)
{
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    while (try_to_sign(OP_MS).code != FAULT_TOKEN_PIN) {
        assert_true(clock_mono() < deadline);
    }
}

static void a_refused_pin_is_shown_once_in_every_state(void **state)
{
    (void)state;
    static const struct way refusals[] = { WAY(CKR_PIN_INCORRECT),
                                           WAY(CKR_PIN_LOCKED),
                                           WAY(CKR_PIN_EXPIRED),
                                           WAY(CKR_PIN_INVALID),
                                           WAY(CKR_PIN_LEN_RANGE),
                                           WAY(CKR_PIN_TOO_WEAK),
                                           WAY(CKR_USER_PIN_NOT_INITIALIZED) };
    unsigned walked = 0;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        for (int is = 0; is < IS_COUNT; is++) {
            struct caller others[3] = { 0 };
            (void)token_for_each(NULL);
            bring_about((enum token_is)is);
            unsigned before = calls_of("C_Login");
            plan(.function = "C_Login", .rv = refusals[i].rv);
            plan(.function = "C_SignInit", .times = 1, .effect = P11FAULT_LOGOUT);
            for (size_t j = 0; is == IS_SHARED && j < COUNT_OF(others); j++) {
                assert_int_equal(pthread_create(&others[j].thread, NULL, call_often, &others[j]), 0);
            }
            wait_until_refused_for_the_pin();
            for (int again = 0; again < 20; again++) {
                assert_fault(try_to_sign(PATIENCE_MS), TOKEN_PIN);
            }
            for (size_t j = 0; is == IS_SHARED && j < COUNT_OF(others); j++) {
                assert_int_equal(pthread_join(others[j].thread, NULL), 0);
            }
            assert_int_equal(calls_of("C_Login") - before, 1);
            assert_int_equal(status_now().state, TOKEN_DOWN);
            assert_string_not_equal(status_now().cause, "");
            (void)no_token_for_each(NULL);
            walked++;
        }
    }
    print_message("%u combinations of PIN refusals walked\n", walked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_at_every_call_in_every_state_ends_well), /* first: it forks */
        cmocka_unit_test(a_refused_pin_is_shown_once_in_every_state),
    };
    return cmocka_run_group_tests_name("recovery_table", tests, module_for_all, nothing_for_all);
}
