#include "unit/server/testing.h"

#include "api/server/probes.h"
#include "api/server/readiness.h"
#include "api/server/sampler.h"
#include "appliance/base/json.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* The rooms below, as this test wants them. */
static struct fault store_says, log_says, signer_says, feature_says;
static struct event_log_state log_state;
static struct projector_state projector;
static enum signer_state signer;
static struct signer_health health;
static atomic_int signer_calls;

/* A store that does not answer, whatever its deadline says, until it is let go. */
static atomic_bool store_hangs, store_asked;

struct fault store_ping(struct op *op, struct store *store, int timeout_ms)
{
    (void)op, (void)store, (void)timeout_ms;
    atomic_store(&store_asked, true);
    while (atomic_load(&store_hangs)) {
        (void)sched_yield();
    }
    return store_says;
}
struct store_pool_stats store_pool_stats(struct store *store, enum store_pool pool)
{
    (void)store;
    return (struct store_pool_stats){ .max = 10 + pool, .total = 5, .acquired = 2, .idle = 3 };
}
const char *store_pool_text(enum store_pool pool)
{
    static const char *const texts[] = { "request", "probe", "reserved", "bookkeeping", "lock" };
    return texts[pool];
}
struct fault event_log_state(struct op *op, struct event_log *log, struct event_log_state *ret_state)
{
    (void)op, (void)log;
    *ret_state = log_state;
    return log_says;
}
void projector_state(struct projector *unused, struct projector_state *ret_state)
{
    (void)unused;
    *ret_state = projector;
}
struct fault signer_health(struct op *op, struct signer_client *client, struct signer_health *ret_health)
{
    (void)op, (void)client;
    signer_calls++;
    *ret_health = health;
    ret_health->state = signer;
    return signer_says;
}

static struct fault feature_check(struct op *op, struct services *services)
{
    (void)op, (void)services;
    return feature_says;
}
static struct fault part_says;
static struct fault part_check(struct op *op, struct services *services)
{
    (void)op, (void)services;
    return part_says;
}
static const struct readiness_row rows[] = { { .name = "tsa", .check = feature_check },
                                             { .name = "tsa_clock", .check = part_check, .degrades = true } };
static const struct feature feature = { .name = "tsa", .readiness = rows, .readiness_count = 2 };
static const struct feature *const features[] = { &feature };
static struct config config = { .nats_replicas = 1,
                                .run_dir = "/nonexistent",
                                .bulkhead_api = 1,
                                .bulkhead_protocol = 1,
                                .bulkhead_heavy = 4,
                                .bulkhead_evidence = 1,
                                .bulkhead_policy = 1,
                                .bulkhead_outbox = 1,
                                .bulkhead_projection_queue = 100,
                                .signer_client_conns = 7 };
static atomic_bool draining;

struct fixture {
    struct op *op;
    struct services services;
    struct probes *probes;
    struct readiness *readiness;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){ .op = test_op(), .services = { .config = &config } };
    store_says = log_says = signer_says = feature_says = part_says = OK;
    log_state = (struct event_log_state){ .replicas_desired = 1, .replicas_actual = 1, .connected = true };
    projector = (struct projector_state){ .checkpoint = 7, .log_last = 9, .lag = 2, .log_trusted = true };
    signer = SIGNER_OK;
    health = (struct signer_health){ .journal_usable = true };
    atomic_store(&signer_calls, 0);
    atomic_store(&store_hangs, false);
    atomic_store(&draining, false);
    assert_fault(metrics_new(&fixture.services.metrics), NONE);
    assert_fault(bulkheads_new(&config, &fixture.services.bulkheads), NONE);
    assert_fault(probes_new(&fixture.services, features, 1, &draining, &fixture.probes), NONE);
    assert_fault(readiness_new(&fixture.services, features, 1, &fixture.readiness), NONE);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    probes_free(fixture->probes);
    readiness_free(fixture->readiness);
    bulkheads_free(fixture->services.bulkheads);
    metrics_free(fixture->services.metrics);
    op_free(fixture->op);
    return 0;
}

static void look(struct readiness *readiness)
{
    for (size_t i = 0; i < readiness_looks(readiness); i++) {
        readiness_look(readiness, i);
    }
}

/* What is told `later` than everything was looked at. */
static void expect_later(struct fixture *fixture, mono_ns later, bool ready, const char *holds)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(4096);
    const char *text = NULL;
    bool is_ready = !ready;
    assert_fault(readiness_print(fixture->readiness, atomic_load(&draining), clock_mono() + later, &out, &is_ready),
                 NONE);
    assert_fault(json_canonical(buf_span(&out), &canonical), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_int_equal(is_ready, ready);
    if (strstr(text, holds) == NULL) {
        print_error("%s\nlacks %s\n", text, holds);
        fail();
    }
}

static void expect(struct fixture *fixture, bool ready, const char *holds)
{
    look(fixture->readiness);
    expect_later(fixture, 0, ready, holds);
}

static void a_part_that_only_degrades_is_named_and_the_rest_stays_ready(void **state)
{
    struct fixture *fixture = *state;
    expect(fixture, true, "\"tsa_clock\":\"ok\"");
    part_says = FAULT(TSA_TIME);
    expect(fixture, true, "\"tsa_clock\":\"tsa_time_not_available\"");
    expect(fixture, true, "\"degraded\":[\"tsa_clock\"]");
}

static void each_dependency_can_take_readiness_away(void **state)
{
    struct fixture *fixture = *state;
    store_says = FAULT(STORE_UNAVAILABLE);
    expect(fixture, false, "\"db\":\"unreachable\"");
    store_says = OK;
    log_says = FAULT(LOG_UNAVAILABLE);
    expect(fixture, false, "\"nats\":\"unreachable\"");
    log_says = OK;
    log_state.connected = false;
    expect(fixture, false, "\"nats\":\"unreachable\"");
    log_state.connected = true;
    config.nats_replicas = 3;
    expect(fixture, false, "\"nats\":\"replicas_missing\"");
    config.nats_replicas = 1;
    signer_says = FAULT(SIGNER_UNAVAILABLE);
    expect(fixture, false, "\"signer\":\"unreachable\"");
    signer_says = OK;
    signer = SIGNER_DOWN;
    expect(fixture, false, "\"signer\":\"down\"");
    signer = SIGNER_OK;
    feature_says = FAULT(TSA_TIME);
    expect(fixture, false, "\"tsa\":\"tsa_time_not_available\"");
    feature_says = OK;
    atomic_store(&draining, true);
    expect(fixture, false, "\"status\":\"stopping\"");
}

static void a_signer_whose_journal_or_first_token_is_gone_is_not_ready_and_says_why(void **state)
{
    struct fixture *fixture = *state;
    health.token_count = 2;
    health.tokens[0].name = (struct token_name){ "main" };
    health.tokens[1].name = (struct token_name){ "backup" };
    signer = SIGNER_DEGRADED;
    health.journal_usable = false;
    expect(fixture, false, "\"signer\":\"journal_unusable\"");
    expect(fixture, false, "\"signer\":{\"state\":\"degraded\",\"journal_usable\":false,");
    health.journal_usable = true;
    signer = SIGNER_DOWN;
    health.tokens[0].state = SIGNER_DOWN;
    (void)strcpy(health.tokens[0].cause, "the token was removed or its connection broke: connect the token again");
    expect(fixture, false, "\"signer\":\"down\"");
    expect(fixture, false,
           "\"tokens\":[{\"token\":\"main\",\"state\":\"down\",\"cause\":\"the token was removed or its "
           "connection broke: connect the token again\"},{\"token\":\"backup\",\"state\":\"ok\"}]");
    /* Another token than the first: its keys do not sign, everything else does. */
    health.tokens[0].state = SIGNER_OK;
    health.tokens[1].state = SIGNER_DOWN;
    expect(fixture, true, "\"degraded\":[\"signer\"]");
    expect(fixture, true, "{\"token\":\"backup\",\"state\":\"down\"");
}

static void an_untrusted_log_or_a_failed_projection_names_its_sequence(void **state)
{
    struct fixture *fixture = *state;
    projector.stopped_at_failure = true;
    projector.failed_seq = 8;
    expect(fixture, false, "\"failed_seq\":8");
    expect(fixture, false, "\"projection\":\"failed\"");
    projector.stopped_at_failure = false;
    projector.log_trusted = false;
    projector.first_bad_seq = 5;
    (void)strcpy(projector.cause, "altered");
    expect(fixture, false, "\"projection\":\"altered\"");
    expect(fixture, false, "\"first_bad_seq\":5");
}

static void all_well_is_the_documented_body(void **state)
{
    struct fixture *fixture = *state;
    expect(
        fixture, true,
        "{\"status\":\"ready\",\"checks\":{\"db\":\"ok\",\"nats\":\"ok\",\"projection\":\"ok\",\"signer\":\"ok\","
        "\"tsa\":\"ok\",\"tsa_clock\":\"ok\"},\"projection\":{\"checkpoint\":7,\"log_last\":9,\"lag\":2},\"event_log\":{"
        "\"replicas_desired\":1,\"replicas_actual\":1}}");
}

static void a_busy_datastore_is_shed_and_named(void **state)
{
    struct fixture *fixture = *state;
    store_says = FAULT(STORE_BUSY);
    expect(fixture, true, "\"degraded\":[\"db\"]");
    signer = SIGNER_DEGRADED;
    expect(fixture, true, "\"degraded\":[\"db\",\"signer\"]");
}

static void shedding_ends_after_its_grace(void **state)
{
    (void)state;
    mono_ns since = 0;
    bool shed = false;
    assert_string_equal(readiness_db_word(FAULT(STORE_BUSY), 1000, &since, &shed), "ok");
    assert_true(shed);
    assert_string_equal(readiness_db_word(FAULT(DEADLINE), 1000 + READINESS_SHED_GRACE_NS, &since, &shed), "ok");
    assert_string_equal(readiness_db_word(FAULT(DEADLINE), 1001 + READINESS_SHED_GRACE_NS, &since, &shed), "busy");
    assert_true(shed);
    assert_string_equal(readiness_db_word(OK, 2000 + READINESS_SHED_GRACE_NS, &since, &shed), "ok");
    assert_false(shed);
    assert_string_equal(readiness_db_word(FAULT(STORE_BUSY), 3000 + READINESS_SHED_GRACE_NS, &since, &shed), "ok");
    assert_string_equal(readiness_db_word(FAULT(STORE_UNAVAILABLE), 1, &since, &shed), "unreachable");
    assert_int_equal(since, 0);
}

static void a_needed_row_that_is_not_read_in_time_is_shed_and_a_part_says_so(void **state)
{
    struct fixture *fixture = *state;
    feature_says = FAULT(STORE_BUSY);
    expect(fixture, true, "\"tsa\":\"ok\"");
    expect(fixture, true, "\"degraded\":[\"tsa\"]");
    feature_says = OK;
    part_says = FAULT(STORE_BUSY);
    expect(fixture, true, "\"tsa_clock\":\"store_busy\"");
}

static void what_was_not_looked_at_yet_is_not_ready(void **state)
{
    struct fixture *fixture = *state;
    expect_later(fixture, 0, false, "\"db\":\"starting\"");
}

static void what_was_found_long_ago_counts_no_more(void **state)
{
    struct fixture *fixture = *state;
    expect(fixture, true, "\"status\":\"ready\"");
    expect_later(fixture, READINESS_STALE_NS + NS_PER_S, false, "\"signer\":\"stuck\"");
    expect_later(fixture, READINESS_STALE_NS + NS_PER_S, false, "\"degraded\":[\"tsa_clock\"]");
}

static void expect_health(struct fixture *fixture, mono_ns later, bool expected, const char *text)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    bool well = !expected;
    assert_fault(readiness_print_health(fixture->readiness, clock_mono() + later, &out, &well), NONE);
    assert_int_equal(well, expected);
    assert_true(span_equal_text(buf_span(&out), text));
}

static void health_is_down_only_when_the_signer_does_not_answer(void **state)
{
    struct fixture *fixture = *state;
    expect_health(fixture, 0, false, "{\"status\":\"unhealthy\",\"signer\":\"unknown\"}"); /* nobody has looked */
    signer = SIGNER_DOWN; /* the token, not the process */
    store_says = FAULT(STORE_UNAVAILABLE);
    look(fixture->readiness);
    expect_health(fixture, 0, true, "{\"status\":\"ok\",\"signer\":\"down\"}");
    expect_health(fixture, READINESS_STALE_NS + NS_PER_S, false, "{\"status\":\"unhealthy\",\"signer\":\"unknown\"}");
    signer_says = FAULT(SIGNER_UNAVAILABLE);
    look(fixture->readiness);
    expect_health(fixture, 0, false, "{\"status\":\"unhealthy\",\"signer\":\"unreachable\"}");
}

static void *ask(void *arg)
{
    CLEANUP(op_freep) struct op *op = test_op();
    struct span json;
    bool well = false;
    for (int i = 0; i < 200; i++) {
        assert_fault(probes_health(op, arg, &json, &well), NONE);
        assert_true(well);
        assert_fault(probes_readiness(op, arg, &json, &well), NONE);
        assert_true(well);
        arena_clear(op->arena);
    }
    return NULL;
}

static void a_flood_of_probes_costs_no_check(void **state)
{
    struct fixture *fixture = *state;
    pthread_t threads[4];
    assert_fault(probes_watch(fixture->probes), NONE);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, ask, fixture->probes), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_in_range(atomic_load(&signer_calls), 1, 100); /* 1600 questions; the looks' own period, on a slow machine */
}

static void a_check_that_hangs_holds_up_neither_the_others_nor_a_probe(void **state)
{
    struct fixture *fixture = *state;
    struct span json;
    bool well = false;
    assert_fault(probes_watch(fixture->probes), NONE);
    atomic_store(&store_asked, false);
    atomic_store(&store_hangs, true);
    while (!atomic_load(&store_asked)) {
        (void)sched_yield();
    }
    int before = atomic_load(&signer_calls);
    while (atomic_load(&signer_calls) < before + 2) { /* the others go on, again and again */
        (void)sched_yield();
        assert_fault(probes_readiness(fixture->op, fixture->probes, &json, &well), NONE);
        arena_clear(fixture->op->arena);
    }
    assert_true(well); /* what was found last counts for a while */
    atomic_store(&store_hangs, false);
}

static void metrics_show_the_plumbing(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(1 << 20);
    const char *text = NULL;
    assert_fault(probes_watch(fixture->probes), NONE);
    assert_fault(probes_metrics(fixture->probes, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    static const char *const lines[] = { "svc_signer_up 1\n",
                                         "svc_projection_lag_events 2\n",
                                         "svc_event_log_replicas_desired 1\n",
                                         "svc_event_log_replicas_actual 1\n",
                                         "svc_readiness_probe_shed{check=\"db\"} 0\n",
                                         "svc_readiness_probe_shed{check=\"tsa\"} 0\n",
                                         "svc_bulkhead_limit{bulkhead=\"heavy\"} 4\n",
                                         "svc_bulkhead_queue_limit{bulkhead=\"projection\"} 100\n",
                                         "svc_bulkhead_in_use{bulkhead=\"projection\"} 1\n",
                                         "svc_bulkhead_waiting{bulkhead=\"projection\"} 2\n",
                                         "svc_bulkhead_limit{bulkhead=\"signing\"} 7\n",
                                         "svc_bulkhead_rejections_total{bulkhead=\"policy\"} 0\n",
                                         "svc_store_pool_connections{pool=\"lock\",state=\"max\"} 14\n",
                                         "svc_store_pool_connections{pool=\"request\",state=\"idle\"} 3\n" };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        assert_non_null(strstr(text, lines[i]));
    }
}

static void the_state_file_is_read_whatever_else_it_says(void **state)
{
    (void)state;
    assert_int_equal(state_signer_restarts(span_text("")), 0);
    assert_int_equal(state_signer_restarts(span_text("not json")), 0);
    assert_int_equal(state_signer_restarts(span_text("{}")), 0);
    assert_int_equal(state_signer_restarts(span_text("{\"a\":\"\\\"signer_restarts\\\":9\"}")), 0);
    assert_int_equal(state_signer_restarts(span_text("{\"signer_restarts\":\"9\"}")), 0);
    assert_int_equal(state_signer_restarts(span_text("{ \"x\": [1], \"signer_restarts\" : 12, \"y\": {} }\n")), 12);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(a_part_that_only_degrades_is_named_and_the_rest_stays_ready),
        WITH(each_dependency_can_take_readiness_away),
        WITH(a_signer_whose_journal_or_first_token_is_gone_is_not_ready_and_says_why),
        WITH(an_untrusted_log_or_a_failed_projection_names_its_sequence),
        WITH(all_well_is_the_documented_body),
        WITH(a_busy_datastore_is_shed_and_named),
        WITH(shedding_ends_after_its_grace),
        WITH(health_is_down_only_when_the_signer_does_not_answer),
        WITH(a_needed_row_that_is_not_read_in_time_is_shed_and_a_part_says_so),
        WITH(what_was_not_looked_at_yet_is_not_ready),
        WITH(what_was_found_long_ago_counts_no_more),
        WITH(a_flood_of_probes_costs_no_check),
        WITH(a_check_that_hangs_holds_up_neither_the_others_nor_a_probe),
        WITH(metrics_show_the_plumbing),
        WITH(the_state_file_is_read_whatever_else_it_says),
    };
    return cmocka_run_group_tests_name("readiness", tests, NULL, NULL);
}
