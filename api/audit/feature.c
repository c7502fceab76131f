#include "api/audit/internal.h"

static const char *const record_query[] = { "actor", "type", "from", "to", "order", "limit", "cursor", NULL };
static const char *const export_query[] = { "from_sequence", "to_sequence", NULL };

static const struct answer_field record_answer[] = {
    { "records", "array", "Each: record (exactly as hashed) and chain (hex SHA-256)." },
    { "next_cursor", "string", "Present when there are more; send it with the same order and filters." },
};
static const struct answer_field key_answer[] = {
    { "keys", "array", "JWK set of every key that ever signed an export of this tenant." },
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
        .doc = "All records (or from_sequence to to_sequence) and the chain head as a compact JWS.",
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
};

/* The export key of the first tenant exists from the start, so that its public half is in the log before it is needed.
 */
static struct fault start(struct op *op, struct services *services)
{
    struct managed_key key;
    return keys_ensure(op, services, KEY_PURPOSE_AUDIT_EXPORT, KEY_ALGORITHM_EC_P256, AUDIT_KEY_NAME, &key);
}

const struct feature audit_feature = {
    .name = "audit",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .start = start,
};
