#include "signer-pkcs11/token/internal.h"

#include "appliance/base/alloc.h"

#define RESTART_AFTER_MS 30000 /* a call that is inside the module for longer will not come back */

static struct fault locks_new(struct token *token)
{
    pthread_condattr_t attr;
    BUG_IF(pthread_condattr_init(&attr) != 0);
    BUG_IF(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0);
    bool made = pthread_mutex_init(&token->lock, NULL) == 0 && pthread_mutex_init(&token->cache.lock, NULL) == 0 &&
                pthread_cond_init(&token->changed, &attr) == 0 && pthread_cond_init(&token->work, &attr) == 0;
    BUG_IF(pthread_condattr_destroy(&attr) != 0);
    REQUIRE(made, NO_MEMORY);
    return OK;
}

static struct fault token_new(const struct config *config, const struct secret *pin, struct token **ret_token)
{
    struct token *token = NULL;
    TRY(mem_new(1, sizeof(*token), (void *)&token));
    token->pin = pin;
    token->module.label = config->token_label;
    token->module.serial = config->token_serial != NULL ? config->token_serial : "";
    token->epoch = 1;
    token->ground = 1;
    token->wanted = CKR_CLASS_CALL;
    token->anchor = CK_INVALID_HANDLE;
    token->keeper_call.gate = &token->module.gate;
    struct fault fault = locks_new(token);
    if (!FAULTED(fault)) {
        fault = session_pool_new(token, (unsigned)config->signer_sessions);
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

static struct fault open_up(struct token *token, const char *module_path, char *why, size_t why_size)
{
    TRY(module_load(&token->module, module_path, why, why_size));
    TRY(module_start(&token->module, &token->keeper_call, why, why_size));
    token_identity_locked(token);
    /* A PIN that is nearly locked is the operator's to use up, not a restarting service's. */
    if (token->module.pin_locked || token->module.pin_final_try) {
        (void)snprintf(why, why_size,
                       "the PIN of token '%s' is %s: correct the PIN file, and log in once with the "
                       "token's own tools",
                       token->label, token->module.pin_locked ? "locked" : "down to its last try");
        return FAULT(TOKEN_PIN);
    }
    TRY(keeper_connect(token, why, why_size));
    return keeper_start(token);
}

struct fault token_open(const struct config *config, const char *module_path, const struct secret *pin, struct buf *why,
                        struct token **ret_token)
{
    CLEANUP(token_closep) struct token *token = NULL;
    char text[TOKEN_WHY_MAX] = "";
    TRY(token_new(config, pin, &token));
    struct fault fault = open_up(token, module_path, text, sizeof(text));
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
    BUG_IF(token->inside != 0);
    if (!keeper_stop(token)) {
        return; /* the module holds a thread of ours: leaking is all that is safe, the process is about to end */
    }
    module_stop(&token->module);
    module_unload(&token->module);
    session_pool_free(token);
    (void)pthread_cond_destroy(&token->work);
    (void)pthread_cond_destroy(&token->changed);
    (void)pthread_mutex_destroy(&token->cache.lock);
    (void)pthread_mutex_destroy(&token->lock);
    mem_free(token);
}

static int64_t call_ms(const struct call *call, mono_ns now)
{
    mono_ns entered = atomic_load_explicit(&call->entered, memory_order_relaxed);
    return entered == 0 || entered > now ? 0 : (now - entered) / NS_PER_MS;
}

void token_status(struct token *token, struct token_status *ret_status)
{
    struct token_status status = { .sessions = atomic_load(&token->open_sessions) };
    mono_ns now = clock_mono();
    status.oldest_call_ms = call_ms(&token->keeper_call, now);
    for (unsigned i = 0; i < token->session_count; i++) {
        int64_t ms = call_ms(&token->sessions[i].call, now);
        status.oldest_call_ms = ms > status.oldest_call_ms ? ms : status.oldest_call_ms;
    }
    token_lock(&token->lock);
    status.state = token->state;
    status.recoveries = token->recoveries;
    status.restart_advised = token->stuck || status.oldest_call_ms > RESTART_AFTER_MS;
    memcpy(status.label, token->label, sizeof(status.label));
    memcpy(status.model, token->model, sizeof(status.model));
    memcpy(status.serial, token->serial, sizeof(status.serial));
    (void)snprintf(status.cause, sizeof(status.cause), "%.*s", (int)sizeof(status.cause) - 1, token->cause);
    token_unlock(&token->lock);
    *ret_status = status;
}

void token_forget_handles(struct token *token)
{
    token_lock(&token->lock);
    token->epoch++;
    BUG_IF(pthread_cond_broadcast(&token->changed) != 0);
    token_unlock(&token->lock);
}
