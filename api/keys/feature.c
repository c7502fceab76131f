#include "api/keys/internal.h"

#include "api/keys/seal.h"

static const struct jin_field create_fields[] = {
    JIN_TEXT(struct key_create_body, name, JIN_REQUIRED, 1, KEY_NAME_MAX),
    JIN_TEXT(struct key_create_body, algorithm, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct key_create_body, purpose, JIN_OPTIONAL, 1, 32),
    JIN_TEXT(struct key_create_body, token, JIN_OPTIONAL, 1, 32),
    JIN_BOOL(struct key_create_body, prepare, JIN_OPTIONAL),
    JIN_INT(struct key_create_body, max_uses, JIN_OPTIONAL, 1, KEY_USES_MAX),
    JIN_TIME(struct key_create_body, not_after, JIN_OPTIONAL),
};
static const struct jin_field transition_fields[] = {
    JIN_TEXT(struct key_transition_body, to, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct key_transition_body, reason, JIN_REQUIRED, 1, KEY_REASON_MAX),
    JIN_INT(struct key_transition_body, expected_version, JIN_REQUIRED, 1, INT32_MAX),
    JIN_TEXT(struct key_transition_body, overlap, JIN_OPTIONAL, 1, 32),
    JIN_INT(struct key_transition_body, max_uses, JIN_OPTIONAL, 1, KEY_USES_MAX),
    JIN_TIME(struct key_transition_body, not_after, JIN_OPTIONAL),
};
static const struct jin_field csr_fields[] = {
    JIN_TEXT(struct key_csr_body, subject, JIN_REQUIRED, 1, KEY_SUBJECT_MAX),
    JIN_TEXT(struct key_csr_body, email, JIN_OPTIONAL, 3, KEY_EMAIL_MAX),
};
static const struct jin_field certificates_fields[] = {
    JIN_RAW(struct key_certificates_body, certificate_chain, JIN_REQUIRED, 2, 2 * KEY_CHAIN_MAX),
    JIN_INT(struct key_certificates_body, expected_version, JIN_REQUIRED, 1, INT32_MAX),
};
static const char *const list_query[] = { "purpose",        "state", "algorithm", "name",
                                          "expires_before", "limit", "cursor",    NULL };

static const struct answer_field key_answer[] = {
    { "key_id", "string", "Names the key in requests." },
    { "name", "string", "Given at creation; at most one active and one prepared key of a purpose have it." },
    { "purpose", "string", "What the key may be used for, fixed for its life." },
    { "algorithm", "string", "ec-p256, ec-p384, rsa-3072, rsa-4096, ml-dsa-65 or aes-256." },
    { "approved_mode", "boolean",
      "Is what the key does now part of an approved-mode (FIPS) claim? True only where the configuration requires "
      "FIPS, and never for ML-DSA." },
    { "approved_mode_note", "string", "Why not, for ML-DSA." },
    { "token", "string", "Name of the token that holds it; empty = the first one." },
    { "state", "string", "prepared, active, retiring, retired or destroyed." },
    { "version", "integer", "What a transition expects." },
    { "system", "boolean", "Made by the appliance itself." },
    { "public_key_der", "string", "Base64 of the PKIX public key; kept after destruction; absent for a secret key." },
    { "public_key_pem", "string", "The same as PEM." },
    { "certificate_chain", "array", "Base64 DER certificates, leaf first." },
    { "certificate_expires_at", "string", "End of the leaf certificate." },
    { "created_at", "string", "RFC 3339." },
    { "created_by", "string", "Subject." },
    { "activated_at", "string", "Since when it signs." },
    { "retires_at", "string", "End of its overlap: what is accepted from then on it does not sign." },
    { "retired_at", "string", "When its retirement was recorded." },
    { "retire_reason", "string", "As given." },
    { "replaced_by", "string", "The key that took its place." },
    { "destroyed_at", "string", "With destroyed_by and destroy_reason." },
    { "uses", "integer", "Digests that it signed for callers; probes and certificate requests are none." },
    { "last_used_at", "string", "Absent when it never was." },
    { "max_uses", "integer", "Its limit, where it has one." },
    { "uses_left", "integer", "Of its limit; what waits to be signed is counted already." },
    { "not_after", "string", "What is accepted from then on it does not sign." },
    { "probe", "object", "ok, at and, while it fails, code: whether the key signed when it was last tried." },
};
static const struct answer_field csr_answer[] = {
    { "csr_pem", "string", "PKCS#10 certificate request, signed by the key." },
    { "csr_der", "string", "Base64 of the same as DER." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Keys, newest first." },
    { "next_cursor", "string", "Present when there are more." },
};

static const struct route routes[] = {
    {
        .name = "keys.create",
        .method = ROUTE_POST,
        .path = "/api/v1/keys",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = create_fields,
        .body_count = COUNT_OF(create_fields),
        .body_size = sizeof(struct key_create_body),
        .answer = key_answer,
        .answer_count = COUNT_OF(key_answer),
        .success_status = 201,
        .handler = route_key_create,
        .doc = "Make a code-signing key in the token: active at once, or prepared to take the place of the active one.",
    },
    {
        .name = "keys.list",
        .method = ROUTE_GET,
        .path = "/api/v1/keys",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .query = list_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_key_list,
        .doc = "List the tenant's keys, the appliance's own included.",
    },
    {
        .name = "keys.get",
        .method = ROUTE_GET,
        .path = "/api/v1/keys/{id}",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .answer = key_answer,
        .answer_count = COUNT_OF(key_answer),
        .success_status = 200,
        .handler = route_key_get,
        .doc = "One key with its public half and certificates.",
    },
    {
        .name = "keys.rotate-seal",
        .method = ROUTE_POST,
        .path = "/api/v1/keys/seal/rotations",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .answer = key_answer,
        .answer_count = COUNT_OF(key_answer),
        .success_status = 201,
        .handler = route_seal_rotate,
        .doc = "Make a new sealing key; what was sealed before still opens, and nothing waits.",
    },
    {
        .name = "keys.transition",
        .method = ROUTE_POST,
        .path = "/api/v1/keys/{id}/transitions",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = transition_fields,
        .body_count = COUNT_OF(transition_fields),
        .body_size = sizeof(struct key_transition_body),
        .answer = key_answer,
        .answer_count = COUNT_OF(key_answer),
        .success_status = 200,
        .handler = route_key_transition,
        .doc = "Move a key: activate a prepared one (the active one of its name retires after an overlap), retire, or "
               "destroy for ever.",
    },
    {
        .name = "keys.csr",
        .method = ROUTE_POST,
        .path = "/api/v1/keys/{id}/csr",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = csr_fields,
        .body_count = COUNT_OF(csr_fields),
        .body_size = sizeof(struct key_csr_body),
        .answer = csr_answer,
        .answer_count = COUNT_OF(csr_answer),
        .success_status = 200,
        .handler = route_key_csr,
        .doc =
            "Make a certificate request (PKCS#10) for a code-signing key; subject as in RFC 4514, CN=Release,O=Acme.",
    },
    {
        .name = "keys.certificates",
        .method = ROUTE_POST,
        .path = "/api/v1/keys/{id}/certificates",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = (size_t)4 * KEY_CHAIN_MAX,
        .body = certificates_fields,
        .body_count = COUNT_OF(certificates_fields),
        .body_size = sizeof(struct key_certificates_body),
        .answer = key_answer,
        .answer_count = COUNT_OF(key_answer),
        .success_status = 200,
        .handler = route_key_certificates,
        .doc =
            "Give a code-signing key its certificate chain: base64 DER, leaf first, 1 to 8; the former one is replaced.",
    },
};

static const struct event_row events[] = {
    { "key.generated", 1, project_key_generated,
      "A key was made in the token; its public half is kept here for ever." },
    { "key.certified", 1, project_key_certified, "A key got its certificate chain." },
    { "key.csr_signed", 1, project_key_csr_signed, "A key signed a certificate request for itself." },
    { "key.activated", 1, project_key_activated,
      "A prepared key signs from now on; the key that it replaces retires after the overlap." },
    { "key.retiring", 1, project_key_retiring, "A key is wound down: it signs until its overlap ends." },
    { "key.retired", 1, project_key_retired, "A key signs no more, at once or because its overlap has ended." },
    { "key.probe_failed", 1, project_key_probe_failed, "A key did not sign a probe, or not as itself; with the code." },
    { "key.probe_recovered", 1, project_key_probe_recovered, "A key whose probe had failed signs again." },
    { "key.destroyed", 1, project_key_destroyed, "A key signs no more; its erasure from the token is queued." },
    { "key.erased", 1, project_key_erased, "The token has confirmed that the key's object is gone." },
};

static const struct outbox_row outbox[] = {
    { .destination = KEYS_DESTINATION_ERASE,
      .handler = key_erase,
      .deadline_ms = 15000,
      .attempts = 1000,
      .cap_tenant = 2,
      .cap_destination = 4,
      .upkeep = &keys_erase_upkeep,
      .doc = "Erases a destroyed key from the token." },
    { .destination = KEYS_DESTINATION_RETIRE,
      .handler = key_retire,
      .deadline_ms = 15000,
      .attempts = 1000,
      .upkeep = &keys_retire_upkeep,
      .doc = "Records that a key's overlap has ended." },
};

static const struct worker_row workers[] = {
    { "keys-probe", 1000, false, key_probe_some },
    { "keys-census", 15000, false, key_census },
};

static const struct readiness_row readiness[] = {
    { "key_probes", key_probes_well, .degrades = true },
};

#define PER_PURPOSE { "purpose" }
const struct metric key_metrics[KEY_METRICS] = {
    [KEY_METRIC_COUNT_OF_KEYS] = { "svc_signer_keys",
                                   METRIC_GAUGE,
                                   "Keys by purpose and state; of the process that leads, elsewhere NaN.",
                                   { "purpose", "state" } },
    [KEY_METRIC_CERTIFICATE_END] = { "svc_signer_key_certificate_expiry_timestamp_seconds", METRIC_GAUGE,
                                     "When the first certificate of a purpose's keys in use ends.", PER_PURPOSE },
    [KEY_METRIC_END] = { "svc_signer_key_expiry_timestamp_seconds", METRIC_GAUGE,
                         "When the first of a purpose's keys in use reaches the end that was set for it.",
                         PER_PURPOSE },
    [KEY_METRIC_PROBES] = { "svc_signer_probes_total",
                            METRIC_COUNTER,
                            "Probes of keys by result: ok, failed (the key), unavailable (token or signer).",
                            { "purpose", "result" } },
    [KEY_METRIC_PROBE_FAILING] = { "svc_signer_probe_failing_keys", METRIC_GAUGE, "Keys whose last probe was not good.",
                                   PER_PURPOSE },
    [KEY_METRIC_PROBE_GOOD] = { "svc_signer_probe_last_success_timestamp_seconds", METRIC_GAUGE,
                                "Of all keys of a purpose the one that was longest not seen signing: its last good "
                                "probe.",
                                PER_PURPOSE },
};

static void stop(struct services *services)
{
    (void)services;
    keys_seal_forget();
    key_probes_forget();
}

const struct feature keys_feature = {
    .name = "keys",
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
    .metrics = key_metrics,
    .metric_count = COUNT_OF(key_metrics),
    .stop = stop,
};
