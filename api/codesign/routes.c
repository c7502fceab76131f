#include "api/codesign/internal.h"

#include "api/page.h"
#include "appliance/base/failpoint.h"
#include "appliance/base/secret.h"

#include <stdio.h>

#define ANSWER_MAX ((size_t)2 << 20) /* a page of the longest signatures */

static struct fault check_enabled(struct request *request)
{
    if (!request->services->config->codesign_enabled) {
        return op_fail(request->op, FAULT(CODESIGN_DISABLED),
                       "code signing is switched off here (code_signing.enabled in the configuration)");
    }
    return OK;
}

static struct fault preview(struct request *request, enum codesign_form form)
{
    struct codesign_plan plan;
    TRY(check_enabled(request));
    TRY(codesign_plan_make(request, form, &plan));
    return answer_preview(request, form, &plan);
}

struct fault route_preview(struct request *request)
{
    return preview(request, FORM_SIGN);
}

struct fault route_batch_preview(struct request *request)
{
    return preview(request, FORM_BATCH);
}

struct fault route_keyless_preview(struct request *request)
{
    return preview(request, FORM_KEYLESS);
}

/* An operation of this command id that is another request: the Idempotency-Key was used for that one. */
static struct fault same_request(struct request *request, enum codesign_form form,
                                 const struct codesign_operation *operation)
{
    struct op *op = request->op;
    const struct codesign_body *body = request->body;
    enum sign_scheme scheme = codesign_scheme_parse(operation->scheme);
    struct codesign_command command = { .id = op->command_id, .tenant = op->tenant };
    char fingerprint[FINGERPRINT_LEN + 1];
    TRY(codesign_request_read(op, form, body, &command.request));
    command.request.scheme = scheme;
    bool same = body->signature_scheme == NULL || codesign_scheme_parse(body->signature_scheme) == scheme;
    if (form != FORM_KEYLESS) {
        same = same && operation->key_id != NULL && strcmp(operation->key_id, body->key_id) == 0 &&
               !FAULTED(uuid_parse(span_text(body->key_id), &command.request.key_id));
    }
    TRY(codesign_command_fingerprint(&command, secret_span(request->services->fingerprint_key), fingerprint));
    same = same && secret_equal(span_text(operation->command_fingerprint), span_text(fingerprint)) &&
           secret_equal(span_text(operation->request_fingerprint), span_text(body->preview_fingerprint));
    return same ? OK : op_fail(op, FAULT(IDEMPOTENCY_KEY_REUSED), "this Idempotency-Key belongs to another signing");
}

/* True when an earlier run of this command was accepted. */
static struct fault find_earlier(struct request *request, enum codesign_form form, bool *ret_found)
{
    struct codesign_operation operation;
    struct fault found = codesign_operation_get(request->op, request->services, request->op->command_id, &operation);
    *ret_found = !FAULTED(found);
    if (found.code == FAULT_NOT_FOUND) {
        return OK;
    }
    TRY(found);
    return same_request(request, form, &operation);
}

static struct fault decide(struct request *request, enum codesign_form form)
{
    const struct codesign_body *body = request->body;
    struct codesign_plan plan;
    TRY(codesign_plan_make(request, form, &plan));
    TRY(codesign_plan_compare(request->op, &plan, body->preview_fingerprint));
    TRY(codesign_accept(request->op, request->services, &plan));
    FAILPOINT("codesign.after_append");
    return OK;
}

/* Appends the command unless an earlier run of it did. A refusal is looked at twice: the earlier run may be in the log
 * and not yet in the read model, and then it stands. */
static struct fault accept_once(struct request *request, enum codesign_form form)
{
    struct op *op = request->op;
    bool found = false;
    TRY(find_earlier(request, form, &found));
    if (found) {
        op_was_recorded(op);
        return OK;
    }
    struct fault decided = decide(request, form);
    if (!FAULTED(decided) || fault_row(decided.code)->retry == FAULT_RETRY_LATER) {
        return decided;
    }
    struct fault_note note = op->note;
    op->note = (struct fault_note){ 0 };
    TRY(projector_catch_up(op, request->services->projector));
    TRY(find_earlier(request, form, &found));
    op->note = note;
    if (found) {
        op_was_recorded(op);
    }
    return found ? OK : decided;
}

static enum fault_code code_of(const char *text)
{
    size_t count = 0;
    const struct fault_row *rows = fault_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].text, text) == 0) {
            return rows[i].code;
        }
    }
    return FAULT_INTERNAL;
}

static struct fault refused(struct op *op, const struct codesign_operation *operation)
{
    struct fault fault = { code_of(operation->failure_code) };
    if (fault.code == FAULT_APPROVAL_REQUIRED) {
        fault = op_fail(op, fault,
                        "nothing was signed: somebody else who holds certs:issue has to approve the resource; then "
                        "repeat the request with a new Idempotency-Key");
    } else {
        fault = op_fail(op, fault, "nothing was signed: operation %s was refused with %s", operation->id.text,
                        operation->failure_code);
    }
    if (operation->resource != NULL) {
        (void)snprintf(op->note.resource, sizeof(op->note.resource), "%s", operation->resource);
    }
    return fault;
}

/* What the caller can do something about keeps its own code; all else is a failed signing, whose closed code is told in
 * words. One that would say "later" is over all the same: the tries are used up. */
static struct fault ended_badly(struct op *op, const struct codesign_operation *operation)
{
    static const enum fault_code own[] = { FAULT_KEY_NOT_FOUND,   FAULT_KEY_STATE,        FAULT_KEY_EXPIRED,
                                           FAULT_TOKEN_MECHANISM, FAULT_ALGORITHM_FENCED, FAULT_PQC_DISABLED };
    if (strcmp(operation->state, "refused") == 0) {
        return refused(op, operation);
    }
    struct fault fault = FAULT(CODESIGN_FAILED);
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        if (own[i] == code_of(operation->failure_code)) {
            fault.code = own[i];
        }
    }
    return op_fail(
        op, fault,
        "signing ended with %s and nothing was signed: make a new preview, and sign with a new Idempotency-Key",
        operation->failure_code);
}

static struct fault execute(struct request *request, enum codesign_form form)
{
    CLEANUP(codesign_waiter_leave) struct codesign_waiter waiter;
    CLEANUP(permit_release) struct permit permit = { 0 };
    struct codesign_operation operation;
    codesign_waiter_enter(&waiter, request->op->command_id);
    TRY(check_enabled(request));
    TRY(op_settle(request->op)); /* or it would wait with a connection in its hands */
    TRY(bulkheads_enter(request->op, request->services->bulkheads, BULKHEAD_OUTBOX, &permit));
    TRY(accept_once(request, form));
    TRY(codesign_await(request->op, request->services, &waiter, &operation));
    if (strcmp(operation.state, "completed") != 0) {
        return ended_badly(request->op, &operation);
    }
    return answer_signed(request, form, &operation);
}

struct fault route_sign(struct request *request)
{
    return execute(request, FORM_SIGN);
}

struct fault route_batch(struct request *request)
{
    return execute(request, FORM_BATCH);
}

struct fault route_keyless(struct request *request)
{
    return execute(request, FORM_KEYLESS);
}

struct fault route_operation_get(struct request *request)
{
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
    return answer_operation(request, &operation);
}

static struct fault read_filter(struct request *request, const struct page *page, struct codesign_filter *ret_filter)
{
    static const char *const states[] = { "commanded", "refused", "signed", "completed", "failed" };
    struct codesign_filter filter = {
        .state = request_query(request, "state"),
        .key_id = request_query(request, "key_id"),
        .mode = request_query(request, "mode"),
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
                             "state must be commanded, refused, signed, completed or failed");
    }
    if (filter.mode != NULL && strcmp(filter.mode, "key") != 0 && strcmp(filter.mode, "keyless") != 0) {
        return op_fail_field(request->op, FAULT(QUERY), "mode", "mode must be key or keyless");
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
        answer_operation_row(&jout, &operations[i]);
    }
    TRY(page_end(request, &jout, more, more ? operations[shown - 1].made_seq : 0,
                 more ? operations[shown - 1].id.text : ""));
    return response_json(request, 0, &answer);
}
