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

/* ---- the pool ---- */

static void push(struct token_session **list, struct token_session *session, enum session_place place)
{
    session->place = place;
    session->next = *list;
    *list = session;
}

static struct token_session *pop(struct token_session **list)
{
    struct token_session *session = *list;
    if (session != NULL) {
        *list = TAKE(session->next);
    }
    return session;
}

struct fault session_pool_new(struct token *token, unsigned count)
{
    struct session_pool *pool = &token->pool;
    TRY(mem_new(count + SPARES_MAX, sizeof(*pool->at), (void *)&pool->at));
    pool->last = &pool->first;
    pool->count = count;
    pool->usable = count;
    pool->spares = SPARES_MAX;
    for (unsigned i = count + SPARES_MAX; i > 0; i--) {
        struct token_session *session = &pool->at[i - 1];
        session->token = token;
        session->call.gate = &token->module.gate;
        session->handle = CK_INVALID_HANDLE;
        push(i > count ? &pool->spare : &pool->free, session, i > count ? SESSION_SPARE : SESSION_FREE);
    }
    return OK;
}

void session_pool_limit(struct token *token, unsigned limit)
{
    struct session_pool *pool = &token->pool;
    token_lock(&pool->lock);
    for (; pool->usable > limit; pool->usable--) {
        struct token_session *session = pop(&pool->free);
        BUG_IF(session == NULL);
        session->place = SESSION_UNUSED;
    }
    token_unlock(&pool->lock);
}

/* Their Cryptoki sessions end with C_Finalize. */
void session_pool_free(struct token *token)
{
    mem_free(TAKE(token->pool.at));
}

/* To who has waited longest, or to the free ones. Nobody else is woken, and nobody can come between. */
static void give_locked(struct session_pool *pool, struct token_session *session)
{
    struct session_wait *wait = pool->first;
    if (wait == NULL) {
        push(&pool->free, session, SESSION_FREE);
        return;
    }
    pool->first = wait->next;
    pool->last = pool->first == NULL ? &pool->first : pool->last;
    pool->waiting--;
    pool->in_use++;
    session->place = SESSION_TAKEN;
    wait->given = session;
    BUG_IF(pthread_cond_signal(&wait->given_to) != 0);
}

static void stop_waiting_locked(struct session_pool *pool, const struct session_wait *wait)
{
    struct session_wait **at = &pool->first;
    while (*at != wait) {
        at = &(*at)->next;
    }
    *at = wait->next;
    pool->last = *at == NULL ? at : pool->last;
    pool->waiting--;
}

/* NULL: the deadline came first. */
static struct token_session *wait_locked(struct session_pool *pool, mono_ns deadline)
{
    struct session_wait wait = { 0 };
    pthread_condattr_t attr;
    BUG_IF(pthread_condattr_init(&attr) != 0 || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_cond_init(&wait.given_to, &attr) != 0 || pthread_condattr_destroy(&attr) != 0);
    *pool->last = &wait;
    pool->last = &wait.next;
    pool->waiting++;
    while (wait.given == NULL && token_wait(&wait.given_to, &pool->lock, deadline)) {
    }
    if (wait.given == NULL) {
        stop_waiting_locked(pool, &wait);
    }
    BUG_IF(pthread_cond_destroy(&wait.given_to) != 0);
    return wait.given;
}

struct fault token_session_take(struct op *op, struct token *token, struct token_session **ret_session)
{
    struct session_pool *pool = &token->pool;
    bool queue_full = false;
    token_lock(&pool->lock);
    struct token_session *session = pop(&pool->free);
    if (session != NULL) {
        session->place = SESSION_TAKEN;
        pool->in_use++;
    } else if (pool->waiting >= token->settings->queue) {
        queue_full = true;
    } else {
        session = wait_locked(pool, op->deadline);
    }
    token_unlock(&pool->lock);
    if (queue_full) {
        return op_fail(op, FAULT(SATURATED),
                       "all %u sessions of the token are in use, and %u requests wait already: "
                       "repeat the request",
                       pool->usable, token->settings->queue);
    }
    if (session == NULL) {
        return op_fail(op, FAULT(SATURATED), "all %u sessions of the token are in use: repeat the request",
                       pool->usable);
    }
    *ret_session = session;
    return OK;
}

void token_session_set_aside(struct token_session *session)
{
    struct token *token = session->token;
    struct session_pool *pool = &token->pool;
    token_lock(&pool->lock);
    bool first = session->place == SESSION_TAKEN;
    if (first) {
        session->place = SESSION_ASIDE;
        pool->in_use--;
        pool->set_aside++;
        struct token_session *spare = pop(&pool->spare);
        if (spare != NULL) {
            pool->spares--;
            give_locked(pool, spare);
        }
    }
    token_unlock(&pool->lock);
    if (first) {
        recover_abandon(session);
    }
}

/* What was set aside comes back: it stands by again, or fills the gap that nobody could fill. */
static void come_back_locked(struct session_pool *pool, struct token_session *session)
{
    pool->set_aside--;
    if (pool->spares + pool->set_aside < SPARES_MAX) {
        pool->spares++;
        push(&pool->spare, session, SESSION_SPARE);
    } else {
        give_locked(pool, session);
    }
}

void token_session_put(struct token_session *session)
{
    if (session == NULL) {
        return;
    }
    struct session_pool *pool = &session->token->pool;
    token_lock(&pool->lock);
    if (session->place == SESSION_ASIDE) {
        token_unlock(&pool->lock);
        recover_close(session); /* it was in the middle of something, long ago */
        token_lock(&pool->lock);
        come_back_locked(pool, session);
    } else {
        BUG_IF(session->place != SESSION_TAKEN);
        pool->in_use--;
        give_locked(pool, session);
    }
    token_unlock(&pool->lock);
}

void session_pool_status(struct token *token, struct token_status *status)
{
    struct session_pool *pool = &token->pool;
    token_lock(&pool->lock);
    status->in_use = pool->in_use;
    status->set_aside = pool->set_aside;
    status->waiting = pool->waiting;
    unsigned inside = 0; /* who only waits for recovery past its deadline comes back soon */
    for (unsigned i = 0; i < pool->count + SPARES_MAX; i++) {
        const struct token_session *session = &pool->at[i];
        inside += session->place == SESSION_ASIDE && atomic_load(&session->call.entered) != 0;
    }
    bool none_left = (pool->spares == 0 && inside >= SPARES_MAX) || (pool->crowded && inside > 0);
    pool->crowded = pool->crowded && inside > 0;
    token_unlock(&pool->lock);
    if (none_left) {
        status->restart_advised = true;
        (void)snprintf(status->cause, sizeof(status->cause),
                       "%u calls do not return from the PKCS#11 module, and no session is left to stand in: "
                       "restart the signer, and look at the token and its module",
                       inside);
    }
}

/* ---- one session ---- */

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
    struct fault fault = gate_open_session(&session->call, token->module.slot, &session->handle);
    if (FAULTED(fault) && session->call.rv == CKR_SESSION_COUNT) {
        token->pool.crowded = true; /* if calls hang, then theirs are the sessions that are missing */
    }
    TRY(fault);
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
