/* The unit in place is exchanged while others use it: each keeps what it took, and all is freed once, by the last. */
#include "testlib.h"

#include "api/tsa/internal.h"
#include "appliance/base/alloc.h"

#include <pthread.h>

#define READERS 4
#define ROUNDS  2000

static struct tsa_current current;

static struct tsa_snapshot *snapshot(char mark)
{
    struct tsa_snapshot *made = NULL;
    BUG_IF(FAULTED(mem_new(1, sizeof(*made), &made)));
    memset(made->etag, mark, sizeof(made->etag) - 1);
    made->chain_pem = (struct buf)BUF_INIT(128);
    BUG_IF(FAULTED(buf_text(&made->chain_pem, made->etag)));
    return made;
}

static struct fault show(char mark)
{
    struct tsa_snapshot *next = snapshot(mark);
    struct fault fault = tsa_current_show(&current, &next);
    tsa_snapshot_free(next);
    return fault;
}

static void what_is_held_stays_until_it_is_given_back(void **state)
{
    (void)state;
    tsa_current_init(&current, snapshot('a'));
    struct tsa_snapshot *one = tsa_current_take(&current);
    struct tsa_snapshot *two = tsa_current_take(&current);
    assert_ptr_equal(one, two);
    assert_fault(show('b'), NONE);
    struct tsa_snapshot *after = tsa_current_take(&current);
    assert_int_equal(one->etag[0], 'a');
    assert_int_equal(after->etag[0], 'b');
    tsa_current_give(&current, one);
    assert_int_equal(two->etag[0], 'a'); /* still held once */
    tsa_current_give(&current, two);
    tsa_current_give(&current, after);
    after = tsa_current_take(&current);
    assert_int_equal(after->etag[0], 'b'); /* nobody held it, and it is still shown */
    tsa_current_give(&current, after);
    tsa_current_clear(&current);
}

static void with_all_slots_held_the_next_one_waits_and_nothing_is_lost(void **state)
{
    (void)state;
    struct tsa_snapshot *held[TSA_SLOTS];
    tsa_current_init(&current, snapshot('a'));
    for (int i = 0; i < TSA_SLOTS; i++) {
        held[i] = tsa_current_take(&current);
        assert_int_equal(show((char)('b' + i)).code, i < TSA_SLOTS - 1 ? FAULT_NONE : FAULT_SATURATED);
    }
    tsa_current_give(&current, held[3]);
    assert_fault(show('z'), NONE);
    for (int i = 0; i < TSA_SLOTS; i++) {
        if (i != 3) {
            assert_int_equal(held[i]->etag[0], 'a' + i);
            tsa_current_give(&current, held[i]);
        }
    }
    struct tsa_snapshot *now = tsa_current_take(&current);
    assert_int_equal(now->etag[0], 'z');
    tsa_current_give(&current, now);
    tsa_current_clear(&current);
}

static atomic_bool ending;

static void *read_on(void *arg)
{
    uint64_t *taken = arg;
    while (!atomic_load(&ending)) {
        struct tsa_snapshot *held = tsa_current_take(&current);
        BUG_IF(strncmp(held->etag, (const char *)held->chain_pem.at, held->chain_pem.len) != 0);
        tsa_current_give(&current, held);
        ++*taken;
    }
    return NULL;
}

static void readers_always_see_a_whole_one_while_it_is_exchanged(void **state)
{
    (void)state;
    pthread_t readers[READERS];
    uint64_t taken[READERS] = { 0 };
    tsa_current_init(&current, snapshot('a'));
    atomic_store(&ending, false);
    for (int i = 0; i < READERS; i++) {
        BUG_IF(pthread_create(&readers[i], NULL, read_on, &taken[i]) != 0);
    }
    for (int i = 0; i < ROUNDS; i++) {
        (void)show((char)('a' + i % 26)); /* SATURATED when readers stand still in between */
    }
    atomic_store(&ending, true);
    for (int i = 0; i < READERS; i++) {
        BUG_IF(pthread_join(readers[i], NULL) != 0);
    }
    assert_fault(show('z'), NONE);
    tsa_current_clear(&current);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_all_slots_held_the_next_one_waits_and_nothing_is_lost),
        cmocka_unit_test(what_is_held_stays_until_it_is_given_back),
        cmocka_unit_test(readers_always_see_a_whole_one_while_it_is_exchanged),
    };
    return cmocka_run_group_tests_name("the unit in place", tests, NULL, NULL);
}
