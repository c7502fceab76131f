#include "api/audit/chain_watch.h"

#include "api/audit/internal.h"
#include "api/projection/chain.h"
#include "appliance/base/log.h"

#include <math.h>
#include <stdatomic.h>

#define PAGE_RECORDS 1000
#define RUN_RECORDS  5000
#define AGAIN_NS     (3600 * NS_PER_S)
#define SOON_NS      NS_PER_S

enum { VERIFIED, BROKEN, RECORDS };
const struct metric chain_watch_metrics[CHAIN_WATCH_METRICS] = {
    [VERIFIED] = { "svc_audit_chain_verified_timestamp_seconds",
                   METRIC_GAUGE,
                   "When the last pass began that found the audit chain of every tenant good: none was verified longer "
                   "ago. NaN before the first pass and in a process that does not lead.",
                   { 0 } },
    [BROKEN] = { "svc_audit_chain_broken_tenants",
                 METRIC_GAUGE,
                 "Tenants whose audit chain the last pass found broken.",
                 { 0 } },
    [RECORDS] = { "svc_audit_chain_records_verified_total",
                  METRIC_COUNTER,
                  "Audit records whose chain value was computed again.",
                  { 0 } },
};

static const struct sql SQL_NEXT_TENANT = {
    "audit_chain_next_tenant",
    "SELECT tenant_id FROM svc.tenants WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1",
    1,
};

/* The worker's role sees every tenant in these two tables. */
static const struct sql SQL_STAND = {
    "audit_chain_stand",
    "SELECT (SELECT coalesce(max(generation), 1) FROM svc.audit_generations WHERE tenant_id = $1),"
    " coalesce((SELECT sequence FROM svc.audit_heads WHERE tenant_id = $1), 0)",
    1,
};

/* Where the pass is. One worker thread at a time; the numbers beside are for others. */
static struct {
    bool walking; /* a pass is going on */
    utc_us began;
    mono_ns again;           /* when the next pass begins */
    struct tenant_id tenant; /* "" = before the first */
    bool in_tenant, suspected;
    int64_t generation, sequence; /* the last record that was good */
    struct sha256 chain;
    uint64_t tenants;
    unsigned broken;
} pass;
static atomic_uint broken_now; /* the larger one of the last pass and of this one */
static utc_us verified;        /* 0 = not yet */

void chain_watch_forget(void)
{
    memset(&pass, 0, sizeof(pass));
    verified = 0;
    atomic_store(&broken_now, 0);
}

static void begin_tenant(bool again)
{
    pass.in_tenant = true;
    pass.suspected = again;
    pass.sequence = 0;
    pass.chain = (struct sha256){ 0 };
}

/* History that is rewritten meanwhile looks like a break: one is only believed when a second walk meets it too. */
static void differs(int64_t sequence)
{
    if (!pass.suspected) {
        begin_tenant(true);
        pass.generation = 0;
        return;
    }
    pass.broken++;
    pass.in_tenant = false;
    if (pass.broken > atomic_load(&broken_now)) {
        atomic_store(&broken_now, pass.broken);
    }
    log_write(ERROR, "audit_chain_broken", LOG_TEXT("tenant", pass.tenant.text), LOG_INT("sequence", sequence));
}

/* False: it differs, and where the walk goes on is decided. */
static bool good_record(const struct rows *rows, size_t row, struct fault *ret_fault)
{
    struct sha256 next;
    int64_t sequence = rows_int(rows, row, 0);
    *ret_fault = audit_chain_next(&pass.chain, rows_bytes(rows, row, 1), &next);
    if (FAULTED(*ret_fault)) {
        return false;
    }
    if (sequence != pass.sequence + 1 || !span_equal(rows_bytes(rows, row, 2), SPAN_ARRAY(next.at))) {
        differs(pass.sequence + 1);
        return false;
    }
    pass.sequence = sequence;
    pass.chain = next;
    return true;
}

static struct fault stand_of(struct tx *tx, int64_t *ret_generation, int64_t *ret_head)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_STAND, (struct sql_arg[]){ SQL_TEXT(pass.tenant.text) }, 1, &rows));
    *ret_generation = rows_int(rows, 0, 0);
    *ret_head = rows_int(rows, 0, 1);
    return OK;
}

/* One page of the tenant, as of one moment. */
static struct fault walk_page(struct op *op, struct services *services, size_t *ret_records)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    int64_t generation = 0, head = 0;
    struct fault fault = OK;
    op->tenant = pass.tenant;
    TRY(tx_begin_snapshot(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(stand_of(tx, &generation, &head));
    if (generation != pass.generation) {
        bool suspected = pass.suspected;
        begin_tenant(suspected);
        pass.generation = generation;
    }
    TRY(record_range(tx, pass.sequence + 1, INT64_MAX, PAGE_RECORDS, &rows));
    *ret_records = rows_count(rows);
    for (size_t row = 0; row < rows_count(rows); row++) {
        if (!good_record(rows, row, &fault)) {
            return fault;
        }
    }
    if (rows_count(rows) == 0 && pass.sequence != head) {
        differs(pass.sequence + 1); /* records at the end are missing */
    } else if (pass.sequence == head) {
        pass.in_tenant = false;
    }
    return OK;
}

static void end_pass(void)
{
    pass.walking = false;
    pass.again = clock_mono() + (pass.tenants > 0 ? AGAIN_NS : SOON_NS);
    atomic_store(&broken_now, pass.broken);
    if (pass.broken == 0 && pass.tenants > 0) { /* an appliance's very first start has none yet */
        verified = pass.began;
    }
}

static struct fault next_tenant(struct op *op, struct services *services)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_NEXT_TENANT, (struct sql_arg[]){ SQL_TEXT(pass.tenant.text) }, 1, &rows));
    if (rows_count(rows) == 0) {
        end_pass();
        return OK;
    }
    TRY(tenant_id_parse(span_text(rows_text(rows, 0, 0)), &pass.tenant));
    begin_tenant(false);
    pass.generation = 0;
    pass.tenants++;
    return OK;
}

static struct fault walk(struct op *op, struct services *services)
{
    size_t done = 0;
    while (pass.walking && done < RUN_RECORDS) {
        size_t records = 0;
        TRY(pass.in_tenant ? walk_page(op, services, &records) : next_tenant(op, services));
        metrics_add(services->metrics, &chain_watch_metrics[RECORDS], (double)records, NULL);
        done += records + 1;
    }
    return OK;
}

static void show(struct metrics *metrics, bool leads)
{
    bool known = leads && verified != 0;
    metrics_set(metrics, &chain_watch_metrics[VERIFIED], known ? (double)verified / (double)US_PER_S : NAN, NULL);
    metrics_set(metrics, &chain_watch_metrics[BROKEN], leads ? (double)atomic_load(&broken_now) : NAN, NULL);
}

struct fault chain_watch_run(struct op *op, struct services *services)
{
    struct projector_state state;
    struct tenant_id before = op->tenant;
    struct fault fault = OK;
    projector_state(services->projector, &state);
    if (!state.leader) {
        chain_watch_forget(); /* whoever leads looks from the beginning */
    } else if (pass.walking || clock_mono() >= pass.again) {
        if (!pass.walking) {
            memset(&pass, 0, sizeof(pass));
            pass.walking = true;
            pass.began = clock_utc();
        }
        fault = walk(op, services);
    }
    op->tenant = before;
    show(services->metrics, state.leader);
    return fault;
}

struct fault chain_watch_check(struct op *op, struct services *services)
{
    (void)op;
    (void)services;
    return atomic_load(&broken_now) == 0 ? OK : FAULT(CHAIN_BROKEN);
}
