#include "api/codesign/internal.h"

const struct metric codesign_metrics[2] = {
    {
        .name = "svc_codesign_operations_total",
        .kind = METRIC_COUNTER,
        .help = "Tries of code-signing commands by result: completed, failed, repeated (will be tried again).",
        .labels = { "result" },
    },
    {
        .name = "svc_codesign_sign_seconds",
        .kind = METRIC_HISTOGRAM,
        .help = "Time of the signer's part of a code signing.",
        .labels = { "algorithm" },
    },
};

#define REQUEST_FIELDS                                                                     \
    JIN_TEXT(struct codesign_body, key_id, JIN_REQUIRED, 1, 64),                           \
        JIN_TEXT(struct codesign_body, artifact_type, JIN_REQUIRED, 1, ARTIFACT_TYPE_MAX), \
        JIN_BASE64(struct codesign_body, digest, JIN_REQUIRED, 0, 1024),                   \
        JIN_TEXT(struct codesign_body, signature_scheme, JIN_OPTIONAL, 1, 32)

static const struct jin_field preview_fields[] = { REQUEST_FIELDS };
static const struct jin_field sign_fields[] = {
    REQUEST_FIELDS,
    JIN_TEXT(struct codesign_body, preview_fingerprint, JIN_REQUIRED, 1, FINGERPRINT_LEN * 2),
};
static const char *const list_query[] = { "state", "key_id", "limit", "cursor", NULL };

static const struct answer_field preview_answer[] = {
    { "request_fingerprint", "string", "Copy it into preview_fingerprint of the execution." },
    { "configuration_fingerprint", "string", "Changes when key, approval posture or destination change." },
    { "key_id", "string", "The key that would sign." },
    { "key_state", "string", "active" },
    { "algorithm", "string", "Algorithm of the key." },
    { "hash_algorithm", "string", "sha256" },
    { "signature_scheme", "string", "ecdsa, rsa-pkcs1v15 or rsa-pss." },
    { "artifact_type", "string", "As given." },
    { "digest", "string", "As given, base64." },
    { "principal", "string", "Subject of the caller's token: it would be recorded as the signer." },
    { "approval", "object", "required: whether an approval is needed first." },
    { "transparency_destination", "string", "Where the signature would be published; none = nowhere." },
};
static const struct answer_field sign_answer[] = {
    { "operation_id", "string", "Names this signing in events and under operations." },
    { "key_id", "string", "The key that signed." },
    { "algorithm", "string", "Algorithm of the key." },
    { "hash_algorithm", "string", "sha256" },
    { "signature_encoding", "string", "ecdsa-der, rsa-pkcs1v15 or rsa-pss (salt of 32 bytes)." },
    { "signature", "string", "Base64." },
    { "public_key_der", "string", "PKIX DER, base64." },
    { "certificate_chain", "array", "Base64 DER, leaf first; where the key has one." },
    { "artifact_type", "string", "As given." },
    { "transparency_destination", "string", "Where the signature is published; none = nowhere." },
};
static const struct answer_field operation_answer[] = {
    { "operation_id", "string", "The operation." },
    { "state", "string", "commanded, signed, completed or failed." },
    { "failure_code", "string", "Closed code, when failed." },
    { "key_id", "string", "Its key." },
    { "artifact_type", "string", "As given." },
    { "digest", "string", "As given, base64." },
    { "principal", "string", "Who asked for it." },
    { "signature", "string", "Base64, once signed." },
    { "created_at", "string", "RFC 3339." },
    { "ended_at", "string", "RFC 3339, once ended." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Operations, newest first." },
    { "next_cursor", "string", "Present when there are more." },
};

static const struct route routes[] = {
    {
        .name = "code-signing.preview",
        .method = ROUTE_POST,
        .path = "/api/v1/code-signing/preview",
        .permission = PERMISSION_KEYS_WRITE,
        .flags = ROUTE_EFFECT_FREE,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = preview_fields,
        .body_count = COUNT_OF(preview_fields),
        .body_size = sizeof(struct codesign_body),
        .answer = preview_answer,
        .answer_count = COUNT_OF(preview_answer),
        .success_status = 200,
        .handler = route_preview,
        .doc = "What signing this digest would do. Changes nothing.",
    },
    {
        .name = "code-signing.sign",
        .method = ROUTE_POST,
        .path = "/api/v1/code-signing/sign",
        .permission = PERMISSION_KEYS_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = sign_fields,
        .body_count = COUNT_OF(sign_fields),
        .body_size = sizeof(struct codesign_body),
        .answer = sign_answer,
        .answer_count = COUNT_OF(sign_answer),
        .success_status = 200,
        .handler = route_sign,
        .doc = "Sign a SHA-256 digest as previewed. The digest's exact bytes are signed and never hashed again.",
    },
    {
        .name = "code-signing.operations.list",
        .method = ROUTE_GET,
        .path = "/api/v1/code-signing/operations",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .query = list_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_operation_list,
        .doc = "List signing operations.",
    },
    {
        .name = "code-signing.operations.get",
        .method = ROUTE_GET,
        .path = "/api/v1/code-signing/operations/{id}",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .answer = operation_answer,
        .answer_count = COUNT_OF(operation_answer),
        .success_status = 200,
        .handler = route_operation_get,
        .doc = "One signing operation and how it ended. Never its sealed command.",
    },
};

static const struct event_row events[] = {
    { "codesign.commanded", 1, project_commanded, "A signing was accepted; the whole request is sealed inside." },
    { "codesign.signed", 1, project_signed, "The signer signed, and the signature verified." },
    { "codesign.completed", 1, project_completed, "A signing has ended well." },
    { "codesign.failed", 1, project_failed, "A signing has ended without a signature, with a closed code." },
};

static const struct outbox_row outbox[] = {
    {
        .destination = CODESIGN_COMMAND,
        .handler = codesign_command_handler,
        .deadline_ms = 10000,
        .attempts = 12,
        .cap_tenant = 0,
        .cap_destination = 0,
        .doc = "Runs accepted signings.",
    },
};

static struct fault start(struct op *op, struct services *services)
{
    const struct config *config = services->config;
    if (config->codesign_enabled && (config->signer_socket == NULL || config->signer_socket[0] == '\0')) {
        return op_fail(op, FAULT(CONFIG), "code_signing.enabled needs an isolated signer: signer.socket is empty");
    }
    return OK;
}

const struct feature codesign_feature = {
    .name = "codesign",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .outbox = outbox,
    .outbox_count = COUNT_OF(outbox),
    .metrics = codesign_metrics,
    .metric_count = COUNT_OF(codesign_metrics),
    .start = start,
};
