#include "api/privacy/internal.h"

static const char *const page_query[] = { "limit", "cursor", NULL };

static const struct jin_field preview_fields[] = {
    JIN_TEXT(struct preview_body, subject, JIN_REQUIRED, 1, 1024),
};
static const struct jin_field erase_fields[] = {
    JIN_TEXT(struct erase_body, subject, JIN_REQUIRED, 1, 1024),
    JIN_TEXT(struct erase_body, preview_fingerprint, JIN_REQUIRED, 64, 64),
    JIN_TEXT(struct erase_body, reason, JIN_REQUIRED, 1, REASON_MAX),
};
static const struct jin_field attest_fields[] = {
    JIN_TEXT(struct attest_body, erasure_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct attest_body, archive_locator, JIN_REQUIRED, 1, 1024),
    JIN_HEX(struct attest_body, archive_sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct attest_body, action, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct attest_body, note, JIN_OPTIONAL, 0, 2048),
    JIN_TEXT(struct attest_body, performed_by, JIN_REQUIRED, 1, 256),
    JIN_TIME(struct attest_body, performed_at, JIN_REQUIRED),
};

static const struct answer_field preview_answer[] = {
    { "preview_fingerprint", "string", "Binds what was seen here; the request to erase has to name it." },
    { "generation", "integer", "That the erasure would make." },
    { "messages", "integer", "Messages of the log that would be replaced." },
    { "first_stream_sequence", "integer", "Of the first of them; absent when there is none." },
    { "last_stream_sequence", "integer", "Of the last of them." },
    { "residual", "integer", "Messages that may hold the subject in base64 or hex, which stays as it is." },
    { "types", "array", "Each: type, messages, residual." },
    { "archived_segments", "integer", "Archives made so far, which an erasure does not reach." },
    { "erasure_open", "boolean", "Another erasure is on its way." },
};
static const struct answer_field erasure_answer[] = {
    { "erasure_id", "string", "Of the erasure." },
    { "state", "string", "requested, activated, completed or failed." },
    { "generation", "integer", "That it makes." },
    { "requested_by", "string", "Subject of the caller." },
    { "requested_at", "string", "RFC 3339." },
    { "reason", "string", "As given." },
    { "boundary_stream_sequence", "integer", "The request's own: messages up to it are looked through." },
    { "activated_at", "string", "When the new generation was activated." },
    { "messages", "integer", "Messages that were replaced." },
    { "failure_code", "string", "When it failed: nothing was changed." },
    { "failure", "string", "What it failed of." },
    { "ended_at", "string", "When it was completed, or failed." },
    { "answers_blanked", "integer", "Kept answers of requests that held the subject." },
    { "later_messages", "integer", "Messages behind the boundary that held the subject at the end: erase again." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Newest first." },
    { "next_cursor", "string", "Present when there are more." },
};
static const struct answer_field attest_answer[] = {
    { "attestation_id", "string", "Of the attestation." },
    { "erasure_id", "string", "Of the erasure that it is about." },
    { "archive_locator", "string", "As given." },
    { "action", "string", "As given." },
};
static const struct answer_field history_answer[] = {
    { "tenant_id", "string", "The caller's tenant." },
    { "generation", "integer", "Which writing of its history is served now; 1 = the first." },
    { "items", "array",
      "Each rewriting: generation, activated_at, erasure_id, boundary_sequence, messages, digest, superseded_head, "
      "new_head, statement (a JWS over these by the key that signs exports)." },
};

static const struct route routes[] = {
    {
        .name = "privacy.erasures.preview",
        .method = ROUTE_POST,
        .path = "/api/v1/privacy/erasures/preview",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_EFFECT_FREE,
        .bulkhead = BULKHEAD_HEAVY,
        .body_max = 16384,
        .body = preview_fields,
        .body_count = COUNT_OF(preview_fields),
        .body_size = sizeof(struct preview_body),
        .answer = preview_answer,
        .answer_count = COUNT_OF(preview_answer),
        .success_status = 200,
        .handler = route_privacy_preview,
        .doc = "What an erasure of this subject would replace. Changes nothing.",
    },
    {
        .name = "privacy.erasures.create",
        .method = ROUTE_POST,
        .path = "/api/v1/privacy/erasures",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_HEAVY,
        .body_max = 16384,
        .body = erase_fields,
        .body_count = COUNT_OF(erase_fields),
        .body_size = sizeof(struct erase_body),
        .answer = erasure_answer,
        .answer_count = COUNT_OF(erasure_answer),
        .success_status = 202,
        .handler = route_privacy_erase,
        .doc = "Erase what was previewed. Needs the approval of somebody else who holds certs:issue.",
    },
    {
        .name = "privacy.erasures.list",
        .method = ROUTE_GET,
        .path = "/api/v1/privacy/erasures",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = page_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_privacy_list,
        .doc = "Erasures of the tenant, newest first.",
    },
    {
        .name = "privacy.erasures.get",
        .method = ROUTE_GET,
        .path = "/api/v1/privacy/erasures/{id}",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .answer = erasure_answer,
        .answer_count = COUNT_OF(erasure_answer),
        .success_status = 200,
        .handler = route_privacy_get,
        .doc = "How far an erasure is.",
    },
    {
        .name = "privacy.attestations.create",
        .method = ROUTE_POST,
        .path = "/api/v1/privacy/archive-erasure-attestations",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = attest_fields,
        .body_count = COUNT_OF(attest_fields),
        .body_size = sizeof(struct attest_body),
        .answer = attest_answer,
        .answer_count = COUNT_OF(attest_answer),
        .success_status = 201,
        .handler = route_privacy_attest,
        .doc = "Record what was done about an archive that an erasure did not reach: destroyed, rewritten or retained.",
    },
    {
        .name = "privacy.attestations.list",
        .method = ROUTE_GET,
        .path = "/api/v1/privacy/archive-erasure-attestations",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = page_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_privacy_attestations,
        .doc = "Attestations about archives, newest first.",
    },
    {
        .name = "audit.history",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/history",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .answer = history_answer,
        .answer_count = COUNT_OF(history_answer),
        .success_status = 200,
        .handler = route_audit_history,
        .doc = "The generations of the tenant's history, with the heads before and after each rewriting.",
    },
};

static const struct event_row events[] = {
    { EVENT_REQUESTED, 1, project_erasure_requested, "An erasure was asked for and approved; the subject is sealed." },
    { EVENT_FAILED, 1, project_erasure_failed, "An erasure could not be made; nothing was changed." },
    { EVENTS_ACTIVATED, 1, project_generation_activated, "A rewritten history takes the place of the one before." },
    { EVENT_SCRUBBED, 1, project_scrub_completed, "The superseded messages were overwritten." },
    { EVENT_ATTESTED, 1, project_archive_attested, "What was done about an archive that an erasure did not reach." },
    { EVENT_MARKED, 1, NULL, "Stands behind a lane's last message, which is to be overwritten." },
};

static const struct worker_row workers[] = {
    { .name = "privacy", .period_ms = 1000, .leader_only = true, .run = privacy_work },
};

const struct feature privacy_feature = {
    .name = "privacy",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
};
