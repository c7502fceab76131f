#include "testlib.h"

#include "appliance/base/tracing.h"

#include <pthread.h>
#include <stdio.h>

#define TRACE "0af7651916cd43dd8448eb211c80319c"

static struct trace_record got[16];
static size_t got_count;

static void keep(void *arg, const struct trace_record *record)
{
    (void)arg;
    if (got_count < COUNT_OF(got)) {
        got[got_count++] = *record;
    }
}

static struct op *traced_op(void)
{
    struct op *op = NULL;
    assert_fault(op_new("somebody", (struct tenant_id){ "acme" }, 1000, &op), NONE);
    (void)snprintf(op->trace_id, sizeof(op->trace_id), "%s", TRACE);
    op->sampled = trace_sampled(op->trace_id);
    return op;
}

static int begin(void **state)
{
    (void)state;
    got_count = 0;
    trace_start(keep, NULL, TRACE_SAMPLE_ALL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    trace_stop();
    return 0;
}

static struct fault fails(void)
{
    return FAULT(LOG_UNAVAILABLE);
}

static struct fault nested(struct op *op)
{
    TRY(TRACED(op, TRACE_CLIENT, "inner", "svc.lane", "keys", OK));
    return TRACED(op, TRACE_CLIENT, "inner", NULL, NULL, fails());
}

static void nothing_is_recorded_while_nobody_records(void **state)
{
    (void)state;
    trace_stop();
    CLEANUP(op_freep) struct op *op = traced_op();
    assert_false(op->sampled);
    op->sampled = true; /* the caller said so: it is passed on, and that is all */
    assert_fault(nested(op), LOG_UNAVAILABLE);
    trace_operation(op, &(struct trace_operation){ .kind = TRACE_SERVER, .name = "x" });
    trace_leaf(op, TRACE_CLIENT, "x", 1, OK);
    assert_int_equal(got_count, 0);
    assert_null(op->tracing);
}

static void a_trace_that_is_not_sampled_leaves_nothing(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = traced_op();
    op->sampled = false;
    assert_fault(nested(op), LOG_UNAVAILABLE);
    trace_operation(op, &(struct trace_operation){ .kind = TRACE_SERVER, .name = "x" });
    assert_int_equal(got_count, 0);
}

static void spans_know_their_parents_and_how_they_ended(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = traced_op();
    op->parent_span = 7;
    assert_fault(TRACED(op, TRACE_INTERNAL, "outer", NULL, NULL, nested(op)), LOG_UNAVAILABLE);
    trace_leaf(op, TRACE_CLIENT, "leaf", clock_mono(), OK);
    trace_operation(op, &(struct trace_operation){ .kind = TRACE_SERVER, .name = "whole", .began = clock_mono() });
    assert_int_equal(got_count, 5);
    const struct trace_record *first = &got[0], *second = &got[1], *outer = &got[2], *leaf = &got[3], *whole = &got[4];
    assert_int_equal(whole->id, trace_number(op->span_id));
    assert_int_equal(whole->parent, 7);
    assert_int_equal(outer->parent, whole->id);
    assert_int_equal(leaf->parent, whole->id);
    assert_int_equal(first->parent, outer->id);
    assert_int_equal(second->parent, outer->id);
    assert_string_equal(first->detail_key, "svc.lane");
    assert_string_equal(first->detail, "keys");
    assert_null(second->detail_key);
    assert_null(first->error);
    assert_string_equal(second->error, fault_row(FAULT_LOG_UNAVAILABLE)->text);
    assert_true(outer->failed && second->failed && !first->failed);
    assert_string_equal(outer->tenant.text, "acme");
    for (size_t i = 0; i < got_count; i++) {
        assert_true(got[i].began_ns <= got[i].ended_ns);
        assert_int_equal(got[i].trace_id[0], 0x0a);
        assert_int_equal(got[i].trace_id[15], 0x9c);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(got[i].id, got[j].id);
        }
    }
    assert_null(op->tracing);
}

static void a_long_detail_is_cut(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = traced_op();
    char text[2 * TRACE_DETAIL_MAX];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_fault(TRACED(op, TRACE_INTERNAL, "cut", "key", text, OK), NONE);
    assert_int_equal(strlen(got[0].detail), TRACE_DETAIL_MAX);
}

static void both_sides_of_the_log_name_the_same_spans(void **state)
{
    (void)state;
    const char *message = "018f2a3b-0000-7000-8000-0123456789ab";
    trace_project(TRACE, (struct tenant_id){ "acme" }, message, 42, clock_mono(), 3);
    assert_int_equal(got_count, 1);
    assert_int_equal(got[0].parent, trace_append_id(message));
    assert_int_equal(got[0].id, trace_project_id(TRACE, 42));
    assert_int_not_equal(trace_project_id(TRACE, 42), trace_project_id(TRACE, 43));
    assert_int_not_equal(trace_append_id(message), trace_append_id("018f2a3b-0000-7000-8000-0123456789ac"));
}

static void what_a_caller_said_is_remembered(void **state)
{
    (void)state;
    assert_true(trace_sampled(TRACE));
    trace_remember(TRACE, false);
    assert_false(trace_sampled(TRACE));
    assert_true(trace_sampled("0af7651916cd43dd8448eb211c80320d"));
    trace_start(keep, NULL, 0);
    assert_false(trace_sampled("0af7651916cd43dd8448eb211c80320d"));
    trace_remember(TRACE, true);
    assert_true(trace_sampled(TRACE));
    assert_false(trace_sampled(""));
    assert_false(trace_sampled("0af7"));
}

/* A tenth, give or take: of ids that differ in their last digits only as well as of any. */
static void a_ratio_takes_its_part(void **state)
{
    (void)state;
    trace_start(keep, NULL, TRACE_SAMPLE_ALL / 10);
    unsigned taken = 0;
    for (unsigned i = 0; i < 20000; i++) {
        char id[33];
        (void)snprintf(id, sizeof(id), "0af7651916cd43dd%016x", i);
        taken += trace_sampled(id);
    }
    assert_in_range(taken, 1700, 2300);
}

static void a_ratio_is_a_number_from_0_to_1(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned ppm;
    } good[] = { { "0", 0 }, { "1", 1000000 }, { "0.25", 250000 }, { "0.000001", 1 }, { "1.0", 1000000 } };
    static const char *const bad[] = { "", "2", "1.1", "-1", "0.", ".5", "0.0000001", "0,5", "0.5 ", "01", "1e-3" };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        unsigned ppm = 9;
        assert_true(trace_ratio_parse(good[i].text, &ppm));
        assert_int_equal(ppm, good[i].ppm);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        unsigned ppm = 9;
        assert_false(trace_ratio_parse(bad[i], &ppm));
        assert_int_equal(ppm, 9);
    }
}

/* Whoever stops may take the sink's things away at once. */
static struct {
    atomic_bool stop;
    atomic_uint rounds;
} racing;

static void count(void *arg, const struct trace_record *record)
{
    (void)record;
    ++*(unsigned *)arg; /* one thread at a time is in it; the sanitizer sees it when the counter is gone */
}

static void *record_on(void *arg)
{
    (void)arg;
    CLEANUP(op_freep) struct op *op = traced_op();
    op->sampled = true;
    while (!atomic_load(&racing.stop)) {
        (void)TRACED(op, TRACE_INTERNAL, "race", NULL, NULL, OK);
        (void)atomic_fetch_add(&racing.rounds, 1);
    }
    return NULL;
}

static void nobody_is_in_the_sink_after_the_stop(void **state)
{
    (void)state;
    trace_stop();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, record_on, NULL), 0);
    for (unsigned i = 0; i < 200; i++) {
        unsigned *counter = NULL;
        assert_fault(mem_new(1, sizeof(*counter), &counter), NONE);
        unsigned before = atomic_load(&racing.rounds);
        trace_start(count, counter, TRACE_SAMPLE_ALL);
        while (atomic_load(&racing.rounds) < before + 3) {
        }
        trace_stop();
        mem_free(counter);
    }
    atomic_store(&racing.stop, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_recorded_while_nobody_records, begin, end),
        cmocka_unit_test_setup_teardown(a_trace_that_is_not_sampled_leaves_nothing, begin, end),
        cmocka_unit_test_setup_teardown(spans_know_their_parents_and_how_they_ended, begin, end),
        cmocka_unit_test_setup_teardown(a_long_detail_is_cut, begin, end),
        cmocka_unit_test_setup_teardown(both_sides_of_the_log_name_the_same_spans, begin, end),
        cmocka_unit_test_setup_teardown(what_a_caller_said_is_remembered, begin, end),
        cmocka_unit_test_setup_teardown(a_ratio_takes_its_part, begin, end),
        cmocka_unit_test_setup_teardown(a_ratio_is_a_number_from_0_to_1, begin, end),
        cmocka_unit_test_setup_teardown(nobody_is_in_the_sink_after_the_stop, begin, end),
    };
    return cmocka_run_group_tests_name("tracing", tests, NULL, NULL);
}
