/* A SoftHSM token behind the fault-injecting module, for tests of recovery: what they share. */
#ifndef TESTS_UNIT_TOKEN_FAULTY_H
#define TESTS_UNIT_TOKEN_FAULTY_H

#include "tests/p11fault/p11fault.h"
#include "tests/unit/token/softhsm.h"

#include "signer-pkcs11/token/internal.h"

#include <dlfcn.h>
#include <poll.h>

#define PATIENCE_MS 30000 /* how long a test waits for what should take milliseconds */

static struct softhsm hsm;
static struct token_settings settings;
static struct secret *pin;
static struct token *token;
static struct key_ref key;
static uint8_t digest[32] = "thirty-two bytes of any content";

static p11fault_plan_fn *plan_rule;
static p11fault_clear_fn *clear_rules;
static p11fault_hits_fn *rule_hits;
static p11fault_calls_fn *calls_of;
static p11fault_most_fn *most_of;

static inline void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);
    assert_non_null(found);
    return found;
}

static inline int module_for_all(void **state)
{
    (void)state;
    void *library = dlopen(P11FAULT_MODULE, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fail_msg("%s", dlerror());
    }
    *(void **)&plan_rule = symbol(library, "p11fault_plan");
    *(void **)&clear_rules = symbol(library, "p11fault_clear");
    *(void **)&rule_hits = symbol(library, "p11fault_hits");
    *(void **)&calls_of = symbol(library, "p11fault_calls");
    *(void **)&most_of = symbol(library, "p11fault_most");
    softhsm_new(&hsm);
    pin = pin_of(SOFTHSM_PIN);
    settings = softhsm_settings(P11FAULT_MODULE, pin);
    return 0;
}

static inline int nothing_for_all(void **state)
{
    (void)state;
    secret_free(TAKE(pin));
    softhsm_free(&hsm);
    return 0;
}

#define plan(...) plan_rule(&(const struct p11fault_rule){ __VA_ARGS__ })

static inline struct token_session *session_of(struct op *op)
{
    struct token_session *session = NULL;
    assert_ok(token_session_take(op, token, &session));
    return session;
}

static inline int token_for_each(void **state)
{
    (void)state;
    clear_rules();
    assert_ok(token_open(&settings, NULL, &token));
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    CLEANUP(buf_free) struct buf spki = BUF_INIT(4096);
    key = key_new(KEY_PURPOSE_CODESIGN);
    assert_ok(token_generate(op, session, &key, KEY_ALGORITHM_EC_P256, &spki));
    return 0;
}

static inline int no_token_for_each(void **state)
{
    (void)state;
    clear_rules();
    token_close(TAKE(token));
    return 0;
}

/* Signs within `ms`. What comes out is a right signature or nothing. */
static inline struct fault sign_within(int ms)
{
    CLEANUP(op_freep) struct op *op = op_within(ms);
    CLEANUP(token_session_putp) struct token_session *session = session_of(op);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    struct fault fault = token_sign(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature);
    if (FAULTED(fault)) {
        assert_int_equal(signature.len, 0);
        assert_true(op->note.detail[0] != '\0');
        return fault;
    }
    clear_rules(); /* verification reads the token too */
    assert_ok(
        token_verify(op, session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), buf_span(&signature)));
    return OK;
}

static inline struct token_status status_now(void)
{
    struct token_status status;
    token_status(token, &status);
    return status;
}

/* Until the keeper has brought the token back, by its own signal. */
static inline void wait_until_not_down(void)
{
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    token_lock(&token->lock);
    while (token->state == TOKEN_DOWN && token_wait(&token->changed, &token->lock, deadline)) {
    }
    assert_int_not_equal(token->state, TOKEN_DOWN);
    token_unlock(&token->lock);
}

static inline void assert_works_again(void)
{
    clear_rules();
    wait_until_not_down();
    assert_ok(sign_within(PATIENCE_MS));
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS; /* the keeper may still be about it */
    while (status_now().state != TOKEN_OK) {
        assert_true(clock_mono() < deadline);
        (void)poll(NULL, 0, 1);
    }
    assert_string_equal(status_now().cause, "");
}

#endif
