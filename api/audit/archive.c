#include "api/audit/archive.h"

#include "api/identity/identity_feature.h"
#include "appliance/base/file.h"
#include "appliance/base/log.h"

#include <stdatomic.h>
#include <stdio.h>

#define ARCHIVE_LOCK     0x7376630000000105LL /* one run at a time, whoever's */
#define HOUR_NS          (3600 * NS_PER_S)
#define SEGMENT_LEAST_MS 15000 /* a segment is not begun with less time than that */

enum { RECORDS, RETAINED, RUNS, FAILURES, LAST_SUCCESS };
const struct metric archive_metrics[ARCHIVE_METRICS] = {
    [RECORDS] = { "svc_audit_records_archived_total",
                  METRIC_COUNTER,
                  "Audit records that were archived, verified and retired from the served view.",
                  { 0 } },
    [RETAINED] = { "svc_audit_source_records_retained_total",
                   METRIC_COUNTER,
                   "Archived records whose events were found whole in the event log at their checkpoint.",
                   { 0 } },
    [RUNS] = { "svc_audit_retention_runs_total", METRIC_COUNTER, "Runs of the audit archive.", { 0 } },
    [FAILURES] = { "svc_audit_retention_failures_total",
                   METRIC_COUNTER,
                   "Runs of the audit archive that ended in a fault; the served view had not moved.",
                   { 0 } },
    [LAST_SUCCESS] = { "svc_audit_retention_last_success_timestamp_seconds",
                       METRIC_GAUGE,
                       "When a run of the audit archive last ended well.",
                       { 0 } },
};

static const struct sql SQL_PLAN = {
    "audit_archive_plan",
    "SELECT count(*), coalesce(min(sequence), 0), coalesce(max(sequence), 0),"
    " coalesce(bool_or(type <> '" ARCHIVE_EVENT "' AND actor_subject <> '" ARCHIVE_WORKER "'), false),"
    " coalesce((SELECT time_us FROM svc.audit_records WHERE sequence > $1 ORDER BY sequence LIMIT 1), 0)"
    " FROM svc.audit_records WHERE sequence > $1 AND sequence < coalesce((SELECT sequence FROM svc.audit_records"
    " WHERE sequence > $1 AND time_us >= $2 ORDER BY sequence LIMIT 1), 9223372036854775807)",
    2,
};

bool archive_is_on(const struct config *config)
{
    return config->audit_retention > 0 && config->audit_archive_dir[0] != '\0';
}

static utc_us cutoff_of(const struct services *services)
{
    return clock_utc() - services->config->audit_retention / (NS_PER_S / US_PER_S);
}

static struct fault run_segment(struct op *op, struct services *services, int folder, struct archive_run *run,
                                bool *ret_done)
{
    struct archive_checkpoint made = { 0 };
    int64_t records = 0;
    TRY(archive_segment(op, services, folder, cutoff_of(services), &made, &records));
    *ret_done = records == 0;
    if (records > 0) {
        run->first_sequence = run->segments == 0 ? made.first_sequence : run->first_sequence;
        run->last_sequence = made.last_sequence;
        run->segments++;
        run->records += records;
        metrics_add(services->metrics, &archive_metrics[RECORDS], (double)records, NULL);
        metrics_add(services->metrics, &archive_metrics[RETAINED], (double)records, NULL);
        log_write(INFO, "audit_archived", LOG_TEXT("tenant", op->tenant.text), LOG_TEXT("archive", made.locator),
                  LOG_INT("records", records));
    }
    return OK;
}

/* ---- runs ---- */

static struct fault run_tenant(struct op *op, struct services *services, struct archive_run *ret_run)
{
    struct archive_run run = { 0 };
    CLEANUP(fd_closep) int folder = -1;
    bool done = false;
    TRY(archive_folder_open(op, services->config->audit_archive_dir, &folder));
    TRY(archive_folder_sweep(op, folder));
    while (!done && !run.more) {
        TRY(run_segment(op, services, folder, &run, &done));
        run.more = !done && clock_ms_left(op->deadline) < SEGMENT_LEAST_MS;
    }
    *ret_run = run;
    return OK;
}

static void count_run(struct services *services, struct fault fault)
{
    metrics_add(services->metrics, &archive_metrics[RUNS], 1, NULL);
    if (FAULTED(fault)) {
        metrics_add(services->metrics, &archive_metrics[FAILURES], 1, NULL);
    } else {
        metrics_set(services->metrics, &archive_metrics[LAST_SUCCESS], (double)clock_utc() / (double)US_PER_S, NULL);
    }
}

struct fault archive_run(struct op *op, struct services *services, struct archive_run *ret_run)
{
    bool held = false;
    CLEANUP(store_lock_freep) struct store_lock *lock = NULL;
    if (!archive_is_on(services->config)) {
        return op_fail(op, FAULT(CONFLICT), "retention is off: audit.retention and audit.archive_dir are to be set");
    }
    TRY(op_settle(op)); /* what follows makes files, and is done on operations of its own */
    TRY(store_lock_try(op, services->store, ARCHIVE_LOCK, &lock, &held));
    if (!held) {
        return op_fail(op, FAULT(CONFLICT), "a run of the archive is on: try again when it has ended");
    }
    struct fault fault = run_tenant(op, services, ret_run);
    count_run(services, fault);
    return fault;
}

struct fault archive_plan(struct op *op, struct services *services, struct archive_plan *ret_plan)
{
    struct archive_checkpoint last;
    struct archive_plan plan = { .cutoff = cutoff_of(services) };
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    if (!archive_is_on(services->config)) {
        return op_fail(op, FAULT(CONFLICT), "retention is off: audit.retention and audit.archive_dir are to be set");
    }
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(archive_last(op, tx, &last));
    const struct sql_arg args[] = { SQL_INT(last.last_sequence), SQL_INT(plan.cutoff) };
    TRY(tx_query(tx, &SQL_PLAN, args, COUNT_OF(args), &rows));
    plan.archived_through = last.last_sequence;
    plan.oldest = rows_int(rows, 0, 4);
    if (rows_bool(rows, 0, 3)) {
        plan.records = rows_int(rows, 0, 0);
        plan.first_sequence = rows_int(rows, 0, 1);
        plan.last_sequence = rows_int(rows, 0, 2);
    }
    *ret_plan = plan;
    return OK;
}

/* ---- the worker ---- */

static _Atomic mono_ns due;          /* of the next run; 0 = at once */
static atomic_int ails = FAULT_NONE; /* what the last round ended with */

struct fault archive_start(struct op *op, struct services *services)
{
    const struct config *config = services->config;
    atomic_store(&due, 0);
    atomic_store(&ails, FAULT_NONE);
    if (archive_is_on(config)) {
        return archive_folder_check(op, config->audit_archive_dir);
    }
    if (config->audit_retention > 0 || config->audit_archive_dir[0] != '\0') {
        log_write(WARN, "audit_retention_off",
                  LOG_TEXT("why", "audit.retention and audit.archive_dir count together, and one is not set"));
    }
    return OK;
}

static struct fault run_tenants(struct op *op, struct services *services, bool *ret_more)
{
    struct tenant_id *tenants = NULL;
    size_t count = 0;
    struct fault first = OK;
    struct fault_note note = { 0 }; /* of the first */
    TRY(identity_tenants(op, services->store, &tenants, &count));
    for (size_t i = 0; i < count; i++) {
        struct archive_run run = { 0 };
        if (clock_ms_left(op->deadline) < SEGMENT_LEAST_MS) {
            *ret_more = true;
            break;
        }
        op->tenant = tenants[i];
        op->note = (struct fault_note){ 0 };
        struct fault fault = run_tenant(op, services, &run);
        *ret_more = *ret_more || run.more;
        if (FAULTED(fault)) {
            log_fault(LOG_LEVEL_ERROR, "audit_archive_failed", op, fault);
        }
        if (FAULTED(fault) && !FAULTED(first)) {
            first = fault; /* the other tenants' records have their time, too */
            note = op->note;
        }
    }
    op->note = note;
    return first;
}

struct fault archive_work(struct op *op, struct services *services)
{
    bool held = false, more = false;
    CLEANUP(store_lock_freep) struct store_lock *lock = NULL;
    if (!archive_is_on(services->config) || clock_mono() < atomic_load(&due)) {
        return OK;
    }
    (void)snprintf(op->principal.subject, sizeof(op->principal.subject), "%s", ARCHIVE_WORKER);
    TRY(store_lock_try(op, services->store, ARCHIVE_LOCK, &lock, &held));
    if (!held) {
        return OK;
    }
    struct fault fault = run_tenants(op, services, &more);
    op->tenant = (struct tenant_id){ 0 };
    count_run(services, fault);
    atomic_store(&ails, (int)fault.code);
    atomic_store(&due, FAULTED(fault) || more ? 0 : clock_mono() + HOUR_NS);
    return fault;
}

struct fault archive_ready(struct op *op, struct services *services)
{
    (void)services;
    struct fault fault = { (enum fault_code)atomic_load(&ails) };
    return FAULTED(fault) ? op_fail(op, fault, "the last run of the audit archive failed") : OK;
}
