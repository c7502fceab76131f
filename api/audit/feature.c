#include "api/audit/chain_watch.h"
#include "api/audit/internal.h"

static const char *const record_query[] = { "actor", "type", "from", "to", "order", "limit", "cursor", NULL };
static const char *const export_query[] = { "shape", "from_sequence", "to_sequence", "from", "to", NULL };

static const struct answer_field record_answer[] = {
    { "archived_through", "integer", "Present when records up to this sequence are archived and no longer served." },
    { "records", "array", "Each: record (exactly as hashed) and chain (hex SHA-256)." },
    { "next_cursor", "string", "Present when there are more; send it with the same order and filters." },
};
static const struct answer_field key_answer[] = {
    { "keys", "array",
      "JWK set of every key that ever signed an export of this tenant, each with svc_not_before and, once another one "
      "took over, svc_not_after." },
};
static const struct answer_field rotated_answer[] = {
    { "key_id", "string", "Id of the new key." },
    { "jwk", "object", "Its public half: pin it beside the former ones." },
};

static const struct route routes[] = {
    {
        .name = "audit.records",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/records",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = record_query,
        .answer = record_answer,
        .answer_count = COUNT_OF(record_answer),
        .success_status = 200,
        .handler = route_audit_records,
        .doc = "Audit records, newest first unless order=asc; filters: actor, type, from, to (RFC 3339).",
    },
    {
        .name = "audit.export",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/export",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_HEAVY,
        .query = export_query,
        .success_status = 200,
        .handler = route_audit_export,
        .doc =
            "All records, or those of a range (from_sequence to to_sequence; from and to: RFC 3339), signed and streamed; "
            "shape: jws (a bundle), ndjson, csv, cef or ocsf with a signed trailer. Recorded as audit.export.read.",
    },
    {
        .name = "audit.verification-keys",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/verification-keys",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .answer = key_answer,
        .answer_count = COUNT_OF(key_answer),
        .success_status = 200,
        .handler = route_audit_keys,
        .doc = "The JWK set to pin for offline verification of exports.",
    },
    {
        .name = "audit.rotate-key",
        .method = ROUTE_POST,
        .path = "/api/v1/audit/verification-keys/rotations",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .answer = rotated_answer,
        .answer_count = COUNT_OF(rotated_answer),
        .success_status = 201,
        .handler = route_audit_key_rotate,
        .doc = "A new key signs exports from now on; what former ones have signed stays verifiable.",
    },
};

static const struct event_row events[] = {
    { AUDIT_READ_EVENT, 1, NULL,
      "An export, a pack or an archive of the audit trail was handed out: to whom, its shape, range and chain head." },
};

/* The export key of the first tenant exists from the start, so that its public half is in the log before it is needed.
 */
static struct fault start(struct op *op, struct services *services)
{
    struct managed_key key;
    chain_watch_forget();
    return export_key(op, services, &key);
}

static const struct worker_row workers[] = {
    { .name = "audit-chain", .period_ms = 1000, .run = chain_watch_run },
};

static const struct readiness_row readiness[] = {
    { .name = "audit_chain", .check = chain_watch_check, .degrades = true },
};

const struct feature audit_feature = {
    .name = "audit",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .readiness = readiness,
    .readiness_count = COUNT_OF(readiness),
    .metrics = chain_watch_metrics,
    .metric_count = CHAIN_WATCH_METRICS,
    .start = start,
};
