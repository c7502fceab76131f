#include "api/transparency/internal.h"

#include "appliance/base/file.h"
#include "appliance/base/log.h"

#define LOGS_FILE_MAX ((size_t)1 << 20)
/* At a minute each, once the first few are through: about a week of outage. */
#define ATTEMPTS      10080
#define DEADLINE_MS   45000

const struct metric transparency_metrics[2] = {
    { "svc_transparency_submissions_total",
      METRIC_COUNTER,
      "Submissions to transparency logs: published, unavailable, refused, unverified or failed.",
      { "log", "result" } },
    { "svc_transparency_submit_seconds",
      METRIC_HISTOGRAM,
      "How long a submission and its verification took.",
      { "log" } },
};

static const char *const list_query[] = { "state", "log", "limit", "cursor", NULL };
static const struct answer_field list_answer[] = {
    { "items", "array",
      "Newest first: operation_id, state (pending, published, failed), log, queued_at, ended_at, failure_code; once "
      "published log_id, log_index, integrated_at (absent where the log signs no time), entry_id, and entry, a Sigstore "
      "TransparencyLogEntry." },
    { "next_cursor", "string", "Present when there are more." },
};

static const struct route routes[] = {
    {
        .name = "code-signing.transparency",
        .method = ROUTE_GET,
        .path = "/api/v1/code-signing/transparency",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .query = list_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_transparency_list,
        .doc = "Evidence of publication in transparency logs; filters: state, log (name or destination).",
    },
};

static const struct event_row events[] = {
    { "transparency.published", 1, project_published,
      "A signing stands in its transparency log; the entry and its proofs were verified under the pinned key." },
    { "transparency.failed", 1, project_failed, "A signing was not published and will not be; the code says why." },
};

static const struct outbox_row outbox[] = {
    { .destination = TRANSPARENCY_DESTINATION,
      .handler = transparency_publish,
      .deadline_ms = DEADLINE_MS,
      .attempts = ATTEMPTS,
      .outbound = true,
      .upkeep = &transparency_upkeep,
      .doc = "Publishes a completed signing in its transparency log and records the verified entry." },
};

static struct fault start(struct op *op, struct services *services)
{
    const char *path = services->config->tlogs_file;
    if (path == NULL || path[0] == '\0') {
        return OK;
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT(LOGS_FILE_MAX);
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    if (FAULTED(file_read(path, &text))) {
        return op_fail(op, FAULT(CONFIG), "code_signing.transparency.logs_file: %.150s cannot be read", path);
    }
    struct fault fault = tlogs_read(buf_span(&text), path, &why, &services->transparency);
    if (FAULTED(fault)) {
        return op_fail(op, fault, "%.*s", why.len < 250 ? (int)why.len : 250, why.len > 0 ? (const char *)why.at : "");
    }
    for (size_t i = 0; i < services->transparency->count; i++) {
        const struct tlog *log = &services->transparency->logs[i];
        log_write(INFO, "transparency_log", LOG_TEXT("name", log->name), LOG_TEXT("destination", log->destination),
                  LOG_INT("keys", log->key_count));
    }
    return OK;
}

static void stop(struct services *services)
{
    tlogs_free(TAKE(services->transparency));
    http_forget();
}

const struct feature transparency_feature = {
    .name = "transparency",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .outbox = outbox,
    .outbox_count = COUNT_OF(outbox),
    .metrics = transparency_metrics,
    .metric_count = COUNT_OF(transparency_metrics),
    .start = start,
    .stop = stop,
};
