/*
 * Report schedules without the rest of their room: real PostgreSQL and nats-server (with-stores), projector and
 * outbound outbox, and doubles of what makes a document: here documents are short texts that are counted. Include it
 * once, in the file with main().
 */
#ifndef TESTS_INTEGRATION_SCHEDULES_TESTLIB_H
#define TESTS_INTEGRATION_SCHEDULES_TESTLIB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "api/compliance/compliance.h"
#include "api/compliance/schedules.h"
#include "api/identity/internal.h"
#include "integration/store_testlib.h"

/* ---- what the rest of the room would do ---- */

static atomic_int made;
static _Atomic(enum fault_code) next_fault; /* of the next document; NONE = it is made */

struct fault pack_make(struct op *op, struct services *services, const char *framework, struct buf *json,
                       struct sha256 *ret_digest)
{
    (void)services;
    (void)ret_digest;
    BUG_IF(op->tx_open != 0);
    enum fault_code code = atomic_exchange(&next_fault, FAULT_NONE);
    if (code != FAULT_NONE) {
        return (struct fault){ code };
    }
    return buf_printf(json,
                      "{\"framework\":\"%s\",\"n\":%d,\"signed_export\":{\"manifest\":{\"evidence_window\":"
                      "{\"from\":\"2026-01-01T00:00:00Z\",\"to\":\"2026-04-01T00:00:00Z\"}}}}",
                      framework, atomic_fetch_add(&made, 1));
}

struct fault pack_record_read(struct op *op, struct services *services, const char *artifact, const char *framework,
                              const struct sha256 *digest)
{
    (void)op, (void)services, (void)artifact, (void)framework, (void)digest;
    return OK;
}

struct fault pack_key(struct op *op, struct services *services, struct managed_key *ret_key)
{
    (void)op, (void)services, (void)ret_key;
    return FAULT(INTERNAL);
}

struct fault pack_sign(struct op *op, struct services *services, const struct managed_key *key, const char *typ,
                       struct span payload, struct buf *compact)
{
    (void)op, (void)services, (void)key, (void)typ, (void)payload, (void)compact;
    return FAULT(INTERNAL);
}

struct fault evidence_load(struct op *op, struct services *services, const struct framework *framework, utc_us now,
                           struct evidence *ret_evidence)
{
    (void)op, (void)services, (void)framework, (void)now, (void)ret_evidence;
    return FAULT(INTERNAL);
}

const struct frameworks *compliance_frameworks(void)
{
    return NULL;
}

struct fault inventory_counts_print(struct op *op, struct services *services, struct tx *tx, struct jout *out)
{
    (void)op, (void)services, (void)tx, (void)out;
    return OK;
}

/* ---- the services ---- */

static const struct feature *const all[] = { &identity_feature, &compliance_schedules_feature };
static const struct event_row *event_tables[COUNT_OF(all)];
static const struct outbox_row *outbox_tables[COUNT_OF(all)];
static size_t event_counts[COUNT_OF(all)], outbox_counts[COUNT_OF(all)];
static struct services services;
static _Atomic(struct outbox *) to_wake;

const struct feature *const *features_all(size_t *ret_count)
{
    *ret_count = COUNT_OF(all);
    return all;
}

static void wake(void *arg)
{
    (void)arg;
    struct outbox *outbox = atomic_load(&to_wake);
    if (outbox != NULL) {
        outbox_wake(outbox);
    }
}

static struct projector_config projector_config_here(void)
{
    return (struct projector_config){ .store = services.store,
                                      .log = services.log,
                                      .tables = event_tables,
                                      .counts = event_counts,
                                      .table_count = COUNT_OF(all),
                                      .on_outbox = wake };
}

static void generation_start(void)
{
    const struct outbox_config config = { .store = services.store,
                                          .services = &services,
                                          .tables = outbox_tables,
                                          .counts = outbox_counts,
                                          .table_count = COUNT_OF(all),
                                          .threads = 4,
                                          .outbound = true };
    assert_ok(outbox_start(&config, &services.outbound));
    atomic_store(&to_wake, services.outbound);
    outbox_wake(services.outbound);
}

static void generation_stop(void)
{
    atomic_store(&to_wake, NULL);
    outbox_free(TAKE(services.outbound));
}

static int set_up(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(8192);
    use_config();
    test_config->nats_url = getenv("SVC_NATS_URL");
    test_config->nats_credentials = getenv("SVC_NATS_CREDENTIALS_FILE");
    test_config->postgres_bookkeeping_conns = 8;
    migrate();
    services.config = test_config;
    assert_ok(store_open(test_config, &why, &services.store));
    assert_ok(event_log_open(test_config, &why, &services.log));
    assert_ok(metrics_new(&services.metrics));
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        event_tables[i] = all[i]->events;
        event_counts[i] = all[i]->event_count;
        outbox_tables[i] = all[i]->outbox;
        outbox_counts[i] = all[i]->outbox_count;
        assert_ok(metrics_register(services.metrics, all[i]->metrics, all[i]->metric_count));
    }
    struct projector_config config = projector_config_here();
    assert_ok(projector_start(&config, &services.projector));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    generation_stop();
    projector_stop(TAKE(services.projector));
    event_log_close(services.log);
    store_close(services.store);
    metrics_free(services.metrics);
    return 0;
}

/* ---- what the tests do ---- */

static struct schedule create(const char *tenant_text, const char *name)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    const struct schedule_body body = { .framework = "soc2",
                                        .name = name,
                                        .report_type = "framework_evidence_pack",
                                        .interval_seconds = 3600,
                                        .delivery = "audit_export",
                                        .recipient_ref = "vault" };
    struct schedule schedule;
    assert_ok(uuid_new(&op->command_id));
    assert_ok(schedule_create(op, &services, &body, &schedule));
    assert_int_equal(op->recorded, OP_RECORDED_EVENT);
    return schedule; /* its texts are gone with the operation: numbers and ids are looked at */
}

static struct schedule look_in(struct op *op, struct uuid id)
{
    struct schedule schedule;
    assert_ok(schedule_get(op, &services, id, &schedule));
    return schedule;
}

static struct schedule look(const struct schedule *schedule)
{
    CLEANUP(op_freep) struct op *op = test_op(schedule->tenant.text, 30000);
    return look_in(op, schedule->id);
}

static void turn_on(const struct schedule *schedule, int64_t version, bool enabled)
{
    CLEANUP(op_freep) struct op *op = test_op(schedule->tenant.text, 30000);
    struct schedule after;
    assert_ok(uuid_new(&op->command_id));
    assert_ok(schedule_switch(op, &services, schedule->id, version, enabled, &after));
    assert_int_equal(after.version, version + 1);
    assert_int_equal(after.definition.enabled, enabled);
}

static void superuser(const char *format, ...) PRINTF(1, 2);
static void superuser(const char *format, ...)
{
    char script[1024];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(script, sizeof(script), format, list);
    va_end(list);
    assert_ok(as_superuser(script));
}

static int64_t number(const char *format, ...) PRINTF(1, 2);
static int64_t number(const char *format, ...)
{
    char text[1024], name[32];
    static atomic_int count;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    (void)snprintf(name, sizeof(name), "test_number_%d", atomic_fetch_add(&count, 1));
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql sql = { name, text, 0 };
    assert_ok(endpoint_new(test_config, "postgres", NULL, &endpoint));
    assert_ok(connection_open(op, endpoint, op->deadline, &connection));
    assert_ok(connection_run(op, connection, &sql, NULL, 0, op->deadline, &rows));
    return rows_int(rows, 0, 0);
}

static int64_t records(const struct schedule *schedule, const char *type)
{
    return number("SELECT count(*) FROM svc.audit_records WHERE tenant_id = '%s' AND type = '%s'"
                  " AND position('%s' IN convert_from(record, 'UTF8')) > 0",
                  schedule->tenant.text, type, schedule->id.text);
}

static int64_t documents(const struct schedule *schedule)
{
    return number("SELECT count(*) FROM svc.compliance_documents WHERE schedule_id = '%s'", schedule->id.text);
}

/* Time passes for one schedule. */
static void age(const struct schedule *schedule, int64_t hours)
{
    superuser("UPDATE svc.report_schedules SET counted_from_us = counted_from_us - %lld WHERE schedule_id = '%s'",
              (long long)(hours * 3600 * US_PER_S), schedule->id.text);
}

static void work(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    assert_ok(reports_work(op, &services));
}

static void pause_a_little(void)
{
    struct timespec tick = { .tv_nsec = 10000000 };
    (void)nanosleep(&tick, NULL);
}

static void wait_for(const struct schedule *schedule, const char *type, int64_t count)
{
    for (int i = 0; records(schedule, type) < count; i++) {
        assert_true(i < 3000);
        pause_a_little();
    }
}

static size_t reports_of(struct op *op, const struct schedule *schedule, struct report **ret_list)
{
    const struct report_filter filter = { .schedule_id = schedule->id.text, .before = INT64_MAX, .limit = 100 };
    size_t count = 0;
    assert_ok(report_list(op, &services, &filter, ret_list, &count));
    return count;
}

#endif
