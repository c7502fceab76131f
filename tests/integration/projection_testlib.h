/* A database of the test's own (inside with-postgres), a nats-server of its own, and a small feature: each event
 * "test.said" {"n":number} becomes a row of svc.test_said; numbers from 1000 on queue an outbox row "test.out", and
 * "test.settled" settles it. Number 13 fails for as long as `refuse_13` is set. */
#ifndef TESTS_INTEGRATION_PROJECTION_TESTLIB_H
#define TESTS_INTEGRATION_PROJECTION_TESTLIB_H

#include "nats_testlib.h"

#include "api/projection/internal.h"
#include "api/store/internal.h"
#include "appliance/base/json.h"
#include "appliance/base/log.h"

static atomic_bool refuse_13;

/* ---- the feature ---- */

struct said {
    int64_t n;
};
static const struct jin_field said_fields[] = { JIN_INT(struct said, n, JIN_REQUIRED, 0, 1000000000) };
static const struct sql SQL_SAID = {
    "test_said", "INSERT INTO svc.test_said (tenant_id, sequence, n, time_us) VALUES ($1, $2, $3, $4)", 4
};

static inline struct fault project_said(struct projection *projection, const struct event_view *event)
{
    struct said said = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, said_fields, COUNT_OF(said_fields), &said));
    if (said.n == 13 && atomic_load(&refuse_13)) {
        return op_fail(projection_op(projection), FAULT(INTERNAL), "13 is refused");
    }
    struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_INT(projection_sequence(projection)), SQL_INT(said.n),
                              SQL_INT(event->time) };
    TRY(tx_queue(projection_tx(projection), &SQL_SAID, args, COUNT_OF(args)));
    if (said.n >= 1000) {
        char key[32];
        (void)snprintf(key, sizeof(key), "k%lld", (long long)said.n);
        return projection_outbox(projection, "test.out", key, event->data, 0);
    }
    return OK;
}

static inline struct fault project_settled(struct projection *projection, const struct event_view *event)
{
    struct said said = { 0 };
    char key[32];
    TRY(jin_decode(projection_op(projection), event->data, said_fields, COUNT_OF(said_fields), &said));
    (void)snprintf(key, sizeof(key), "k%lld", (long long)said.n);
    return projection_outbox_settle(projection, "test.out", key, "delivered");
}

static const struct event_row test_rows[] = {
    { "test.said", 1, project_said, "" },
    { "test.settled", 1, project_settled, "" },
    { "test.noted", 1, NULL, "" },
};
static const struct event_row *const test_tables[] = { test_rows };
static const size_t test_counts[] = { COUNT_OF(test_rows) };

/* ---- the database ---- */

static inline struct connection *admin_connection(const struct config *config)
{
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    struct connection *connection = NULL;
    assert_fault(endpoint_new(config, "postgres", NULL, &endpoint), NONE);
    assert_fault(connection_open(op, endpoint, op->deadline, &connection), NONE);
    return connection;
}

static inline void admin_script(const struct config *config, const char *script)
{
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    CLEANUP(connection_closep) struct connection *connection = admin_connection(config);
    assert_fault(connection_script(op, connection, script, op->deadline), NONE);
}

/* The first column of the first row, as text of the caller's (free with mem_free) or as a number. */
static inline char *admin_text(const struct config *config, const char *query)
{
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    CLEANUP(connection_closep) struct connection *connection = admin_connection(config);
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql sql = { "test_query", query, 0 };
    char *copy = NULL;
    assert_fault(connection_run(op, connection, &sql, NULL, 0, op->deadline, &rows), NONE);
    assert_fault(mem_dup_text(rows_text(rows, 0, 0), (size_t)64 << 20, &copy), NONE);
    return copy;
}

static inline int64_t admin_int(const struct config *config, const char *query)
{
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    CLEANUP(connection_closep) struct connection *connection = admin_connection(config);
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql sql = { "test_query", query, 0 };
    assert_fault(connection_run(op, connection, &sql, NULL, 0, op->deadline, &rows), NONE);
    return rows_int(rows, 0, 0);
}

static inline void fresh_database(const struct config *config)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    admin_script(config, "DROP SCHEMA IF EXISTS svc CASCADE");
    struct fault fault = store_migrate(config, &why);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%.*s", (int)why.len, (const char *)why.at);
    }
    assert_fault(fault, NONE);
    admin_script(config, "CREATE TABLE svc.test_said (tenant_id text NOT NULL, sequence bigint NOT NULL,"
                         " n bigint NOT NULL, time_us bigint NOT NULL, PRIMARY KEY (tenant_id, sequence));"
                         "ALTER TABLE svc.test_said OWNER TO svc_owner;"
                         "SELECT svc.tenant_table('test_said', 'projection');"
                         "SELECT svc.grant_tables('svc_app', 'svc_worker');");
}

/* ---- one instance: store, log, projector ---- */

struct instance {
    struct store *store;
    struct event_log *log;
    struct projector *projector;
    atomic_uint outbox_calls;
};

static inline void count_outbox(void *arg)
{
    atomic_fetch_add(&((struct instance *)arg)->outbox_calls, 1);
}

static inline struct projector_config projector_config_of(struct instance *instance)
{
    return (struct projector_config){ .store = instance->store,
                                      .log = instance->log,
                                      .tables = test_tables,
                                      .counts = test_counts,
                                      .table_count = COUNT_OF(test_tables),
                                      .on_outbox = count_outbox,
                                      .arg = instance };
}

static inline void instance_open(struct instance *instance, const struct config *config)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    *instance = (struct instance){ 0 };
    struct fault fault = store_open(config, &why, &instance->store);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%.*s", (int)why.len, (const char *)why.at);
    }
    assert_fault(fault, NONE);
    instance->log = log_for_test(config);
}

static inline void instance_project(struct instance *instance)
{
    struct projector_config config = projector_config_of(instance);
    assert_fault(projector_start(&config, &instance->projector), NONE);
}

static inline void instance_close(struct instance *instance)
{
    projector_stop(TAKE(instance->projector));
    event_log_close(TAKE(instance->log));
    store_close(TAKE(instance->store));
}

/* ---- the fixture of most tests ---- */

struct fixture {
    struct nats nats;
    struct config config;
    struct event_log *raw; /* for planting and breaking */
    struct instance a, b;
};

static inline int set_up(void **state)
{
    static struct fixture fixture;
    log_setup("test", LOG_LEVEL_ERROR + 1, LOG_FORMAT_TEXT); /* failures are what is tested */
    atomic_store(&refuse_13, false);
    fixture = (struct fixture){ .nats = nats_new(NATS_SYNCS), .config = default_config() };
    fixture.config.postgres_url = getenv("SVC_POSTGRES_URL");
    if (fixture.config.postgres_url == NULL) {
        (void)fprintf(stderr, "run me inside tests/integration/with-postgres\n");
        return -1;
    }
    nats_start(&fixture.nats);
    nats_use(&fixture.nats, 0, &fixture.config);
    fresh_database(&fixture.config);
    fixture.raw = log_for_test(&fixture.config);
    instance_open(&fixture.a, &fixture.config);
    *state = &fixture;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *fixture = *state;
    instance_close(&fixture->a);
    instance_close(&fixture->b);
    event_log_close(TAKE(fixture->raw));
    nats_remove(&fixture->nats);
    return 0;
}

#define WITH_STORES(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static inline uint64_t say(struct instance *instance, const char *tenant_text, int number)
{
    CLEANUP(op_freep) struct op *op = op_of(tenant_text, 10000);
    uint64_t seq = 0;
    assert_fault(append_number(op, instance->log, "a", number, NULL, &seq), NONE);
    return seq;
}

static inline uint64_t say_type(struct instance *instance, const char *tenant_text, const char *type, int number)
{
    CLEANUP(op_freep) struct op *op = op_of(tenant_text, 10000);
    char data[32];
    uint64_t seq = 0;
    (void)snprintf(data, sizeof(data), "{\"n\":%d}", number);
    struct event event = { type, 1, span_text(data) };
    struct event_append append = { .lane = "a", .events = &event, .count = 1 };
    assert_fault(events_append(op, instance->log, &append, &seq), NONE);
    return seq;
}

static inline struct fault wait_for(struct instance *instance, uint64_t seq, int timeout_ms)
{
    CLEANUP(op_freep) struct op *op = op_of("", timeout_ms);
    return projector_wait(op, instance->projector, seq);
}

static inline struct projector_state state_of(struct instance *instance)
{
    struct projector_state state;
    projector_state(instance->projector, &state);
    return state;
}

#endif
