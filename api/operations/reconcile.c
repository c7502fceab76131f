/*
 * After a start: is there a row for every effect that is owed? The read model's own account of each destination says
 * what is owed (outbox_upkeep.missing); a row that is not there was lost, by hand or by a database that was restored in
 * parts. It is made again only from the message that queued it, and only when that message is still the one that was
 * applied (projection_rederive): as an event, "outbox.recreated", whose projection asks again whether the effect is
 * owed. So nothing that ended is done twice, and a rebuild gives the same bytes. What cannot be made again stays
 * counted, and /readyz says so.
 *
 * Why what is owed and not the whole history is looked through: it is exact (effect and row are written in one
 * transaction, and seen in one statement), it needs no position of its own that could be lost too, and it costs what is
 * open rather than what ever happened; only operations are read through, a piece at a time. The leader does it in the
 * background, for no longer than half a second a run, and again every hour; the passes after the first one show only
 * what is lost. An instance that does not lead, or no longer, knows nothing of it and shows NaN.
 */
#include "api/operations/internal.h"

#include "appliance/base/log.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define RUN_NS      (500 * NS_PER_MS)
#define STEP_MS     20000
#define AGAIN_NS    (3600 * NS_PER_S)
#define TROUBLED_NS (60 * NS_PER_S) /* while something could not be made again */
#define EVENT_MAX   ((size_t)512 << 10)

static const struct sql SQL_TOTAL = {
    "operations_events_total",
    "SELECT coalesce(sum(sequence), 0)::bigint FROM svc.audit_heads",
    0,
};
static const struct sql SQL_NEXT_TENANT = {
    "operations_next_tenant",
    "SELECT tenant_id, sequence FROM svc.audit_heads WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1",
    1,
};

/* Where the pass stands. The worker's alone. */
static struct pass {
    bool begun;
    mono_ns due; /* of the next pass */
    struct tenant_id tenant;
    bool in_tenant;
    size_t destination;
    int64_t position, total, done, events; /* events of all tenants, of those done, of this one */
    unsigned lost;                         /* could not be made again */
} pass;
static bool compared;        /* the first pass has ended. The worker's alone. */
static atomic_uint troubled; /* of the last whole pass, or of this one if it is more */

struct missing {
    const char *key;
    uint64_t stream_seq;
};

static void show(struct services *services)
{
    unsigned lost = pass.lost > atomic_load(&troubled) ? pass.lost : atomic_load(&troubled);
    int64_t left = !compared && pass.begun && pass.total > pass.done ? pass.total - pass.done : 0;
    metrics_set(services->metrics, &operations_metrics[OPERATIONS_LAG], (double)left + lost, NULL);
}

void outbox_reconcile_forget(void)
{
    pass = (struct pass){ 0 };
    compared = false;
    atomic_store(&troubled, 0);
}

struct fault outbox_reconcile_well(struct op *op, struct services *services)
{
    (void)services;
    unsigned lost = atomic_load(&troubled);
    return lost == 0 ? OK
                     : op_fail(op, FAULT(OUTBOX_SOURCE),
                               "%u effects are owed, have no row and cannot be queued again from the history", lost);
}

/* ---- one row ---- */

static struct fault append_recreated(struct op *op, struct services *services, const struct projection_effect *effect)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    uint64_t seq = 0;
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_int(&jout, "created_us", effect->created);
    jout_key_text(&jout, "destination", effect->destination);
    jout_key_int(&jout, "due_us", effect->due);
    jout_key_text(&jout, "key", effect->key);
    jout_key_int(&jout, "outbox_id", effect->id);
    jout_key_base64(&jout, "payload", effect->payload);
    jout_key_text(&jout, "trace_id", effect->trace_id);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct event event = { .type = EVENT_OUTBOX_RECREATED, .schema_version = 1, .data = buf_span(&data) };
    const struct event_append message = { .lane = OPERATIONS_LANE, .events = &event, .count = 1 };
    TRY(events_append(op, services->log, &message, &seq));
    return projector_wait(op, services->projector, seq);
}

/* May pass: the same is tried again by the next run. */
static bool passes(struct fault fault)
{
    return fault_row(fault.code)->retry == FAULT_RETRY_LATER || fault.code == FAULT_DEADLINE;
}

/* The first of the messages that queues such a row is its source. *ret_lost: there is none, or it cannot be trusted. */
static struct fault recreate(struct op *op, struct services *services, const struct outbox_row *row,
                             const struct missing *list, size_t count, bool *ret_lost)
{
    struct projection_effect effect = { 0 };
    struct fault fault = FAULT(NOT_FOUND);
    for (size_t i = 0; i < count && fault.code == FAULT_NOT_FOUND; i++) {
        op->note = (struct fault_note){ 0 };
        fault =
            projection_rederive(op, services->projector, list[i].stream_seq, row->destination, list[0].key, &effect);
    }
    *ret_lost = FAULTED(fault) && !passes(fault);
    if (*ret_lost) {
        log_fault(LOG_LEVEL_ERROR, "outbox_row_not_recreated", op, fault);
        log_write(ERROR, "outbox_effect_lost", LOG_TEXT("tenant_id", op->tenant.text),
                  LOG_TEXT("destination", row->destination), LOG_TEXT("key", list[0].key));
        return OK;
    }
    TRY(fault);
    TRY(append_recreated(op, services, &effect));
    metrics_add(services->metrics, &operations_metrics[OPERATIONS_RECREATED], 1,
                (const char *const[]){ row->destination });
    log_write(WARN, "outbox_row_recreated", LOG_TEXT("tenant_id", op->tenant.text),
              LOG_TEXT("destination", row->destination), LOG_TEXT("key", list[0].key), LOG_INT("outbox_id", effect.id));
    return OK;
}

/* ---- one piece ---- */

static struct fault read_piece(struct op *op, struct services *services, const struct outbox_row *row,
                               struct missing **ret_list, size_t *ret_count, int64_t *ret_next)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct missing *list = NULL;
    size_t count = 0;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_INT(pass.position) };
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, row->upkeep->missing, args, COUNT_OF(args), &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*list), &list));
    *ret_next = 0;
    for (size_t i = 0; i < rows_count(rows); i++) {
        if (rows_text(rows, i, 0)[0] == '\0') {
            *ret_next = rows_int(rows, i, 2);
            continue;
        }
        TRY(arena_text(op->arena, span_text(rows_text(rows, i, 0)), &list[count].key));
        list[count++].stream_seq = (uint64_t)rows_int(rows, i, 1);
    }
    *ret_list = list;
    *ret_count = count;
    return OK;
}

static int by_key(const void *a, const void *b)
{
    const struct missing *first = a, *second = b;
    int keys = strcmp(first->key, second->key);
    return keys != 0 ? keys : (first->stream_seq < second->stream_seq) - (first->stream_seq > second->stream_seq);
}

static struct fault recreate_all(struct op *op, struct services *services, const struct outbox_row *row,
                                 struct missing *list, size_t count, unsigned *ret_lost)
{
    qsort(list, count, sizeof(*list), by_key);
    for (size_t at = 0, end = 0; at < count; at = end) {
        bool lost = false;
        while (end < count && strcmp(list[end].key, list[at].key) == 0) {
            end++;
        }
        op->deadline = clock_mono() + STEP_MS * NS_PER_MS;
        TRY(recreate(op, services, row, &list[at], end - at, &lost));
        *ret_lost += lost ? 1 : 0;
    }
    return OK;
}

/* The piece is over only when all of it was dealt with: otherwise it is looked at again. */
static struct fault piece(struct services *services, const struct outbox_row *row)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct missing *list = NULL;
    size_t count = 0;
    int64_t next = 0;
    unsigned lost = 0;
    TRY(op_new("system:outbox-reconciliation", pass.tenant, STEP_MS, &op));
    struct fault fault = read_piece(op, services, row, &list, &count, &next);
    fault = FAULTED(fault) ? fault : recreate_all(op, services, row, list, count, &lost);
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_WARN, "outbox_not_reconciled", op, fault);
        return fault;
    }
    pass.lost += lost;
    if (next > 0) {
        pass.position = next;
    } else {
        pass.destination++;
        pass.position = 0;
    }
    return OK;
}

/* ---- the pass ---- */

static struct fault begin(struct op *op, struct services *services)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_TOTAL, NULL, 0, &rows));
    pass = (struct pass){ .begun = true, .total = rows_int(rows, 0, 0) };
    return OK;
}

static struct fault next_tenant(struct op *op, struct services *services, bool *ret_end)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_NEXT_TENANT, (struct sql_arg[]){ SQL_TEXT(pass.tenant.text) }, 1, &rows));
    *ret_end = rows_count(rows) == 0;
    if (*ret_end) {
        return OK;
    }
    TRY(tenant_id_parse(span_text(rows_text(rows, 0, 0)), &pass.tenant));
    pass.events = rows_int(rows, 0, 1);
    pass.destination = 0;
    pass.position = 0;
    pass.in_tenant = true;
    return OK;
}

static void end(void)
{
    unsigned lost = pass.lost;
    pass = (struct pass){ .due = clock_mono() + (lost > 0 ? TROUBLED_NS : AGAIN_NS) };
    compared = true;
    atomic_store(&troubled, lost);
}

static struct fault step(struct op *op, struct services *services)
{
    bool over = false;
    if (!pass.in_tenant) {
        TRY(next_tenant(op, services, &over));
        if (over) {
            end();
        }
        return OK;
    }
    const struct outbox_row *row = destination_at(pass.destination);
    if (row == NULL) {
        pass.in_tenant = false;
        pass.done += pass.events;
        return OK;
    }
    if (row->upkeep == NULL || row->upkeep->missing == NULL) {
        pass.destination++;
        return OK;
    }
    return piece(services, row);
}

struct fault outbox_reconcile_run(struct op *op, struct services *services)
{
    struct projector_state state;
    struct fault fault = OK;
    mono_ns until = clock_mono() + RUN_NS;
    projector_state(services->projector, &state);
    if (!state.leader) {
        outbox_reconcile_forget();
        metrics_set(services->metrics, &operations_metrics[OPERATIONS_LAG], NAN, NULL);
        return OK;
    }
    if (!state.log_trusted || (!pass.begun && clock_mono() < pass.due)) {
        return OK;
    }
    fault = pass.begun ? OK : begin(op, services);
    while (!FAULTED(fault) && pass.begun && clock_mono() < until && !op_expired(op)) {
        fault = step(op, services);
    }
    show(services);
    return fault;
}
