#include "api/operations/internal.h"

const struct metric operations_metrics[OPERATIONS_METRICS] = {
    [OPERATIONS_ROWS] = { "svc_outbox_rows",
                          METRIC_GAUGE,
                          "Effects by state: pending, processing, dead-lettered. What ended for good stays "
                          "dead-lettered. NaN in a process that does not lead.",
                          { "state" } },
    [OPERATIONS_REQUEUEABLE] = { "svc_outbox_requeueable_rows",
                                 METRIC_GAUGE,
                                 "Dead letters that an operator may queue again. NaN in a process that does not lead.",
                                 { "destination" } },
    [OPERATIONS_OLDEST] = { "svc_outbox_oldest_pending_age_seconds",
                            METRIC_GAUGE,
                            "How long the oldest pending effect has been due. NaN in a process that does not lead.",
                            { 0 } },
    [OPERATIONS_DELIVERIES] = { "svc_outbox_deliveries_total",
                                METRIC_COUNTER,
                                "Attempts at effects by what they came to: delivered, retry or dead-lettered.",
                                { "destination", "result" } },
    [OPERATIONS_DURATION] = { "svc_outbox_delivery_duration_seconds",
                              METRIC_HISTOGRAM,
                              "How long an attempt at an effect took.",
                              { "destination" } },
    [OPERATIONS_LAG] = { "svc_outbox_reconciliation_lag_events",
                         METRIC_GAUGE,
                         "Events whose effects the comparison after a start has still to look at, and effects that are "
                         "owed and could not be queued again. NaN in a process that does not lead.",
                         { 0 } },
    [OPERATIONS_RECREATED] = { "svc_outbox_recreated_total",
                               METRIC_COUNTER,
                               "Lost outbox rows that were made again from their events.",
                               { "destination" } },
};

void operations_count_attempt(void *arg, const char *destination, const char *result, double seconds)
{
    struct services *services = arg;
    metrics_add(services->metrics, &operations_metrics[OPERATIONS_DELIVERIES], 1,
                (const char *const[]){ destination, result });
    metrics_observe(services->metrics, &operations_metrics[OPERATIONS_DURATION], seconds,
                    (const char *const[]){ destination });
}

static const struct jin_field requeue_fields[] = {
    JIN_TEXT(struct requeue_body, reason, JIN_REQUIRED, 1, REQUEUE_REASON),
};
static const struct jin_field requeue_many_fields[] = {
    JIN_TEXT(struct requeue_many_body, destination, JIN_REQUIRED, 1, DESTINATION_SIZE),
    JIN_TEXT(struct requeue_many_body, reason, JIN_REQUIRED, 1, REQUEUE_REASON),
    JIN_INT(struct requeue_many_body, limit, JIN_OPTIONAL, 1, REQUEUE_MOST),
};
static const char *const list_query[] = { "state", "destination", "limit", "cursor", NULL };

static const struct answer_field seen_answer[] = {
    { "outbox_id", "string", "Names the effect; larger is newer." },
    { "destination", "string", "What kind of effect it is, as codesign.command or transparency.tlog." },
    { "key", "string", "What it is about: the id of an operation, a key, a batch." },
    { "state", "string", "pending, processing, delivered or dead-lettered." },
    { "attempts", "integer", "As far as they are known: of this round, or until the last failure." },
    { "last_code", "string", "What the last failure was; null = nothing has failed." },
    { "first_failed_at", "string", "RFC 3339, or null." },
    { "last_failed_at", "string", "RFC 3339, or null." },
    { "created_at", "string", "The time of the event that queued it." },
    { "due_at", "string", "When it is tried again, or first; null = at once, or never again." },
    { "lease_until", "string", "While it is processing: when another worker may take it." },
    { "trace_id", "string", "Of the request that caused it." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Newest first, each as GET /api/v1/outbox/{id}." },
    { "next_cursor", "string", "Present when there are more." },
};
static const struct answer_field many_answer[] = {
    { "destination", "string", "As asked." },
    { "requeued", "integer", "So many go again." },
    { "refused", "integer", "So many were looked at and may not." },
    { "refused_why", "string", "Why the first of these may not; null = none was refused." },
    { "more", "boolean", "There are more that were not looked at: ask again." },
};

static const struct route routes[] = {
    {
        .name = "outbox.list",
        .method = ROUTE_GET,
        .path = "/api/v1/outbox",
        .permission = PERMISSION_SYSTEM_READ,
        .bulkhead = BULKHEAD_API,
        .query = list_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_outbox_list,
        .doc = "The tenant's effects that wait, are under way or were given up; payloads are never shown.",
    },
    {
        .name = "outbox.get",
        .method = ROUTE_GET,
        .path = "/api/v1/outbox/{id}",
        .permission = PERMISSION_SYSTEM_READ,
        .bulkhead = BULKHEAD_API,
        .answer = seen_answer,
        .answer_count = COUNT_OF(seen_answer),
        .success_status = 200,
        .handler = route_outbox_get,
        .doc = "One effect, also one that was delivered.",
    },
    {
        .name = "outbox.requeue",
        .method = ROUTE_POST,
        .path = "/api/v1/outbox/{id}/requeue",
        .permission = PERMISSION_OPERATIONS_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 4096,
        .body = requeue_fields,
        .body_count = COUNT_OF(requeue_fields),
        .body_size = sizeof(struct requeue_body),
        .answer = seen_answer,
        .answer_count = COUNT_OF(seen_answer),
        .success_status = 200,
        .handler = route_outbox_requeue,
        .doc = "Let a dead letter go again, all its attempts before it. Refused where a repetition could double or "
               "contradict what was recorded.",
    },
    {
        .name = "outbox.requeue-destination",
        .method = ROUTE_POST,
        .path = "/api/v1/outbox/requeue",
        .permission = PERMISSION_OPERATIONS_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 4096,
        .body = requeue_many_fields,
        .body_count = COUNT_OF(requeue_many_fields),
        .body_size = sizeof(struct requeue_many_body),
        .answer = many_answer,
        .answer_count = COUNT_OF(many_answer),
        .success_status = 200,
        .handler = route_outbox_requeue_many,
        .doc = "Let the oldest dead letters of one destination go again, at most 100 at once.",
    },
};

static const struct event_row events[] = {
    { EVENT_OUTBOX_REQUEUED, 1, project_outbox_requeued,
      "An operator let a dead letter go again; the reason is theirs." },
    { EVENT_OUTBOX_RECREATED, 1, project_outbox_recreated,
      "A lost outbox row was made again from the event that had queued it." },
};

static const struct worker_row workers[] = {
    { .name = "outbox-reconciliation", .period_ms = 1000, .leader_only = false, .run = outbox_reconcile_run },
    { .name = "outbox-gauges", .period_ms = 5000, .leader_only = false, .run = outbox_gauges_run },
};

static const struct readiness_row readiness[] = {
    { .name = "outbox_reconciliation", .check = outbox_reconcile_well, .degrades = true },
};

static void stop(struct services *services)
{
    (void)services;
    outbox_reconcile_forget();
}

const struct feature operations_feature = {
    .name = "operations",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .readiness = readiness,
    .readiness_count = COUNT_OF(readiness),
    .metrics = operations_metrics,
    .metric_count = COUNT_OF(operations_metrics),
    .stop = stop,
};
