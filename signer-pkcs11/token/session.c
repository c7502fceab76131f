#include "signer-pkcs11/token/internal.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <time.h>

bool token_wait(pthread_cond_t *cond, pthread_mutex_t *lock, mono_ns deadline)
{
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    int rc = pthread_cond_timedwait(cond, lock, &until);
    BUG_IF(rc != 0 && rc != ETIMEDOUT);
    return rc == 0;
}

struct fault session_pool_new(struct token *token, unsigned count)
{
    TRY(mem_new(count, sizeof(*token->sessions), (void *)&token->sessions));
    for (unsigned i = 0; i < count; i++) {
        struct token_session *session = &token->sessions[i];
        session->token = token;
        session->call.gate = &token->module.gate;
        session->handle = CK_INVALID_HANDLE;
        session->next_free = token->free;
        token->free = session;
    }
    token->session_count = count;
    return OK;
}

/* Their Cryptoki sessions end with C_Finalize. */
void session_pool_free(struct token *token)
{
    mem_free(TAKE(token->sessions));
    token->free = NULL;
}

struct fault token_session_take(struct op *op, struct token *token, struct token_session **ret_session)
{
    token_lock(&token->lock);
    while (token->free == NULL && token_wait(&token->changed, &token->lock, op->deadline)) {
    }
    struct token_session *session = token->free;
    if (session != NULL) {
        token->free = TAKE(session->next_free);
    }
    token_unlock(&token->lock);
    if (session == NULL) {
        return op_fail(op, FAULT(SATURATED), "all %u sessions of the token are in use: repeat the request",
                       token->session_count);
    }
    *ret_session = session;
    return OK;
}

void token_session_put(struct token_session *session)
{
    if (session == NULL) {
        return;
    }
    struct token *token = session->token;
    token_lock(&token->lock);
    BUG_IF(session->next_free != NULL);
    session->next_free = token->free;
    token->free = session;
    BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
    token_unlock(&token->lock);
}

void session_drop(struct token_session *session, bool known)
{
    CK_SESSION_HANDLE handle = session->handle;
    if (handle == CK_INVALID_HANDLE) {
        return;
    }
    session->handle = CK_INVALID_HANDLE;
    atomic_fetch_sub(&session->token->open_sessions, 1);
    if (known) {
        /* What was refused before is what matters to the caller. */
        const struct ckr_row *refusal = session->call.refusal;
        const char *function = session->call.function;
        CK_RV rv = session->call.rv;
        IGNORE(gate_close_session(&session->call, handle));
        session->call.refusal = refusal;
        session->call.function = function;
        session->call.rv = rv;
    }
}

struct fault session_ready(struct token_session *session)
{
    struct token *token = session->token;
    if (session->handle != CK_INVALID_HANDLE && session->epoch == session->seen) {
        return OK;
    }
    session_drop(session, session->ground == token->ground);
    TRY(gate_open_session(&session->call, token->module.slot, &session->handle));
    session->epoch = session->seen;
    session->ground = token->ground;
    atomic_fetch_add(&token->open_sessions, 1);
    return OK;
}

struct fault session_logged_in(struct call *call, const struct token *token, CK_SESSION_HANDLE session)
{
    CK_SESSION_INFO info = { 0 };
    TRY(gate_session_info(call, session, &info));
    if (!token->module.login_required || info.state == CKS_RW_USER_FUNCTIONS || info.state == CKS_RO_USER_FUNCTIONS) {
        return OK;
    }
    return call_refused(call, "C_GetSessionInfo", CKR_USER_NOT_LOGGED_IN);
}
