#include "api/server/spine_metrics.h"

enum { CLAIMS, CALL, APPEND, APPLY, APPLIED, STOPPED, TRUSTED };
const struct metric spine_metrics[] = {
    [CLAIMS] = { "svc_idempotency_claims_total",
                 METRIC_COUNTER,
                 "Mutations by what became of their Idempotency-Key: run, replayed, reused, in_progress, "
                 "indeterminate, failed.",
                 { "outcome" } },
    [CALL] = { "svc_signer_call_duration_seconds",
               METRIC_HISTOGRAM,
               "Calls of svc-signer as svc-api sees them, waiting included, by operation and outcome: ok, refused "
               "(by rule or for the caller's mistake), failed.",
               { "operation", "outcome" } },
    [APPEND] = { "svc_event_append_duration_seconds",
                 METRIC_HISTOGRAM,
                 "Appends to the event log, until they were durable, by outcome: stored, conflict, failed.",
                 { "outcome" } },
    [APPLY] = { "svc_projection_apply_duration_seconds",
                METRIC_HISTOGRAM,
                "Transactions of the projector, each with some messages of the event log.",
                { 0 } },
    [APPLIED] = { "svc_projection_applied_messages_total",
                  METRIC_COUNTER,
                  "Messages of the event log that this process applied to the read model.",
                  { 0 } },
    [STOPPED] = { "svc_projection_stopped",
                  METRIC_GAUGE,
                  "1 while the projector stands at a message that does not apply, else 0.",
                  { 0 } },
    [TRUSTED] = { "svc_event_log_trusted",
                  METRIC_GAUGE,
                  "1 while the event log equals its verified copies, else 0: nothing is applied or appended then.",
                  { 0 } },
};
const size_t spine_metric_count = COUNT_OF(spine_metrics);

static double seconds(mono_ns took)
{
    return (double)took / (double)NS_PER_S;
}

static const char *claim_outcome(struct fault end, bool ours)
{
    static const struct {
        enum fault_code code;
        const char *text;
    } rows[] = { { FAULT_IDEMPOTENCY_KEY_REUSED, "reused" },
                 { FAULT_IDEMPOTENCY_IN_PROGRESS, "in_progress" },
                 { FAULT_IDEMPOTENCY_INDETERMINATE, "indeterminate" } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (end.code == rows[i].code) {
            return rows[i].text;
        }
    }
    return FAULTED(end) ? "failed" : ours ? "run" : "replayed";
}

void spine_claimed(const struct services *services, struct fault end, bool ours)
{
    if (services->metrics != NULL) { /* a server without is one of a test */
        metrics_add(services->metrics, &spine_metrics[CLAIMS], 1, (const char *const[]){ claim_outcome(end, ours) });
    }
}

void spine_signed(void *services, enum wire_op op, mono_ns took, struct fault end)
{
    struct metrics *metrics = ((struct services *)services)->metrics;
    const char *outcome = !FAULTED(end) ? "ok" : fault_row(end.code)->http < 500 ? "refused" : "failed";
    metrics_observe(metrics, &spine_metrics[CALL], seconds(took), (const char *const[]){ wire_op_text(op), outcome });
}

void spine_appended(void *services, mono_ns took, struct fault end)
{
    struct metrics *metrics = ((struct services *)services)->metrics;
    const char *outcome = end.code == FAULT_LOG_CONFLICT ? "conflict" : FAULTED(end) ? "failed" : "stored";
    metrics_observe(metrics, &spine_metrics[APPEND], seconds(took), (const char *const[]){ outcome });
}

void spine_applied(void *services, size_t messages, mono_ns took)
{
    struct metrics *metrics = ((struct services *)services)->metrics;
    if (metrics != NULL) { /* a rebuild runs without */
        metrics_observe(metrics, &spine_metrics[APPLY], seconds(took), NULL);
        metrics_add(metrics, &spine_metrics[APPLIED], (double)messages, NULL);
    }
}

void spine_sample(struct services *services)
{
    struct projector_state state;
    projector_state(services->projector, &state);
    metrics_set(services->metrics, &spine_metrics[STOPPED], state.stopped_at_failure, NULL);
    metrics_set(services->metrics, &spine_metrics[TRUSTED], state.log_trusted, NULL);
}
