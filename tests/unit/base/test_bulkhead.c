#include "appliance/base/bulkhead.h"
#include "testlib.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define FAR (clock_mono() + 60 * NS_PER_S)

static void limits_out_of_range_are_refused(void **state)
{
    (void)state;
    struct bulkhead *untouched = NULL;
    assert_fault(bulkhead_new(0, 0, &untouched), BAD_ARGUMENT);
    assert_fault(bulkhead_new(BULKHEAD_LIMIT_MAX + 1, 0, &untouched), BAD_ARGUMENT);
    assert_fault(bulkhead_new(1, BULKHEAD_LIMIT_MAX + 1, &untouched), BAD_ARGUMENT);
    assert_null(untouched);
}

static struct fault enter_then_fail(struct bulkhead *bulkhead, mono_ns deadline)
{
    CLEANUP(permit_release) struct permit permit = { 0 };
    TRY(bulkhead_enter(bulkhead, deadline, &permit));
    return FAULT(BAD_ARGUMENT);
}

static void full_refuses_at_once_and_early_returns_give_back(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 0, &bulkhead), NONE);
    struct permit first = { 0 };
    assert_fault(bulkhead_enter(bulkhead, FAR, &first), NONE);
    assert_fault(enter_then_fail(bulkhead, FAR), SATURATED);
    permit_release(&first);
    permit_release(&first);
    assert_fault(enter_then_fail(bulkhead, FAR), BAD_ARGUMENT);
    assert_int_equal(bulkhead_in_use(bulkhead), 0);
}

static void a_waiter_leaves_at_its_deadline(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 5, &bulkhead), NONE);
    CLEANUP(permit_release) struct permit first = { 0 };
    assert_fault(enter_then_fail(bulkhead, INT64_MIN), BAD_ARGUMENT); /* no wait, no deadline */
    assert_fault(bulkhead_enter(bulkhead, 0, &first), NONE);
    assert_fault(enter_then_fail(bulkhead, clock_mono() + 2 * NS_PER_MS), SATURATED);
    assert_fault(enter_then_fail(bulkhead, 0), SATURATED);
    assert_fault(enter_then_fail(bulkhead, INT64_MIN), SATURATED);
    assert_int_equal(bulkhead_waiting(bulkhead), 0);
    assert_int_equal(bulkhead_in_use(bulkhead), 1);
    permit_release(&first);
}

struct waiter_run {
    struct bulkhead *bulkhead;
    atomic_uint *order;
    unsigned came;
};

static void *wait_and_note(void *arg)
{
    struct waiter_run *run = arg;
    CLEANUP(permit_release) struct permit permit = { 0 };
    BUG_IF(FAULTED(bulkhead_enter(run->bulkhead, FAR, &permit)));
    run->came = atomic_fetch_add(run->order, 1);
    return NULL;
}

static void waiters_are_served_in_their_order(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 8, &bulkhead), NONE);
    struct permit first = { 0 };
    assert_fault(bulkhead_enter(bulkhead, FAR, &first), NONE);
    atomic_uint order = 0;
    struct waiter_run runs[8];
    pthread_t threads[8];
    for (unsigned i = 0; i < 8; i++) {
        runs[i] = (struct waiter_run){ .bulkhead = bulkhead, .order = &order };
        assert_int_equal(pthread_create(&threads[i], NULL, wait_and_note, &runs[i]), 0);
        while (bulkhead_waiting(bulkhead) != i + 1) {
            (void)sched_yield();
        }
    }
    assert_fault(enter_then_fail(bulkhead, FAR), SATURATED); /* the queue is full too */
    permit_release(&first);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(runs[i].came, i);
    }
    assert_int_equal(bulkhead_in_use(bulkhead), 0);
}

struct crowd {
    struct bulkhead *bulkhead;
    atomic_uint inside, entered;
};

static void *come_and_go(void *arg)
{
    struct crowd *crowd = arg;
    for (int i = 0; i < 5000; i++) {
        CLEANUP(permit_release) struct permit permit = { 0 };
        mono_ns deadline = i % 3 == 0 ? clock_mono() + 1000 : FAR; /* some give up while they are served */
        if (!FAULTED(bulkhead_enter(crowd->bulkhead, deadline, &permit))) {
            BUG_IF(atomic_fetch_add(&crowd->inside, 1) >= 2);
            atomic_fetch_add(&crowd->entered, 1);
            (void)sched_yield();
            atomic_fetch_sub(&crowd->inside, 1);
        }
    }
    return NULL;
}

static void threads_never_exceed_the_limit(void **state)
{
    (void)state;
    struct crowd crowd = { 0 };
    assert_fault(bulkhead_new(2, 3, &crowd.bulkhead), NONE);
    pthread_t threads[6];
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &crowd), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_true(atomic_load(&crowd.entered) > 0);
    assert_int_equal(bulkhead_in_use(crowd.bulkhead), 0);
    assert_int_equal(bulkhead_waiting(crowd.bulkhead), 0);
    bulkhead_free(crowd.bulkhead);
}

static struct bulkhead_load load_of(const struct bulkhead *bulkhead)
{
    struct bulkhead_load load;
    bulkhead_load(bulkhead, &load);
    return load;
}

static void places_are_those_of_limit_and_queue_together(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 1, &bulkhead), NONE);
    struct permit permits[3] = { 0 };
    assert_fault(bulkhead_join(bulkhead, &permits[0]), NONE);
    assert_fault(bulkhead_join(bulkhead, &permits[1]), NONE);
    assert_fault(bulkhead_join(bulkhead, &permits[2]), SATURATED);
    assert_null(permits[2].lender);
    assert_fault(enter_then_fail(bulkhead, FAR), SATURATED); /* there is a turn, but it is somebody's */
    assert_fault(permit_turn(&permits[0], FAR), NONE);
    assert_int_equal(bulkhead_in_use(bulkhead), 1);
    assert_fault(permit_turn(&permits[1], 0), SATURATED);
    assert_null(permits[1].lender);
    permit_release(&permits[1]);
    assert_fault(bulkhead_join(bulkhead, &permits[2]), NONE);
    permit_release(&permits[2]);
    permit_release(&permits[0]);
    assert_int_equal(load_of(bulkhead).rejected, 3);
    assert_int_equal(load_of(bulkhead).shares, 0);
}

static struct fault charged(struct bulkhead *bulkhead, const char *tenant, unsigned percent, struct permit *permit)
{
    struct tenant_id id = { 0 };
    (void)snprintf(id.text, sizeof(id.text), "%s", tenant);
    TRY(bulkhead_join(bulkhead, permit));
    struct fault fault = permit_charge(permit, id, percent);
    if (FAULTED(fault)) {
        permit_release(permit);
    }
    return fault;
}

static void a_tenant_gets_its_share_and_the_others_the_rest(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(2, 6, &bulkhead), NONE);
    struct permit many[6] = { 0 };
    struct permit others[2] = { 0 };
    struct permit more = { 0 };
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        assert_fault(charged(bulkhead, "acme", 75, &many[i]), NONE);
    }
    assert_fault(charged(bulkhead, "acme", 75, &more), SATURATED);
    assert_fault(charged(bulkhead, "globex", 75, &others[0]), NONE);
    assert_fault(charged(bulkhead, "initech", 75, &others[1]), NONE);
    assert_fault(bulkhead_join(bulkhead, &more), SATURATED);
    assert_int_equal(load_of(bulkhead).shares, 1);
    permit_release(&many[0]); /* the tenant in the middle of the list goes, too */
    permit_release(&others[0]);
    assert_fault(charged(bulkhead, "acme", 75, &many[0]), NONE);
    assert_fault(charged(bulkhead, "acme", 75, &more), SATURATED);
    assert_fault(permit_turn(&many[1], FAR), NONE);
    assert_fault(permit_turn(&many[2], FAR), NONE);
    assert_fault(permit_turn(&many[3], 0), SATURATED); /* gives back turn and share */
    assert_fault(charged(bulkhead, "acme", 75, &many[3]), NONE);
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        permit_release(&many[i]);
    }
    permit_release(&others[1]);
    assert_int_equal(load_of(bulkhead).in_use, 0);
}

struct turn {
    struct permit permit;
    atomic_uint *order;
    unsigned came;
    pthread_t thread;
};

static void *wait_for_turn(void *arg)
{
    struct turn *turn = arg;
    BUG_IF(FAULTED(permit_turn(&turn->permit, FAR)));
    turn->came = atomic_fetch_add(turn->order, 1);
    permit_release(&turn->permit);
    return NULL;
}

static void await_waiting(const struct bulkhead *bulkhead, unsigned count)
{
    while (bulkhead_waiting(bulkhead) != count) {
        (void)sched_yield();
    }
}

/* Four turns, of which a tenant has three: its fourth waits beside a free one, which somebody else takes at once. */
static void a_tenant_whose_requests_hang_leaves_a_turn_to_the_others(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(4, 8, &bulkhead), NONE);
    struct permit hang[3] = { 0 };
    struct permit other = { 0 };
    struct permit last = { 0 };
    atomic_uint order = 0;
    struct turn turns[2] = { { .order = &order }, { .order = &order } };
    for (size_t i = 0; i < COUNT_OF(hang); i++) {
        assert_fault(charged(bulkhead, "acme", 75, &hang[i]), NONE);
        assert_fault(permit_turn(&hang[i], 0), NONE);
    }
    for (unsigned i = 0; i < COUNT_OF(turns); i++) {
        assert_fault(charged(bulkhead, "acme", 75, &turns[i].permit), NONE);
        assert_int_equal(pthread_create(&turns[i].thread, NULL, wait_for_turn, &turns[i]), 0);
        await_waiting(bulkhead, i + 1);
    }
    assert_int_equal(bulkhead_in_use(bulkhead), 3);
    assert_fault(charged(bulkhead, "globex", 75, &other), NONE);
    assert_fault(permit_turn(&other, 0), NONE);
    assert_fault(bulkhead_enter(bulkhead, 0, &last), SATURATED); /* now all are taken */
    permit_release(&other);                                      /* of no use to those who wait */
    assert_int_equal(bulkhead_waiting(bulkhead), 2);
    assert_fault(bulkhead_enter(bulkhead, 0, &last), NONE);
    permit_release(&hang[0]);
    for (unsigned i = 0; i < COUNT_OF(turns); i++) {
        assert_int_equal(pthread_join(turns[i].thread, NULL), 0);
        assert_int_equal(turns[i].came, i);
    }
    permit_release(&last);
    permit_release(&hang[1]);
    permit_release(&hang[2]);
    assert_int_equal(bulkhead_in_use(bulkhead), 0);
}

static void a_share_is_one_place_at_least(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new(1, 1, &bulkhead), NONE);
    struct permit first = { 0 };
    struct permit second = { 0 };
    assert_fault(charged(bulkhead, "acme", 1, &first), NONE);
    assert_fault(charged(bulkhead, "acme", 1, &second), SATURATED);
    permit_release(&first);
    assert_fault(charged(bulkhead, "acme", 1, &first), NONE);
    permit_release(&first);
}

/* The first of two tenants has all turns and all places but the last; the second one gets that, and all that the first
 * gives back until this has its share. */
static void a_tenant_that_is_alone_has_all_until_another_one_comes(void **state)
{
    (void)state;
    CLEANUP(neighbours_freep) struct neighbours *neighbours = NULL;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(neighbours_new(3600 * NS_PER_S, &neighbours), NONE);
    assert_fault(bulkhead_new(4, 4, &bulkhead), NONE);
    bulkhead_among(bulkhead, neighbours);
    struct permit hang[4] = { 0 };
    struct permit more = { 0 };
    atomic_uint order = 0;
    struct turn turns[3] = { { .order = &order }, { .order = &order }, { .order = &order } };
    for (size_t i = 0; i < COUNT_OF(hang); i++) {
        assert_fault(charged(bulkhead, "acme", 50, &hang[i]), NONE);
        assert_fault(permit_turn(&hang[i], 0), NONE);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_fault(charged(bulkhead, "acme", 50, &turns[i].permit), NONE);
        assert_int_equal(pthread_create(&turns[i].thread, NULL, wait_for_turn, &turns[i]), 0);
        await_waiting(bulkhead, i + 1);
    }
    assert_fault(charged(bulkhead, "acme", 50, &turns[2].permit), NONE);
    assert_fault(charged(bulkhead, "acme", 50, &more), SATURATED);
    permit_release(&turns[2].permit);
    assert_fault(charged(bulkhead, "globex", 50, &turns[2].permit), NONE);
    assert_fault(charged(bulkhead, "acme", 50, &more), SATURATED); /* six are more than its four */
    assert_int_equal(pthread_create(&turns[2].thread, NULL, wait_for_turn, &turns[2]), 0);
    await_waiting(bulkhead, 3);
    permit_release(&hang[0]);
    assert_int_equal(pthread_join(turns[2].thread, NULL), 0);
    assert_int_equal(turns[2].came, 0); /* although it was the last to come */
    assert_int_equal(bulkhead_in_use(bulkhead), 3);
    assert_int_equal(bulkhead_waiting(bulkhead), 2); /* beside a free turn, which is not theirs */
    assert_fault(charged(bulkhead, "globex", 50, &more), NONE);
    assert_fault(permit_turn(&more, 0), NONE);
    for (size_t i = 1; i < COUNT_OF(hang); i++) {
        permit_release(&hang[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(turns[i].thread, NULL), 0);
    }
    permit_release(&more);
    assert_int_equal(bulkhead_in_use(bulkhead) + bulkhead_waiting(bulkhead), 0);
}

static void a_neighbour_is_one_of_any_bulkhead_and_is_forgotten_in_time(void **state)
{
    (void)state;
    static const struct {
        int64_t memory_ns;
        bool holds;
    } cases[] = { { 3600 * NS_PER_S, true }, { 0, false } };
    assert_fault(neighbours_new(-1, &(struct neighbours *){ NULL }), BAD_ARGUMENT);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CLEANUP(neighbours_freep) struct neighbours *neighbours = NULL;
        CLEANUP(bulkhead_freep) struct bulkhead *one = NULL;
        CLEANUP(bulkhead_freep) struct bulkhead *other = NULL;
        struct permit seen = { 0 };
        struct permit permits[2] = { 0 };
        assert_fault(neighbours_new(cases[i].memory_ns, &neighbours), NONE);
        assert_fault(bulkhead_new(2, 2, &one), NONE);
        assert_fault(bulkhead_new(1, 0, &other), NONE);
        bulkhead_among(one, neighbours);
        bulkhead_among(other, neighbours);
        assert_fault(charged(other, "globex", 75, &seen), NONE);
        permit_release(&seen);
        for (size_t j = 0; j < COUNT_OF(permits); j++) {
            assert_fault(charged(one, "acme", 50, &permits[j]), NONE);
        }
        assert_int_equal(FAULTED(charged(one, "acme", 50, &seen)), cases[i].holds);
        assert_fault(permit_turn(&permits[0], 0), NONE);
        assert_int_equal(FAULTED(permit_turn(&permits[1], 0)), cases[i].holds); /* of turns, too */
        permit_release(&seen);
        permit_release(&permits[0]);
        permit_release(&permits[1]);
    }
}

static void a_backlog_that_is_longer_than_the_queue_refuses(void **state)
{
    (void)state;
    CLEANUP(bulkhead_freep) struct bulkhead *bulkhead = NULL;
    assert_fault(bulkhead_new_of_backlog(100000, &bulkhead), NONE);
    assert_fault(bulkhead_backlog_fits(bulkhead, 100000), NONE);
    assert_fault(bulkhead_backlog_fits(bulkhead, 100001), SATURATED);
    assert_int_equal(load_of(bulkhead).waiting, 100001);
    assert_int_equal(load_of(bulkhead).in_use, 1);
    bulkhead_backlog(bulkhead, 0);
    assert_int_equal(load_of(bulkhead).in_use + load_of(bulkhead).waiting, 0);
    assert_int_equal(load_of(bulkhead).rejected, 1);
}

/* Threads of five tenants come and go by all ways; nothing may be left, and no tenant may have had more than its share.
 */
#define TENANTS 5
struct tenants {
    struct bulkhead *bulkhead;
    atomic_uint held[TENANTS], number;
    bool alone;         /* now and then: more than the share */
    atomic_uint broken; /* what must not be was seen; an assertion belongs to the main thread */
};

static void hold(struct tenants *tenants, unsigned tenant)
{
    (void)atomic_fetch_add(&tenants->broken, atomic_fetch_add(&tenants->held[tenant], 1) >= (tenants->alone ? 5 : 3));
}

static void *tenants_come_and_go(void *arg)
{
    struct tenants *tenants = arg;
    unsigned mine = atomic_fetch_add(&tenants->number, 1);
    for (unsigned i = 0; i < 400; i++) {
        char name[16];
        unsigned tenant = (mine + i) % TENANTS;
        CLEANUP(permit_release) struct permit permit = { 0 };
        (void)snprintf(name, sizeof(name), "tenant-%u", tenant);
        if (FAULTED(charged(tenants->bulkhead, name, 50, &permit))) {
            continue;
        }
        hold(tenants, tenant);
        (void)atomic_fetch_sub(&tenants->held[tenant], 1); /* a turn that is refused gives the place back itself */
        struct fault fault = i % 7 == 0 ? OK : permit_turn(&permit, i % 3 == 0 ? 0 : FAR);
        bool expected = fault.code == FAULT_NONE || fault.code == FAULT_SATURATED;
        expected = expected && bulkhead_in_use(tenants->bulkhead) <= 2 && bulkhead_waiting(tenants->bulkhead) <= 6;
        (void)atomic_fetch_add(&tenants->broken, !expected);
        if (!FAULTED(fault)) {
            hold(tenants, tenant);
            (void)atomic_fetch_sub(&tenants->held[tenant], 1);
        }
    }
    return NULL;
}

static void crowd_of_tenants(struct neighbours *neighbours)
{
    struct tenants tenants = { .alone = neighbours != NULL };
    pthread_t threads[8];
    assert_fault(bulkhead_new(2, 4, &tenants.bulkhead), NONE);
    bulkhead_among(tenants.bulkhead, neighbours);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, tenants_come_and_go, &tenants), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(tenants.broken, 0);
    bulkhead_free(tenants.bulkhead); /* which is strict */
}

static void a_crowd_of_tenants_leaves_nothing_behind(void **state)
{
    (void)state;
    CLEANUP(neighbours_freep) struct neighbours *hasty = NULL; /* shares hold and cease to hold all the time */
    assert_fault(neighbours_new(20000, &hasty), NONE);
    crowd_of_tenants(NULL);
    crowd_of_tenants(hasty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_out_of_range_are_refused),
        cmocka_unit_test(full_refuses_at_once_and_early_returns_give_back),
        cmocka_unit_test(a_waiter_leaves_at_its_deadline),
        cmocka_unit_test(waiters_are_served_in_their_order),
        cmocka_unit_test(threads_never_exceed_the_limit),
        cmocka_unit_test(places_are_those_of_limit_and_queue_together),
        cmocka_unit_test(a_tenant_gets_its_share_and_the_others_the_rest),
        cmocka_unit_test(a_tenant_whose_requests_hang_leaves_a_turn_to_the_others),
        cmocka_unit_test(a_share_is_one_place_at_least),
        cmocka_unit_test(a_tenant_that_is_alone_has_all_until_another_one_comes),
        cmocka_unit_test(a_neighbour_is_one_of_any_bulkhead_and_is_forgotten_in_time),
        cmocka_unit_test(a_backlog_that_is_longer_than_the_queue_refuses),
        cmocka_unit_test(a_crowd_of_tenants_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("bulkhead", tests, NULL, NULL);
}
