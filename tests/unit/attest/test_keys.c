/* The cache of an issuer's keys, with a clock and a server that the test moves by hand. */
#include "unit/attest/issuer.h"

#include <pthread.h>
#include <stdatomic.h>

static struct op *op;
static EVP_PKEY *key;
static struct issuer_keys *keys;

/* The clock and the server. */
static _Atomic mono_ns now = 1000 * NS_PER_S;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static const char *served; /* guarded by lock, like the next two; NULL: no answer */
static bool held;          /* a fetch waits until it is let go */
static unsigned fetches, waiting;

static mono_ns clock_of_test(void)
{
    return atomic_load(&now);
}

static struct fault serve(struct op *asker, const struct keys_source *source, int64_t timeout_ns, struct buf *body)
{
    assert_string_equal(source->url, "https://ci.example/jwks");
    assert_true(timeout_ns > 0 && timeout_ns <= KEYS_TIMEOUT_NS);
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    fetches++;
    waiting++;
    BUG_IF(pthread_cond_broadcast(&moved) != 0);
    while (held) {
        BUG_IF(pthread_cond_wait(&moved, &lock) != 0);
    }
    waiting--;
    struct fault fault = served != NULL ? buf_text(body, served) : op_fail(asker, FAULT(IO), "the server is down");
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
    return fault;
}

static void set_server(const char *text, bool hold)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    served = text;
    held = hold;
    BUG_IF(pthread_cond_broadcast(&moved) != 0);
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

static unsigned fetched(void)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    unsigned count = fetches;
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
    return count;
}

static const char *set_of(const char *kid, const char *kid_too)
{
    const char *text = NULL;
    assert_fault(arena_printf(op->arena, &text, "{\"keys\":[%s%s%s]}", issuer_jwk(op, key, kid, ""),
                              kid_too != NULL ? "," : "", kid_too != NULL ? issuer_jwk(op, key, kid_too, "") : ""),
                 NONE);
    return text;
}

static bool has(const struct key_set *set, const char *kid)
{
    for (size_t i = 0; i < set->jwks.count; i++) {
        if (strcmp(set->jwks.at[i].kid, kid) == 0) {
            return true;
        }
    }
    return false;
}

/* Asks for `kid`: the fault, and whether the set that came has it. */
static struct fault ask_at(const char *kid, mono_ns deadline, bool *ret_has)
{
    CLEANUP(op_freep) struct op *asker = NULL;
    CLEANUP(key_set_unrefp) struct key_set *set = NULL;
    assert_fault(op_new("asker", (struct tenant_id){ "acme" }, 60000, &asker), NONE);
    asker->deadline = deadline;
    struct fault fault = issuer_keys_get(asker, keys, kid, &set);
    *ret_has = set != NULL && has(set, kid);
    if (FAULTED(fault)) {
        assert_true(asker->note.set && asker->note.retry_after_s > 0);
    }
    return fault;
}
static struct fault ask(const char *kid, bool *ret_has)
{
    return ask_at(kid, clock_mono() + 60 * NS_PER_S, ret_has);
}

static void assert_found(const char *kid, unsigned fetches_so_far)
{
    bool found = false;
    assert_fault(ask(kid, &found), NONE);
    assert_true(found);
    assert_int_equal(fetched(), fetches_so_far);
}
static void assert_absent(const char *kid, unsigned fetches_so_far)
{
    bool found = true;
    assert_fault(ask(kid, &found), NONE);
    assert_false(found);
    assert_int_equal(fetched(), fetches_so_far);
}
static void assert_unavailable(const char *kid, unsigned fetches_so_far)
{
    bool found = false;
    assert_fault(ask(kid, &found), JWKS_UNAVAILABLE);
    assert_int_equal(fetched(), fetches_so_far);
}

static void pass(int64_t ns)
{
    atomic_fetch_add(&now, ns);
}

/* ---- when a fetch happens ---- */

static void without_keys_nothing_is_believed_and_the_server_is_not_hammered(void **state)
{
    (void)state;
    set_server(NULL, false);
    assert_unavailable("a", 1);
    assert_unavailable("a", 1);
    pass(KEYS_RETRY_NS - 1);
    assert_unavailable("a", 1);
    pass(1);
    assert_unavailable("a", 2);
    set_server("{\"keys\":[]}", false); /* an answer of no use is no answer */
    pass(KEYS_RETRY_NS);
    assert_unavailable("a", 3);
    set_server(set_of("a", NULL), false);
    pass(KEYS_RETRY_NS);
    assert_found("a", 4);
}

static void a_fresh_set_is_not_fetched_again(void **state)
{
    (void)state;
    set_server(set_of("a", NULL), false);
    assert_found("a", 1);
    pass(KEYS_FRESH_NS - 1);
    assert_found("a", 1);
    pass(1);
    assert_found("a", 2);
    assert_found("a", 2);
}

static void an_unknown_kid_is_asked_for_once_in_a_while(void **state)
{
    (void)state;
    set_server(set_of("a", NULL), false);
    assert_found("a", 1);
    assert_absent("b", 1); /* fetched a moment ago */
    pass(KEYS_AGAIN_NS);
    assert_absent("b", 2);
    assert_absent("c", 2);
    set_server(set_of("a", "b"), false);
    assert_absent("b", 2);
    pass(KEYS_AGAIN_NS);
    assert_found("b", 3);
    assert_found("a", 3);
    set_server(set_of("b", NULL), false); /* rotated: the old one is gone */
    pass(KEYS_FRESH_NS);
    assert_found("b", 4);
    assert_absent("a", 4);
}

static void a_dead_server_leaves_the_old_keys_for_a_day(void **state)
{
    (void)state;
    set_server(set_of("a", NULL), false);
    assert_found("a", 1);
    set_server(NULL, false);
    pass(KEYS_FRESH_NS);
    assert_found("a", 2);
    assert_found("a", 2);
    assert_unavailable("b", 2); /* an old set does not say that b is no key */
    pass(KEYS_AGAIN_NS);
    assert_found("a", 3);
    set_server("<html>", false);
    pass(KEYS_GRACE_NS - KEYS_FRESH_NS - KEYS_AGAIN_NS - 1);
    assert_found("a", 4);
    pass(1);
    assert_unavailable("a", 4); /* fail closed; the next try is due soon */
    pass(KEYS_RETRY_NS);
    assert_unavailable("a", 5);
    set_server(set_of("b", NULL), false);
    pass(KEYS_RETRY_NS);
    assert_found("b", 6);
    assert_absent("a", 6);
}

static void a_caller_out_of_time_does_not_fetch(void **state)
{
    (void)state;
    bool found = false;
    set_server(set_of("a", NULL), false);
    assert_fault(ask_at("a", clock_mono() - 1, &found), JWKS_UNAVAILABLE);
    assert_int_equal(fetched(), 0);
    assert_found("a", 1);
    pass(KEYS_FRESH_NS);
    assert_fault(ask_at("a", clock_mono() - 1, &found), NONE);
    assert_true(found);
    assert_int_equal(fetched(), 1);
}

static void pinned_keys_never_ask_anybody(void **state)
{
    (void)state;
    CLEANUP(issuer_keys_freep) struct issuer_keys *pinned = NULL;
    struct key_set *set = NULL;
    CLEANUP(key_set_unrefp) struct key_set *got = NULL;
    assert_fault(key_set_parse(op, span_text(set_of("a", NULL)), &set), NONE);
    assert_fault(issuer_keys_new_pinned(set, &pinned), NONE);
    assert_fault(issuer_keys_get(op, pinned, "unknown", &got), NONE);
    assert_int_equal(got->jwks.count, 1);
    assert_int_equal(fetched(), 0);
}

/* ---- many callers ---- */

struct caller {
    pthread_t thread;
    const char *kid;
    mono_ns deadline;
    struct fault fault;
    bool found;
};

static void *call(void *arg)
{
    struct caller *caller = arg;
    caller->fault = ask_at(caller->kid, caller->deadline, &caller->found);
    return NULL;
}

static void start(struct caller *callers, size_t count, const char *kid, mono_ns deadline)
{
    for (size_t i = 0; i < count; i++) {
        callers[i] = (struct caller){ .kid = kid, .deadline = deadline };
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
}

static void finish(struct caller *callers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    }
}

static void wait_for_a_fetch(void)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    while (waiting == 0) {
        BUG_IF(pthread_cond_wait(&moved, &lock) != 0);
    }
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

static void many_callers_make_one_fetch(void **state)
{
    (void)state;
    struct caller callers[8];
    const char *text = set_of("a", NULL);
    set_server(text, true);
    start(callers, COUNT_OF(callers), "a", clock_mono() + 60 * NS_PER_S);
    wait_for_a_fetch();
    set_server(text, false);
    finish(callers, COUNT_OF(callers));
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        assert_fault(callers[i].fault, NONE);
        assert_true(callers[i].found);
    }
    assert_int_equal(fetched(), 1);
}

static void a_hanging_server_holds_up_nobody_whose_key_is_known(void **state)
{
    (void)state;
    struct caller fetcher[1], late[2];
    bool found = false;
    const char *text = set_of("a", NULL);
    set_server(text, false);
    assert_found("a", 1);
    pass(KEYS_FRESH_NS);
    set_server(text, true);
    start(fetcher, 1, "a", clock_mono() + 60 * NS_PER_S);
    wait_for_a_fetch();
    assert_fault(ask("a", &found), NONE); /* at once, by the old set */
    assert_true(found);
    start(late, COUNT_OF(late), "b", clock_mono() + 20 * NS_PER_MS); /* these wait, as long as they may */
    finish(late, COUNT_OF(late));
    for (size_t i = 0; i < COUNT_OF(late); i++) {
        assert_fault(late[i].fault, JWKS_UNAVAILABLE);
    }
    set_server(text, false);
    finish(fetcher, 1);
    assert_fault(fetcher[0].fault, NONE);
    assert_int_equal(fetched(), 2);
}

/* For the thread sanitizer: readers with sets in hand, while the set changes under them. */
static void *rotate(void *arg)
{
    const char *const *texts = arg;
    for (int i = 0; i < 200; i++) {
        set_server(texts[i % 2], false);
        pass(KEYS_FRESH_NS);
    }
    return NULL;
}
static void *read_on(void *arg)
{
    const char *kid = arg;
    for (int i = 0; i < 200; i++) {
        bool found = false;
        struct fault fault = ask(kid, &found);
        assert_true(!FAULTED(fault) || fault.code == FAULT_JWKS_UNAVAILABLE);
    }
    return NULL;
}

static void sets_change_while_they_are_read(void **state)
{
    (void)state;
    const char *texts[] = { set_of("a", NULL), set_of("a", "b") };
    static char a[] = "a", b[] = "b";
    char *const kids[] = { a, b, a, b };
    pthread_t readers[COUNT_OF(kids)], writer;
    set_server(texts[0], false);
    assert_int_equal(pthread_create(&writer, NULL, rotate, texts), 0);
    for (size_t i = 0; i < COUNT_OF(kids); i++) {
        assert_int_equal(pthread_create(&readers[i], NULL, read_on, kids[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(kids); i++) {
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_true(fetched() > 0);
}

/* ---- the bench ---- */

static int fresh(void **state)
{
    (void)state;
    const struct keys_source source = { .url = "https://ci.example/jwks", .fetch = serve, .now = clock_of_test };
    fetches = 0;
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, 600000, &op), NONE);
    assert_fault(issuer_keys_new(&source, &keys), NONE);
    return 0;
}

static int done(void **state)
{
    (void)state;
    issuer_keys_free(TAKE(keys));
    op_free(TAKE(op));
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    key = EVP_EC_gen("P-256");
    return key != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    EVP_PKEY_free(key);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, done)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_keys_nothing_is_believed_and_the_server_is_not_hammered),
        TEST(a_fresh_set_is_not_fetched_again),
        TEST(an_unknown_kid_is_asked_for_once_in_a_while),
        TEST(a_dead_server_leaves_the_old_keys_for_a_day),
        TEST(a_caller_out_of_time_does_not_fetch),
        TEST(pinned_keys_never_ask_anybody),
        TEST(many_callers_make_one_fetch),
        TEST(a_hanging_server_holds_up_nobody_whose_key_is_known),
        TEST(sets_change_while_they_are_read),
    };
    return cmocka_run_group_tests_name("keys", tests, set_up, tear_down);
}
