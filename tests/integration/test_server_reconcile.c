/* Answered mutations against the log, both ways. Run inside with-stores. */
#include "projection_testlib.h"

#include "api/server/idempotency.h"
#include "api/server/reconcile.h"
#include "api/services.h"

#include <stdlib.h>

static struct services services;

static int start(void **state)
{
    int failed = set_up(state);
    struct fixture *fixture = *state;
    reconcile_forget();
    instance_project(&fixture->a);
    services = (struct services){
        .store = fixture->a.store, .log = fixture->a.log, .projector = fixture->a.projector, .config = &fixture->config
    };
    assert_fault(metrics_new(&services.metrics), NONE);
    assert_fault(metrics_register(services.metrics, reconcile_metrics, reconcile_metric_count), NONE);
    return failed;
}

static int end(void **state)
{
    metrics_free(services.metrics);
    return tear_down(state);
}

static int64_t metric(const char *name)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    const char *text = NULL;
    char line[128];
    assert_fault(metrics_print(services.metrics, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    (void)snprintf(line, sizeof(line), "\nsvc_audit_reconciliation_%s ", name);
    const char *at = strstr(text, line);
    assert_non_null(at);
    return (int64_t)strtod(at + strlen(line), NULL);
}

static void look(void)
{
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    assert_fault(reconcile_run(op, &services), NONE);
}

static void assert_missing(int64_t count)
{
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    assert_int_equal(metric("missing_total"), count);
    assert_int_equal(reconcile_check(op, &services).code, count > 0 ? FAULT_AUDIT_UNRECONCILED : FAULT_NONE);
}

/* The answer of a command under `key`, given long enough ago to be compared. */
static void answer(struct fixture *fixture, struct op *op, const char *key, int status)
{
    struct idempotency_claim claim;
    struct response response;
    char script[256];
    struct idempotency_request request = { .key = key, .route = "things.make", .method = "POST", .path = "/things" };
    const struct response said = { .status = status, .content_type = "application/json", .body = span_text("{}") };
    assert_fault(uuid_new(&request.instance), NONE);
    assert_fault(idempotency_claim(op, services.store, &request, &claim, &response), NONE);
    assert_fault(idempotency_record(op, services.store, &claim, &said, false), NONE);
    (void)snprintf(script, sizeof(script),
                   "UPDATE svc.idempotency_keys SET done_us = done_us - 60000000 WHERE key = '%s'", key);
    admin_script(&fixture->config, script);
}

/* As the event that a handler appended, which the read model has seen. */
static uint64_t recorded(struct fixture *fixture, struct op *op, int number)
{
    uint64_t seq = 0;
    assert_fault(append_number(op, fixture->a.log, "a", number, NULL, &seq), NONE);
    assert_int_equal(op->recorded, OP_RECORDED_EVENT);
    assert_int_equal(op->recorded_seq, seq);
    assert_fault(wait_for(&fixture->a, seq, 20000), NONE);
    return seq;
}

static void a_success_without_an_event_is_missing_unless_the_handler_said_so(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *silent = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *same = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *before = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *refused = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *told = op_of("acme", 30000);
    op_changed_nothing(same);
    op_was_recorded(before);
    (void)recorded(fixture, told, 1);
    op_changed_nothing(told); /* no way to take an event back */
    assert_int_equal(told->recorded, OP_RECORDED_EVENT);
    answer(fixture, same, "same", 200);
    answer(fixture, before, "before", 201);
    answer(fixture, refused, "refused", 409);
    answer(fixture, told, "told", 201);
    look();
    assert_int_equal(metric("checked_total"), 4);
    assert_missing(0);
    answer(fixture, silent, "silent", 200);
    admin_script(&fixture->config, "UPDATE svc.idempotency_keys SET done_us = done_us + 1000000 WHERE key = 'silent'");
    look();
    assert_missing(1);
    look();
    assert_missing(1); /* once */
    assert_int_equal(metric("checked_total"), 5);
    assert_int_equal(metric("lag_seconds"), 0);
    reconcile_forget(); /* a start begins with the first answer */
    look();
    assert_int_equal(metric("checked_total"), 10);
    assert_missing(2);
}

static void an_event_that_is_not_the_commands_own_is_missing(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *good = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *other = op_of("globex", 30000);
    CLEANUP(op_freep) struct op *strange = op_of("acme", 30000);
    (void)recorded(fixture, good, 1);
    uint64_t seq = recorded(fixture, other, 2);
    answer(fixture, good, "good", 201);
    look();
    assert_missing(0);
    op_record(strange, seq); /* another tenant's, of the same trace */
    memcpy(strange->trace_id, other->trace_id, sizeof(strange->trace_id));
    answer(fixture, strange, "strange", 201);
    op_record(good, seq); /* another operation's */
    good->tenant = other->tenant;
    answer(fixture, good, "another", 201);
    admin_script(&fixture->config, "UPDATE svc.idempotency_keys SET done_us = done_us + 1000000 WHERE key <> 'good'");
    look();
    assert_missing(2);
}

static void what_the_copies_do_not_reach_yet_is_waited_for(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *lost = op_of("acme", 30000);
    uint64_t seq = 0;
    atomic_store(&refuse_13, true);
    assert_fault(append_number(op, fixture->a.log, "a", 13, NULL, &seq), NONE); /* the projector stands here */
    answer(fixture, op, "ahead", 201);
    look();
    assert_missing(0);
    assert_int_equal(metric("checked_total"), 0);
    assert_true(metric("lag_seconds") >= 60);
    atomic_store(&refuse_13, false);
    mono_ns until = clock_mono() + 30 * NS_PER_S; /* it tries again by itself */
    while (state_of(&fixture->a).checkpoint < seq && clock_mono() < until) {
        (void)poll(NULL, 0, 20);
    }
    look();
    assert_missing(0);
    assert_int_equal(metric("checked_total"), 1);
    assert_int_equal(metric("lag_seconds"), 0);
    op_record(lost, seq + 5); /* the log does not go so far */
    answer(fixture, lost, "lost", 201);
    admin_script(&fixture->config, "UPDATE svc.idempotency_keys SET done_us = done_us + 1000000 WHERE key = 'lost'");
    look();
    assert_missing(1);
}

static void answers_are_compared_in_pages_and_only_those_that_say_something(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    (void)recorded(fixture, op, 1);
    answer(fixture, op, "first", 201);
    admin_script(
        &fixture->config,
        "INSERT INTO svc.idempotency_keys SELECT tenant_id, 'many-' || n, route, fingerprint, state, claim,"
        " instance, claimed_us, done_us, status, content_type, headers, body,"
        " CASE WHEN n % 2 = 0 THEN recorded END, CASE WHEN n = 4998 THEN 99 ELSE event_seq END, trace_id"
        " FROM svc.idempotency_keys, generate_series(1, 5000) n WHERE key = 'first';"
        "INSERT INTO svc.idempotency_keys SELECT tenant_id, 'young', route, fingerprint, state, claim,"
        " instance, claimed_us, done_us + 59000000, status, content_type, headers, body, 'nothing', 0, trace_id"
        " FROM svc.idempotency_keys WHERE key = 'first'");
    look(); /* all have the same time: the page's end is a key */
    assert_int_equal(metric("checked_total"), 2501);
    assert_missing(1);
}

static void a_stamp_is_judged_as_it_is_answered(void **state)
{
    struct fixture *fixture = *state;
    const struct route route = { .name = "things.stamp" };
    CLEANUP(op_freep) struct op *stamped = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *rejected = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *silent = op_of("acme", 30000);
    (void)recorded(fixture, stamped, 1);
    op_changed_nothing(rejected);
    reconcile_answered(stamped, &services, &route);
    reconcile_answered(rejected, &services, &route);
    assert_missing(0);
    reconcile_answered(silent, &services, &route);
    assert_missing(1);
}

static void a_callers_message_without_an_answer_is_only_counted(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *answered = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *crashed = op_of("acme", 30000);
    CLEANUP(op_freep) struct op *own = op_of("acme", 30000);
    uint64_t seq = 0;
    (void)recorded(fixture, answered, 1);
    (void)recorded(fixture, crashed, 2);
    (void)snprintf(own->principal.subject, sizeof(own->principal.subject), "system:worker:x");
    (void)recorded(fixture, own, 3);
    assert_fault(append_number(crashed, fixture->a.log, "tsa", 4, NULL, &seq), NONE);
    assert_fault(wait_for(&fixture->a, seq, 20000), NONE);
    answer(fixture, answered, "answered", 201);
    for (int i = 0; i < 40; i++) { /* in the first runs it may be answered still */
        assert_int_equal(metric("unanswered_total"), i < 17 ? 0 : 1);
        look();
    }
    assert_missing(0);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(a_success_without_an_event_is_missing_unless_the_handler_said_so),
        WITH(an_event_that_is_not_the_commands_own_is_missing),
        WITH(what_the_copies_do_not_reach_yet_is_waited_for),
        WITH(answers_are_compared_in_pages_and_only_those_that_say_something),
        WITH(a_stamp_is_judged_as_it_is_answered),
        WITH(a_callers_message_without_an_answer_is_only_counted),
    };
    return cmocka_run_group_tests_name("server/reconcile", tests, NULL, NULL);
}
