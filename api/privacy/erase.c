/* A request: what would be replaced, who lets it pass, and the event that begins it. */
#include "api/privacy/internal.h"

#include "api/approvals/approvals.h"
#include "api/keys/seal.h"
#include "appliance/base/codec.h"
#include "appliance/base/secret.h"

#include <stdio.h>

#define EVENT_MAX ((size_t)64 << 10)
#define RULE      "privacy.erasure"
#define APPROVERS 1 /* besides the one who asks */

struct fault privacy_append(struct op *op, struct services *services, const char *lane, const char *type,
                            struct uuid erasure_id, const char *step, const struct buf *data, const uint64_t *expected,
                            uint64_t *ret_seq)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    struct event_append append = { .lane = lane, .events = &event, .count = 1 };
    const struct span parts[] = { span_text(op->tenant.text), span_text(erasure_id.text), span_text(step),
                                  span_text(lane) };
    TRY(uuid_derive("privacy.event", parts, COUNT_OF(parts), &append.message_id));
    append.expect = expected != NULL;
    append.expected = expected != NULL ? *expected : 0;
    return events_append(op, services->log, &append, ret_seq);
}

/* ---- the preview ---- */

struct fault privacy_fingerprint(struct op *op, struct services *services, const struct privacy_subject *subject,
                                 const struct standing *standing, const struct finding *finding,
                                 char ret_text[2 * SHA256_LEN + 1])
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(4096);
    struct sha256 mac;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.privacy.preview.v1");
    jout_key_text(&jout, "tenant_id", op->tenant.text);
    jout_key(&jout, "subject");
    jout_span_text(&jout, subject->text);
    jout_key_int(&jout, "generation", standing->generation);
    jout_key_int(&jout, "messages", finding->messages);
    jout_key_int(&jout, "first", (int64_t)finding->first_seq);
    jout_key_int(&jout, "last", (int64_t)finding->last_seq);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct span parts[] = { buf_span(&json) };
    TRY(hmac_sha256(secret_span(services->fingerprint_key), parts, COUNT_OF(parts), &mac));
    hex_text(SPAN_ARRAY(mac.at), ret_text, 2 * SHA256_LEN + 1);
    return OK;
}

struct fault privacy_look(struct op *op, struct services *services, const char *text, struct uuid erasure_id,
                          struct privacy_subject *ret_subject, struct standing *ret_standing,
                          struct finding *ret_finding)
{
    TRY(privacy_subject_make(op, text, erasure_id, ret_subject));
    TRY(privacy_standing(op, services, ret_subject->text, ret_standing));
    if (ret_standing->credentials > 0) {
        return op_fail(op, FAULT(PRIVACY_CREDENTIALS),
                       "%lld tokens that hold this subject are in force: revoke them first (tokens revoke)",
                       (long long)ret_standing->credentials);
    }
    if (ret_standing->role_names > 0) {
        return op_fail_field(op, FAULT(PRIVACY_SUBJECT), "/subject",
                             "/subject: is part of a role's name: replacing it would change what events say");
    }
    TRY(event_log_can_erase(op, services->log));
    TRY(privacy_find(op, services, ret_subject, 1, ret_standing->checkpoint, ret_finding));
    if (ret_finding->messages > EVENTS_REPLACED_MAX) {
        return op_fail(op, FAULT(PRIVACY_SUBJECT), "%lld messages would be replaced, and the log takes %u",
                       (long long)ret_finding->messages, EVENTS_REPLACED_MAX);
    }
    return OK;
}

/* ---- approval ---- */

static struct fault resource_of(struct op *op, const char *fingerprint, char out[APPROVAL_RESOURCE_MAX + 1])
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(4096);
    struct sha256 digest;
    char hex[2 * SHA256_LEN + 1];
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "action", "erase");
    jout_key_text(&jout, "preview_fingerprint", fingerprint);
    jout_key_text(&jout, "principal", op->principal.subject);
    jout_key_text(&jout, "schema", "svc.privacy.approval.v1");
    jout_key_text(&jout, "tenant_id", op->tenant.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(sha256_of(buf_span(&json), &digest));
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    (void)snprintf(out, APPROVAL_RESOURCE_MAX + 1, APPROVAL_ERASURE "%s", hex);
    return OK;
}

/* Without the subject: an approver who is told it makes the same preview and compares the fingerprint. */
static struct fault print_about(const struct standing *standing, const struct finding *finding, const char *fingerprint,
                                const char *reason, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(EVENT_MAX);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_int(&jout, "generation", standing->generation);
    jout_key_int(&jout, "messages", finding->messages);
    jout_key_text(&jout, "preview_fingerprint", fingerprint);
    jout_key_text(&jout, "reason", reason);
    jout_key_int(&jout, "residual", finding->residual);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

static struct fault ask(struct op *op, struct services *services, const char *resource, const struct standing *standing,
                        const struct finding *finding, const char *fingerprint, const char *reason)
{
    CLEANUP(buf_free) struct buf about = BUF_INIT(EVENT_MAX);
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    const char *about_text = NULL;
    uint64_t seq = 0;
    TRY(print_about(standing, finding, fingerprint, reason, &about));
    TRY(buf_cstr(&about, &about_text));
    const struct approval_ask asked = {
        .resource = resource,
        .requester = op->principal.subject,
        .rule = RULE,
        .action = "erase",
        .about = about_text,
        .approvers = APPROVERS,
        .window_us = services->config->approval_window / 1000,
        .operation_id = op->command_id,
    };
    TRY(approvals_print_requested(&asked, &data));
    TRY(privacy_append(op, services, EVENTS_PRIVACY_LANE, "approval.requested", op->command_id, "ask", &data, NULL,
                       &seq));
    return projector_wait(op, services->projector, seq);
}

static struct fault refused(struct op *op, const char *resource, struct fault fault)
{
    fault = fault.code == FAULT_APPROVAL_DENIED
                ? op_fail(op, fault, "an approver denied this: nothing was erased")
                : op_fail(op, fault,
                          "nothing was erased: somebody else who holds certs:issue has to approve the resource; then "
                          "repeat the request with a new Idempotency-Key");
    (void)snprintf(op->note.resource, sizeof(op->note.resource), "%s", resource);
    return fault;
}

static struct fault permitted(struct op *op, struct services *services, const struct standing *standing,
                              const struct finding *finding, const char *fingerprint, const char *reason)
{
    char resource[APPROVAL_RESOURCE_MAX + 1];
    struct approval_status status;
    TRY(resource_of(op, fingerprint, resource));
    TRY(approvals_status(op, services, resource, APPROVERS, clock_utc(), &status));
    if (status.state == APPROVAL_APPROVED) {
        return OK;
    }
    if (status.state == APPROVAL_DENIED) {
        return refused(op, resource, FAULT(APPROVAL_DENIED));
    }
    if (status.state != APPROVAL_PENDING) {
        TRY(ask(op, services, resource, standing, finding, fingerprint, reason));
    }
    return refused(op, resource, FAULT(APPROVAL_REQUIRED));
}

/* ---- the event ---- */

static struct fault print_requested(struct op *op, struct services *services, struct uuid id,
                                    const struct privacy_subject *subject, const struct standing *standing,
                                    const char *reason, struct buf *out)
{
    CLEANUP(buf_free) struct buf sealed = BUF_INIT(EVENT_MAX);
    struct jout jout;
    TRY(keys_seal(op, services, span_text(id.text), subject->text, &sealed));
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "erasure_id", id.text);
    jout_key_int(&jout, "generation", standing->generation);
    jout_key_text(&jout, "reason", reason);
    jout_key_base64(&jout, "sealed_subject", buf_span(&sealed));
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault erasure_request(struct op *op, struct services *services, const char *text, const char *fingerprint,
                             const char *reason, struct uuid *ret_id)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct privacy_subject subject = { 0 };
    struct standing standing = { 0 };
    struct finding finding = { 0 };
    struct erasure before;
    struct uuid id;
    char present[2 * SHA256_LEN + 1];
    uint64_t seq = 0;
    const struct span parts[] = { span_text(op->command_id.text) };
    TRY(uuid_derive("privacy.erasure", parts, COUNT_OF(parts), &id));
    struct fault fault = erasure_get(op, services, id, &before);
    if (!FAULTED(fault)) {
        op_was_recorded(op); /* this command has run before */
        *ret_id = id;
        return OK;
    }
    if (fault.code != FAULT_NOT_FOUND) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    TRY(privacy_look(op, services, text, id, &subject, &standing, &finding));
    if (standing.open) {
        return op_fail(op, FAULT(PRIVACY_OPEN), "one erasure after the other: wait until the open one is completed");
    }
    if (memmem(reason, strlen(reason), subject.text.at, subject.text.len) != NULL) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/reason", "/reason: holds the subject, and is kept for ever");
    }
    TRY(privacy_fingerprint(op, services, &subject, &standing, &finding, present));
    if (!secret_equal(span_text(present), span_text(fingerprint))) {
        return op_fail(op, FAULT(PREVIEW_CHANGED), "make the preview again: what would be replaced has changed");
    }
    TRY(permitted(op, services, &standing, &finding, present, reason));
    TRY(keys_seal_prepare(op, services));
    TRY(print_requested(op, services, id, &subject, &standing, reason, &data));
    TRY(privacy_append(op, services, EVENTS_PRIVACY_LANE, EVENT_REQUESTED, id, "requested", &data, &standing.lane,
                       &seq));
    TRY(projector_wait(op, services->projector, seq));
    *ret_id = id;
    return OK;
}
