#include "unit/server/testing.h"

#include "api/server/slots.h"

#include <sys/socket.h>
#include <unistd.h>

#define THREADS 8
#define SPARE   2
#define T(s)    ((mono_ns)(s) * NS_PER_S)

/* THREADS connections over socket pairs; the far ends show who was cut. */
struct bench {
    struct slots *slots;
    struct slot *slot[THREADS];
    int near[THREADS], far[THREADS];
};

static int set_up(void **state)
{
    static struct bench bench;
    assert_fault(slots_new(THREADS, SPARE, &bench.slots), NONE);
    for (size_t i = 0; i < THREADS; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        bench.near[i] = pair[0];
        bench.far[i] = pair[1];
        bench.slot[i] = slots_take(bench.slots);
        assert_non_null(bench.slot[i]);
    }
    assert_null(slots_take(bench.slots));
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < THREADS; i++) {
        (void)close(bench->near[i]);
        (void)close(bench->far[i]);
    }
    slots_free(bench->slots);
    return 0;
}

static bool was_cut(const struct bench *bench, size_t i)
{
    char byte;
    return recv(bench->far[i], &byte, 1, MSG_DONTWAIT) == 0;
}

static void open_at(struct bench *bench, size_t i, mono_ns now)
{
    slot_open(bench->slots, bench->slot[i], bench->near[i], now);
}

/* Had a request, and waits for the next since `now`. */
static void idle_at(struct bench *bench, size_t i, mono_ns now)
{
    open_at(bench, i, now - 1);
    slot_enter(bench->slots, bench->slot[i], SLOT_HANDLING, now - 1);
    slot_enter(bench->slots, bench->slot[i], SLOT_WAITING, now);
}

static void nobody_is_cut_while_threads_are_free(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < THREADS - SPARE; i++) {
        idle_at(bench, i, T(1));
    }
    assert_false(slots_pressed(bench->slots));
    assert_int_equal(slots_relieve(bench->slots, T(1000)), 0);
}

static void above_the_mark_who_waits_longest_is_cut_and_no_more_than_needed(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < THREADS; i++) {
        idle_at(bench, i, T(i == 5 ? 1 : i == 2 ? 2 : 3 + (int)i));
    }
    assert_true(slots_pressed(bench->slots));
    assert_int_equal(slots_relieve(bench->slots, T(20)), SPARE);
    assert_true(was_cut(bench, 5));
    assert_true(was_cut(bench, 2));
    assert_false(was_cut(bench, 0));
    assert_int_equal(slots_relieve(bench->slots, T(21)), 0); /* those two are on their way out */
}

static void who_is_busy_is_never_cut_for_room(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < THREADS; i++) {
        open_at(bench, i, T(1));
        slot_enter(bench->slots, bench->slot[i], SLOT_HANDLING, T(1));
    }
    assert_int_equal(slots_relieve(bench->slots, T(1000)), 0);
    assert_int_equal(slots_busy(bench->slots), THREADS);
}

static void a_peer_that_neither_sends_nor_reads_gives_room_when_nobody_idles(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < THREADS; i++) {
        open_at(bench, i, T(1));
        enum slot_phase slow = i == 3 ? SLOT_BODY : SLOT_WRITING;
        slot_enter(bench->slots, bench->slot[i], i % 2 == 0 ? SLOT_HANDLING : slow, T(5 - (int)(i / 2)));
    }
    assert_int_equal(slots_relieve(bench->slots, T(6)), 0); /* nobody has stood still for long */
    assert_int_equal(slots_relieve(bench->slots, T(9)), SPARE);
    assert_true(was_cut(bench, 7));
    assert_true(was_cut(bench, 5));
    assert_false(was_cut(bench, 3));
    for (size_t i = 0; i < THREADS; i += 2) {
        assert_false(was_cut(bench, i)); /* at work */
    }
}

static void a_request_that_met_the_cut_is_not_begun(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < THREADS; i++) {
        idle_at(bench, i, T(1 + (int)i));
    }
    assert_int_equal(slots_relieve(bench->slots, T(20)), SPARE);
    assert_true(was_cut(bench, 0));
    assert_false(slot_begin(bench->slots, bench->slot[0], T(20)));
    assert_true(slot_begin(bench->slots, bench->slot[THREADS - 1], T(20)));
    assert_int_equal(slots_busy(bench->slots), 1);
}

static void a_newcomer_is_left_a_second_for_its_first_request(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < THREADS; i++) {
        open_at(bench, i, T(10));
    }
    assert_int_equal(slots_relieve(bench->slots, T(10) + NS_PER_S / 2), 0);
    assert_int_equal(slots_relieve(bench->slots, T(12)), SPARE);
}

static void who_overstays_a_phase_is_cut_at_any_time(void **state)
{
    struct bench *bench = *state;
    static const enum slot_phase phases[] = { SLOT_BODY, SLOT_WRITING, SLOT_LINGERING, SLOT_HANDLING };
    for (size_t i = 0; i < COUNT_OF(phases); i++) {
        open_at(bench, i, T(1));
        slot_enter(bench->slots, bench->slot[i], phases[i], T(1));
    }
    assert_int_equal(slots_relieve(bench->slots, T(2)), 0);
    assert_int_equal(slots_relieve(bench->slots, T(4)), 1);
    assert_true(was_cut(bench, 2));
    assert_int_equal(slots_relieve(bench->slots, T(17)), 1);
    assert_true(was_cut(bench, 0));
    assert_int_equal(slots_relieve(bench->slots, T(122)), 1);
    assert_true(was_cut(bench, 1));
    assert_false(was_cut(bench, 3));
}

static void a_closed_connection_is_never_cut_and_its_slot_serves_again(void **state)
{
    struct bench *bench = *state;
    open_at(bench, 0, T(1));
    slot_enter(bench->slots, bench->slot[0], SLOT_BODY, T(1));
    slot_close(bench->slots, bench->slot[0]);
    slot_close(bench->slots, bench->slot[0]);
    slot_enter(bench->slots, bench->slot[0], SLOT_WAITING, T(1)); /* after the end: nothing to say */
    assert_int_equal(slots_relieve(bench->slots, T(100)), 0);
    assert_int_equal(slots_cut_waiting(bench->slots), 0);
    for (size_t i = 0; i < THREADS; i++) {
        open_at(bench, i, T(1));
    }
    assert_true(slots_pressed(bench->slots));
    for (size_t i = 0; i < THREADS; i++) {
        slot_close(bench->slots, bench->slot[i]);
    }
    assert_false(slots_pressed(bench->slots));
    open_at(bench, 0, T(100));
    assert_int_equal(slots_cut_waiting(bench->slots), 1);
    assert_true(was_cut(bench, 0));
}

static void an_unknown_descriptor_is_never_cut(void **state)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < THREADS; i++) {
        slot_open(bench->slots, bench->slot[i], -1, T(1));
    }
    assert_int_equal(slots_relieve(bench->slots, T(100)), 0);
    assert_int_equal(slots_cut_waiting(bench->slots), 0);
    assert_false(slot_knows_fd(bench->slots, bench->slot[0]));
    slot_learn_fd(bench->slots, bench->slot[0], bench->near[0]);
    assert_true(slot_knows_fd(bench->slots, bench->slot[0]));
    assert_int_equal(slots_relieve(bench->slots, T(100)), 1);
    assert_true(was_cut(bench, 0));
}

static void at_the_end_of_a_drain_the_busy_ones_are_cut_too(void **state)
{
    struct bench *bench = *state;
    open_at(bench, 0, T(1));
    open_at(bench, 1, T(1));
    open_at(bench, 2, T(1));
    slot_enter(bench->slots, bench->slot[0], SLOT_HANDLING, T(1));
    slot_enter(bench->slots, bench->slot[1], SLOT_WRITING, T(1));
    slot_close(bench->slots, bench->slot[2]);
    assert_int_equal(slots_cut_all(bench->slots), 2);
    assert_true(was_cut(bench, 0));
    assert_true(was_cut(bench, 1));
    assert_int_equal(slots_cut_all(bench->slots), 0);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(nobody_is_cut_while_threads_are_free),
        WITH_BENCH(above_the_mark_who_waits_longest_is_cut_and_no_more_than_needed),
        WITH_BENCH(who_is_busy_is_never_cut_for_room),
        WITH_BENCH(a_peer_that_neither_sends_nor_reads_gives_room_when_nobody_idles),
        WITH_BENCH(a_request_that_met_the_cut_is_not_begun),
        WITH_BENCH(a_newcomer_is_left_a_second_for_its_first_request),
        WITH_BENCH(who_overstays_a_phase_is_cut_at_any_time),
        WITH_BENCH(a_closed_connection_is_never_cut_and_its_slot_serves_again),
        WITH_BENCH(an_unknown_descriptor_is_never_cut),
        WITH_BENCH(at_the_end_of_a_drain_the_busy_ones_are_cut_too),
    };
    return cmocka_run_group_tests_name("slots", tests, NULL, NULL);
}
