#include "api/server/reconcile.h"

#include "api/services.h"
#include "appliance/base/log.h"

#include <pthread.h>
#include <stdio.h>

#define PAGE         2000
#define PAGES        8     /* a run */
#define MESSAGES     2000  /* a run, the other way */
#define BEHIND       10000 /* messages before a start that are looked at, the other way */
#define AGAIN_NS     (3600 * NS_PER_S)
#define SETTLED      16 /* runs after which a message's command is answered or over */
#define KEY_SIZE     256
#define LAG_TOO_LONG 1000000000000 /* microseconds; a lag beyond it is shown as this */

enum { MISSING, CHECKED, UNANSWERED, LAST_RUN, LAG };
const struct metric reconcile_metrics[] = {
    [MISSING] = { "svc_audit_reconciliation_missing_total",
                  METRIC_COUNTER,
                  "Answered mutations whose event is not in the log.",
                  { 0 } },
    [CHECKED] = { "svc_audit_reconciliation_checked_total",
                  METRIC_COUNTER,
                  "Answered mutations that were compared with the log.",
                  { 0 } },
    [UNANSWERED] = { "svc_audit_reconciliation_unanswered_total",
                     METRIC_COUNTER,
                     "Callers' messages of the log that no answered mutation names: refused, or never answered.",
                     { 0 } },
    [LAST_RUN] = { "svc_audit_reconciliation_last_run_timestamp_seconds",
                   METRIC_GAUGE,
                   "When answers were last compared with the log.",
                   { 0 } },
    [LAG] = { "svc_audit_reconciliation_lag_seconds",
              METRIC_GAUGE,
              "Age of the oldest answer that waits to be compared; 0 when none does.",
              { 0 } },
};
const size_t reconcile_metric_count = COUNT_OF(reconcile_metrics);

/* Answers behind $1, $2, $3 in their order. Only the odd ones and the last one come back. What the copies do not reach
 * yet is 'ahead'. */
static const struct sql ANSWERS = {
    "reconcile_answers",
    "WITH reached AS (SELECT coalesce(max(stream_seq), 0) AS seq FROM svc.projection_checkpoint), "
    "page AS MATERIALIZED (SELECT done_us, tenant_id, key, route, status, recorded, event_seq, trace_id "
    "FROM svc.idempotency_keys WHERE state = 'done' AND recorded IS NOT NULL AND done_us >= $1 "
    "AND (done_us, tenant_id, key) > ($1, $2, $3) "
    "AND done_us <= (extract(epoch FROM clock_timestamp()) * 1000000)::int8 - $4 "
    "ORDER BY done_us, tenant_id, key LIMIT $5), "
    "judged AS (SELECT p.*, CASE "
    "WHEN p.recorded = 'nothing' AND p.status BETWEEN 200 AND 299 THEN 'nothing_recorded' "
    "WHEN p.event_seq = 0 THEN '' "
    "WHEN EXISTS (SELECT 1 FROM svc.event_envelopes e WHERE e.stream_seq = p.event_seq AND e.tenant_id = p.tenant_id "
    "AND position(convert_to('\"trace_id\":\"' || p.trace_id || '\"', 'UTF8') IN e.body) > 0) THEN '' "
    "WHEN p.event_seq > (SELECT seq FROM reached) THEN 'ahead' "
    "ELSE 'not_in_log' END AS odd, count(*) OVER () AS total, "
    "row_number() OVER (ORDER BY done_us, tenant_id, key) AS number FROM page p) "
    "SELECT done_us, tenant_id, key, route, event_seq, trace_id, odd, number, total, "
    "(extract(epoch FROM clock_timestamp()) * 1000000)::int8 - done_us "
    "FROM judged WHERE odd <> '' OR number = total ORDER BY number",
    5,
};
/* The other way. Time stamps and recorded reads have no Idempotency-Key; what the appliance does by itself neither. */
static const struct sql MESSAGES_OF_CALLERS = {
    "reconcile_messages",
    "WITH page AS MATERIALIZED (SELECT stream_seq, tenant_id, lane, body FROM svc.event_envelopes "
    "WHERE stream_seq > $1 AND stream_seq <= $2 ORDER BY stream_seq LIMIT $3) "
    "SELECT coalesce(max(stream_seq), $1), count(*) FILTER (WHERE lane NOT IN ('tsa', 'tsa-serial', 'audit-access') "
    "AND position('\"subject\":\"system:'::bytea IN p.body) = 0 "
    "AND NOT EXISTS (SELECT 1 FROM svc.idempotency_keys k "
    "WHERE k.event_seq = p.stream_seq AND k.event_seq > 0 AND k.tenant_id = p.tenant_id)) FROM page p",
    3,
};

/* Where a pass stands, and what it and the one before found. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `state`; never held over a call outside */
static struct state {
    int64_t done_us;
    char tenant[sizeof(struct tenant_id)];
    char key[KEY_SIZE];
    uint64_t pass_missing, former_missing; /* of this pass, of the last whole one */
    uint64_t counted;                      /* told to the metric */
    uint64_t protocol_missing;
    mono_ns again; /* when the next pass begins; 0 = this one has not reached its end */
    uint64_t message;
    uint64_t reached[SETTLED]; /* the checkpoint, of so many runs */
    uint64_t runs;
} state;

static struct state state_get(void)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    struct state copy = state;
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
    return copy;
}

/* Only the worker writes, but for protocol_missing. */
static void state_put(const struct state *now)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    uint64_t protocol = state.protocol_missing;
    state = *now;
    state.protocol_missing = protocol;
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

void reconcile_forget(void)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    state = (struct state){ 0 };
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

const char *reconcile_word(enum op_recorded recorded)
{
    static const char *const words[] = {
        [OP_RECORDED_NOTHING] = "nothing",
        [OP_RECORDED_EVENT] = "event",
        [OP_RECORDED_EARLIER] = "earlier",
        [OP_CHANGED_NOTHING] = "unchanged",
    };
    return words[recorded];
}

/* ---- answers ---- */

struct step {
    uint64_t checked;
    bool end;  /* nothing waits */
    bool wait; /* a message that the copies do not reach yet: again later, from there */
    int64_t lag_us;
};

static void tell_missing(const struct rows *rows, size_t row, const char *odd)
{
    log_write(ERROR, "audit_event_missing", LOG_TEXT("route", rows_text(rows, row, 3)),
              LOG_TEXT("trace_id", rows_text(rows, row, 5)), LOG_TEXT("tenant", rows_text(rows, row, 1)),
              LOG_INT("stream_seq", rows_int(rows, row, 4)), LOG_TEXT("cause", odd));
}

static void found_missing(struct state *now, struct services *services)
{
    now->pass_missing++;
    if (now->pass_missing > now->counted) {
        now->counted = now->pass_missing;
        metrics_add(services->metrics, &reconcile_metrics[MISSING], 1, NULL);
    }
}

/* A message ahead of the copies is missing when the copies are all that the log has. */
static bool is_missing(const char *odd, struct services *services)
{
    struct projector_state projector;
    if (strcmp(odd, "ahead") != 0) {
        return odd[0] != '\0';
    }
    projector_state(services->projector, &projector);
    return projector.log_trusted && projector.lag == 0;
}

static void stand_at(struct state *now, const struct rows *rows, size_t row)
{
    now->done_us = rows_int(rows, row, 0);
    (void)snprintf(now->tenant, sizeof(now->tenant), "%s", rows_text(rows, row, 1));
    (void)snprintf(now->key, sizeof(now->key), "%s", rows_text(rows, row, 2));
}

static struct fault compare_page(struct op *op, struct services *services, struct state *now, struct step *step)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql_arg args[] = { SQL_INT(now->done_us), SQL_TEXT(now->tenant), SQL_TEXT(now->key),
                              SQL_INT(RECONCILE_GRACE_US), SQL_INT(PAGE) };
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &ANSWERS, args, COUNT_OF(args), &rows));
    step->end = rows_count(rows) == 0 || rows_int(rows, 0, 8) < PAGE;
    step->lag_us = 0;
    for (size_t row = 0; row < rows_count(rows); row++) {
        const char *odd = rows_text(rows, row, 6);
        step->lag_us = step->end ? 0 : rows_int(rows, row, 9);
        if (is_missing(odd, services)) {
            tell_missing(rows, row, odd);
            found_missing(now, services);
        } else if (odd[0] != '\0') {
            step->wait = true;
            step->end = false;
            step->lag_us = rows_int(rows, row, 9);
            step->checked = (uint64_t)rows_int(rows, row, 7) - 1;
            return OK; /* from the last place on that was stood at: what lies between is compared again */
        }
        stand_at(now, rows, row);
        step->checked = (uint64_t)rows_int(rows, row, 7);
    }
    return OK;
}

/* At the end of a pass its findings are what counts; after an hour all is compared again. */
static void turn_page(struct state *now, bool end)
{
    if (end && now->again == 0) {
        now->former_missing = now->pass_missing;
        now->again = clock_mono() + AGAIN_NS;
    } else if (now->again != 0 && clock_mono() >= now->again) {
        now->former_missing = now->pass_missing;
        now->pass_missing = 0;
        now->done_us = 0;
        now->tenant[0] = now->key[0] = '\0';
        now->again = 0;
    }
}

static struct fault compare_answers(struct op *op, struct services *services, struct state *now)
{
    struct step step = { 0 };
    for (int page = 0; page < PAGES && !step.end && !step.wait; page++) {
        TRY(compare_page(op, services, now, &step));
        metrics_add(services->metrics, &reconcile_metrics[CHECKED], (double)step.checked, NULL);
        state_put(now);
        arena_clear(op->arena);
    }
    turn_page(now, step.end);
    int64_t lag = step.lag_us < LAG_TOO_LONG ? step.lag_us : LAG_TOO_LONG;
    metrics_set(services->metrics, &reconcile_metrics[LAG], (double)lag / US_PER_S, NULL);
    return OK;
}

/* ---- messages ---- */

/* A command whose message is so old that it was applied some runs ago is answered by now, or never will be. */
static struct fault count_unanswered(struct op *op, struct services *services, struct state *now)
{
    struct projector_state projector;
    projector_state(services->projector, &projector);
    if (now->runs == 0 && projector.checkpoint > BEHIND) {
        now->message = projector.checkpoint - BEHIND;
    }
    uint64_t settled = now->reached[now->runs % SETTLED]; /* 0 in the first runs */
    now->reached[now->runs++ % SETTLED] = projector.checkpoint;
    if (settled <= now->message) {
        return OK;
    }
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql_arg args[] = { SQL_INT((int64_t)now->message), SQL_INT((int64_t)settled), SQL_INT(MESSAGES) };
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &MESSAGES_OF_CALLERS, args, COUNT_OF(args), &rows));
    now->message = (uint64_t)rows_int(rows, 0, 0);
    metrics_add(services->metrics, &reconcile_metrics[UNANSWERED], (double)rows_int(rows, 0, 1), NULL);
    return OK;
}

struct fault reconcile_run(struct op *op, struct services *services)
{
    struct state now = state_get();
    struct fault fault = compare_answers(op, services, &now);
    if (!FAULTED(fault)) {
        fault = count_unanswered(op, services, &now);
    }
    state_put(&now);
    TRY(fault);
    int64_t now_s = clock_utc() / US_PER_S;
    metrics_set(services->metrics, &reconcile_metrics[LAST_RUN], (double)now_s, NULL);
    return OK;
}

struct fault reconcile_check(struct op *op, struct services *services)
{
    (void)services;
    struct state now = state_get();
    if (now.pass_missing + now.former_missing + now.protocol_missing == 0) {
        return OK;
    }
    return op_fail(op, FAULT(AUDIT_UNRECONCILED), "an answered mutation has no event in the log");
}

void reconcile_answered(const struct op *op, struct services *services, const struct route *route)
{
    if (op->recorded != OP_RECORDED_NOTHING) {
        return;
    }
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    state.protocol_missing++;
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
    metrics_add(services->metrics, &reconcile_metrics[MISSING], 1, NULL);
    log_write(ERROR, "audit_event_missing", LOG_TEXT("route", route->name), LOG_TEXT("trace_id", op->trace_id),
              LOG_TEXT("tenant", op->tenant.text), LOG_TEXT("cause", "nothing_recorded"));
}
