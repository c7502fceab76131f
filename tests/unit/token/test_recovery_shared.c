/* Two tokens of one library: what ails one is no trouble of the other, and what ails the library is healed for both. */
#include "tests/unit/token/faulty.h"

#include <pthread.h>

static struct token *second;
static struct token_settings second_settings;
static struct key_ref second_key;

static struct fault sign_with(struct token *with, const struct key_ref *of, int ms)
{
    CLEANUP(op_freep) struct op *op = op_within(ms);
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    assert_ok(token_session_take(op, with, &session));
    return token_sign(op, session, of, SIGN_SCHEME_ECDSA, HASH_SHA256, SPAN_ARRAY(digest), &signature);
}

static int tokens_for_each(void **state)
{
    (void)token_for_each(state);
    second_settings = softhsm_settings(P11FAULT_MODULE, pin);
    second_settings.label = "second";
    assert_ok(token_open(&second_settings, NULL, &second));
    CLEANUP(op_freep) struct op *op = op_within(PATIENCE_MS);
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    CLEANUP(buf_free) struct buf spki = BUF_INIT(4096);
    assert_ok(token_session_take(op, second, &session));
    second_key = key_new(KEY_PURPOSE_CODESIGN);
    assert_ok(token_generate(op, session, &second_key, KEY_ALGORITHM_EC_P256, &spki));
    return 0;
}

static int no_tokens_for_each(void **state)
{
    clear_rules();
    token_close(TAKE(second));
    return no_token_for_each(state);
}

static int two_for_all(void **state)
{
    (void)module_for_all(state);
    softhsm_init_token("second");
    return 0;
}

static uint64_t recoveries_of(struct token *of)
{
    struct token_status status;
    token_status(of, &status);
    return status.recoveries;
}

static void until_both_sign(void)
{
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    while (FAULTED(sign_with(token, &key, 2000)) || FAULTED(sign_with(second, &second_key, 2000))) {
        assert_true(clock_mono() < deadline);
        (void)poll(NULL, 0, 1);
    }
}

static void opening_the_second_does_not_disturb_the_first(void **state)
{
    (void)state;
    assert_ok(sign_with(token, &key, PATIENCE_MS));
    assert_ok(sign_with(second, &second_key, PATIENCE_MS));
    assert_int_equal(recoveries_of(token), 0);
    assert_int_equal(recoveries_of(second), 0);
}

static void a_lost_session_of_one_does_not_disturb_the_other(void **state)
{
    (void)state;
    assert_ok(sign_with(token, &key, PATIENCE_MS));
    assert_ok(sign_with(second, &second_key, PATIENCE_MS));
    plan(.function = "C_SignInit", .rv = CKR_USER_NOT_LOGGED_IN, .times = 1);
    assert_ok(sign_with(token, &key, PATIENCE_MS));
    assert_int_equal(recoveries_of(token), 1);
    assert_ok(sign_with(second, &second_key, PATIENCE_MS));
    assert_int_equal(recoveries_of(second), 0);
}

static void closing_one_leaves_the_other(void **state)
{
    (void)state;
    unsigned before = calls_of("C_Finalize");
    token_close(TAKE(token));
    assert_int_equal(calls_of("C_Finalize"), before);
    for (int i = 0; i < 3; i++) {
        assert_ok(sign_with(second, &second_key, PATIENCE_MS));
    }
    assert_int_equal(recoveries_of(second), 0);
    (void)token_for_each(NULL);
}

static void a_library_that_lost_its_initialisation_is_healed_for_both(void **state)
{
    (void)state;
    plan(.function = "C_SignInit", .times = 1, .effect = P11FAULT_FINALIZE);
    until_both_sign();
    plan(.function = "C_SignInit", .times = 1, .effect = P11FAULT_DIE);
    until_both_sign();
}

/* What only C_Finalize heals, which undoes the work of all: they stop together, each when no call of its own is inside
 * (p11fault ends the process otherwise). */
static void a_library_that_needs_to_be_finalised_is_so_for_both(void **state)
{
    (void)state;
    unsigned before = calls_of("C_Finalize");
    plan(.function = "C_SignInit", .times = 1, .effect = P11FAULT_SICK);
    until_both_sign();
    assert_true(calls_of("C_Finalize") > before);
}

/* ---- the library alone ---- */

struct member {
    struct module module;
    struct call call;
    pthread_t thread;
    bool was_asked;
};

static void start_member(struct member *member)
{
    char why[TOKEN_WHY_MAX] = "";
    member->module.settings = &settings;
    member->call.gate = &member->module.gate;
    assert_ok(module_load(&member->module, P11FAULT_MODULE, why, sizeof(why)));
    assert_ok(module_start(&member->module, &member->call, why, sizeof(why)));
}

static void *stop_member(void *arg)
{
    struct member *member = arg;
    module_stop(&member->module);
    return NULL;
}

static void stop_when_asked(void *owner)
{
    struct member *member = owner;
    member->was_asked = pthread_create(&member->thread, NULL, stop_member, member) == 0;
}

static void who_needs_finalise_asks_the_others_and_gets_it(void **state)
{
    (void)state;
    struct member first = { 0 }, other = { .module = { .asked = stop_when_asked } };
    other.module.owner = &other;
    start_member(&first);
    start_member(&other);
    unsigned before = calls_of("C_Finalize");
    module_stop(&first.module);
    assert_false(other.was_asked);
    assert_int_equal(calls_of("C_Finalize"), before);
    char why[TOKEN_WHY_MAX] = "";
    assert_ok(module_start(&first.module, &first.call, why, sizeof(why)));
    module_stop_all(&first.module);
    assert_true(other.was_asked);
    assert_int_equal(calls_of("C_Finalize") - before, 1);
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    module_unload(&first.module);
    module_unload(&other.module);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, tokens_for_each, no_tokens_for_each)

int main(void)
{
    if (test_token_is_nss()) {
        return 0; /* its tokens are its slots: a second one cannot be made beside the first */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_needs_finalise_asks_the_others_and_gets_it),
        EACH(opening_the_second_does_not_disturb_the_first),
        EACH(a_lost_session_of_one_does_not_disturb_the_other),
        EACH(closing_one_leaves_the_other),
        EACH(a_library_that_lost_its_initialisation_is_healed_for_both),
        EACH(a_library_that_needs_to_be_finalised_is_so_for_both),
    };
    return cmocka_run_group_tests_name("recovery_shared", tests, two_for_all, nothing_for_all);
}
