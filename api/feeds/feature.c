#include "api/feeds/internal.h"

/* At a minute each, once the first few are through: about a week of outage. */
#define ATTEMPTS    10080
#define DEADLINE_MS 60000
#define WORK_MS     500
#define CAP_TENANT  4
#define CAP_ALL     16

const struct metric feed_metrics[5] = {
    { "svc_audit_feed_state",
      METRIC_GAUGE,
      "1 for the state that a feed is in: idle, queued, retrying, delivered, failed, paused. NaN in a "
      "process that does not lead.",
      { "feed", "state" } },
    { "svc_audit_feed_lag_records",
      METRIC_GAUGE,
      "Records of a feed's open batch, which the collector is still owed. NaN in a process that does not lead.",
      { "feed" } },
    { "svc_audit_feed_attempts_total", METRIC_COUNTER, "Attempts at batches, by what they met.", { "kind", "result" } },
    { "svc_audit_feed_records_total", METRIC_COUNTER, "Records that collectors have accepted.", { "kind" } },
    { "svc_audit_feed_last_success_timestamp_seconds",
      METRIC_GAUGE,
      "When a feed's collector last accepted a batch. NaN in a process that does not lead.",
      { "feed" } },
};

static const struct answer_field feed_answer[] = {
    { "feed_id", "string", "" },
    { "kind", "string", "hec, azure-monitor or syslog" },
    { "host", "string", "host:port of the collector" },
    { "credential", "string", "env:NAME; null = none" },
    { "enabled", "boolean", "" },
    { "version", "integer", "of the configuration" },
    { "state", "string", "idle, queued, retrying, delivered, failed (until it is saved again) or paused" },
    { "last_delivered_sequence", "integer", "highest record that the collector has accepted; 0 = none" },
    { "next_sequence", "integer", "where the next batch begins" },
    { "lag_records", "integer", "records of the open batch" },
    { "attempts", "integer", "at the open batch, or at the one that failed" },
    { "next_attempt_at", "string", "while it is retrying" },
    { "last_error_code", "string", "while it is retrying, or failed" },
    { "collector_request_id", "string", "how the collector named the request" },
    { "batch_id", "string", "of the open batch" },
    { "last_delivered_at", "string", "" },
    { "failed_at", "string", "" },
    { "saved_at", "string", "" },
    { "saved_by", "string", "" },
    { "config", "object", "as saved" },
};
static const struct answer_field list_answer[] = { { "items", "array", "Feeds as they stand, by feed_id." } };
static const struct answer_field preview_answer[] = {
    { "feed_id", "string", "" },
    { "kind", "string", "" },
    { "collector", "string", "what kind of collector that is" },
    { "host", "string", "host:port of the collector" },
    { "hosts", "array", "every host that the feed speaks to" },
    { "credential", "string", "env:NAME" },
    { "credentials", "array", "each: reference, and whether it is set on the server" },
    { "version", "integer", "that would be saved" },
    { "enabled", "boolean", "" },
    { "from_sequence", "integer", "the first record that would be sent" },
    { "permission", "string", "what saving needs" },
    { "writes", "string", "what saving writes" },
    { "later_effect", "string", "what happens then" },
    { "proof", "string", "what delivered rests on" },
    { "recovery", "string", "what happens when the collector does not accept" },
};

#define BODY        .body = feed_body_fields, .body_count = COUNT_OF(feed_body_fields), .body_size = sizeof(struct feed_body)
#define FEED_ANSWER .answer = feed_answer, .answer_count = COUNT_OF(feed_answer), .success_status = 200

static const struct route routes[] = {
    {
        .name = "audit.feeds.list",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/feeds",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_feeds_list,
        .doc = "The tenant's audit feeds and how they stand.",
    },
    {
        .name = "audit.feeds.put",
        .method = ROUTE_PUT,
        .path = "/api/v1/audit/feeds/{id}",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        BODY,
        FEED_ANSWER,
        .handler = route_feed_put,
        .doc = "Saves a new version of a feed's configuration; the feed goes on with it.",
    },
    {
        .name = "audit.feeds.preview",
        .method = ROUTE_POST,
        .path = "/api/v1/audit/feeds/{id}/preview",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_EFFECT_FREE,
        .bulkhead = BULKHEAD_API,
        BODY,
        .answer = preview_answer,
        .answer_count = COUNT_OF(preview_answer),
        .success_status = 200,
        .handler = route_feed_preview,
        .doc = "What saving that configuration would do; writes nothing and asks nobody.",
    },
    {
        .name = "audit.feeds.pause",
        .method = ROUTE_POST,
        .path = "/api/v1/audit/feeds/{id}/pause",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        FEED_ANSWER,
        .handler = route_feed_pause,
        .doc = "Stops a feed: a new version that is not enabled.",
    },
    {
        .name = "audit.feeds.resume",
        .method = ROUTE_POST,
        .path = "/api/v1/audit/feeds/{id}/resume",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        FEED_ANSWER,
        .handler = route_feed_resume,
        .doc = "Lets a feed go on where it stands, also one that failed: a new version that is enabled.",
    },
};

static const struct event_row events[] = {
    { "audit.feed.configured", 1, feed_project_configured, "A version of an audit feed's configuration was saved." },
    { "audit.feed.batched", 1, feed_project_batched,
      "Records were taken for a feed's next batch: range, seed, head, digests." },
    { "audit.feed.requeued", 1, feed_project_requeued,
      "A batch that was lost from the outbox is queued again, unchanged." },
    { "audit.feed.delivered", 1, feed_project_delivered, "The collector has accepted a batch." },
    { "audit.feed.failed", 1, feed_project_failed,
      "A batch is given up; the feed stands still until it is saved again." },
};

/* work.c reconciles batches at the start, with a range of records to check. */
static const struct outbox_upkeep upkeep = {
    .closed = "a feed that stands still goes on when it is saved again or resumed (audit feeds resume)",
};

static const struct outbox_row outbox[] = {
    { .destination = FEED_OUTBOX,
      .handler = feed_deliver,
      .deadline_ms = DEADLINE_MS,
      .attempts = ATTEMPTS,
      .cap_tenant = CAP_TENANT,
      .cap_destination = CAP_ALL,
      .outbound = true,
      .upkeep = &upkeep,
      .doc = "Sends a batch of audit records to a feed's collector." },
};

static const struct worker_row workers[] = {
    { .name = "audit-feeds", .period_ms = WORK_MS, .leader_only = false, .run = feeds_work },
};

static const struct readiness_row readiness[] = {
    { .name = "audit_feeds", .check = feeds_well, .degrades = true },
};

static struct fault start(struct op *op, struct services *services)
{
    TRY(feeds_new(op, services->config, &services->feeds));
    return feeds_reconcile(op, services);
}

static void stop(struct services *services)
{
    feeds_free(TAKE(services->feeds));
    http_forget();
}

const struct feature feeds_feature = {
    .name = "feeds",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .outbox = outbox,
    .outbox_count = COUNT_OF(outbox),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .readiness = readiness,
    .readiness_count = COUNT_OF(readiness),
    .metrics = feed_metrics,
    .metric_count = COUNT_OF(feed_metrics),
    .start = start,
    .stop = stop,
};
