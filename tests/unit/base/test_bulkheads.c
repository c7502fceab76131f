#include "appliance/base/bulkheads.h"
#include "testlib.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static struct config small(void)
{
    return (struct config){ .bulkhead_api = 1,
                            .bulkhead_protocol = 1,
                            .bulkhead_heavy = 1,
                            .bulkhead_evidence = 1,
                            .bulkhead_policy = 1,
                            .bulkhead_outbox = 1,
                            .bulkhead_projection_queue = 1000000000,
                            .bulkhead_tenant_share = 75,
                            .bulkhead_wait = 60 * NS_PER_S,
                            .signer_client_conns = 8 };
}

static struct op *new_op(int timeout_ms)
{
    struct op *op = NULL;
    assert_fault(op_new("alice", (struct tenant_id){ "acme" }, timeout_ms, &op), NONE);
    return op;
}

static void no_set_bounds_nothing(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op(60000);
    struct permit permit = { 0 };
    struct bulkhead_load load;
    for (enum bulkhead_name name = BULKHEAD_NONE; name < BULKHEAD_COUNT; name++) {
        assert_fault(bulkheads_enter(op, NULL, name, &permit), NONE);
        assert_fault(bulkheads_join(op, NULL, name, &permit), NONE);
        assert_fault(bulkheads_turn(op, NULL, name, &permit), NONE);
        assert_null(permit.lender);
        bulkheads_load(NULL, name, &load);
        assert_int_equal(load.limit, 0);
    }
}

static void each_has_its_own_places_and_its_name(void **state)
{
    (void)state;
    static const char *const names[] = { "api",     "protocol", "heavy",  "evidence",
                                         "signing", "policy",   "outbox", "projection" };
    CLEANUP(op_freep) struct op *op = new_op(60000);
    CLEANUP(bulkheads_freep) struct bulkheads *bulkheads = NULL;
    const struct config config = small();
    struct permit permits[BULKHEAD_COUNT] = { 0 };
    struct permit more = { 0 };
    assert_fault(bulkheads_new(&config, &bulkheads), NONE);
    assert_int_equal(COUNT_OF(names), BULKHEAD_COUNT - 1);
    for (enum bulkhead_name name = BULKHEAD_API; name < BULKHEAD_COUNT; name++) {
        assert_string_equal(bulkhead_name_text(name), names[name - 1]);
        if (name != BULKHEAD_PROJECTION) { /* whose queue is kept elsewhere: nobody enters it */
            assert_fault(bulkheads_enter(op, bulkheads, name, &permits[name]), NONE);
        }
    }
    assert_fault(bulkheads_enter(op, bulkheads, BULKHEAD_POLICY, &more), SATURATED); /* at once: the queue is full */
    assert_non_null(strstr(op->note.detail, "(policy)"));
    for (enum bulkhead_name name = BULKHEAD_API; name < BULKHEAD_COUNT; name++) {
        permit_release(&permits[name]);
    }
}

static void nobody_waits_past_its_deadline_and_who_does_gives_its_share_back(void **state)
{
    (void)state;
    struct config config = small();
    config.bulkhead_heavy_queue = 7;
    CLEANUP(op_freep) struct op *patient = new_op(60000);
    CLEANUP(op_freep) struct op *hasty = new_op(1);
    CLEANUP(bulkheads_freep) struct bulkheads *bulkheads = NULL;
    struct permit first = { 0 };
    assert_fault(bulkheads_new(&config, &bulkheads), NONE);
    assert_fault(bulkheads_enter(patient, bulkheads, BULKHEAD_HEAVY, &first), NONE);
    for (int i = 0; i < 20; i++) {
        CLEANUP(permit_release) struct permit permit = { 0 };
        assert_fault(bulkheads_join(hasty, bulkheads, BULKHEAD_HEAVY, &permit), NONE);
        assert_fault(bulkheads_turn(hasty, bulkheads, BULKHEAD_HEAVY, &permit), SATURATED);
        assert_null(strstr(hasty->note.detail, "share"));
    }
    permit_release(&first);
}

struct visit {
    const struct bulkheads *bulkheads;
    enum bulkhead_name name;
    struct fault fault;
};

static void *pay_visit(void *arg)
{
    struct visit *visit = arg;
    CLEANUP(op_freep) struct op *op = new_op(60000);
    CLEANUP(permit_release) struct permit permit = { 0 };
    op->tenant = (struct tenant_id){ "globex" }; /* or the first one would have its share */
    visit->fault = bulkheads_enter(op, visit->bulkheads, visit->name, &permit);
    return NULL;
}

/* Both begin to wait before the one of the API does, which waits in vain. */
static void for_an_export_or_a_pack_one_waits_longer(void **state)
{
    (void)state;
    static const enum bulkhead_name names[] = { BULKHEAD_API, BULKHEAD_HEAVY, BULKHEAD_EVIDENCE };
    struct config config = small();
    config.bulkhead_api_queue = config.bulkhead_heavy_queue = config.bulkhead_evidence_queue = 1;
    config.bulkhead_wait = 50 * NS_PER_MS;
    config.http_deadline = 120 * NS_PER_S;
    CLEANUP(op_freep) struct op *op = new_op(60000);
    CLEANUP(bulkheads_freep) struct bulkheads *bulkheads = NULL;
    struct permit held[3] = { 0 };
    struct visit visits[3];
    pthread_t threads[3];
    assert_fault(bulkheads_new(&config, &bulkheads), NONE);
    for (size_t i = COUNT_OF(names); i-- > 0;) {
        visits[i] = (struct visit){ .bulkheads = bulkheads, .name = names[i] };
        assert_fault(bulkheads_enter(op, bulkheads, names[i], &held[i]), NONE);
        assert_int_equal(pthread_create(&threads[i], NULL, pay_visit, &visits[i]), 0);
        while (i > 0 && bulkhead_waiting(bulkheads_get(bulkheads, names[i])) == 0) {
            (void)sched_yield();
        }
    }
    assert_int_equal(pthread_join(threads[0], NULL), 0);
    assert_fault(visits[0].fault, SATURATED);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        permit_release(&held[i]);
    }
    for (size_t i = 1; i < COUNT_OF(names); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_fault(visits[i].fault, NONE);
    }
}

/* What one tenant does anywhere is seen everywhere: the whole set is among the same neighbours. */
static void a_tenant_has_its_share_while_there_is_another(void **state)
{
    (void)state;
    struct config config = small();
    config.bulkhead_api = 4;
    CLEANUP(op_freep) struct op *acme = new_op(60000);
    CLEANUP(op_freep) struct op *globex = new_op(60000);
    CLEANUP(bulkheads_freep) struct bulkheads *bulkheads = NULL;
    struct permit permits[3] = { 0 };
    struct permit other = { 0 };
    globex->tenant = (struct tenant_id){ "globex" };
    config.bulkhead_tenant_share = 50;
    assert_fault(bulkheads_new(&config, &bulkheads), NONE);
    for (size_t i = 0; i < COUNT_OF(permits); i++) {
        assert_fault(bulkheads_join(acme, bulkheads, BULKHEAD_API, &permits[i]), NONE);
        assert_fault(bulkheads_turn(acme, bulkheads, BULKHEAD_API, &permits[i]), NONE);
    }
    assert_fault(bulkheads_join(globex, bulkheads, BULKHEAD_EVIDENCE, &other), NONE);
    assert_fault(bulkheads_turn(globex, bulkheads, BULKHEAD_EVIDENCE, &other), NONE);
    permit_release(&other);
    permit_release(&permits[2]);
    assert_fault(bulkheads_join(acme, bulkheads, BULKHEAD_API, &permits[2]), NONE);
    assert_fault(bulkheads_turn(acme, bulkheads, BULKHEAD_API, &permits[2]), SATURATED);
    assert_non_null(strstr(acme->note.detail, "share"));
    for (size_t i = 0; i < COUNT_OF(permits); i++) {
        permit_release(&permits[i]);
    }
}

static void the_signer_gets_no_more_calls_than_there_are_connections(void **state)
{
    (void)state;
    static const struct {
        int64_t wanted;
        unsigned got;
    } cases[] = { { 0, 8 }, { 3, 3 }, { 8, 8 }, { 200, 8 } };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct config config = small();
        struct bulkhead_load load;
        CLEANUP(bulkheads_freep) struct bulkheads *bulkheads = NULL;
        config.bulkhead_signing = cases[i].wanted;
        assert_fault(bulkheads_new(&config, &bulkheads), NONE);
        bulkheads_load(bulkheads, BULKHEAD_SIGNING, &load);
        assert_int_equal(load.limit, cases[i].got);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_set_bounds_nothing),
        cmocka_unit_test(each_has_its_own_places_and_its_name),
        cmocka_unit_test(nobody_waits_past_its_deadline_and_who_does_gives_its_share_back),
        cmocka_unit_test(for_an_export_or_a_pack_one_waits_longer),
        cmocka_unit_test(a_tenant_has_its_share_while_there_is_another),
        cmocka_unit_test(the_signer_gets_no_more_calls_than_there_are_connections),
    };
    return cmocka_run_group_tests_name("bulkheads", tests, NULL, NULL);
}
