#include "api/server/server_feature.h"

#include "api/server/access.h"
#include "api/server/bulkhead_metrics.h"
#include "api/server/exchange.h"
#include "api/server/openapi.h"
#include "api/server/presence.h"
#include "api/server/probes.h"
#include "api/server/rate.h"
#include "api/server/reconcile.h"
#include "api/server/signer_metrics.h"
#include "api/server/spine_metrics.h"
#include "api/server/workers.h"
#include "api/telemetry/host.h"

#define METRICS_TEXT_MAX ((size_t)8 << 20)

static struct fault handle_health(struct request *request)
{
    struct span json = { 0 };
    bool well = false;
    TRY(probes_health(request->op, request->private_->core->probes, &json, &well));
    return response_bytes(request, well ? 200 : 503, "application/json", json);
}

static struct fault handle_ready(struct request *request)
{
    struct span json = { 0 };
    bool well = false;
    TRY(probes_readiness(request->op, request->private_->core->probes, &json, &well));
    return response_bytes(request, well ? 200 : 503, "application/json", json);
}

static struct fault handle_metrics(struct request *request)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(METRICS_TEXT_MAX);
    TRY(probes_metrics(request->private_->core->probes, &text));
    return response_bytes(request, 0, "text/plain; version=0.0.4; charset=utf-8", buf_span(&text));
}

static struct fault handle_openapi(struct request *request)
{
    return response_json(request, 0, &request->private_->core->openapi);
}

static const struct answer_field health_answer[] = {
    { "status", "string", "ok or unhealthy." },
    { "signer", "string", "ok, degraded, journal_unusable, down, unreachable or unknown." },
};
static const struct answer_field ready_answer[] = {
    { "status", "string", "ready, not_ready or stopping." },
    { "checks", "object", "db, nats, projection, signer and others: ok, or one word that says why not." },
    { "degraded", "array", "Checks that were shed by load, or that work with a part missing." },
    { "projection", "object", "checkpoint, log_last and lag of the read model." },
    { "event_log", "object", "replicas_desired and replicas_actual." },
    { "signer", "object", "While something is wrong with it: state, journal_usable, and tokens with state and cause." },
};

#define PROBE_ROUTE(name_, path_, handler_, doc_)                                                                 \
    .name = (name_), .method = ROUTE_GET, .path = (path_), .permission = PERMISSION_PUBLIC, .flags = ROUTE_PROBE, \
    .bulkhead = BULKHEAD_NONE, .success_status = 200, .handler = (handler_), .doc = (doc_)

static const struct route routes[] = {
    { PROBE_ROUTE("server.health", "/healthz", handle_health, "Liveness: the process is up and the signer answers."),
      .answer = health_answer, .answer_count = COUNT_OF(health_answer) },
    { PROBE_ROUTE("server.ready", "/readyz", handle_ready,
                  "Readiness: 200 when datastore, event log, projection and signer can be trusted, else 503."),
      .answer = ready_answer, .answer_count = COUNT_OF(ready_answer) },
    { PROBE_ROUTE("server.metrics", "/metrics", handle_metrics, "Metrics in the Prometheus text format.") },
    { .name = "server.openapi",
      .method = ROUTE_GET,
      .path = "/api/v1/openapi.json",
      .permission = PERMISSION_PUBLIC,
      .flags = ROUTE_READ,
      .bulkhead = BULKHEAD_API,
      .success_status = 200,
      .handler = handle_openapi,
      .doc = "This document." },
};

static const struct metric outbox_timeouts = { "svc_outbox_delivery_timeouts_total",
                                               METRIC_COUNTER,
                                               "Deliveries that ran into their deadline.",
                                               { "tenant_id", "destination" } };

void server_count_outbox_timeout(void *services, const char *tenant, const char *destination)
{
    struct metrics *metrics = ((struct services *)services)->metrics;
    metrics_add(metrics, &outbox_timeouts, 1, (const char *const[]){ tenant, destination });
}

/* Add yours here: what is not registered at the start is missing from docs/metrics.md. */
static struct fault register_metrics(struct metrics *metrics)
{
    TRY(metrics_register(metrics, &http_requests_total, 1));
    TRY(metrics_register(metrics, &http_request_duration_seconds, 1));
    TRY(metrics_register(metrics, &worker_failures_total, 1));
    TRY(metrics_register(metrics, &outbox_timeouts, 1));
    TRY(metrics_register(metrics, reconcile_metrics, reconcile_metric_count));
    TRY(metrics_register(metrics, &http_waits_total, 1));
    TRY(metrics_register(metrics, rate_metrics, rate_metric_count));
    TRY(metrics_register(metrics, signer_metrics, signer_metric_count));
    TRY(metrics_register(metrics, spine_metrics, spine_metric_count));
    TRY(metrics_register(metrics, host_metrics, host_metric_count));
    TRY(metrics_register(metrics, bulkhead_metrics, bulkhead_metric_count));
    return metrics_register(metrics, probe_metrics, probe_metric_count);
}

static struct fault sample_disks(struct op *op, struct services *services)
{
    (void)op;
    host_sample_disks(services->metrics, services->config);
    return OK;
}

static struct fault start(struct op *op, struct services *services)
{
    const struct config *config = services->config;
    TRY(presence_new(op, services->store, services->instance, &services->presence));
    return config->rate_limit_enabled ? rate_new(config, services->store, services->metrics, &services->rate) : OK;
}

static void stop(struct services *services)
{
    rate_free(TAKE(services->rate));
    presence_free(TAKE(services->presence));
}

static const struct worker_row workers[] = {
    { "disk-space", 10000, false, sample_disks },
    { "signer-health", 5000, false, signer_metrics_sample },
    { "audit-reconciliation", 5000, true, reconcile_run },
};
static const struct readiness_row readiness[] = {
    { .name = "audit_reconciliation", .check = reconcile_check, .degrades = true },
};

static const struct event_row events[] = {
    { "audit.log.repaired", 1, NULL, "The operator had a lost tail of the event log appended again from the copies." },
};

const struct feature server_feature = {
    .name = "server",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .readiness = readiness,
    .readiness_count = COUNT_OF(readiness),
    .register_metrics = register_metrics,
    .start = start,
    .stop = stop,
};
