#include "api/server/access.h"

#include "appliance/base/log.h"
#include "appliance/base/tracing.h"

#include <stdio.h>

const struct metric http_requests_total = { "svc_http_requests_total",
                                            METRIC_COUNTER,
                                            "HTTP requests by method, route template and status.",
                                            { "method", "route", "code" } };
const struct metric http_request_duration_seconds = { "svc_http_request_duration_seconds",
                                                      METRIC_HISTOGRAM,
                                                      "Time from the header block to the last byte of the answer.",
                                                      { "method", "route" } };

const struct metric http_waits_total = { "svc_http_waits_total",
                                         METRIC_COUNTER,
                                         "Answers that requests waited for, of the database (store) and the event log "
                                         "(event_log): round trips.",
                                         { "of" } };

const char *access_method(const char *method)
{
    static const char *const known[] = { "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS" };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(method, known[i]) == 0) {
            return known[i];
        }
    }
    return "other";
}

/* The request's own span. A probe's is not recorded: they come all the time, and are all alike. */
static void trace_request(const struct op *op, const struct message *message, const struct response *response,
                          const struct route_match *match, size_t bytes, mono_ns started)
{
    if (!trace_on() || (match->route != NULL && (match->route->flags & ROUTE_PROBE) != 0)) {
        return;
    }
    const struct trace_operation span = {
        .kind = TRACE_SERVER,
        .name = access_method(message->method),
        .detail_key = "http.route",
        .detail = match->label,
        .began = started,
        .parent_remote = op->parent_span != 0,
        .failed = response->status >= 500,
        .error = response->fault != FAULT_NONE ? fault_row(response->fault)->text : NULL,
        .attributes = { { "http.request.method", access_method(message->method), 0 },
                        { "http.status_code", NULL, response->status },
                        { "http.response.status_code", NULL, response->status },
                        { "http.response.size", NULL, (int64_t)bytes },
                        { "url.scheme", message->listener == LISTENER_TLS ? "https" : "http", 0 } },
        .count = 5,
    };
    trace_operation(op, &span);
}

void access_record(struct metrics *metrics, const struct op *op, const struct message *message,
                   const struct response *response, const struct route_match *match, size_t bytes, mono_ns started)
{
    mono_ns took = clock_mono() - started;
    const char *method = access_method(message->method);
    const char *route = match->label != NULL ? match->label : "unmatched";
    char status[16];
    (void)snprintf(status, sizeof(status), "%d", response->status);
    metrics_add(metrics, &http_requests_total, 1, (const char *const[]){ method, route, status });
    metrics_observe(metrics, &http_request_duration_seconds, (double)took / (double)NS_PER_S,
                    (const char *const[]){ method, route });

    trace_request(op, message, response, match, bytes, started);
    metrics_add(metrics, &http_waits_total, op->store_waits, (const char *const[]){ "store" });
    metrics_add(metrics, &http_waits_total, op->event_log_waits, (const char *const[]){ "event_log" });

    bool quiet = match->route != NULL && (match->route->flags & ROUTE_PROBE) != 0 && response->status < 400;
    const struct log_pair pairs[] = {
        LOG_TEXT("trace_id", op->trace_id),
        LOG_TEXT("method", method),
        LOG_TEXT("route", route),
        LOG_INT("status", response->status),
        LOG_INT("bytes", bytes),
        LOG_INT("duration_ms", took / NS_PER_MS),
        LOG_INT("store_waits", op->store_waits),
        LOG_INT("log_waits", op->event_log_waits),
        LOG_TEXT("tenant", op->tenant.text[0] != 0 ? op->tenant.text : NULL),
        LOG_TEXT("code", response->fault != FAULT_NONE ? fault_row(response->fault)->text : NULL),
    };
    log_write_pairs(quiet ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, "http_request", pairs, COUNT_OF(pairs));
}
