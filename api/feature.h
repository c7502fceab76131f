/*
 * What a feature is to the plumbing: constant tables. A feature is added by writing its folder and naming it once in
 * api/features.c; nothing else switches on its strings.
 */
#ifndef API_FEATURE_H
#define API_FEATURE_H

#include "api/identity/identity.h"
#include "api/outbox/outbox.h"
#include "api/projection/projection.h"
#include "api/telemetry/metrics.h"
#include "appliance/base/bulkheads.h"
#include "appliance/base/json.h"

struct services;
struct request;

enum route_method { ROUTE_GET, ROUTE_POST, ROUTE_PUT, ROUTE_DELETE };
enum route_flags {
    ROUTE_READ = 0,
    ROUTE_MUTATION = 1,       /* needs an Idempotency-Key; its answer is kept and replayed */
    ROUTE_EFFECT_FREE = 2,    /* a POST that changes nothing (preview) */
    ROUTE_PLAIN_TOO = 4,      /* also on http.plain_listen */
    ROUTE_RAW_BODY = 8,       /* not JSON: body is handed over as it is */
    ROUTE_SECRET_ANSWER = 16, /* the answer holds a secret: sent once, never kept; a replay answers 409 indeterminate */
    ROUTE_PROBE = 32,         /* also on http.probe_listen; outside bulkheads, admission and drain */
};

typedef struct fault (*route_fn)(struct request *request);

/* A member of an answer, for OpenAPI and docs. type: "string", "integer", "boolean", "array", "object". */
struct answer_field {
    const char *name, *type, *doc;
};

struct route {
    const char *name; /* "code-signing.sign": unique, operationId, and the stem of the CLI's words */
    enum route_method method;
    const char *path; /* "/api/v1/keys/{id}": a {name} matches one segment */
    enum permission permission;
    unsigned flags;
    enum bulkhead_name bulkhead;
    size_t body_max;              /* 0 = http.body_max_bytes */
    const struct jin_field *body; /* decoded into a struct of body_size; NULL = no body (one is refused) or RAW_BODY */
    size_t body_count, body_size;
    const char *const *query; /* NULL-terminated names of query parameters that are accepted; others are refused */
    const char *content_type; /* that RAW_BODY requires; NULL = application/json */
    const struct answer_field *answer;
    size_t answer_count;
    int success_status; /* 200, 201 ... */
    route_fn handler;
    const char *doc;
};

/* Called at start, after catch-up and before serving, by one instance at a time per process: make missing keys, load
 * what the feature keeps in memory. A fault fails the start. */
typedef struct fault (*feature_start_fn)(struct op *op, struct services *services);
typedef void (*feature_stop_fn)(struct services *services);

/* Periodic work on a thread of the plumbing's. leader_only: only where the projector leads. */
struct worker_row {
    const char *name;
    int period_ms;
    bool leader_only;
    struct fault (*run)(struct op *op, struct services *services);
};

/* A readiness check beyond the plumbing's own (db, nats, projection, signer): run by /readyz with a budget. */
struct readiness_row {
    const char *name;
    struct fault (*check)(struct op *op, struct services *services);
    bool degrades; /* a fault names the row in `degraded` and takes no readiness away */
};

struct feature {
    const char *name;
    const struct route *routes;
    size_t route_count;
    const struct event_row *events;
    size_t event_count;
    const struct outbox_row *outbox;
    size_t outbox_count;
    const struct worker_row *workers;
    size_t worker_count;
    const struct readiness_row *readiness;
    size_t readiness_count;
    const struct metric *metrics;
    size_t metric_count;
    /* Metrics beyond that table, of rooms that are no features; NULL = none. Every metric is registered here or by the
     * table, so that docs/metrics.md, printed without a service, names it. */
    struct fault (*register_metrics)(struct metrics *metrics);
    feature_start_fn start;
    feature_stop_fn stop;
};

/* All features, in start order. */
const struct feature *const *features_all(size_t *ret_count);
/* Registers the metrics of all of them. */
struct fault features_metrics(struct metrics *metrics);

#endif
