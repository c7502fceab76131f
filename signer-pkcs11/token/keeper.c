/*
 * The keeper: one thread that heals what all sessions share, one thing at a time, whoever noticed first. Escalation:
 * first a new session, login, and a look whether objects answer; then C_Finalize and C_Initialize and all of that
 * again; when that fails, or was not enough, the token is DOWN: callers are refused at once, and the keeper tries again
 * after a pause that grows and is random, until one operation on trial has worked. What this process cannot heal is
 * told by token_status, which then advises a new one. The keeper also looks at the login now and then while all is
 * quiet, so that a dead token is known before the next request.
 */
#include "signer-pkcs11/token/internal.h"

#define IDLE_LOOK_NS   (2 * NS_PER_S)
#define QUIESCE_NS     (2 * NS_PER_S)
#define JOIN_NS        (5 * NS_PER_S)
#define PIN_LOOK_NS    (1 * NS_PER_S)
#define BROKEN_NS      (10 * NS_PER_S) /* a library is tried again for that long */
/*
 * Pauses between attempts while the token is DOWN. The first is short, since most troubles are over at once; then they
 * double, up to one second, so that signing works again within two seconds of the token's return: that pause, and the
 * attempt. This does not hammer a token that is down: it meets one thread's attempt a second, of a handful of calls, as
 * long as an attempt is refused at its first call; callers are refused without a call meanwhile; and the PIN is no part
 * of it, for a login that was refused for the PIN ends the attempts.
 */
#define BACKOFF_MIN_NS (50 * NS_PER_MS)
#define BACKOFF_MAX_NS (1 * NS_PER_S)
#define ALL_EVERY_NS   (10 * NS_PER_S)
#define STRIKES_CAP    64

static void changed_locked(struct token *token)
{
    BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
}

/* Does the token answer with objects, or only with a session? */
static struct fault look(struct token *token)
{
    struct call *call = &token->keeper_call;
    CK_OBJECT_CLASS class = CKO_PRIVATE_KEY;
    CK_ATTRIBUTE wanted[] = { { CKA_CLASS, &class, sizeof(class) } };
    CK_OBJECT_HANDLE found = CK_INVALID_HANDLE;
    CK_ULONG count = 0;
    TRY(gate_find_init(call, token->anchor, wanted, COUNT_OF(wanted)));
    TRY(gate_find(call, token->anchor, &found, 1, &count));
    return gate_find_final(call, token->anchor);
}

static struct fault connect_anchor(struct token *token, char *why, size_t why_size)
{
    struct call *call = &token->keeper_call;
    if (token->anchor != CK_INVALID_HANDLE) {
        CK_SESSION_HANDLE old = token->anchor;
        token->anchor = CK_INVALID_HANDLE;
        IGNORE(gate_close_session(call, old));
    }
    call_clear(call);
    TRY(gate_open_session(call, token->module.slot, &token->anchor));
    if (FAULTED(session_logged_in(call, token, token->anchor))) {
        if (call->rv != CKR_USER_NOT_LOGGED_IN) {
            return (struct fault){ call->refusal->fault };
        }
        call_clear(call);
        TRY(login_show(token, why, why_size));
    }
    return look(token);
}

struct fault keeper_connect(struct token *token, char *why, size_t why_size)
{
    why[0] = '\0';
    struct fault fault = connect_anchor(token, why, why_size);
    if (FAULTED(fault) && why[0] == '\0') {
        const struct ckr_row *row = token->keeper_call.refusal;
        (void)snprintf(why, why_size, "%s: %s", row->cause, row->action);
    }
    return fault;
}

/* C_Finalize under a call of another thread is undefined: none may be inside. */
static bool close_gate(struct token *token)
{
    mono_ns deadline = clock_mono() + QUIESCE_NS;
    token_lock(&token->lock);
    token->closed = true;
    token_publish_locked(token);
    while (token_inside(token) && token_wait(&token->work, &token->lock, deadline)) {
    }
    bool empty = !token_inside(token);
    token->stuck = !empty;
    token->closed = empty;
    token_publish_locked(token);
    if (!empty) {
        changed_locked(token);
    }
    token_unlock(&token->lock);
    return empty;
}

/* Several tokens may share a library, which only C_Finalize brings back where the other ways have failed: once the
 * token is DOWN for it, and then now and then, since it holds up the others for a moment. */
static bool is_time_for_all(struct token *token)
{
    mono_ns now = clock_mono();
    token_lock(&token->lock);
    bool all = token->state == TOKEN_DOWN && (token->last_all == 0 || now - token->last_all > ALL_EVERY_NS);
    token->last_all = all ? now : token->last_all;
    token_unlock(&token->lock);
    return all;
}

void keeper_asked(void *owner)
{
    struct token *token = owner;
    token_lock(&token->lock);
    keeper_ask_locked(token, ckr_row(CKR_CRYPTOKI_NOT_INITIALIZED), token->epoch);
    token_unlock(&token->lock);
}

/* Leaves the gate closed, or open when calls are inside that do not return. */
static struct fault restart_module(struct token *token, char *why, size_t why_size)
{
    if (!close_gate(token)) {
        (void)snprintf(why, why_size, "a call does not return from the PKCS#11 module: restart the signer");
        return FAULT(TOKEN_UNAVAILABLE);
    }
    struct call *call = &token->keeper_call;
    token->anchor = CK_INVALID_HANDLE;
    call_clear(call);
    call_entered(call); /* C_Finalize and C_Initialize are called by libp11, and may hang like any other */
    if (is_time_for_all(token)) {
        module_stop_all(&token->module);
    } else {
        module_stop(&token->module);
    }
    struct fault fault = module_start(&token->module, call, why, why_size);
    call_returned(call);
    if (!FAULTED(fault)) {
        fault = keeper_connect(token, why, why_size);
    }
    token_lock(&token->lock);
    token->ground++;
    token_identity_locked(token);
    token_unlock(&token->lock);
    return fault;
}

static void healed_locked(struct token *token)
{
    token->epoch++;
    token->recoveries++;
    token->wanted = CKR_CLASS_CALL;
    token->state = token->strikes >= STRIKES_DOWN ? TOKEN_DEGRADED : TOKEN_OK;
    if (token->state == TOKEN_OK) {
        token->cause[0] = '\0';
    }
    token_publish_locked(token);
    changed_locked(token);
}

static void down_locked(struct token *token, const char *why)
{
    token->state = TOKEN_DOWN;
    if (why[0] != '\0') {
        (void)snprintf(token->cause, sizeof(token->cause), "%s", why);
    }
    token_publish_locked(token);
    changed_locked(token);
}

/* The last step: a library that says it is not initialised when it just was, or that broke its own locks or memory, is
 * beyond help in this process. A device that is away is not: it may come back, and a new process cannot hurry it. */
static void look_at_library_locked(struct token *token, struct fault fault, char *why, size_t why_size)
{
    const struct call *call = &token->keeper_call;
    bool broken = FAULTED(fault) && call->refusal != NULL &&
                  (call->rv == CKR_CRYPTOKI_NOT_INITIALIZED || call->rv == CKR_MUTEX_BAD ||
                   call->rv == CKR_MUTEX_NOT_LOCKED || call->rv == CKR_HOST_MEMORY);
    if (!broken) {
        token->broken_since = 0;
        return;
    }
    token->broken_since = token->broken_since == 0 ? clock_mono() : token->broken_since;
    (void)snprintf(why, why_size,
                   "the PKCS#11 module cannot be initialised again (%s: %s): the signer restarts if this "
                   "goes on",
                   call->function, call->refusal->name);
}

static void heal_locked(struct token *token)
{
    bool gently = token->wanted < CKR_CLASS_MODULE && token->strikes < STRIKES_RESTART;
    char why[TOKEN_WHY_MAX] = "";
    token_unlock(&token->lock);
    struct fault fault = gently ? keeper_connect(token, why, sizeof(why)) : FAULT(TOKEN_UNAVAILABLE);
    if (FAULTED(fault) && !token->pin_refused) {
        fault = restart_module(token, why, sizeof(why));
    }
    token_lock(&token->lock);
    look_at_library_locked(token, fault, why, sizeof(why));
    token->closed = false; /* in one step with what follows: nobody enters a token that is neither healed nor down */
    token->broken = token->broken_since != 0 && clock_mono() - token->broken_since > BROKEN_NS;
    if (!FAULTED(fault)) {
        healed_locked(token);
        return;
    }
    token->strikes = token->strikes < STRIKES_DOWN ? STRIKES_DOWN : token->strikes + (token->strikes < STRIKES_CAP);
    down_locked(token, why);
}

/* Between half and all of a span that doubles with each strike. */
static mono_ns backoff(unsigned strikes)
{
    mono_ns span = BACKOFF_MIN_NS;
    for (unsigned i = STRIKES_DOWN; i < strikes && span < BACKOFF_MAX_NS; i++) {
        span *= 2;
    }
    span = span > BACKOFF_MAX_NS ? BACKOFF_MAX_NS : span;
    uint32_t dice = 0;
    if (FAULTED(random_bytes((uint8_t *)&dice, sizeof(dice)))) {
        return span;
    }
    return span / 2 + (mono_ns)(dice % (uint32_t)(span / 2 / 1000)) * 1000;
}

static void pause_locked(struct token *token, mono_ns span)
{
    mono_ns until = clock_mono() + span;
    while (!token->stopping && token_wait(&token->work, &token->lock, until)) {
    }
}

static void idle_locked(struct token *token)
{
    mono_ns until = clock_mono() + IDLE_LOOK_NS;
    while (!token->stopping && token->wanted == CKR_CLASS_CALL) {
        if (!token_wait(&token->work, &token->lock, until)) {
            break;
        }
    }
    if (token->stopping || token->wanted != CKR_CLASS_CALL) {
        return;
    }
    struct call *call = &token->keeper_call;
    uint64_t seen = token->epoch;
    token_unlock(&token->lock);
    call_clear(call);
    struct fault fault = session_logged_in(call, token, token->anchor);
    token_lock(&token->lock);
    if (FAULTED(fault) && call->refusal->class != CKR_CLASS_CALL) {
        keeper_ask_locked(token, call->refusal, seen);
    }
}

/* The PIN was read when this process started: once the file has changed, a new process is what can go on. */
static void wait_for_another_pin_locked(struct token *token)
{
    down_locked(token, "");
    pause_locked(token, PIN_LOOK_NS);
    token_unlock(&token->lock);
    bool changed = login_pin_changed(token);
    token_lock(&token->lock);
    if (changed && !token->pin_renewed) {
        token->pin_renewed = true;
        down_locked(token, "the PIN file has changed since the token refused its PIN: the signer restarts to read it");
    }
}

static void *keeper_main(void *arg)
{
    struct token *token = arg;
    (void)pthread_setname_np(pthread_self(), "token-keeper");
    token_lock(&token->lock);
    while (!token->stopping) {
        if (token->pin_refused) {
            wait_for_another_pin_locked(token);
        } else if (token->wanted == CKR_CLASS_CALL) {
            idle_locked(token);
        } else {
            if (token->strikes >= STRIKES_DOWN) {
                down_locked(token, "");
                pause_locked(token, backoff(token->strikes));
            }
            if (!token->stopping) {
                heal_locked(token);
            }
        }
    }
    token->keeper_left = true;
    changed_locked(token);
    token_unlock(&token->lock);
    return NULL;
}

struct fault keeper_start(struct token *token)
{
    REQUIRE(pthread_create(&token->keeper, NULL, keeper_main, token) == 0, NO_MEMORY);
    token->keeper_runs = true;
    return OK;
}

bool keeper_stop(struct token *token)
{
    if (!token->keeper_runs) {
        return true;
    }
    mono_ns deadline = clock_mono() + JOIN_NS;
    token_lock(&token->lock);
    token->stopping = true;
    BUG_IF(pthread_cond_signal(&token->work) != 0);
    while (!token->keeper_left && token_wait(&token->changed, &token->lock, deadline)) {
    }
    bool left = token->keeper_left;
    token_unlock(&token->lock);
    if (left) {
        BUG_IF(pthread_join(token->keeper, NULL) != 0);
        token->keeper_runs = false;
    }
    return left;
}
