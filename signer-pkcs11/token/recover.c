#include "signer-pkcs11/token/internal.h"

#define ATTEMPTS_MAX      6
#define LOCAL_REPAIRS_MAX 2 /* of one kind in one operation; then it is more than a lost handle or session */

static struct fault refuse_down(struct op *op, const struct token *token)
{
    struct fault fault = token->pin_refused ? FAULT(TOKEN_PIN) : FAULT(TOKEN_UNAVAILABLE);
    op_note_log(op, "token is down after %u refusals in a row", token->strikes);
    return op_fail(op, fault, "%s", token->cause);
}

bool token_inside(const struct token *token)
{
    for (unsigned i = 0; i < token->pool.count + SPARES_MAX; i++) {
        if (atomic_load(&token->pool.at[i].inside)) {
            return true;
        }
    }
    return false;
}

void token_publish_locked(struct token *token)
{
    bool open = !token->closed && token->state == TOKEN_OK && token->strikes == 0;
    atomic_store(&token->open_epoch, open ? token->epoch : 0);
}

/* While the token is back on trial, one attempt decides; the others wait for it rather than fail with it. */
static struct fault wait_for_entry_locked(struct op *op, struct token_session *session)
{
    struct token *token = session->token;
    for (;;) {
        if (token->state == TOKEN_DOWN) {
            return refuse_down(op, token);
        }
        bool trial_due = token->state == TOKEN_DEGRADED && token->strikes >= STRIKES_DOWN;
        if (!token->closed && (!trial_due || !token->trial_out || session->on_trial)) {
            token->trial_out = token->trial_out || trial_due;
            session->on_trial = trial_due;
            return OK;
        }
        if (!token_wait(&token->changed, &token->lock, op->deadline)) {
            return op_fail(op, FAULT(TOKEN_UNAVAILABLE), "the token is being recovered (%s): repeat the request",
                           token->cause);
        }
    }
}

static struct fault enter_slowly(struct op *op, struct token_session *session)
{
    struct token *token = session->token;
    token_lock(&token->lock);
    atomic_store(&session->inside, false);
    if (token->closed && !token_inside(token)) {
        BUG_IF(pthread_cond_signal(&token->work) != 0);
    }
    struct fault fault = wait_for_entry_locked(op, session);
    if (!FAULTED(fault)) {
        atomic_store(&session->inside, true);
        session->seen = token->epoch;
    }
    token_unlock(&token->lock);
    return fault;
}

static struct fault enter(struct op *op, struct token_session *session)
{
    atomic_store(&session->inside, true);
    uint64_t epoch = atomic_load(&session->token->open_epoch);
    if (epoch == 0) {
        return enter_slowly(op, session);
    }
    session->seen = epoch;
    return OK;
}

/* answered: the token did its part, whatever the answer was. */
static void leave(struct token_session *session, bool answered)
{
    struct token *token = session->token;
    atomic_store(&session->inside, false);
    if (atomic_load(&token->open_epoch) == session->seen) {
        return; /* all is well, and nobody waits for who leaves */
    }
    token_lock(&token->lock);
    if (token->closed && !token_inside(token)) {
        BUG_IF(pthread_cond_signal(&token->work) != 0);
    }
    if (answered && token->strikes > 0 && token->wanted == CKR_CLASS_CALL && session->seen == token->epoch) {
        token->strikes = 0;
        token->state = TOKEN_OK;
        token->cause[0] = '\0';
        token_publish_locked(token);
        BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
    }
    token_unlock(&token->lock);
}

void recover_close(struct token_session *session)
{
    struct token *token = session->token;
    token_lock(&token->lock);
    bool open = !token->closed;
    atomic_store(&session->inside, open);
    bool known = session->ground == token->ground;
    token_unlock(&token->lock);
    if (open) {
        session_drop(session, known);
        session->seen = UINT64_MAX; /* of no epoch: that this call ended says nothing about the token */
        leave(session, false);
    } else {
        session->epoch = 0; /* closed when it is next used */
    }
}

static void end_trial(struct token_session *session)
{
    struct token *token = session->token;
    token_lock(&token->lock);
    if (session->on_trial) {
        session->on_trial = false;
        token->trial_out = false;
        BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
    }
    token_unlock(&token->lock);
}

/* A trial that does not come back decides nothing: the next caller may try. */
void recover_abandon(struct token_session *session)
{
    end_trial(session);
}

static void cause_from(struct token *token, const struct ckr_row *row)
{
    (void)snprintf(token->cause, sizeof(token->cause), "%s: %s", row->cause, row->action);
}

void keeper_ask_locked(struct token *token, const struct ckr_row *refusal, uint64_t seen)
{
    if (token->epoch != seen || token->state == TOKEN_DOWN) {
        return; /* healed meanwhile, or given up: the caller sees which */
    }
    if (token->wanted == CKR_CLASS_CALL) {
        token->strikes++;
        token->state = token->strikes >= STRIKES_DOWN ? TOKEN_DOWN : TOKEN_DEGRADED;
        cause_from(token, refusal);
        token_publish_locked(token);
        BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
    }
    if (token->wanted < refusal->class) {
        token->wanted = refusal->class;
    }
    BUG_IF(pthread_cond_signal(&token->work) != 0);
}

/* Waits until the keeper has healed what this attempt met. */
static struct fault await_healing(struct op *op, struct token_session *session)
{
    struct token *token = session->token;
    struct fault fault = OK;
    token_lock(&token->lock);
    keeper_ask_locked(token, session->call.refusal, session->seen);
    while (token->epoch == session->seen && token->state != TOKEN_DOWN) {
        if (!token_wait(&token->changed, &token->lock, op->deadline)) {
            break;
        }
    }
    if (token->epoch == session->seen) {
        fault = token->state == TOKEN_DOWN ? refuse_down(op, token)
                                           : call_note(op, &session->call, FAULT(TOKEN_UNAVAILABLE));
    }
    token_unlock(&token->lock);
    return fault;
}

struct repairs {
    unsigned handles, sessions;
};

static struct fault repair(struct op *op, struct token_session *session, const struct key_ref *key,
                           struct repairs *repairs)
{
    enum ckr_class class = session->call.refusal->class;
    if (class == CKR_CLASS_HANDLE && repairs->handles++ < LOCAL_REPAIRS_MAX) {
        key_forget(session->token, key);
        return OK;
    }
    if (class == CKR_CLASS_SESSION && repairs->sessions++ < LOCAL_REPAIRS_MAX) {
        return OK; /* dropped before leaving; the next attempt opens one */
    }
    return await_healing(op, session);
}

static struct fault run(struct op *op, struct token_session *session, const struct key_ref *key, token_step step,
                        void *job)
{
    struct call *call = &session->call;
    struct repairs repairs = { 0 };
    for (unsigned attempt = 1;; attempt++) {
        TRY(enter(op, session));
        call_clear(call);
        struct fault fault = session_ready(session);
        if (!FAULTED(fault)) {
            fault = step(op, session, job);
        }
        bool unwell = FAULTED(fault) && call->refusal != NULL && call->refusal->class != CKR_CLASS_CALL;
        if (unwell && call->refusal->class == CKR_CLASS_SESSION) {
            session_drop(session, call->rv != CKR_SESSION_CLOSED && call->rv != CKR_SESSION_HANDLE_INVALID);
        }
        leave(session, !unwell);
        if (!unwell) {
            return call_note(op, call, fault);
        }
        if (attempt == ATTEMPTS_MAX || op_expired(op)) {
            return call_note(op, call, FAULT(TOKEN_UNAVAILABLE));
        }
        TRY(repair(op, session, key, &repairs));
    }
}

struct fault token_run(struct op *op, struct token_session *session, const struct key_ref *key, token_step step,
                       void *job)
{
    struct fault fault = run(op, session, key, step, job);
    if (atomic_load_explicit(&session->on_trial, memory_order_relaxed)) {
        end_trial(session);
    }
    return fault;
}
