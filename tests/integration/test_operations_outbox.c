/* Dead letters, requeueing and reconciliation against a real database and log, with a small feature of the test's own:
 * "test.opened" {"n"} owes an effect, "test.done" and "test.failed" end it. What failed of test.again may be taken up
 * again; of test.once (n from 500 on) it may not. */
#include "projection_testlib.h"

#include "api/operations/internal.h"

#include <math.h>

/* ---- the feature ---- */

static const char *destination_of(int64_t n)
{
    return n >= 500 ? "test.once" : "test.again";
}

static struct fault read_n(struct projection *projection, const struct event_view *event, int64_t *ret_n, char key[32])
{
    struct said said = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, said_fields, COUNT_OF(said_fields), &said));
    (void)snprintf(key, 32, "k%lld", (long long)said.n);
    *ret_n = said.n;
    return OK;
}

static struct fault project_opened(struct projection *projection, const struct event_view *event)
{
    static const struct sql sql = { "test_opened",
                                    "INSERT INTO svc.test_effects (tenant_id, key, state, made_seq, round)"
                                    " VALUES ($1, $2, 'open', $3, 0)",
                                    3 };
    char key[32];
    int64_t n = 0;
    TRY(read_n(projection, event, &n, key));
    /* A projection that does not bear being run twice: the row stands there already. */
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(key), SQL_INT((int64_t)event->stream_seq) };
    TRY(projection_outbox(projection, destination_of(n), key, event->data, 0));
    return tx_queue(projection_tx(projection), &sql, args, COUNT_OF(args));
}

static struct fault end_effect(struct projection *projection, const struct event_view *event, const char *state,
                               const char *settled)
{
    static const struct sql sql = { "test_ended",
                                    "UPDATE svc.test_effects SET state = $3 WHERE tenant_id = $1 AND key = $2"
                                    " AND state = 'open'",
                                    3 };
    char key[32];
    int64_t n = 0;
    TRY(read_n(projection, event, &n, key));
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(key), SQL_TEXT(state) };
    TRY(tx_queue(projection_tx(projection), &sql, args, COUNT_OF(args)));
    return projection_outbox_settle(projection, destination_of(n), key, settled);
}

static struct fault project_done(struct projection *projection, const struct event_view *event)
{
    return end_effect(projection, event, "done", "delivered");
}

static struct fault project_failed(struct projection *projection, const struct event_view *event)
{
    return end_effect(projection, event, "failed", "dead-lettered");
}

static struct fault reopen(struct projection *projection, const char *key)
{
    static const struct sql sql = { "test_reopen",
                                    "UPDATE svc.test_effects SET state = 'open', round = round + 1"
                                    " WHERE tenant_id = $1 AND key = $2 AND state = 'failed'",
                                    2 };
    const struct sql_arg args[] = { SQL_TEXT(projection_op(projection)->tenant.text), SQL_TEXT(key) };
    return tx_queue(projection_tx(projection), &sql, args, COUNT_OF(args));
}

#define OF_KEY " FROM svc.test_effects WHERE tenant_id = $1 AND key = $2 AND state = "
#define MISSING(name, destination)                                                                            \
    { name,                                                                                                   \
      "SELECT e.key, e.made_seq, 0::bigint FROM svc.test_effects e WHERE e.tenant_id = $1 AND $2::bigint = 0" \
      " AND e.state = 'open' AND (substr(e.key, 2)::bigint >= 500) = ('" destination "' = 'test.once')"       \
      " AND NOT EXISTS (SELECT FROM svc.outbox o WHERE o.tenant_id = $1 AND o.destination = '" destination    \
      "' AND o.key = e.key)",                                                                                 \
      2 }
static const struct sql SQL_OWED = { "test_owed", "SELECT 1::bigint" OF_KEY "'open'", 2 };
static const struct sql SQL_REOPENABLE = { "test_reopenable", "SELECT 1::bigint" OF_KEY "'failed'", 2 };
static const struct sql SQL_AGAIN_MISSING = MISSING("test_again_missing", "test.again");
static const struct sql SQL_ONCE_MISSING = MISSING("test_once_missing", "test.once");
static const struct outbox_upkeep again = {
    .owed = &SQL_OWED, .missing = &SQL_AGAIN_MISSING, .reopenable = &SQL_REOPENABLE, .reopen = reopen, .closed = "done"
};
static const struct outbox_upkeep once = { .owed = &SQL_OWED, .missing = &SQL_ONCE_MISSING, .closed = "told already" };

static const struct outbox_row effects[] = {
    { .destination = "test.again", .deadline_ms = 1000, .attempts = 1, .upkeep = &again },
    { .destination = "test.once", .deadline_ms = 1000, .attempts = 1, .upkeep = &once },
};
static const struct event_row rows_of_test[] = {
    { "test.opened", 1, project_opened, "" },
    { "test.done", 1, project_done, "" },
    { "test.failed", 1, project_failed, "" },
};
static const struct feature test_feature = { .name = "test",
                                             .events = rows_of_test,
                                             .event_count = COUNT_OF(rows_of_test),
                                             .outbox = effects,
                                             .outbox_count = COUNT_OF(effects) };
static const struct feature *const all_features[] = { &test_feature, &operations_feature };
const struct feature *const *features_all(size_t *ret_count)
{
    *ret_count = COUNT_OF(all_features);
    return all_features;
}

/* ---- the fixture ---- */

static struct services services;
static const struct event_row *tables[COUNT_OF(all_features)];
static size_t counts[COUNT_OF(all_features)];

static struct projector_config config_of(struct instance *instance)
{
    struct projector_config config = projector_config_of(instance);
    for (size_t i = 0; i < COUNT_OF(all_features); i++) {
        tables[i] = all_features[i]->events;
        counts[i] = all_features[i]->event_count;
    }
    config.tables = tables;
    config.counts = counts;
    config.table_count = COUNT_OF(all_features);
    return config;
}

static int set_up_effects(void **state)
{
    if (set_up(state) != 0) {
        return -1;
    }
    struct fixture *fixture = *state;
    admin_script(&fixture->config,
                 "CREATE TABLE svc.test_effects (tenant_id text NOT NULL, key text NOT NULL, state text NOT NULL,"
                 " made_seq bigint NOT NULL, round bigint NOT NULL, PRIMARY KEY (tenant_id, key));"
                 "ALTER TABLE svc.test_effects OWNER TO svc_owner;"
                 "SELECT svc.tenant_table('test_effects', 'projection');"
                 "SELECT svc.grant_tables('svc_app', 'svc_worker');");
    struct projector_config config = config_of(&fixture->a);
    assert_fault(projector_start(&config, &fixture->a.projector), NONE);
    services = (struct services){
        .store = fixture->a.store, .log = fixture->a.log, .projector = fixture->a.projector, .config = &fixture->config
    };
    assert_fault(metrics_new(&services.metrics), NONE);
    assert_fault(metrics_register(services.metrics, operations_metrics, OPERATIONS_METRICS), NONE);
    outbox_reconcile_forget();
    outbox_waiting_forget(&services);
    return 0;
}

static int tear_down_effects(void **state)
{
    struct fixture *fixture = *state;
    projector_stop(TAKE(fixture->a.projector));
    metrics_free(TAKE(services.metrics));
    return tear_down(state);
}

#define WITH_EFFECTS(test) cmocka_unit_test_setup_teardown(test, set_up_effects, tear_down_effects)

static uint64_t happen(const char *tenant, const char *type, int n)
{
    CLEANUP(op_freep) struct op *op = op_of(tenant, 20000);
    char data[64];
    uint64_t seq = 0;
    (void)snprintf(data, sizeof(data), "{\"n\":%d}", n);
    const struct event event = { type, 1, span_text(data) };
    const struct event_append append = { .lane = "test", .events = &event, .count = 1 };
    assert_fault(events_append(op, services.log, &append, &seq), NONE);
    assert_fault(projector_wait(op, services.projector, seq), NONE);
    return seq;
}

static int64_t count_of(struct fixture *fixture, const char *condition)
{
    char query[512];
    (void)snprintf(query, sizeof(query), "SELECT count(*) FROM svc.outbox WHERE %s", condition);
    return admin_int(&fixture->config, query);
}

static int64_t row_of(struct fixture *fixture, const char *key)
{
    char query[512];
    (void)snprintf(query, sizeof(query), "SELECT id FROM svc.outbox WHERE key = '%s'", key);
    return admin_int(&fixture->config, query);
}

static int64_t events_of(struct fixture *fixture, const char *type)
{
    char query[512];
    (void)snprintf(query, sizeof(query), "SELECT count(*) FROM svc.audit_records WHERE type = '%s'", type);
    return admin_int(&fixture->config, query);
}

/* `key` is the caller's Idempotency-Key. */
static struct op *operator_of(const char *tenant, const char *key)
{
    struct op *op = op_of(tenant, 30000);
    const struct span parts[] = { span_text(tenant), span_text(key) };
    assert_fault(uuid_derive("test.command", parts, COUNT_OF(parts), &op->command_id), NONE);
    return op;
}

static struct fault requeue_by(const char *tenant, const char *key, int64_t id)
{
    CLEANUP(op_freep) struct op *op = operator_of(tenant, key);
    return requeue_one(op, &services, id, "the log is back");
}

/* What a rebuild has to give again. */
static char *picture(struct fixture *fixture)
{
    return admin_text(&fixture->config,
                      "SELECT coalesce(string_agg(t, E'\\n' ORDER BY t), '') FROM ("
                      " SELECT o::text AS t FROM svc.outbox o UNION ALL SELECT e::text FROM svc.test_effects e) x");
}

static void rebuilds_to_the_same(struct fixture *fixture)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    uint64_t messages = 0;
    char *before = picture(fixture);
    projector_stop(TAKE(fixture->a.projector));
    assert_fault(store_empty_projections(&fixture->config, &why), NONE);
    struct projector_config config = config_of(&fixture->a);
    assert_fault(projection_rebuild(op, &config, &messages), NONE);
    char *after = picture(fixture);
    assert_string_equal(before, after);
    mem_free(before);
    mem_free(after);
    assert_fault(projector_start(&config, &fixture->a.projector), NONE);
    services.projector = fixture->a.projector;
}

static void reconcile(void)
{
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    for (int i = 0; i < 5; i++) { /* each run has its time; five end any pass of these */
        assert_fault(outbox_reconcile_run(op, &services), NONE);
    }
}

static double metric_value(const char *line)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT((size_t)1 << 20);
    assert_fault(metrics_print(services.metrics, &text), NONE);
    assert_fault(buf_put(&text, span_of("", 1)), NONE);
    const char *at = strstr((const char *)text.at, line);
    assert_non_null(at);
    return strtod(at + strlen(line), NULL);
}

/* ---- requeueing ---- */

static void what_is_not_dead_or_not_there_is_not_requeued(void **state)
{
    struct fixture *fixture = *state;
    happen("acme", "test.opened", 1);
    assert_fault(requeue_by("acme", "a", row_of(fixture, "k1")), OUTBOX_NOT_DEAD);
    assert_fault(requeue_by("acme", "b", 4711), NOT_FOUND);
    happen("acme", "test.failed", 1);
    assert_fault(requeue_by("umbrella", "c", row_of(fixture, "k1")), NOT_FOUND); /* another tenant's */
    assert_int_equal(events_of(fixture, EVENT_OUTBOX_REQUEUED), 0);
}

static void an_end_that_is_final_is_not_taken_back(void **state)
{
    struct fixture *fixture = *state;
    happen("acme", "test.opened", 500);
    happen("acme", "test.failed", 500);
    assert_fault(requeue_by("acme", "a", row_of(fixture, "k500")), OUTBOX_FINAL);
    /* Given up by the dispatcher without an end on record: it is still owed. */
    happen("acme", "test.opened", 501);
    admin_script(&fixture->config, "UPDATE svc.outbox SET state = 'dead-lettered', attempts = 0 WHERE key = 'k501'");
    assert_fault(requeue_by("acme", "b", row_of(fixture, "k501")), NONE);
    assert_int_equal(count_of(fixture, "key = 'k501' AND state = 'pending'"), 1);
    rebuilds_to_the_same(fixture);
}

static void a_requeue_counts_once(void **state)
{
    struct fixture *fixture = *state;
    happen("acme", "test.opened", 1);
    happen("acme", "test.failed", 1);
    int64_t id = row_of(fixture, "k1");
    assert_fault(requeue_by("acme", "a", id), NONE);
    assert_int_equal(count_of(fixture, "state = 'pending' AND attempts = 0 AND due_us = 0"), 1);
    assert_int_equal(admin_int(&fixture->config, "SELECT round FROM svc.test_effects WHERE state = 'open'"), 1);
    assert_fault(requeue_by("acme", "a", id), NONE); /* the same command, repeated after a crash */
    assert_fault(requeue_by("acme", "b", id), OUTBOX_NOT_DEAD);
    assert_int_equal(events_of(fixture, EVENT_OUTBOX_REQUEUED), 1);
    happen("acme", "test.failed", 1);
    assert_fault(requeue_by("acme", "c", id), NONE);
    happen("acme", "test.done", 1);
    rebuilds_to_the_same(fixture);
}

static void *requeue_at_once(void *arg)
{
    const char *key = arg;
    CLEANUP(op_freep) struct op *op = operator_of("acme", key);
    struct fault fault = requeue_one(op, &services, strtoll(key, NULL, 10), "both at once");
    return (void *)(uintptr_t)fault.code;
}

static void two_operators_at_once_requeue_a_row_once(void **state)
{
    struct fixture *fixture = *state;
    char keys[2][64];
    happen("acme", "test.opened", 1);
    happen("acme", "test.failed", 1);
    (void)snprintf(keys[0], sizeof(keys[0]), "%lld", (long long)row_of(fixture, "k1"));
    (void)snprintf(keys[1], sizeof(keys[1]), "%lld-b", (long long)row_of(fixture, "k1"));
    pthread_t threads[2];
    void *codes[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, requeue_at_once, keys[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &codes[i]), 0);
    }
    uintptr_t sum = (uintptr_t)codes[0] + (uintptr_t)codes[1];
    assert_int_equal(sum, FAULT_OUTBOX_NOT_DEAD);
    assert_int_equal(events_of(fixture, EVENT_OUTBOX_REQUEUED), 1);
}

static void many_go_in_one_message_and_those_that_may_not_hold_up_none(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = operator_of("acme", "bulk");
    CLEANUP(op_freep) struct op *next = operator_of("acme", "bulk-2");
    struct requeued told = { 0 };
    assert_fault(requeue_many(op, &services, "test.other", 100, "r", &told), NOT_FOUND);
    assert_fault(requeue_many(op, &services, "test.again", 100, "r", &told), OUTBOX_NOT_DEAD);
    for (int n = 1; n <= 7; n++) {
        happen("acme", "test.opened", n);
        happen("acme", "test.failed", n);
    }
    admin_script(&fixture->config, "UPDATE svc.test_effects SET state = 'done' WHERE key = 'k2'");
    op->note = (struct fault_note){ 0 };
    assert_fault(requeue_many(op, &services, "test.again", 3, "r", &told), NONE);
    assert_int_equal(told.requeued, 3); /* 1, 3, 4 */
    assert_int_equal(told.refused, 1);
    assert_string_equal(told.refused_why, "done");
    assert_true(told.more);
    assert_int_equal(count_of(fixture, "state = 'pending' AND key IN ('k1', 'k3', 'k4')"), 3);
    assert_fault(requeue_many(op, &services, "test.again", 3, "r", &told), NONE); /* the same command again */
    assert_int_equal(told.requeued, 3);
    assert_int_equal(events_of(fixture, EVENT_OUTBOX_REQUEUED), 3);
    assert_fault(requeue_many(next, &services, "test.again", 100, "r", &told), NONE);
    assert_int_equal(told.requeued, 3);
    assert_false(told.more);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(DISTINCT stream_seq) FROM svc.audit_records"
                                                 " WHERE type = 'outbox.requeued'"),
                     2);
}

static void lists_show_what_is_open_or_dead_newest_first(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    struct outbox_seen *list = NULL;
    size_t count = 0;
    for (int n = 1; n <= 4; n++) {
        happen("acme", "test.opened", n);
    }
    happen("umbrella", "test.opened", 5);
    happen("acme", "test.done", 1);
    happen("acme", "test.failed", 2);
    admin_script(&fixture->config, "INSERT INTO svc.outbox_failures SELECT tenant_id, id, 'tlog_unavailable', 9, 5, 6"
                                   " FROM svc.outbox WHERE key = 'k2'");
    assert_fault(outbox_list(op, &services, &(struct outbox_wanted){ .before = INT64_MAX, .limit = 9 }, &list, &count),
                 NONE);
    assert_int_equal(count, 3);
    assert_string_equal(list[0].key, "k4");
    assert_string_equal(list[2].key, "k2");
    assert_string_equal(list[2].code, "tlog_unavailable");
    assert_int_equal(list[2].attempts, 9);
    int64_t before = list[0].id;
    const struct outbox_wanted wanted = {
        .state = "pending", .destination = "test.again", .before = before, .limit = 9
    };
    assert_fault(outbox_list(op, &services, &wanted, &list, &count), NONE);
    assert_int_equal(count, 1);
    assert_string_equal(list[0].key, "k3");
    CLEANUP(op_freep) struct op *worker = op_of("", 20000);
    struct projector_state leads = { 0 };
    while (!leads.leader) {
        projector_state(services.projector, &leads);
    }
    assert_fault(outbox_gauges_run(worker, &services), NONE);
    assert_true(metric_value("\nsvc_outbox_rows{state=\"pending\"} ") == 3);
    assert_true(metric_value("\nsvc_outbox_rows{state=\"dead-lettered\"} ") == 1);
    assert_true(metric_value("\nsvc_outbox_oldest_pending_age_seconds ") > 0);
    assert_true(metric_value("\nsvc_outbox_requeueable_rows{destination=\"test.again\"} ") == 1);
}

static const char waiting_again[] = "\nsvc_outbox_requeueable_rows{destination=\"test.again\"} ";
static const char waiting_once[] = "\nsvc_outbox_requeueable_rows{destination=\"test.once\"} ";

static double waiting_of(const char *line)
{
    CLEANUP(op_freep) struct op *op = op_of("", 20000);
    for (int i = 0; i < 3; i++) { /* rounds: what one began the next one ends */
        assert_fault(outbox_waiting_count(op, &services), NONE);
    }
    return metric_value(line);
}

static void only_what_may_go_again_waits_for_somebody(void **state)
{
    struct fixture *fixture = *state;
    happen("acme", "test.opened", 0);
    assert_true(waiting_of(waiting_again) == 0);
    for (int n = 1; n <= 3; n++) {
        happen(n == 3 ? "umbrella" : "acme", "test.opened", n);
        happen(n == 3 ? "umbrella" : "acme", "test.failed", n);
    }
    for (int n = 500; n <= 502; n++) {
        happen("acme", "test.opened", n);
    }
    happen("acme", "test.failed", 500);
    happen("acme", "test.failed", 501);
    /* Given up without an end of its own: still owed. */
    admin_script(&fixture->config, "UPDATE svc.outbox SET state = 'dead-lettered' WHERE key = 'k502'");
    assert_true(waiting_of(waiting_again) == 3);
    assert_true(waiting_of(waiting_once) == 1); /* 500 and 501 ended for good */
    assert_int_equal(count_of(fixture, "state = 'dead-lettered'"), 6);
    assert_fault(requeue_by("acme", "one", row_of(fixture, "k1")), NONE);
    assert_fault(requeue_by("acme", "two", row_of(fixture, "k2")), NONE);
    assert_fault(requeue_by("umbrella", "three", row_of(fixture, "k3")), NONE);
    assert_fault(requeue_by("acme", "four", row_of(fixture, "k502")), NONE);
    assert_true(waiting_of(waiting_again) == 0); /* and nobody is called any more, */
    assert_true(waiting_of(waiting_once) == 0);
    assert_int_equal(count_of(fixture, "state = 'dead-lettered'"), 2); /* though these stay for ever */
}

/* More than a page, of tenants that take turns. */
static void what_waits_is_counted_over_all_pages(void **state)
{
    struct fixture *fixture = *state;
    happen("acme", "test.opened", 1);
    happen("acme", "test.failed", 1);
    admin_script(&fixture->config,
                 "INSERT INTO svc.test_effects SELECT 't' || i % 7, 'k' || i, CASE i % 2 WHEN 0 THEN 'failed' ELSE"
                 " 'done' END, 1, 0 FROM generate_series(2, 1301) i;"
                 "INSERT INTO svc.outbox SELECT (jsonb_populate_record(o, jsonb_build_object('tenant_id',"
                 " 't' || i % 7, 'key', 'k' || i, 'id', 100000 + i))).* FROM svc.outbox o,"
                 " generate_series(2, 1301) i WHERE o.key = 'k1'");
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    assert_fault(outbox_waiting_count(op, &services), NONE);
    while (metric_value(waiting_again) < 651) { /* a slow machine takes several pieces */
        assert_fault(outbox_waiting_count(op, &services), NONE);
    }
    for (int i = 0; i < 9; i++) {
        assert_fault(outbox_waiting_count(op, &services), NONE);
        assert_true(metric_value(waiting_again) == 651);
    }
}

/* One that leads no longer has seen things that another one has to tell now. */
static void an_instance_that_does_not_lead_shows_nothing(void **state)
{
    static const char *const shown[] = { "\nsvc_outbox_rows{state=\"pending\"} ",
                                         "\nsvc_outbox_rows{state=\"processing\"} ",
                                         "\nsvc_outbox_rows{state=\"dead-lettered\"} ",
                                         "\nsvc_outbox_oldest_pending_age_seconds ",
                                         "\nsvc_outbox_requeueable_rows{destination=\"test.again\"} ",
                                         "\nsvc_outbox_reconciliation_lag_events " };
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    happen("acme", "test.opened", 1);
    happen("acme", "test.opened", 2);
    happen("acme", "test.failed", 2);
    admin_script(&fixture->config, "UPDATE svc.test_effects SET made_seq = 2 WHERE key = 'k1';"
                                   "DELETE FROM svc.outbox WHERE key = 'k1'");
    reconcile();
    assert_fault(outbox_reconcile_well(op, &services), OUTBOX_SOURCE);
    op->note = (struct fault_note){ 0 };
    assert_true(waiting_of(shown[4]) == 1);
    assert_true(metric_value(shown[5]) == 1);
    instance_open(&fixture->b, &fixture->config);
    struct projector_config config = config_of(&fixture->b);
    assert_fault(projector_start(&config, &fixture->b.projector), NONE);
    services.projector = fixture->b.projector; /* as if it had lost the lead */
    reconcile();
    assert_fault(outbox_gauges_run(op, &services), NONE);
    for (size_t i = 0; i < COUNT_OF(shown); i++) {
        assert_true(isnan(metric_value(shown[i])));
    }
    assert_fault(outbox_reconcile_well(op, &services), NONE);
    services.projector = fixture->a.projector; /* and leads again: it begins anew */
    reconcile();
    assert_true(metric_value(shown[5]) == 1);
    assert_fault(outbox_gauges_run(op, &services), NONE);
    assert_true(metric_value(shown[2]) == 1);
    assert_true(metric_value(shown[4]) == 1);
}

/* ---- reconciliation ---- */

static void what_was_lost_and_is_owed_comes_back_and_nothing_else(void **state)
{
    struct fixture *fixture = *state;
    for (int n = 1; n <= 6; n++) {
        happen("acme", "test.opened", n);
    }
    happen("umbrella", "test.opened", 500);
    happen("acme", "test.done", 1);
    happen("acme", "test.failed", 2);
    char *before = picture(fixture);
    reconcile();
    assert_int_equal(events_of(fixture, EVENT_OUTBOX_RECREATED), 0);
    char *rest =
        admin_text(&fixture->config, "WITH gone AS (DELETE FROM svc.outbox WHERE key IN ('k1', 'k2', 'k3', 'k4',"
                                     " 'k500') RETURNING key) SELECT count(*)::text FROM gone");
    assert_string_equal(rest, "5");
    mem_free(rest);
    outbox_reconcile_forget();
    reconcile();
    assert_int_equal(events_of(fixture, EVENT_OUTBOX_RECREATED), 3); /* 3, 4 and 500: 1 and 2 had ended */
    assert_int_equal(count_of(fixture, "true"), 5);
    assert_int_equal(count_of(fixture, "key IN ('k3', 'k4', 'k500') AND state = 'pending' AND payload <> ''"), 3);
    assert_true(metric_value("\nsvc_outbox_reconciliation_lag_events ") == 0);
    assert_true(metric_value("\nsvc_outbox_recreated_total{destination=\"test.again\"} ") == 2);
    CLEANUP(op_freep) struct op *op = op_of("", 1000);
    assert_fault(outbox_reconcile_well(op, &services), NONE);
    outbox_reconcile_forget();
    reconcile();
    assert_int_equal(events_of(fixture, EVENT_OUTBOX_RECREATED), 3);
    /* Byte for byte what it was: a rebuild gives the rows of 1 and 2 back as well. */
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    uint64_t messages = 0;
    projector_stop(TAKE(fixture->a.projector));
    CLEANUP(op_freep) struct op *rebuild = op_of("", 60000);
    char *mended = picture(fixture);
    assert_fault(store_empty_projections(&fixture->config, &why), NONE);
    struct projector_config config = config_of(&fixture->a);
    assert_fault(projection_rebuild(rebuild, &config, &messages), NONE);
    char *after = picture(fixture);
    assert_string_equal(before, after);
    char *line = NULL, *save = NULL;
    for (line = strtok_r(mended, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        assert_non_null(strstr(after, line));
    }
    mem_free(before);
    mem_free(mended);
    mem_free(after);
}

static void what_the_history_does_not_bear_out_stays_lost_and_is_told(void **state)
{
    static const char *const tampered[] = {
        ("UPDATE svc.event_envelopes SET body = replace(convert_from(body, 'UTF8'), '\"n\":1}', '\"n\":2}')::bytea"
         " WHERE stream_seq = 1"),
        "UPDATE svc.audit_records SET chain = sha256(chain) WHERE stream_seq = 1",
        "UPDATE svc.test_effects SET made_seq = 2 WHERE key = 'k1'", /* that message queues another one */
    };
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 1000);
    happen("acme", "test.opened", 1);
    happen("acme", "test.opened", 2);
    happen("acme", "test.opened", 3);
    admin_script(&fixture->config, "CREATE TABLE svc.kept_e AS TABLE svc.event_envelopes;"
                                   "CREATE TABLE svc.kept_r AS TABLE svc.audit_records;");
    for (size_t i = 0; i < COUNT_OF(tampered); i++) {
        admin_script(&fixture->config, "DELETE FROM svc.outbox WHERE key IN ('k1', 'k3')");
        admin_script(&fixture->config, tampered[i]);
        outbox_reconcile_forget();
        reconcile();
        assert_int_equal(count_of(fixture, "key = 'k1'"), 0);
        assert_int_equal(count_of(fixture, "key = 'k3'"), 1); /* the good one came back all the same */
        assert_fault(outbox_reconcile_well(op, &services), OUTBOX_SOURCE);
        op->note = (struct fault_note){ 0 };
        assert_true(metric_value("\nsvc_outbox_reconciliation_lag_events ") == 1);
        admin_script(&fixture->config,
                     "UPDATE svc.event_envelopes e SET body = k.body, sha256 = k.sha256 FROM svc.kept_e k"
                     " WHERE k.stream_seq = e.stream_seq;"
                     "UPDATE svc.audit_records r SET chain = k.chain FROM svc.kept_r k"
                     " WHERE k.tenant_id = r.tenant_id AND k.sequence = r.sequence;"
                     "UPDATE svc.test_effects SET made_seq = 1 WHERE key = 'k1'");
    }
    outbox_reconcile_forget(); /* as it was: now it comes back */
    reconcile();
    assert_int_equal(count_of(fixture, "key = 'k1'"), 1);
    assert_fault(outbox_reconcile_well(op, &services), NONE);
}

/* Copy, digest, audit record and chain all agree: only the log itself still tells. */
static void a_forged_copy_that_agrees_with_itself_is_no_source(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    struct projection_effect effect = { 0 };
    uint64_t source = happen("acme", "test.opened", 1);
#define FORGED(column)                               \
    "convert_to(regexp_replace(convert_from(" column \
    ", 'UTF8'), '\"trace_id\":\"[0-9a-f]*\"', '\"trace_id\":\"11111111111111111111111111111111\"'), 'UTF8')"
    admin_script(&fixture->config,
                 "UPDATE svc.event_envelopes SET body = " FORGED("body") ", sha256 = sha256(" FORGED(
                     "body") ");"
                             "UPDATE svc.audit_records SET record = " FORGED(
                                 "record") ", chain = sha256('svc.audit.chain.v1'::bytea"
                                           " || decode(repeat('00', 33), 'hex') || " FORGED("record") ")");
    assert_fault(projection_rederive(op, services.projector, source, "test.again", "k1", &effect), OUTBOX_SOURCE);
    assert_non_null(strstr(op->note.detail, "event log has another one"));
}

/* The whole of another tenant's history, written over with one's own name: its log says whose it is. */
static void a_relabelled_copy_gives_no_other_tenant_its_rows(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("umbrella", 20000);
    struct projection_effect effect = { 0 };
    uint64_t source = happen("acme", "test.opened", 1);
    admin_script(&fixture->config, "DELETE FROM svc.outbox; UPDATE svc.event_envelopes SET tenant_id = 'umbrella';"
                                   "UPDATE svc.audit_records SET tenant_id = 'umbrella';"
                                   "UPDATE svc.test_effects SET tenant_id = 'umbrella'");
    assert_fault(projection_rederive(op, services.projector, source, "test.again", "k1", &effect), OUTBOX_SOURCE);
    assert_non_null(strstr(op->note.detail, "another tenant"));
    outbox_reconcile_forget();
    reconcile();
    assert_int_equal(count_of(fixture, "true"), 0);
    assert_int_equal(events_of(fixture, EVENT_OUTBOX_RECREATED), 0);
}

static void what_ended_meanwhile_is_not_queued_again(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    struct projection_effect effect = { 0 };
    uint64_t source = happen("acme", "test.opened", 1), seq = 0;
    assert_fault(projection_rederive(op, services.projector, source, "test.again", "k1", &effect), NONE);
    assert_true(span_equal_text(effect.payload, "{\"n\":1}"));
    assert_int_equal(effect.id, row_of(fixture, "k1"));
    assert_fault(projection_rederive(op, services.projector, source, "test.once", "k1", &effect), NOT_FOUND);
    happen("acme", "test.done", 1);
    admin_script(&fixture->config, "DELETE FROM svc.outbox");
    const struct event event = { EVENT_OUTBOX_RECREATED, 1,
                                 span_text(
                                     "{\"created_us\":1,\"destination\":\"test.again\",\"due_us\":0,\"key\":\"k1\","
                                     "\"outbox_id\":256,\"payload\":\"e30=\",\"trace_id\":\"\"}") };
    const struct event_append append = { .lane = OPERATIONS_LANE, .events = &event, .count = 1 };
    assert_fault(events_append(op, services.log, &append, &seq), NONE);
    assert_fault(projector_wait(op, services.projector, seq), NONE);
    assert_int_equal(count_of(fixture, "true"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_EFFECTS(what_is_not_dead_or_not_there_is_not_requeued),
        WITH_EFFECTS(an_end_that_is_final_is_not_taken_back),
        WITH_EFFECTS(a_requeue_counts_once),
        WITH_EFFECTS(two_operators_at_once_requeue_a_row_once),
        WITH_EFFECTS(many_go_in_one_message_and_those_that_may_not_hold_up_none),
        WITH_EFFECTS(lists_show_what_is_open_or_dead_newest_first),
        WITH_EFFECTS(only_what_may_go_again_waits_for_somebody),
        WITH_EFFECTS(what_waits_is_counted_over_all_pages),
        WITH_EFFECTS(an_instance_that_does_not_lead_shows_nothing),
        WITH_EFFECTS(what_was_lost_and_is_owed_comes_back_and_nothing_else),
        WITH_EFFECTS(what_the_history_does_not_bear_out_stays_lost_and_is_told),
        WITH_EFFECTS(a_forged_copy_that_agrees_with_itself_is_no_source),
        WITH_EFFECTS(a_relabelled_copy_gives_no_other_tenant_its_rows),
        WITH_EFFECTS(what_ended_meanwhile_is_not_queued_again),
    };
    return cmocka_run_group_tests_name("operations/outbox", tests, NULL, NULL);
}
