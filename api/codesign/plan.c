#include "api/codesign/internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/secret.h"

#define CANONICAL_MAX ((size_t)64 << 10)

/* Everything outside the request whose change must void a preview. Whether an approval is there does not: it is
 * obtained between preview and execution. */
static struct fault print_configuration(const struct codesign_plan *plan, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(CANONICAL_MAX);
    const struct policy_decision *decision = &plan->governance.decision;
    struct sha256 spki;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.codesign.configuration.v1");
    jout_key_text(&jout, "algorithm", key_algorithm_text(plan->algorithm));
    if (plan->request.mode == CODESIGN_KEY) {
        TRY(sha256_of(plan->key.spki, &spki));
        /* A key that is being replaced still signs what names it: its previews hold. */
        jout_key_text(&jout, "key_state", strcmp(plan->key.state, "retiring") == 0 ? "active" : plan->key.state);
        jout_key_hex(&jout, "public_key_sha256", SPAN_ARRAY(spki.at));
        jout_key_text(&jout, "outcome", policy_outcome_text(decision->outcome));
        jout_key_text(&jout, "rule", decision->rule);
        jout_key_int(&jout, "approvers", decision->approvers);
    } else {
        jout_key_text(&jout, "methods", plan->methods_digest);
    }
    jout_key_text(&jout, "policy", plan->policy_digest);
    jout_key_text(&jout, "logs", plan->logs_digest);
    jout_key_text(&jout, "transparency_destination", plan->destination);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

/* The parts of a request's fingerprint, in their order. */
enum part { PART_CALLER, PART_ARTIFACT, PART_SIGNER, PART_CONFIGURATION, PART_COUNT };
#define PART_LEN (FINGERPRINT_LEN / PART_COUNT)
static const char *const part_texts[PART_COUNT] = {
    [PART_CALLER] = "the caller",
    [PART_ARTIFACT] = "digest, artifact type or scheme",
    [PART_SIGNER] = "the key or identity proof",
    [PART_CONFIGURATION] = "the configuration (state of the key, policy, identity methods or transparency log)",
};

static struct fault print_part(struct tenant_id tenant, const struct codesign_plan *plan, enum part part,
                               struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(CANONICAL_MAX);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.codesign.preview.v1");
    jout_key_int(&jout, "part", part);
    jout_key_text(&jout, "tenant_id", tenant.text);
    switch (part) {
    case PART_CALLER:
        jout_key_text(&jout, "principal", plan->request.principal);
        break;
    case PART_ARTIFACT:
        codesign_artifact_print(&jout, &plan->request);
        break;
    case PART_SIGNER:
        jout_key_text(&jout, "algorithm", key_algorithm_text(plan->algorithm));
        codesign_signer_print(&jout, &plan->request);
        break;
    case PART_CONFIGURATION:
    case PART_COUNT:
        jout_key_text(&jout, "configuration_fingerprint", plan->configuration_fingerprint);
        break;
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

struct fault codesign_fingerprints(struct tenant_id tenant, struct span fingerprint_key, struct codesign_plan *plan)
{
    CLEANUP(buf_free) struct buf configuration = BUF_INIT(CANONICAL_MAX);
    struct sha256 digest, mac;
    TRY(print_configuration(plan, &configuration));
    TRY(sha256_of(buf_span(&configuration), &digest));
    hex_text(SPAN_ARRAY(digest.at), plan->configuration_fingerprint, sizeof(plan->configuration_fingerprint));
    for (enum part part = 0; part < PART_COUNT; part++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(CANONICAL_MAX);
        TRY(print_part(tenant, plan, part, &text));
        const struct span pieces[] = { buf_span(&text) };
        TRY(hmac_sha256(fingerprint_key, pieces, COUNT_OF(pieces), &mac));
        hex_text(span_of(mac.at, PART_LEN / 2), plan->request_fingerprint + part * PART_LEN, PART_LEN + 1);
    }
    return OK;
}

struct fault codesign_plan_compare(struct op *op, const struct codesign_plan *plan, const char *fingerprint)
{
    CLEANUP(buf_free) struct buf changed = BUF_INIT(1024);
    const char *text = NULL;
    bool whole = strlen(fingerprint) == FINGERPRINT_LEN;
    for (size_t part = 0; part < PART_COUNT && whole; part++) {
        struct span is = span_of(plan->request_fingerprint + part * PART_LEN, PART_LEN);
        if (!secret_equal(is, span_of(fingerprint + part * PART_LEN, PART_LEN))) {
            TRY(buf_printf(&changed, "%s%s", changed.len > 0 ? ", " : "", part_texts[part]));
        }
    }
    if (whole && changed.len == 0) {
        return OK;
    }
    TRY(buf_cstr(&changed, &text));
    return op_fail_field(op, FAULT(PREVIEW_CHANGED), "/preview_fingerprint",
                         "%s: make a new preview, and sign with its request_fingerprint and a new Idempotency-Key",
                         whole ? text : "this is no fingerprint of a preview");
}

/* Unknown, of another tenant, or of another purpose: the same answer. */
static struct fault find_key(struct op *op, struct services *services, const char *id, struct managed_key *ret_key)
{
    struct uuid key_id;
    struct fault fault = uuid_parse(span_text(id), &key_id);
    if (!FAULTED(fault)) {
        fault = keys_get(op, services, key_id, ret_key);
    }
    bool wrong_purpose = !FAULTED(fault) && ret_key->ref.purpose != KEY_PURPOSE_CODESIGN;
    if (fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_KEY_NOT_FOUND || wrong_purpose) {
        op->note = (struct fault_note){ 0 };
        return op_fail_field(op, FAULT(KEY_NOT_FOUND), "/key_id",
                             "no such code-signing key: list them with "
                             "GET /api/v1/keys?purpose=codesign");
    }
    TRY(fault);
    return OK;
}

static struct fault plan_key(struct op *op, struct services *services, const struct codesign_body *body, utc_us now,
                             struct codesign_plan *plan)
{
    const struct verified_identity nobody = { 0 };
    TRY(find_key(op, services, body->key_id, &plan->key));
    TRY(keys_check_use(op, &plan->key, now, plan->request.count, "/key_id"));
    plan->request.key_id = plan->key.ref.id;
    plan->algorithm = plan->key.algorithm;
    TRY(keys_check_fence(op, plan->algorithm, "/key_id"));
    TRY(codesign_scheme_choose(op, body->signature_scheme, plan->algorithm, &plan->request.scheme));
    return governance_look(op, services, &plan->request, plan->key.name, &nobody, now, &plan->governance);
}

/* Nothing that the proof says is believed here: whether its identity may sign is decided at execution. */
static struct fault plan_keyless(struct op *op, struct services *services, struct codesign_plan *plan)
{
    if (!services->config->keyless_enabled || services->attest == NULL) {
        return op_fail(op, FAULT(KEYLESS_DISABLED),
                       "keyless signing is switched off here (code_signing.keyless.enabled in the configuration)");
    }
    TRY(attest_inspect(op, services, plan->request.identity_method, plan->request.proof));
    plan->algorithm = KEY_ALGORITHM_EC_P256;
    plan->request.scheme = SIGN_SCHEME_ECDSA;
    plan->governance.enabled = services->config->policy_enabled || services->config->policy_approval;
    return attest_digest(op, services, plan->methods_digest);
}

struct fault codesign_plan_make(struct request *request, enum codesign_form form, struct codesign_plan *ret_plan)
{
    const struct codesign_body *body = request->body;
    struct services *services = request->services;
    struct op *op = request->op;
    struct codesign_plan plan = { 0 };
    utc_us now = clock_utc();
    TRY(codesign_request_read(op, form, body, &plan.request));
    TRY(plan.request.mode == CODESIGN_KEY ? plan_key(op, services, body, now, &plan)
                                          : plan_keyless(op, services, &plan));
    TRY(transparency_plan(op, services, plan.algorithm, plan.request.scheme, plan.request.hash, now,
                          &plan.destination));
    TRY(transparency_digest(op, services, plan.logs_digest));
    policy_digest(services->policy, services->config, plan.policy_digest);
    TRY(codesign_fingerprints(op->tenant, secret_span(services->fingerprint_key), &plan));
    *ret_plan = plan;
    return OK;
}
