#include "testlib.h"

#include "api/keys/internal.h"

#define T0 (1000 * US_PER_S)

static struct op *op;

static struct fault use(const struct managed_key *key, utc_us at, size_t digests)
{
    op->note = (struct fault_note){ 0 };
    return keys_check_use(op, key, at, digests, "/key_id");
}

static void a_key_moves_one_way_only(void **state)
{
    (void)state;
    static const char *const wanted[KEY_STATES] = {
        [KEY_PREPARED] = ".a..d", [KEY_ACTIVE] = "...rd",    [KEY_RETIRING] = "...rd",
        [KEY_RETIRED] = "....d",  [KEY_DESTROYED] = ".....",
    };
    for (enum key_state from = 0; from < KEY_STATES; from++) {
        for (enum key_state to = 0; to < KEY_STATES; to++) {
            assert_int_equal(key_may_move(from, to), wanted[from][to] != '.');
        }
    }
}

static void states_have_their_texts_and_no_others(void **state)
{
    (void)state;
    enum key_state parsed = KEY_ACTIVE;
    for (enum key_state each = 0; each < KEY_STATES; each++) {
        assert_true(key_state_parse(key_state_text(each), &parsed));
        assert_int_equal(parsed, each);
    }
    assert_false(key_state_parse("Active", &parsed));
    assert_false(key_state_parse("", &parsed));
    /* What is not known does not sign. */
    assert_int_equal(key_state_of(&(struct managed_key){ .state = "suspended" }), KEY_DESTROYED);
}

static void prepared_and_destroyed_keys_never_sign(void **state)
{
    (void)state;
    assert_fault(use(&(struct managed_key){ .state = "prepared" }, T0, 1), KEY_STATE);
    assert_string_equal(op->note.pointer, "/key_id");
    assert_fault(use(&(struct managed_key){ .state = "destroyed", .retired = T0 + 1 }, T0, 1), KEY_STATE);
    assert_fault(use(&(struct managed_key){ .state = "active" }, T0, 1), NONE);
}

static void what_was_accepted_before_the_end_is_signed_after_it(void **state)
{
    (void)state;
    const struct managed_key retiring = { .state = "retiring", .retires = T0 };
    assert_fault(use(&retiring, T0 - 1, 1), NONE);
    assert_fault(use(&retiring, T0, 1), KEY_STATE); /* whether or not it is recorded yet */
    const struct managed_key retired = { .state = "retired", .retires = T0, .retired = T0 + US_PER_S };
    assert_fault(use(&retired, T0 - 1, 1), NONE);
    assert_fault(use(&retired, T0, 1), KEY_STATE); /* the record came later than the end */
    const struct managed_key cut = { .state = "retired", .retires = T0 + US_PER_S, .retired = T0 };
    assert_fault(use(&cut, T0 - 1, 1), NONE);
    assert_fault(use(&cut, T0, 1), KEY_STATE); /* retired before its overlap ended */
    assert_fault(use(&(struct managed_key){ .state = "retired", .retired = T0 }, T0, 1), KEY_STATE);
}

static void ends_and_limits_are_kept(void **state)
{
    (void)state;
    const struct managed_key ends = { .state = "active", .not_after = T0 };
    assert_fault(use(&ends, T0 - 1, 1), NONE);
    assert_fault(use(&ends, T0, 1), KEY_EXPIRED);
    const struct managed_key limited = { .state = "active", .max_uses = 10, .claimed = 8 };
    assert_fault(use(&limited, T0, 2), NONE);
    assert_fault(use(&limited, T0, 3), KEY_EXHAUSTED);
    assert_fault(use(&limited, T0, 0), NONE); /* the limit is judged elsewhere */
    const struct managed_key over = { .state = "active", .max_uses = 10, .claimed = 12 };
    assert_fault(use(&over, T0, 1), KEY_EXHAUSTED);
    const struct managed_key free_ = { .state = "active", .claimed = 12 };
    assert_fault(use(&free_, T0, 64), NONE);
}

static int set_up(void **state)
{
    (void)state;
    return FAULTED(op_new("test", (struct tenant_id){ "acme" }, 60000, &op)) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    op_free(op);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_moves_one_way_only),
        cmocka_unit_test(states_have_their_texts_and_no_others),
        cmocka_unit_test(prepared_and_destroyed_keys_never_sign),
        cmocka_unit_test(what_was_accepted_before_the_end_is_signed_after_it),
        cmocka_unit_test(ends_and_limits_are_kept),
    };
    return cmocka_run_group_tests_name("key_state", tests, set_up, tear_down);
}
