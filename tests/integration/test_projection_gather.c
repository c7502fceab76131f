/* Messages are gathered while nobody is in a hurry. The source itself, with a patience that no test has. */
#include "projection_testlib.h"

#define GATHER_NS (600 * NS_PER_S)
#include "api/projection/projector.c"

#include <sched.h>

static bool is_gathering(struct fixture *fixture)
{
    struct projector *projector = fixture->a.projector;
    projector_lock(projector);
    bool gathering = projector->gathering;
    projector_unlock(projector);
    return gathering;
}

/* One message is applied, and the projector waits for company of the next. */
static void begin(struct fixture *fixture)
{
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", 1), 60000), NONE);
    while (!is_gathering(fixture)) {
        (void)sched_yield();
    }
}

static void until_applied(struct fixture *fixture, uint64_t seq)
{
    while (state_of(&fixture->a).checkpoint < seq) {
        (void)sched_yield();
    }
}

static void a_message_that_somebody_is_in_a_hurry_for_is_applied_though_nobody_waits_for_it(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture);
    uint64_t seq = say(&fixture->a, "acme", 2);
    assert_true(is_gathering(fixture));
    projector_hurry(fixture->a.projector, seq);
    until_applied(fixture, seq);
}

static void hurry_for_what_was_applied_ends_no_gathering(void **state)
{
    struct fixture *fixture = *state;
    begin(fixture);
    projector_hurry(fixture->a.projector, state_of(&fixture->a).checkpoint);
    uint64_t seq = say(&fixture->a, "acme", 2);
    assert_true(is_gathering(fixture));
    assert_fault(wait_for(&fixture->a, seq, 60000), NONE); /* who waits is in a hurry, too */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(a_message_that_somebody_is_in_a_hurry_for_is_applied_though_nobody_waits_for_it),
        WITH_STORES(hurry_for_what_was_applied_ends_no_gathering),
    };
    return cmocka_run_group_tests_name("projection/gather", tests, NULL, NULL);
}
