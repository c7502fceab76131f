#include "api/codesign/internal.h"

const struct metric codesign_metrics[2] = {
    {
        .name = "svc_codesign_operations_total",
        .kind = METRIC_COUNTER,
        .help = "Tries of code-signing commands by result: completed, refused, failed, repeated (will be tried again).",
        .labels = { "result" },
    },
    {
        .name = "svc_codesign_sign_seconds",
        .kind = METRIC_HISTOGRAM,
        .help = "Time of the signer's part of a code signing.",
        .labels = { "algorithm" },
    },
};

#define COMMON_FIELDS                                                                  \
    JIN_TEXT(struct codesign_body, artifact_type, JIN_REQUIRED, 1, ARTIFACT_TYPE_MAX), \
        JIN_TEXT(struct codesign_body, digest_algorithm, JIN_OPTIONAL, 1, 16)
#define KEY_FIELDS                                               \
    JIN_TEXT(struct codesign_body, key_id, JIN_REQUIRED, 1, 64), \
        JIN_TEXT(struct codesign_body, signature_scheme, JIN_OPTIONAL, 1, 32)
#define DIGEST_FIELD  JIN_BASE64(struct codesign_body, digest, JIN_REQUIRED, 0, 1024)
#define DIGESTS_FIELD JIN_TEXTS(struct codesign_body, digests, JIN_REQUIRED, 1, BATCH_MAX)
#define KEYLESS_FIELDS                                                                  \
    JIN_TEXT(struct codesign_body, identity_method, JIN_REQUIRED, 1, METHOD_MAX),       \
        JIN_BASE64(struct codesign_body, identity_payload, JIN_REQUIRED, 1, PROOF_MAX), \
        JIN_TEXT(struct codesign_body, expected_san, JIN_OPTIONAL, 1, IDENTITY_MAX),    \
        JIN_TEXT(struct codesign_body, expected_issuer, JIN_OPTIONAL, 1, IDENTITY_MAX)
#define FINGERPRINT_FIELD JIN_TEXT(struct codesign_body, preview_fingerprint, JIN_REQUIRED, 1, FINGERPRINT_LEN * 2)

static const struct jin_field preview_fields[] = { KEY_FIELDS, COMMON_FIELDS, DIGEST_FIELD };
static const struct jin_field sign_fields[] = { KEY_FIELDS, COMMON_FIELDS, DIGEST_FIELD, FINGERPRINT_FIELD };
static const struct jin_field batch_preview_fields[] = { KEY_FIELDS, COMMON_FIELDS, DIGESTS_FIELD };
static const struct jin_field batch_fields[] = { KEY_FIELDS, COMMON_FIELDS, DIGESTS_FIELD, FINGERPRINT_FIELD };
static const struct jin_field keyless_preview_fields[] = { COMMON_FIELDS, DIGEST_FIELD, KEYLESS_FIELDS };
static const struct jin_field keyless_fields[] = { COMMON_FIELDS, DIGEST_FIELD, KEYLESS_FIELDS, FINGERPRINT_FIELD };
static const char *const list_query[] = { "state", "key_id", "mode", "limit", "cursor", NULL };

#define MODE_ANSWER                                                                                      \
    { "approved_mode", "boolean",                                                                        \
      "Is it part of an approved-mode (FIPS) claim? True only where the configuration requires FIPS." }, \
        { "approved_mode_note", "string", "Why not, for ML-DSA." }
#define PREVIEW_ANSWER                                                                                           \
    { "request_fingerprint", "string", "Copy it into preview_fingerprint of the execution." },                   \
        { "configuration_fingerprint", "string",                                                                 \
          "Changes when key, policy, identity methods or destination change." },                                 \
        { "algorithm", "string", "Algorithm of the key." },                                                      \
        { "digest_algorithm", "string", "sha256, sha384 or sha512." },                                           \
        { "signature_scheme", "string", "ecdsa, rsa-pkcs1v15, rsa-pss or ml-dsa." }, MODE_ANSWER,                \
        { "artifact_type", "string", "As given." },                                                              \
        { "principal", "string", "Subject of the caller's token: it would be recorded as the signer." },         \
        { "policy", "object", "enabled, outcome (allow, deny, require_approval, at_execution), rule, reason." }, \
        { "transparency_destination", "string", "Where the signature would be published; none = nowhere." }
#define APPROVAL_ANSWER                                                                                       \
    { "key_id", "string", "The key that would sign." }, { "key_state", "string", "active" },                  \
        { "approval", "object",                                                                               \
          "required; then resource, state (none, pending, approved, used_up, denied), approvers, approvals, " \
          "request_id, expires_at." }
static const struct answer_field preview_answer[] = {
    PREVIEW_ANSWER,
    APPROVAL_ANSWER,
    { "digest", "string", "As given, base64." },
};
static const struct answer_field batch_preview_answer[] = {
    PREVIEW_ANSWER,
    APPROVAL_ANSWER,
    { "digests", "array", "As given, base64." },
    { "count", "integer", "How many." },
};
static const struct answer_field keyless_preview_answer[] = {
    PREVIEW_ANSWER,
    { "identity_method", "string", "As given. The proof is checked for its form only, and never told again." },
    { "digest", "string", "As given, base64." },
};

#define SIGNED_ANSWER                                                                                                    \
    { "operation_id", "string", "Names this signing in events and under operations." },                                  \
        { "algorithm", "string", "Algorithm of the key." },                                                              \
        { "digest_algorithm", "string", "sha256, sha384 or sha512." },                                                   \
        { "signature_encoding", "string",                                                                                \
          "ecdsa-der, rsa-pkcs1v15, rsa-pss (salt as long as the digest) or ml-dsa-65 (pure, the digest as message)." }, \
        MODE_ANSWER, { "public_key_der", "string", "PKIX DER, base64." },                                                \
        { "certificate_chain", "array", "Base64 DER, leaf first; where the key has one." },                              \
        { "artifact_type", "string", "As given." },                                                                      \
        { "transparency_destination", "string", "Where the signature is published; none = nowhere." }
static const struct answer_field sign_answer[] = {
    SIGNED_ANSWER,
    { "key_id", "string", "The key that signed." },
    { "signature", "string", "Base64." },
};
static const struct answer_field batch_answer[] = {
    SIGNED_ANSWER,
    { "key_id", "string", "The key that signed." },
    { "signatures", "array", "operation_id, digest and signature of each, in the order of the request." },
};
static const struct answer_field keyless_answer[] = {
    SIGNED_ANSWER,
    { "signature", "string", "Base64." },
    { "fulcio_san", "string", "The identity that the proof proved." },
    { "fulcio_issuer", "string", "Who vouched for it." },
};
static const struct answer_field operation_answer[] = {
    { "operation_id", "string", "The operation." },
    { "command_id", "string", "The request that it was part of; the first of a batch has the same id." },
    { "state", "string", "commanded, refused, signed, completed or failed." },
    { "mode", "string", "key or keyless." },
    { "failure_code", "string", "Closed code, when refused or failed." },
    { "resource", "string", "What an approver has to approve, when that was missing." },
    { "key_id", "string", "Its key." },
    { "identity_method", "string", "Its identity method, when keyless." },
    { "algorithm", "string", "Algorithm of the key, once signed." },
    { "digest_algorithm", "string", "sha256, sha384 or sha512." },
    { "artifact_type", "string", "As given." },
    { "digest", "string", "As given, base64, once signed." },
    { "principal", "string", "Who asked for it." },
    { "fulcio_san", "string", "The verified identity, when keyless." },
    { "fulcio_issuer", "string", "Who vouched for it, when keyless." },
    { "signature_encoding", "string", "As in the answer of the signing." },
    { "signature", "string", "Base64, once signed." },
    MODE_ANSWER,
    { "public_key_der", "string", "PKIX DER, base64, once signed; not in lists." },
    { "certificate_chain", "array", "Base64 DER, leaf first; not in lists." },
    { "transparency_destination", "string", "Where the signature is published; none = nowhere." },
    { "transparency", "object", "state (pending, published, failed), log, log_index and the entry; not in lists." },
    { "created_at", "string", "RFC 3339." },
    { "ended_at", "string", "RFC 3339, once ended." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Operations, newest first." },
    { "next_cursor", "string", "Present when there are more." },
};

#define CHECK_FIELDS                                                        \
    JIN_TEXT(struct check_body, digest_algorithm, JIN_OPTIONAL, 1, 16),     \
        JIN_TEXT(struct check_body, signature_scheme, JIN_OPTIONAL, 1, 32), \
        JIN_BASE64(struct check_body, digest, JIN_REQUIRED, 0, 1024),       \
        JIN_BASE64(struct check_body, signature, JIN_REQUIRED, 1, SIGNATURE_MAX)
#define STAMP_ROOTS JIN_TEXTS(struct check_body, timestamp_roots, JIN_OPTIONAL, 1, 16)
static const struct jin_field verify_fields[] = {
    CHECK_FIELDS,
    JIN_TEXT(struct check_body, key_id, JIN_OPTIONAL, 1, 64),
    JIN_BASE64(struct check_body, public_key_der, JIN_OPTIONAL, 1, SPKI_MAX),
};
static const struct jin_field keyless_verify_fields[] = {
    CHECK_FIELDS,
    JIN_TEXTS(struct check_body, certificate_chain, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct check_body, expected_san, JIN_REQUIRED, 1, IDENTITY_MAX),
    JIN_TEXT(struct check_body, expected_issuer, JIN_REQUIRED, 1, IDENTITY_MAX),
    JIN_BASE64(struct check_body, timestamp, JIN_OPTIONAL, 1, 65536),
    STAMP_ROOTS,
};
static const struct jin_field long_term_fields[] = {
    CHECK_FIELDS,
    JIN_TEXTS(struct check_body, certificate_chain, JIN_REQUIRED, 1, 16),
    JIN_TEXTS(struct check_body, root_certificates, JIN_OPTIONAL, 1, 16),
    JIN_BASE64(struct check_body, timestamp, JIN_REQUIRED, 1, 65536),
    STAMP_ROOTS,
};
#define VALID_ANSWER                                                        \
    { "valid", "boolean",                                                   \
      "true; what does not verify is answered with signature_invalid or "   \
      "another closed code." },                                             \
        { "digest_algorithm", "string", "sha256, sha384 or sha512." },      \
        { "signature_scheme", "string", "As it was judged." }, MODE_ANSWER, \
        { "public_key_sha256", "string", "Of the key that verified it, hex." }
#define CERTIFIED_ANSWER                                                                  \
    VALID_ANSWER, { "certificate_sha256", "string", "Of the signing certificate, hex." }, \
        { "not_before", "string", "Its validity begins." }, { "not_after", "string", "And ends." }
static const struct answer_field verify_answer[] = {
    VALID_ANSWER,
    { "key_id", "string", "When it was given." },
    { "key_state", "string", "active or destroyed." },
};
static const struct answer_field keyless_verify_answer[] = {
    CERTIFIED_ANSWER,
    { "fulcio_san", "string", "The identity of the certificate, as expected." },
    { "fulcio_issuer", "string", "Who vouched for it, as expected." },
    { "time_source", "string", "timestamp or now." },
    { "judged_at", "string", "The moment at which the certificate was judged." },
};
static const struct answer_field long_term_answer[] = {
    CERTIFIED_ANSWER,
    { "gen_time", "string", "What the time stamp says." },
    { "timestamp_serial", "string", "Its serial number." },
    { "timestamp_policy", "string", "Its policy." },
    { "timestamp_signer", "string", "Who stamped." },
};
static const struct answer_field trusted_root_answer[] = {
    { "mediaType", "string", "Sigstore's trusted root, version 0.1." },
    { "tlogs", "array", "Transparency logs with their keys and times." },
    { "certificateAuthorities", "array", "Who issues keyless certificates." },
    { "ctlogs", "array", "Empty: keyless certificates are not logged themselves." },
    { "timestampAuthorities", "array", "The time-stamping authority." },
};

#define CHECK_ROUTE(name_, path_, fields, answers, run, doc_) \
    { .name = name_,                                          \
      .method = ROUTE_POST,                                   \
      .path = path_,                                          \
      .permission = PERMISSION_KEYS_READ,                     \
      .flags = ROUTE_EFFECT_FREE,                             \
      .bulkhead = BULKHEAD_API,                               \
      .body_max = 262144,                                     \
      .body = fields,                                         \
      .body_count = COUNT_OF(fields),                         \
      .body_size = sizeof(struct check_body),                 \
      .answer = answers,                                      \
      .answer_count = COUNT_OF(answers),                      \
      .success_status = 200,                                  \
      .handler = run,                                         \
      .doc = doc_ }
#define PREVIEW_ROUTE(name_, path_, fields, answers, run, doc_) \
    { .name = name_,                                            \
      .method = ROUTE_POST,                                     \
      .path = path_,                                            \
      .permission = PERMISSION_KEYS_WRITE,                      \
      .flags = ROUTE_EFFECT_FREE,                               \
      .bulkhead = BULKHEAD_API,                                 \
      .body_max = 49152,                                        \
      .body = fields,                                           \
      .body_count = COUNT_OF(fields),                           \
      .body_size = sizeof(struct codesign_body),                \
      .answer = answers,                                        \
      .answer_count = COUNT_OF(answers),                        \
      .success_status = 200,                                    \
      .handler = run,                                           \
      .doc = doc_ }
#define SIGN_ROUTE(name_, path_, fields, answers, run, doc_) \
    { .name = name_,                                         \
      .method = ROUTE_POST,                                  \
      .path = path_,                                         \
      .permission = PERMISSION_KEYS_WRITE,                   \
      .flags = ROUTE_MUTATION,                               \
      .bulkhead = BULKHEAD_API,                              \
      .body_max = 49152,                                     \
      .body = fields,                                        \
      .body_count = COUNT_OF(fields),                        \
      .body_size = sizeof(struct codesign_body),             \
      .answer = answers,                                     \
      .answer_count = COUNT_OF(answers),                     \
      .success_status = 200,                                 \
      .handler = run,                                        \
      .doc = doc_ }

static const struct route routes[] = {
    PREVIEW_ROUTE("code-signing.preview", "/api/v1/code-signing/preview", preview_fields, preview_answer, route_preview,
                  "What signing this digest would do. Changes nothing."),
    SIGN_ROUTE("code-signing.sign", "/api/v1/code-signing/sign", sign_fields, sign_answer, route_sign,
               "Sign a digest as previewed. The digest's exact bytes are signed and never hashed again."),
    PREVIEW_ROUTE("code-signing.batch-preview", "/api/v1/code-signing/batch/preview", batch_preview_fields,
                  batch_preview_answer, route_batch_preview, "What signing these digests would do. Changes nothing."),
    SIGN_ROUTE("code-signing.batch", "/api/v1/code-signing/batch", batch_fields, batch_answer, route_batch,
               "Sign up to 64 digests as previewed: all of them, or none."),
    PREVIEW_ROUTE("code-signing.keyless-preview", "/api/v1/code-signing/keyless/preview", keyless_preview_fields,
                  keyless_preview_answer, route_keyless_preview,
                  "What keyless signing of this digest would do. Changes nothing, and believes nothing of the proof."),
    SIGN_ROUTE("code-signing.keyless", "/api/v1/code-signing/keyless", keyless_fields, keyless_answer, route_keyless,
               "Sign a digest with a key made for this one signature, certified for the identity that the proof "
               "proves."),
    CHECK_ROUTE("code-signing.verify", "/api/v1/code-signing/verify", verify_fields, verify_answer, route_verify,
                "Verify a signature over a digest under a managed key or a given public key."),
    CHECK_ROUTE("code-signing.keyless-verify", "/api/v1/code-signing/keyless/verify", keyless_verify_fields,
                keyless_verify_answer, route_keyless_verify,
                "Verify a keyless signature: chain, identity and time of its certificate included."),
    CHECK_ROUTE("code-signing.verify-long-term", "/api/v1/code-signing/verify-long-term", long_term_fields,
                long_term_answer, route_verify_long_term,
                "Verify a signature whose certificate may have expired, by the time stamp over it."),
    {
        .name = "code-signing.trusted-root",
        .method = ROUTE_GET,
        .path = "/api/v1/code-signing/trusted-root",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .answer = trusted_root_answer,
        .answer_count = COUNT_OF(trusted_root_answer),
        .success_status = 200,
        .handler = route_trusted_root,
        .doc = "What verifiers of Sigstore bundles have to trust, as Sigstore's trusted root.",
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
    { "codesign.commanded", 1, codesign_project_commanded,
      "A signing was accepted; the whole request is sealed inside." },
    { "codesign.refused", 1, codesign_project_refused,
      "Policy, a missing approval or the key's limit refused a signing; nothing was signed." },
    { "codesign.keyless.refused", 1, codesign_project_refused, "A proof did not hold, or the request contradicts it." },
    { "codesign.signed", 1, codesign_project_signed, "The signer signed, and the signature verified." },
    { "codesign.keyless.signed", 1, codesign_project_keyless_signed,
      "An ephemeral key signed for a verified identity." },
    { "codesign.completed", 1, codesign_project_completed, "A signing has ended well; its publication is queued." },
    { "codesign.failed", 1, codesign_project_failed, "A signing has ended without a signature, with a closed code." },
    { "codesign.ephemeral.destroyed", 1, codesign_project_destroyed,
      "The key of a keyless signing is gone from the token." },
};

static const struct outbox_row outbox[] = {
    {
        .destination = CODESIGN_COMMAND,
        .handler = codesign_command_handler,
        .deadline_ms = 10000,
        .attempts = 12,
        .awaited = true,
        .upkeep = &codesign_command_upkeep,
        .doc = "Runs accepted signings.",
    },
    {
        .destination = CODESIGN_CLEANUP,
        .handler = codesign_cleanup_handler,
        .deadline_ms = 10000,
        .attempts = 1000,
        .cap_destination = 1,
        .upkeep = &codesign_cleanup_upkeep,
        .doc = "Destroys the key of a keyless signing.",
    },
};

static struct fault start(struct op *op, struct services *services)
{
    const struct config *config = services->config;
    if (config->codesign_enabled && (config->signer_socket == NULL || config->signer_socket[0] == '\0')) {
        return op_fail(op, FAULT(CONFIG), "code_signing.enabled needs an isolated signer: signer.socket is empty");
    }
    if (!config->codesign_enabled || !config->keyless_enabled) {
        return OK;
    }
    if (services->attest == NULL) {
        return op_fail(op, FAULT(CONFIG), "code_signing.keyless.enabled needs identity methods");
    }
    return config->fulcio_url[0] == '\0' ? keyless_prepare(op, services) : OK;
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
