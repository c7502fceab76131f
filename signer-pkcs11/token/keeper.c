/*
 * The keeper: one thread that heals what all sessions share, one thing at a time, whoever noticed first. Escalation:
 * first a new session, login, and a look whether objects answer; then C_Finalize and C_Initialize and all of that
 * again; when that fails, or was not enough, the token is DOWN: callers are refused at once, and the keeper tries again
 * after a pause that grows and is random, until one operation on trial has worked. It also looks at the login now and
 * then while all is quiet, so that a dead token is known before the next request.
 */
#include "signer-pkcs11/token/internal.h"

#define IDLE_LOOK_NS   (2 * NS_PER_S)
#define QUIESCE_NS     (2 * NS_PER_S)
#define JOIN_NS        (5 * NS_PER_S)
#define BACKOFF_MIN_NS (200 * NS_PER_MS)
#define BACKOFF_MAX_NS (15 * NS_PER_S)
#define STRIKES_CAP    64

static void changed_locked(struct token *token)
{
    BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
}

/* The one place that shows the PIN to the token. What the token refuses is never shown again by this process. */
static struct fault login(struct token *token)
{
    struct call *call = &token->keeper_call;
    struct fault fault = gate_login(call, token->anchor, secret_span(token->pin));
    if (FAULTED(fault) && call->refusal->class == CKR_CLASS_PIN) {
        token_lock(&token->lock);
        token->pin_refused = true;
        token_unlock(&token->lock);
    }
    return fault;
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

static struct fault connect_anchor(struct token *token)
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
        TRY(login(token));
    }
    return look(token);
}

struct fault keeper_connect(struct token *token, char *why, size_t why_size)
{
    struct fault fault = connect_anchor(token);
    if (FAULTED(fault)) {
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
    while (token->inside > 0 && token_wait(&token->work, &token->lock, deadline)) {
    }
    bool empty = token->inside == 0;
    token->stuck = !empty;
    token->closed = empty;
    if (!empty) {
        changed_locked(token);
    }
    token_unlock(&token->lock);
    return empty;
}

static struct fault restart_module(struct token *token, char *why, size_t why_size)
{
    if (!close_gate(token)) {
        (void)snprintf(why, why_size, "a call does not return from the PKCS#11 module: restart the signer");
        return FAULT(TOKEN_UNAVAILABLE);
    }
    token->anchor = CK_INVALID_HANDLE;
    call_clear(&token->keeper_call);
    module_stop(&token->module);
    struct fault fault = module_start(&token->module, &token->keeper_call, why, why_size);
    if (!FAULTED(fault)) {
        fault = keeper_connect(token, why, why_size);
    }
    token_lock(&token->lock);
    token->ground++;
    token_identity_locked(token);
    token->closed = false;
    changed_locked(token);
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
    changed_locked(token);
}

static void down_locked(struct token *token, const char *why)
{
    token->state = TOKEN_DOWN;
    if (why[0] != '\0') {
        (void)snprintf(token->cause, sizeof(token->cause), "%s", why);
    }
    changed_locked(token);
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

static void *keeper_main(void *arg)
{
    struct token *token = arg;
    (void)pthread_setname_np(pthread_self(), "token-keeper");
    token_lock(&token->lock);
    while (!token->stopping) {
        if (token->pin_refused) {
            down_locked(token, "");
            pause_locked(token, NS_PER_S * 3600);
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
