#include "api/inventory/crypto.h"

static const char *const attestations_query[] = { "current", "statement", "limit", "cursor", NULL };
static const char *const readiness_query[] = { "format", NULL };

static const struct jin_field evidence_fields[] = {
    JIN_TEXT(struct attest_evidence, locator, JIN_REQUIRED, 1, 1024),
    JIN_TEXT(struct attest_evidence, media_type, JIN_REQUIRED, 3, 127),
    JIN_HEX(struct attest_evidence, sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
};
static const struct jin_field attest_fields[] = {
    JIN_TEXT(struct attest_body, statement, JIN_REQUIRED, 1, STATEMENT_MAX),
    JIN_TEXT(struct attest_body, title, JIN_REQUIRED, 1, 256),
    JIN_TEXT(struct attest_body, note, JIN_OPTIONAL, 0, 2048),
    { .name = "evidence",
      .kind = JIN_KIND_OBJECT,
      .flags = JIN_REQUIRED,
      .offset = offsetof(struct attest_body, evidence),
      .sub = evidence_fields,
      .sub_count = COUNT_OF(evidence_fields) },
    JIN_TIME(struct attest_body, valid_from, JIN_OPTIONAL),
    JIN_TIME(struct attest_body, expires_at, JIN_OPTIONAL),
};
static const struct jin_field withdraw_fields[] = {
    JIN_TEXT(struct withdraw_body, reason, JIN_REQUIRED, 1, 512),
};
static const struct jin_field action_fields[] = {
    JIN_TEXT(struct action_body, object, JIN_REQUIRED, 1, CRYPTO_OBJECT_MAX - 1),
    JIN_TEXT(struct action_body, action, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct action_body, state, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct action_body, note, JIN_OPTIONAL, 0, 1024),
    JIN_TIME(struct action_body, due, JIN_OPTIONAL),
};

static const struct answer_field attested_answer[] = {
    { "attestation_id", "string", "Of the attestation." },
    { "statement", "string", "What is attested, as frameworks name it." },
    { "state", "string", "valid, expired or withdrawn." },
    { "title", "string", "As given." },
    { "note", "string", "As given." },
    { "evidence", "object", "locator, sha256, media_type." },
    { "valid_from", "string", "RFC 3339." },
    { "expires_at", "string", "When it has an end." },
    { "attested_by", "string", "Subject of the caller." },
    { "attested_at", "string", "RFC 3339." },
    { "event_id", "string", "Of its event." },
    { "sequence", "integer", "Of its record in the audit trail." },
    { "withdrawn_at", "string", "Once it was." },
    { "withdrawn_by", "string", "Once it was." },
    { "withdraw_reason", "string", "Once it was." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Newest first." },
    { "next_cursor", "string", "Present when there are more." },
};
static const struct answer_field cbom_answer[] = {
    { "bomFormat", "string", "CycloneDX." },
    { "specVersion", "string", "1.6." },
    { "serialNumber", "string", "Follows from tenant and contents: the same facts, the same number." },
    { "version", "integer", "1." },
    { "metadata", "object", "The appliance; counts and coverage as properties." },
    { "components", "array", "cryptographic-asset: algorithms in use, keys, certificates, the HTTPS listener." },
    { "dependencies", "array", "Each asset with its algorithm." },
    { "compositions", "array", "unknown; incomplete when there are more assets than are listed." },
};
static const struct answer_field readiness_answer[] = {
    { "format", "string", READINESS_FORMAT "." },
    { "dataset_digest", "string", "SHA-256 over all rows, each as canonical JSON and LF; also Svc-Dataset-Digest." },
    { "rows", "array", "In the order of their objects." },
    { "listed", "integer", "Rows that stand here." },
    { "total", "integer", "Rows that there are: the digest is over all of them." },
    { "complete", "boolean", "All are listed." },
    { "unbound_actions", "integer", "Actions whose object is not in the dataset any more." },
    { "coverage", "string", "What was not looked at." },
};
static const struct answer_field action_answer[] = {
    { "object", "string", "As given." }, { "action", "string", "As given." },        { "state", "string", "As given." },
    { "note", "string", "As given." },   { "due", "string", "When one was given." },
};
static const struct answer_field editions_answer[] = {
    { "edition", "string", "community." },
    { "license", "object", "present, why." },
    { "deployment_entitlement", "object", "null where nothing is counted." },
    { "fips", "object",
      "module_active, required, self_test_passed, standard, module, build_target, ci_gate, "
      "regulated_deployment_profile." },
};

static const struct route routes[] = {
    {
        .name = "compliance.attestations.record",
        .method = ROUTE_POST,
        .path = "/api/v1/compliance/attestations",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = attest_fields,
        .body_count = COUNT_OF(attest_fields),
        .body_size = sizeof(struct attest_body),
        .answer = attested_answer,
        .answer_count = COUNT_OF(attested_answer),
        .success_status = 201,
        .handler = route_attest,
        .doc = "Attest a statement that a framework names, with the digest of its evidence.",
    },
    {
        .name = "compliance.attestations.withdraw",
        .method = ROUTE_POST,
        .path = "/api/v1/compliance/attestations/{id}/withdrawal",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body = withdraw_fields,
        .body_count = COUNT_OF(withdraw_fields),
        .body_size = sizeof(struct withdraw_body),
        .answer = attested_answer,
        .answer_count = COUNT_OF(attested_answer),
        .success_status = 200,
        .handler = route_attest_withdraw,
        .doc = "Withdraw an attestation. It stays in the list and in the trail, and counts for nothing.",
    },
    {
        .name = "compliance.attestations.list",
        .method = ROUTE_GET,
        .path = "/api/v1/compliance/attestations",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = attestations_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_attest_list,
        .doc = "Attestations, newest first. current=true: the newest valid one of each statement.",
    },
    {
        .name = "cbom.get",
        .method = ROUTE_GET,
        .path = "/api/v1/cbom",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_HEAVY,
        .answer = cbom_answer,
        .answer_count = COUNT_OF(cbom_answer),
        .success_status = 200,
        .handler = route_cbom,
        .doc = "The cryptographic bill of materials, as CycloneDX 1.6. Recorded as inventory.dataset.read.",
    },
    {
        .name = "graph.crypto-readiness",
        .method = ROUTE_GET,
        .path = "/api/v1/graph/crypto-readiness",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_HEAVY,
        .query = readiness_query,
        .answer = readiness_answer,
        .answer_count = COUNT_OF(readiness_answer),
        .success_status = 200,
        .handler = route_readiness,
        .doc = "The crypto-readiness dataset, as json, csv or ndjson: the same rows and the same digest. Recorded as "
               "inventory.dataset.read.",
    },
    {
        .name = "graph.crypto-readiness.record-action",
        .method = ROUTE_POST,
        .path = "/api/v1/graph/crypto-readiness/actions",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body = action_fields,
        .body_count = COUNT_OF(action_fields),
        .body_size = sizeof(struct action_body),
        .answer = action_answer,
        .answer_count = COUNT_OF(action_answer),
        .success_status = 200,
        .handler = route_readiness_action,
        .doc = "Bind an action (migrate, retire, accept, investigate) to an object of the dataset.",
    },
    {
        .name = "editions.get",
        .method = ROUTE_GET,
        .path = "/api/v1/editions",
        .permission = PERMISSION_SYSTEM_READ,
        .bulkhead = BULKHEAD_API,
        .answer = editions_answer,
        .answer_count = COUNT_OF(editions_answer),
        .success_status = 200,
        .handler = route_editions,
        .doc = "Edition, entitlement and FIPS posture.",
    },
};

static const struct event_row events[] = {
    { EVENT_ATTESTED, 1, project_attested, "The operator attested a statement with the digest of its evidence." },
    { EVENT_WITHDRAWN, 1, project_attestation_withdrawn, "An attestation was withdrawn." },
    { EVENT_ACTION, 1, project_readiness_action, "What is done about an object of the crypto-readiness dataset." },
    { EVENT_DATASET_READ, 1, NULL,
      "The bill of materials or the crypto-readiness dataset was handed out: to whom, and its digest." },
};

static struct fault start(struct op *op, struct services *services)
{
    (void)op;
    crypto_listener_start(services->config);
    return OK;
}

static const struct worker_row workers[] = {
    { "inventory-expiry", 5000, false, inventory_expiry },
};

const struct feature inventory_crypto_feature = {
    .name = "inventory_crypto",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .metrics = expiry_metrics,
    .metric_count = EXPIRY_METRICS,
    .start = start,
};
