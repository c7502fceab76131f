#include "api/codesign/internal.h"

#include "api/page.h"
#include "appliance/base/secret.h"

#define ANSWER_MAX ((size_t)1 << 20)

static struct fault check_enabled(struct request *request)
{
    if (!request->services->config->codesign_enabled) {
        return op_fail(request->op, FAULT(CODESIGN_DISABLED),
                       "code signing is switched off here (code_signing.enabled in the configuration)");
    }
    return OK;
}

struct fault route_preview(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct codesign_plan plan;
    struct jout jout;
    TRY(check_enabled(request));
    TRY(codesign_plan_make(request, request->body, &plan));
    jout_init(&jout, &answer);
    jout_object(&jout);
    jout_key_text(&jout, "request_fingerprint", plan.request_fingerprint);
    jout_key_text(&jout, "configuration_fingerprint", plan.configuration_fingerprint);
    jout_key_text(&jout, "key_id", plan.request.key_id.text);
    jout_key_text(&jout, "key_state", plan.key.state);
    jout_key_text(&jout, "algorithm", key_algorithm_text(plan.key.algorithm));
    jout_key_text(&jout, "hash_algorithm", "sha256");
    jout_key_text(&jout, "signature_scheme", codesign_scheme_text(plan.request.scheme));
    jout_key_text(&jout, "artifact_type", plan.request.artifact_type);
    jout_key_base64(&jout, "digest", plan.request.digest);
    jout_key_text(&jout, "principal", plan.request.principal);
    jout_key(&jout, "approval");
    jout_object(&jout);
    jout_key_bool(&jout, "required", false);
    jout_object_end(&jout);
    jout_key_text(&jout, "transparency_destination", CODESIGN_TRANSPARENCY);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &answer);
}

/* An operation of this command id that is another request: the Idempotency-Key was used for that one. */
static struct fault same_request(struct request *request, const struct codesign_operation *operation)
{
    struct op *op = request->op;
    const struct codesign_body *body = request->body;
    enum sign_scheme scheme = codesign_scheme_parse(operation->scheme);
    const struct codesign_command command = {
        .operation_id = op->command_id,
        .tenant = op->tenant,
        .request = { .artifact_type = body->artifact_type,
                     .digest = body->digest,
                     .principal = op->principal.subject,
                     .key_id = operation->key_id,
                     .scheme = scheme },
    };
    char fingerprint[FINGERPRINT_LEN + 1];
    TRY(codesign_command_fingerprint(&command, secret_span(request->services->fingerprint_key), fingerprint));
    bool same = strcmp(operation->key_id.text, body->key_id) == 0 &&
                (body->signature_scheme == NULL || codesign_scheme_parse(body->signature_scheme) == scheme) &&
                secret_equal(span_text(operation->command_fingerprint), span_text(fingerprint)) &&
                secret_equal(span_text(operation->request_fingerprint), span_text(body->preview_fingerprint));
    return same ? OK : op_fail(op, FAULT(IDEMPOTENCY_KEY_REUSED), "this Idempotency-Key belongs to another signing");
}

/* True when an earlier run of this command was accepted. */
static struct fault find_earlier(struct request *request, bool *ret_found)
{
    struct codesign_operation operation;
    struct fault found = codesign_operation_get(request->op, request->services, request->op->command_id, &operation);
    *ret_found = !FAULTED(found);
    if (found.code == FAULT_NOT_FOUND) {
        return OK;
    }
    TRY(found);
    return same_request(request, &operation);
}

static struct fault decide(struct request *request)
{
    const struct codesign_body *body = request->body;
    struct codesign_plan plan;
    TRY(codesign_plan_make(request, body, &plan));
    if (!secret_equal(span_text(plan.request_fingerprint), span_text(body->preview_fingerprint))) {
        return op_fail_field(request->op, FAULT(PREVIEW_CHANGED), "/preview_fingerprint",
                             "digest, artifact type, caller, key or configuration are not those of the preview: make a "
                             "new preview, and sign with its request_fingerprint and a new Idempotency-Key");
    }
    return codesign_accept(request->op, request->services, &plan);
}

/* Appends the command unless an earlier run of it did. A refusal is looked at twice: the earlier run may be in the log
 * and not yet in the read model, and then it stands. */
static struct fault accept_once(struct request *request)
{
    struct op *op = request->op;
    bool found = false;
    TRY(find_earlier(request, &found));
    if (found) {
        return OK;
    }
    struct fault decided = decide(request);
    if (!FAULTED(decided) || fault_row(decided.code)->retry == FAULT_RETRY_LATER) {
        return decided;
    }
    struct fault_note note = op->note;
    op->note = (struct fault_note){ 0 };
    TRY(projector_catch_up(op, request->services->projector));
    TRY(find_earlier(request, &found));
    op->note = note;
    return found ? OK : decided;
}

static const char *signature_encoding(const char *scheme)
{
    return strcmp(scheme, "ecdsa") == 0 ? "ecdsa-der" : scheme;
}

static struct fault print_signed(struct request *request, const struct codesign_operation *operation, struct buf *out)
{
    struct managed_key key;
    struct jout jout;
    TRY(keys_get(request->op, request->services, operation->key_id, &key));
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", operation->id.text);
    jout_key_text(&jout, "key_id", operation->key_id.text);
    jout_key_text(&jout, "algorithm", operation->algorithm);
    jout_key_text(&jout, "hash_algorithm", "sha256");
    jout_key_text(&jout, "signature_encoding", signature_encoding(operation->scheme));
    jout_key_base64(&jout, "signature", operation->signature);
    jout_key_base64(&jout, "public_key_der", key.spki);
    if (key.chain_count > 0) {
        jout_key(&jout, "certificate_chain");
        jout_array(&jout);
        for (size_t i = 0; i < key.chain_count; i++) {
            jout_base64(&jout, key.chain[i]);
        }
        jout_array_end(&jout);
    }
    jout_key_text(&jout, "artifact_type", operation->artifact_type);
    jout_key_text(&jout, "transparency_destination", operation->transparency_destination);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* What the caller can do something about keeps its own code; all else is a failed signing, whose closed code is told in
 * words. One that would say "later" is over all the same: the tries are used up. */
static struct fault failed(struct op *op, const struct codesign_operation *operation)
{
    static const enum fault_code own[] = { FAULT_KEY_NOT_FOUND, FAULT_KEY_STATE, FAULT_TOKEN_MECHANISM };
    struct fault fault = FAULT(CODESIGN_FAILED);
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        if (strcmp(fault_row(own[i])->text, operation->failure_code) == 0) {
            fault.code = own[i];
        }
    }
    return op_fail(
        op, fault,
        "signing ended with %s and nothing was signed: make a new preview, and sign with a new Idempotency-Key",
        operation->failure_code);
}

struct fault route_sign(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    CLEANUP(codesign_waiter_leave) struct codesign_waiter waiter;
    struct codesign_operation operation;
    codesign_waiter_enter(&waiter, request->op->command_id);
    TRY(check_enabled(request));
    TRY(accept_once(request));
    TRY(codesign_await(request->op, request->services, &waiter, &operation));
    if (strcmp(operation.state, "completed") != 0) {
        return failed(request->op, &operation);
    }
    TRY(print_signed(request, &operation, &answer));
    return response_json(request, 0, &answer);
}

static void print_operation(struct jout *jout, const struct codesign_operation *operation)
{
    jout_object(jout);
    jout_key_text(jout, "operation_id", operation->id.text);
    jout_key_text(jout, "state", operation->state);
    if (operation->failure_code != NULL) {
        jout_key_text(jout, "failure_code", operation->failure_code);
    }
    jout_key_text(jout, "key_id", operation->key_id.text);
    jout_key_text(jout, "artifact_type", operation->artifact_type);
    jout_key_text(jout, "principal", operation->principal);
    jout_key_text(jout, "transparency_destination", operation->transparency_destination);
    jout_key_time(jout, "created_at", operation->created);
    if (codesign_operation_ended(operation)) {
        jout_key_time(jout, "ended_at", operation->ended);
    }
    if (operation->signature.len > 0) {
        jout_key_base64(jout, "digest", operation->digest);
        jout_key_text(jout, "hash_algorithm", "sha256");
        jout_key_text(jout, "algorithm", operation->algorithm);
        jout_key_text(jout, "signature_encoding", signature_encoding(operation->scheme));
        jout_key_base64(jout, "signature", operation->signature);
    }
    jout_object_end(jout);
}

struct fault route_operation_get(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct codesign_operation operation;
    struct uuid id;
    struct fault fault = uuid_parse(span_text(request_path(request, "id")), &id);
    if (!FAULTED(fault)) {
        fault = codesign_operation_get(request->op, request->services, id, &operation);
    }
    if (fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_NOT_FOUND) {
        return op_fail(request->op, FAULT(NOT_FOUND),
                       "no such operation: list them with "
                       "GET /api/v1/code-signing/operations");
    }
    TRY(fault);
    struct jout jout;
    jout_init(&jout, &answer);
    print_operation(&jout, &operation);
    TRY(jout_end(&jout));
    return response_json(request, 0, &answer);
}

static struct fault read_filter(struct request *request, const struct page *page, struct codesign_filter *ret_filter)
{
    static const char *const states[] = { "commanded", "signed", "completed", "failed" };
    struct codesign_filter filter = {
        .state = request_query(request, "state"),
        .key_id = request_query(request, "key_id"),
        .before_seq = page->number,
        .before_id = page->id,
        .limit = page->limit + 1,
    };
    bool known = filter.state == NULL;
    for (size_t i = 0; i < COUNT_OF(states) && !known; i++) {
        known = strcmp(states[i], filter.state) == 0;
    }
    if (!known) {
        return op_fail_field(request->op, FAULT(QUERY), "state",
                             "state must be commanded, signed, completed or failed");
    }
    *ret_filter = filter;
    return OK;
}

struct fault route_operation_list(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct codesign_filter filter;
    struct codesign_operation *operations = NULL;
    size_t count = 0;
    TRY(page_read(request, &page));
    TRY(read_filter(request, &page, &filter));
    TRY(codesign_operation_list(request->op, request->services, &filter, &operations, &count));

    struct jout jout;
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &answer);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_operation(&jout, &operations[i]);
    }
    TRY(page_end(request, &jout, more, more ? operations[shown - 1].made_seq : 0,
                 more ? operations[shown - 1].id.text : ""));
    return response_json(request, 0, &answer);
}
