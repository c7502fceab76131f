#include "signer-pkcs11/token/internal.h"

#include "appliance/base/alloc.h"

#define KEEPER_MS_MAX 30000 /* the keeper's call that is inside the module for longer will not come back */

static struct fault locks_new(struct token *token)
{
    pthread_condattr_t attr;
    BUG_IF(pthread_condattr_init(&attr) != 0);
    BUG_IF(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0);
    bool made = pthread_mutex_init(&token->lock, NULL) == 0 && pthread_mutex_init(&token->cache.lock, NULL) == 0 &&
                pthread_mutex_init(&token->pool.lock, NULL) == 0 && pthread_cond_init(&token->changed, &attr) == 0 &&
                pthread_cond_init(&token->cache.found, &attr) == 0 && pthread_cond_init(&token->work, &attr) == 0;
    BUG_IF(pthread_condattr_destroy(&attr) != 0);
    REQUIRE(made, NO_MEMORY);
    return OK;
}

static struct fault token_new(const struct token_settings *settings, struct token **ret_token)
{
    struct token *token = NULL;
    TRY(mem_new(1, sizeof(*token), (void *)&token));
    token->settings = settings;
    token->module.settings = settings;
    token->module.asked = keeper_asked;
    token->module.owner = token;
    token->module.gate.read_only = quirk_on(&settings->quirks, QUIRK_READ_ONLY);
    token->epoch = 1;
    token->ground = 1;
    token->wanted = CKR_CLASS_CALL;
    token->anchor = CK_INVALID_HANDLE;
    token->keeper_call.gate = &token->module.gate;
    token->patience_ms = KEEPER_MS_MAX;
    login_pin_mark(settings->pin_file, &token->pin_mark);
    struct fault fault = locks_new(token);
    if (!FAULTED(fault)) {
        fault = session_pool_new(token, settings->sessions);
    }
    if (FAULTED(fault)) {
        mem_free(token);
        return fault;
    }
    *ret_token = token;
    return OK;
}

void token_identity_locked(struct token *token)
{
    (void)snprintf(token->label, sizeof(token->label), "%s", token->module.token_label);
    (void)snprintf(token->model, sizeof(token->model), "%s", token->module.token_model);
    (void)snprintf(token->serial, sizeof(token->serial), "%s", token->module.token_serial);
}

static struct fault open_up(struct token *token, char *why, size_t why_size)
{
    TRY(module_load(&token->module, token->settings->module, why, why_size));
    TRY(module_start(&token->module, &token->keeper_call, why, why_size));
    token_identity_locked(token);
    if (token->module.session_limit != 0) {
        session_pool_limit(token, (unsigned)token->module.session_limit - 1); /* one is the keeper's */
    }
    TRY(keeper_connect(token, why, why_size));
    token_lock(&token->lock);
    token_publish_locked(token);
    token_unlock(&token->lock);
    note_opened(token);
    return keeper_start(token);
}

struct fault token_open(const struct token_settings *settings, struct buf *why, struct token **ret_token)
{
    CLEANUP(token_closep) struct token *token = NULL;
    char text[TOKEN_WHY_MAX] = "";
    TRY(token_new(settings, &token));
    struct fault fault = open_up(token, text, sizeof(text));
    if (FAULTED(fault)) {
        if (why != NULL) {
            IGNORE(buf_text(why, text));
        }
        return fault;
    }
    *ret_token = TAKE(token);
    return OK;
}

void token_close(struct token *token)
{
    if (token == NULL) {
        return;
    }
    if (!keeper_stop(token) || token_inside(token)) {
        return; /* the module holds a thread of ours: leaking is all that is safe, the process is about to end */
    }
    module_stop(&token->module);
    module_unload(&token->module);
    session_pool_free(token);
    (void)pthread_cond_destroy(&token->work);
    (void)pthread_cond_destroy(&token->changed);
    (void)pthread_cond_destroy(&token->cache.found);
    (void)pthread_mutex_destroy(&token->cache.lock);
    (void)pthread_mutex_destroy(&token->pool.lock);
    (void)pthread_mutex_destroy(&token->lock);
    mem_free(token);
}

static int64_t call_ms(const struct call *call, mono_ns now)
{
    mono_ns entered = atomic_load_explicit(&call->entered, memory_order_relaxed);
    return entered == 0 || entered > now ? 0 : (now - entered) / NS_PER_MS;
}

static void add_refusals(struct token_status *status, const struct call *call)
{
    for (size_t i = 0; i < CKR_CLASS_COUNT; i++) {
        status->refusals[i] += atomic_load_explicit(&call->refusals[i], memory_order_relaxed);
    }
}

static void status_of_calls(struct token *token, struct token_status *status)
{
    mono_ns now = clock_mono();
    status->oldest_call_ms = call_ms(&token->keeper_call, now);
    if (status->oldest_call_ms > token->patience_ms) {
        status->restart_advised = true;
        (void)snprintf(status->cause, sizeof(status->cause),
                       "recovery itself does not return from the PKCS#11 module: restart the signer");
    }
    add_refusals(status, &token->keeper_call);
    for (unsigned i = 0; i < token->pool.count + SPARES_MAX; i++) {
        const struct call *call = &token->pool.at[i].call;
        int64_t ms = call_ms(call, now);
        status->oldest_call_ms = ms > status->oldest_call_ms ? ms : status->oldest_call_ms;
        add_refusals(status, call);
    }
}

void token_status(struct token *token, struct token_status *ret_status)
{
    static_assert(CKR_CLASS_COUNT == CKR_CLASSES);
    struct token_status status = { .sessions = atomic_load(&token->open_sessions) };
    status_of_calls(token, &status);
    session_pool_status(token, &status);
    token_lock(&token->lock);
    status.state = token->state;
    status.recoveries = token->recoveries;
    memcpy(status.label, token->label, sizeof(status.label));
    memcpy(status.model, token->model, sizeof(status.model));
    memcpy(status.serial, token->serial, sizeof(status.serial));
    bool keeper_gave_up = token->stuck || token->broken || token->pin_renewed;
    if (keeper_gave_up || !status.restart_advised) {
        (void)snprintf(status.cause, sizeof(status.cause), "%.*s", (int)sizeof(status.cause) - 1, token->cause);
    }
    status.restart_advised = status.restart_advised || keeper_gave_up;
    token_unlock(&token->lock);
    if (status.restart_advised && status.state == TOKEN_OK) {
        status.state = TOKEN_DEGRADED;
    }
    *ret_status = status;
}

void token_forget_handles(struct token *token)
{
    token_lock(&token->lock);
    token->epoch++;
    token_publish_locked(token);
    BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
    token_unlock(&token->lock);
}
