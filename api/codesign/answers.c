/* What is told of plans and operations. */
#include "api/codesign/internal.h"

#include "appliance/base/der.h"

#define ANSWER_MAX ((size_t)1 << 20)

static bool is_fenced(const char *scheme)
{
    return strcmp(scheme, codesign_scheme_text(SIGN_SCHEME_ML_DSA)) == 0;
}

const char *codesign_encoding_text(const char *scheme)
{
    if (is_fenced(scheme)) {
        return "ml-dsa-65";
    }
    return strcmp(scheme, "ecdsa") == 0 ? "ecdsa-der" : scheme;
}

void answer_chain(struct jout *jout, struct span chain)
{
    struct der_element certificate;
    if (chain.len == 0) {
        return;
    }
    jout_key(jout, "certificate_chain");
    jout_array(jout);
    while (chain.len > 0 && !FAULTED(der_next(&chain, &certificate))) {
        jout_base64(jout, certificate.whole);
    }
    jout_array_end(jout);
}

static void key_chain(struct jout *jout, const struct managed_key *key)
{
    if (key->chain_count == 0) {
        return;
    }
    jout_key(jout, "certificate_chain");
    jout_array(jout);
    for (size_t i = 0; i < key->chain_count; i++) {
        jout_base64(jout, key->chain[i]);
    }
    jout_array_end(jout);
}

/* ---- a preview ---- */

static const char *approval_text(enum approval_state state)
{
    static const char *const texts[] = { [APPROVAL_NONE] = "none",
                                         [APPROVAL_PENDING] = "pending",
                                         [APPROVAL_APPROVED] = "approved",
                                         [APPROVAL_USED_UP] = "used_up",
                                         [APPROVAL_DENIED] = "denied" };
    return texts[state];
}

static void preview_policy(struct jout *jout, const struct codesign_plan *plan)
{
    const struct policy_decision *decision = &plan->governance.decision;
    jout_key(jout, "policy");
    jout_object(jout);
    jout_key_bool(jout, "enabled", plan->governance.enabled);
    if (plan->request.mode == CODESIGN_KEYLESS && plan->governance.enabled) {
        jout_key_text(jout, "outcome", "at_execution"); /* by the identity, which is verified only then */
    } else if (plan->request.mode == CODESIGN_KEYLESS) {
        jout_key_text(jout, "outcome", "allow");
    } else {
        jout_key_text(jout, "outcome", policy_outcome_text(decision->outcome));
        jout_key_text(jout, "rule", decision->rule);
        if (decision->reason != NULL) {
            jout_key_text(jout, "reason", decision->reason);
        }
    }
    jout_object_end(jout);
}

static void preview_approval(struct jout *jout, const struct codesign_plan *plan)
{
    const struct governance *governance = &plan->governance;
    const struct approval_status *status = &governance->approval;
    bool required = governance->decision.outcome == POLICY_APPROVE;
    jout_key(jout, "approval");
    jout_object(jout);
    jout_key_bool(jout, "required", required);
    if (required) {
        jout_key_text(jout, "resource", governance->resource);
        jout_key_text(jout, "state", approval_text(status->state));
        jout_key_int(jout, "approvers", governance->decision.approvers);
        jout_key_int(jout, "approvals", status->approvals);
        if (status->request_id.text[0] != '\0') {
            jout_key_text(jout, "request_id", status->request_id.text);
        }
        if (status->expires != 0) {
            jout_key_time(jout, "expires_at", status->expires);
        }
    }
    jout_object_end(jout);
}

static void preview_digests(struct jout *jout, enum codesign_form form, const struct codesign_request *request)
{
    if (form != FORM_BATCH) {
        jout_key_base64(jout, "digest", request->digests[0]);
        return;
    }
    jout_key_int(jout, "count", (int64_t)request->count);
    jout_key(jout, "digests");
    jout_array(jout);
    for (size_t i = 0; i < request->count; i++) {
        jout_base64(jout, request->digests[i]);
    }
    jout_array_end(jout);
}

/* The proof is never told again. */
struct fault answer_preview(struct request *request, enum codesign_form form, const struct codesign_plan *plan)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct jout jout;
    jout_init(&jout, &answer);
    jout_object(&jout);
    jout_key_text(&jout, "request_fingerprint", plan->request_fingerprint);
    jout_key_text(&jout, "configuration_fingerprint", plan->configuration_fingerprint);
    if (form == FORM_KEYLESS) {
        jout_key_text(&jout, "identity_method", plan->request.identity_method);
    } else {
        jout_key_text(&jout, "key_id", plan->request.key_id.text);
        jout_key_text(&jout, "key_state", plan->key.state);
    }
    jout_key_text(&jout, "algorithm", key_algorithm_text(plan->algorithm));
    jout_key_text(&jout, "digest_algorithm", hash_algorithm_text(plan->request.hash));
    jout_key_text(&jout, "signature_scheme", codesign_scheme_text(plan->request.scheme));
    keys_print_mode(&jout, keys_approved_mode(plan->algorithm), keys_fenced(plan->algorithm));
    jout_key_text(&jout, "artifact_type", plan->request.artifact_type);
    preview_digests(&jout, form, &plan->request);
    jout_key_text(&jout, "principal", plan->request.principal);
    preview_policy(&jout, plan);
    if (form != FORM_KEYLESS) {
        preview_approval(&jout, plan);
    }
    jout_key_text(&jout, "transparency_destination", plan->destination);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &answer);
}

/* ---- a receipt ---- */

static struct fault receipt_key(struct request *request, const struct codesign_operation *operation, struct jout *jout)
{
    struct managed_key key;
    struct uuid id;
    if (operation->key_id == NULL) {
        jout_key_base64(jout, "public_key_der", operation->spki);
        answer_chain(jout, operation->chain);
        jout_key_text(jout, "fulcio_san", operation->san);
        jout_key_text(jout, "fulcio_issuer", operation->issuer);
        return OK;
    }
    TRY(uuid_parse(span_text(operation->key_id), &id));
    TRY(keys_get(request->op, request->services, id, &key));
    jout_key_text(jout, "key_id", operation->key_id);
    jout_key_base64(jout, "public_key_der", key.spki);
    key_chain(jout, &key);
    return OK;
}

static struct fault receipt_batch(struct request *request, const struct codesign_operation *first, struct jout *jout)
{
    struct codesign_operation *operations = NULL;
    size_t count = 0;
    TRY(codesign_operations_of(request->op, request->services, first->command_id, &operations, &count));
    REQUIRE(count == (size_t)first->count, INTERNAL);
    jout_key(jout, "signatures");
    jout_array(jout);
    for (size_t i = 0; i < count; i++) {
        jout_object(jout);
        jout_key_text(jout, "operation_id", operations[i].id.text);
        jout_key_base64(jout, "digest", operations[i].digest);
        jout_key_base64(jout, "signature", operations[i].signature);
        jout_object_end(jout);
    }
    jout_array_end(jout);
    return OK;
}

struct fault answer_signed(struct request *request, enum codesign_form form, const struct codesign_operation *first)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct jout jout;
    jout_init(&jout, &answer);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", first->id.text);
    TRY(receipt_key(request, first, &jout));
    jout_key_text(&jout, "algorithm", first->algorithm);
    jout_key_text(&jout, "digest_algorithm", first->digest_algorithm);
    jout_key_text(&jout, "signature_encoding", codesign_encoding_text(first->scheme));
    keys_print_mode(&jout, first->approved_mode, is_fenced(first->scheme));
    if (form == FORM_BATCH) {
        TRY(receipt_batch(request, first, &jout));
    } else {
        jout_key_base64(&jout, "signature", first->signature);
    }
    jout_key_text(&jout, "artifact_type", first->artifact_type);
    jout_key_text(&jout, "transparency_destination", first->destination);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &answer);
}

/* ---- an operation ---- */

static void key_text(struct jout *jout, const char *key, const char *text)
{
    if (text != NULL) {
        jout_key_text(jout, key, text);
    }
}

static void put_members(struct jout *jout, const struct codesign_operation *operation)
{
    jout_key_text(jout, "operation_id", operation->id.text);
    jout_key_text(jout, "command_id", operation->command_id.text);
    jout_key_text(jout, "state", operation->state);
    jout_key_text(jout, "mode", operation->mode);
    key_text(jout, "failure_code", operation->failure_code);
    key_text(jout, "resource", operation->resource);
    key_text(jout, "key_id", operation->key_id);
    key_text(jout, "identity_method", operation->identity_method);
    key_text(jout, "algorithm", operation->algorithm);
    jout_key_text(jout, "digest_algorithm", operation->digest_algorithm);
    jout_key_text(jout, "artifact_type", operation->artifact_type);
    jout_key_text(jout, "principal", operation->principal);
    key_text(jout, "fulcio_san", operation->san);
    key_text(jout, "fulcio_issuer", operation->issuer);
    jout_key_text(jout, "transparency_destination", operation->destination);
    jout_key_time(jout, "created_at", operation->created);
    if (codesign_operation_ended(operation)) {
        jout_key_time(jout, "ended_at", operation->ended);
    }
    if (operation->signature.len > 0) {
        jout_key_base64(jout, "digest", operation->digest);
        jout_key_text(jout, "signature_encoding", codesign_encoding_text(operation->scheme));
        jout_key_base64(jout, "signature", operation->signature);
    }
    if (operation->signature.len > 0 || is_fenced(operation->scheme)) {
        keys_print_mode(jout, operation->approved_mode, is_fenced(operation->scheme));
    }
}

void answer_operation_row(struct jout *jout, const struct codesign_operation *operation)
{
    jout_object(jout);
    put_members(jout, operation);
    jout_object_end(jout);
}

static struct fault put_verifier(struct request *request, const struct codesign_operation *operation, struct jout *jout)
{
    struct managed_key key;
    struct uuid id;
    if (operation->signature.len == 0) {
        return OK;
    }
    if (operation->key_id == NULL) {
        jout_key_base64(jout, "public_key_der", operation->spki);
        answer_chain(jout, operation->chain);
        return OK;
    }
    TRY(uuid_parse(span_text(operation->key_id), &id));
    TRY(keys_get(request->op, request->services, id, &key));
    jout_key_base64(jout, "public_key_der", key.spki);
    key_chain(jout, &key);
    return OK;
}

struct fault answer_operation(struct request *request, const struct codesign_operation *operation)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct span evidence = { 0 };
    struct jout jout;
    TRY(transparency_evidence(request->op, request->services, operation->id, &evidence));
    jout_init(&jout, &answer);
    jout_object(&jout);
    put_members(&jout, operation);
    TRY(put_verifier(request, operation, &jout));
    if (evidence.len > 0) {
        jout_key_raw(&jout, "transparency", evidence);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &answer);
}
