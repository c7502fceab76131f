#include "api/otlp/internal.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <math.h>

#define STEP_MS    30000
#define FOLLOW_NS  NS_PER_S
#define TOO_LARGE_ 413

enum { EXPORTED, REJECTED, LAG, POSITION, SUCCESS };
const struct metric audit_metrics[] = {
    [EXPORTED] = { "svc_otlp_audit_exported_total",
                   METRIC_COUNTER,
                   "Audit records that the receiver accepted.",
                   { 0 } },
    [REJECTED] = { "svc_otlp_audit_rejected_total",
                   METRIC_COUNTER,
                   "Audit records that the receiver said it does not take (partial success).",
                   { 0 } },
    [LAG] = { "svc_otlp_audit_lag_events",
              METRIC_GAUGE,
              "Messages of the log whose audit records wait for their export. NaN in a process that does not lead.",
              { 0 } },
    [POSITION] = { "svc_otlp_audit_position",
                   METRIC_GAUGE,
                   "Stream sequence of the last message whose audit records were exported. NaN in a process that "
                   "does not lead.",
                   { 0 } },
    [SUCCESS] = { "svc_otlp_audit_last_success_timestamp_seconds",
                  METRIC_GAUGE,
                  "When audit records were last accepted. NaN in a process that does not lead.",
                  { 0 } },
};
const size_t audit_metric_count = COUNT_OF(audit_metrics);

static void show(const struct otlp_export *export, int metric, double value)
{
    metrics_set(export->services->metrics, &audit_metrics[metric], value, NULL);
}

static void tell(struct otlp_export *export, const struct trail *trail, const struct otlp_reply *reply)
{
    bool fails = reply->outcome != OTLP_ACCEPTED;
    if (fails) {
        metrics_add(export->services->metrics, &otlp_export_failures, 1, (const char *const[]){ "logs" });
    }
    if (fails && !export->told) {
        log_write(WARN, "otlp_export_failed", LOG_TEXT("signal", "logs"), LOG_INT("status", reply->status),
                  LOG_TEXT("cause", reply->why));
    } else if (!fails && export->told) {
        log_write(INFO, "otlp_export_recovered", LOG_TEXT("signal", "logs"));
    }
    export->told = fails;
    if (reply->rejected > 0) { /* it has them and does not want them: they are not sent again (OTLP/HTTP) */
        log_write(WARN, "otlp_audit_rejected", LOG_INT("records", reply->rejected),
                  LOG_INT("first_stream_seq", trail->from + 1), LOG_INT("last_stream_seq", trail->upto),
                  LOG_TEXT("cause", reply->why));
    }
}

/* Fewer at a time; one message always fits what a receiver has to take. */
static void take_less(struct otlp_export *export)
{
    export->messages = export->messages > 1 ? export->messages / 2 : 1;
}

/* False: it is to be tried again, and export->failures counts. */
static bool send(struct otlp_export *export, const struct trail *trail, struct otlp_reply *reply)
{
    otlp_send(export->logs, buf_span(&export->body), INT64_MAX, &export->stop_told, reply);
    tell(export, trail, reply);
    if (reply->outcome == OTLP_ACCEPTED) {
        size_t rejected = (size_t)reply->rejected < trail->count ? (size_t)reply->rejected : trail->count;
        metrics_add(export->services->metrics, &audit_metrics[EXPORTED], (double)(trail->count - rejected), NULL);
        metrics_add(export->services->metrics, &audit_metrics[REJECTED], (double)rejected, NULL);
        show(export, SUCCESS, (double)clock_utc() / (double)US_PER_S);
        export->failures = 0;
        return true;
    }
    if (reply->status == TOO_LARGE_) {
        take_less(export);
    }
    export->failures++;
    return false;
}

static struct fault export_next(struct op *op, struct otlp_export *export, int64_t *ret_wait_ns)
{
    struct trail trail;
    struct otlp_reply reply = { 0 };
    TRY(trail_next(op, export->services->store, export->messages, &trail));
    export->position = trail.from;
    if (trail.upto == trail.from) {
        return OK;
    }
    if (trail.count > 0) {
        buf_clear(&export->body);
        TRY(otlp_encode_audit(&export->settings, trail.records, trail.count, clock_utc(), &export->body));
        if (!send(export, &trail, &reply)) {
            *ret_wait_ns = otlp_wait_ns(&reply, export->failures);
            return OK;
        }
    }
    TRY(trail_advance(op, export->services->store, &trail));
    export->position = trail.upto;
    export->messages = export->messages < AUDIT_MESSAGES ? export->messages * 2 : AUDIT_MESSAGES;
    *ret_wait_ns = 0;
    return OK;
}

void audit_step(struct otlp_export *export, int64_t *ret_wait_ns)
{
    struct projector_state state;
    int64_t wait = export->settings.interval_ns;
    projector_state(export->services->projector, &state);
    if (!state.leader) {
        show(export, LAG, NAN);
        show(export, POSITION, NAN);
        show(export, SUCCESS, NAN);
        *ret_wait_ns = FOLLOW_NS;
        return;
    }
    if (state.checkpoint != export->position || export->position == 0) {
        CLEANUP(op_freep) struct op *op = NULL;
        struct fault fault = op_new("system:otlp", (struct tenant_id){ "" }, STEP_MS, &op);
        fault = FAULTED(fault) ? fault : export_next(op, export, &wait);
        if (fault.code == FAULT_TOO_LARGE && export->messages > 1) {
            take_less(export);
            wait = 0;
        } else if (FAULTED(fault)) {
            const struct otlp_reply none = { 0 };
            wait = otlp_wait_ns(&none, ++export->failures);
            log_fault(LOG_LEVEL_WARN, "otlp_audit_not_exported", op, fault);
        }
    }
    show(export, POSITION, (double)export->position);
    show(export, LAG, state.checkpoint > export->position ? (double)(state.checkpoint - export->position) : 0);
    *ret_wait_ns = wait;
}

static bool pause_until(struct otlp_export *export, mono_ns until)
{
    struct timespec time = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    BUG_IF(pthread_mutex_lock(&export->lock) != 0);
    int waited = 0;
    while (!export->stopping && waited == 0 && clock_mono() < until) {
        waited = pthread_cond_clockwait(&export->changed, &export->lock, CLOCK_MONOTONIC, &time);
    }
    bool going = !export->stopping;
    BUG_IF(pthread_mutex_unlock(&export->lock) != 0);
    BUG_IF(waited != 0 && waited != ETIMEDOUT);
    return going;
}

static void *run(void *arg)
{
    struct otlp_export *export = arg;
    int64_t wait = 0;
    (void)pthread_setname_np(pthread_self(), "svc-otlp-audit");
    while (pause_until(export, clock_mono() + wait)) {
        audit_step(export, &wait);
    }
    return NULL;
}

struct fault audit_start(struct otlp_export *export)
{
    export->messages = AUDIT_MESSAGES;
    export->runs = pthread_create(&export->thread, NULL, run, export) == 0;
    return export->runs ? OK : FAULT(NO_MEMORY);
}

void audit_stop(struct otlp_export *export)
{
    BUG_IF(pthread_mutex_lock(&export->lock) != 0);
    export->stopping = true;
    atomic_store(&export->stop_told, true);
    BUG_IF(pthread_cond_broadcast(&export->changed) != 0);
    BUG_IF(pthread_mutex_unlock(&export->lock) != 0);
    if (export->runs) {
        BUG_IF(pthread_join(export->thread, NULL) != 0);
        export->runs = false;
    }
}
