/* Who leads: one at a time, and none that stands still. */
#include "projection_testlib.h"

#include "api/projection/leadership.h"

static bool try_once(struct fixture *fixture, struct leadership **ret_leadership)
{
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    bool held = false;
    assert_fault(leadership_try(op, fixture->a.store, NULL, ret_leadership, &held), NONE);
    return held;
}

static void one_leads_until_it_gives_it_up(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(leadership_freep) struct leadership *first = NULL;
    CLEANUP(leadership_freep) struct leadership *second = NULL;
    assert_true(try_once(fixture, &first));
    assert_false(try_once(fixture, &second));
    assert_null(second);
    assert_true(leadership_held(first));
    leadership_free(TAKE(first));
    assert_true(try_once(fixture, &second));
}

/* Longer than the others let a silent one stand: the keeper asks meanwhile. */
static void one_that_works_on_keeps_it(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(leadership_freep) struct leadership *first = NULL;
    CLEANUP(leadership_freep) struct leadership *second = NULL;
    assert_true(try_once(fixture, &first));
    mono_ns until = clock_mono() + (LEADERSHIP_STALE_MS + 2000) * NS_PER_MS;
    while (clock_mono() < until) {
        assert_false(try_once(fixture, &second));
        (void)poll(NULL, 0, 200);
    }
    assert_true(leadership_held(first));
}

/* As a stopped process leaves it: its lock, and the transaction that it was in, whose row locks would hold up whoever
 * leads next. */
static void one_that_stands_still_is_put_out_with_its_transaction(void **state)
{
    static const struct sql SQL_MOVE = { "test_move", "UPDATE svc.projection_checkpoint SET stream_seq = 7", 0 };
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 120000);
    CLEANUP(store_lock_freep) struct store_lock *silent = NULL;
    CLEANUP(leadership_freep) struct leadership *next = NULL;
    CLEANUP(applier_freep) struct applier *applier = NULL;
    struct projector_config config = projector_config_of(&fixture->a);
    struct tx *tx = NULL;
    bool held = false;
    int64_t moved = 0;
    assert_fault(applier_new(&config, &applier), NONE);
    assert_fault(applier_load(op, applier), NONE); /* makes the checkpoint */
    assert_fault(store_lock_try(op, fixture->a.store, STORE_LOCK_PROJECTOR, &silent, &held), NONE);
    assert_true(held);
    assert_fault(tx_begin(op, fixture->a.store, STORE_BOOKKEEPING, &tx), NONE);
    assert_fault(tx_exec(tx, &SQL_MOVE, NULL, 0, &moved), NONE);
    assert_int_equal(moved, 1);
    while (!try_once(fixture, &next)) {
        assert_false(op_expired(op));
        (void)poll(NULL, 0, 100);
    }
    assert_false(store_lock_alive(silent));
    assert_true(FAULTED(tx_commit(&tx))); /* resumed, it changes nothing */
    assert_fault(applier_load(op, applier), NONE);
    assert_int_equal(applier->checkpoint, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(one_that_stands_still_is_put_out_with_its_transaction),
        WITH_STORES(one_that_works_on_keeps_it),
        WITH_STORES(one_leads_until_it_gives_it_up),
    };
    return cmocka_run_group_tests_name("projection/leadership", tests, NULL, NULL);
}
