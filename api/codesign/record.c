/* The events that end a command. One message each, with an id that follows from the command: recorded once. */
#include "api/codesign/internal.h"

#define EVENT_MAX   ((size_t)128 << 10)
#define MESSAGE_MAX ((size_t)1 << 20)
#define EVENTS_MAX  (2 * BATCH_MAX + 1)
#define ABOUT_MAX   ((size_t)32 << 10)

/* Events of one message under construction: their data stand one behind the other. */
struct draft {
    struct buf data;
    const char *types[EVENTS_MAX];
    size_t ends[EVENTS_MAX], count;
};
static void draft_free(struct draft *draft)
{
    buf_free(&draft->data);
}

static void draft_begin(struct draft *draft, struct jout *jout, const char *type)
{
    BUG_IF(draft->count >= EVENTS_MAX);
    draft->types[draft->count] = type;
    jout_init(jout, &draft->data);
    jout_object(jout);
}

static struct fault draft_end(struct draft *draft, struct jout *jout)
{
    jout_object_end(jout);
    TRY(jout_end(jout));
    draft->ends[draft->count++] = draft->data.len;
    return OK;
}

/* All ends share one id: of two workers that had the same command, the first one's end is the end. */
static struct fault draft_append(struct op *op, struct services *services, const struct draft *draft,
                                 struct uuid command_id, uint64_t *ret_seq)
{
    const struct span parts[] = { span_text(op->tenant.text), span_text(command_id.text) };
    struct event events[EVENTS_MAX];
    for (size_t i = 0, from = 0; i < draft->count; from = draft->ends[i++]) {
        events[i] = (struct event){ .type = draft->types[i],
                                    .schema_version = 1,
                                    .data = span_of(draft->data.at + from, draft->ends[i] - from) };
    }
    struct event_append message = { .lane = CODESIGN_LANE, .events = events, .count = draft->count };
    TRY(uuid_derive("codesign.end", parts, COUNT_OF(parts), &message.message_id));
    return events_append(op, services->log, &message, ret_seq);
}

/* ---- signed and completed ---- */

static struct fault draft_attested(struct draft *draft, const struct codesign_made *made)
{
    const struct attested *identity = &made->identity;
    struct jout jout;
    draft_begin(draft, &jout, "attestation.verified");
    jout_key_text(&jout, "operation_id", made->command->id.text);
    jout_key_text(&jout, "identity_method", identity->method);
    jout_key_text(&jout, "issuer", identity->issuer);
    jout_key_text(&jout, "subject", identity->subject);
    jout_key_text(&jout, "san", identity->san);
    jout_key_text(&jout, "issuer_key_id", identity->key_id);
    jout_key_time(&jout, "issued_at", identity->issued);
    jout_key_time(&jout, "expires_at", identity->expires);
    return draft_end(draft, &jout);
}

static struct fault print_key(struct jout *jout, const struct codesign_made *made)
{
    const struct codesign_request *request = &made->command->request;
    if (request->mode == CODESIGN_KEY) {
        struct sha256 spki;
        TRY(sha256_of(made->spki, &spki));
        jout_key_text(jout, "key_id", request->key_id.text);
        jout_key_hex(jout, "public_key_sha256", SPAN_ARRAY(spki.at));
        return OK;
    }
    CLEANUP(buf_free) struct buf chain = BUF_INIT(CHAIN_BYTES_MAX);
    for (size_t i = 0; i < made->chain_count; i++) {
        TRY(buf_put(&chain, made->chain[i]));
    }
    jout_key_text(jout, "identity_method", made->identity.method);
    jout_key_text(jout, "fulcio_san", made->identity.san);
    jout_key_text(jout, "fulcio_issuer", made->identity.issuer);
    jout_key_base64(jout, "public_key_der", made->spki);
    jout_key_base64(jout, "certificate_chain", buf_span(&chain)); /* one behind the other */
    jout_key_text(jout, "issuance", made->issued_outside ? "external" : "own");
    return OK;
}

static struct fault draft_signed(struct draft *draft, const struct codesign_made *made, size_t position)
{
    const struct codesign_request *request = &made->command->request;
    struct uuid operation_id;
    struct jout jout;
    TRY(codesign_operation_id(made->command->id, position, &operation_id));
    draft_begin(draft, &jout, request->mode == CODESIGN_KEY ? "codesign.signed" : "codesign.keyless.signed");
    jout_key_text(&jout, "operation_id", operation_id.text);
    TRY(print_key(&jout, made));
    jout_key_text(&jout, "algorithm", key_algorithm_text(made->algorithm));
    jout_key_text(&jout, "digest_algorithm", hash_algorithm_text(request->hash));
    jout_key_text(&jout, "signature_scheme", codesign_scheme_text(request->scheme));
    jout_key_text(&jout, "artifact_type", request->artifact_type);
    jout_key_base64(&jout, "digest", request->digests[position]);
    jout_key_text(&jout, "principal", request->principal);
    jout_key_base64(&jout, "signature", made->signatures[position]);
    jout_key_bool(&jout, "approved_mode", made->approved_mode);
    if (made->governance->enabled) {
        jout_key_text(&jout, "policy_rule", made->governance->decision.rule);
    }
    if (made->governance->resource[0] != '\0') {
        jout_key_text(&jout, "approval_resource", made->governance->resource);
        jout_key_text(&jout, "approval_request_id", made->governance->approval.request_id.text);
    }
    return draft_end(draft, &jout);
}

static struct fault draft_completed(struct draft *draft, const struct codesign_made *made, size_t position)
{
    struct uuid operation_id;
    struct jout jout;
    TRY(codesign_operation_id(made->command->id, position, &operation_id));
    draft_begin(draft, &jout, "codesign.completed");
    jout_key_text(&jout, "operation_id", operation_id.text);
    jout_key_text(&jout, "command_id", made->command->id.text);
    jout_key_text(&jout, "mode", codesign_mode_text(made->command->request.mode));
    jout_key_text(&jout, "transparency_destination", made->command->destination);
    return draft_end(draft, &jout);
}

struct fault codesign_record_completed(struct op *op, struct services *services, const struct codesign_made *made,
                                       uint64_t *ret_seq)
{
    CLEANUP(draft_free) struct draft draft = { .data = BUF_INIT(MESSAGE_MAX) };
    if (made->command->request.mode == CODESIGN_KEYLESS) {
        TRY(draft_attested(&draft, made));
    }
    for (size_t i = 0; i < made->command->request.count; i++) {
        TRY(draft_signed(&draft, made, i));
        TRY(draft_completed(&draft, made, i));
    }
    return draft_append(op, services, &draft, made->command->id, ret_seq);
}

/* ---- refused ---- */

/* What approvers are shown. */
static struct fault print_about(const struct codesign_command *command, const struct verified_identity *identity,
                                const struct governance *governance, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(ABOUT_MAX);
    const struct codesign_request *request = &command->request;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "mode", codesign_mode_text(request->mode));
    if (request->mode == CODESIGN_KEY) {
        jout_key_text(&jout, "key_id", request->key_id.text);
    } else {
        jout_key_text(&jout, "fulcio_san", identity->san);
        jout_key_text(&jout, "fulcio_issuer", identity->issuer);
    }
    jout_key_text(&jout, "principal", request->principal);
    jout_key_text(&jout, "artifact_type", request->artifact_type);
    jout_key_text(&jout, "digest_algorithm", hash_algorithm_text(request->hash));
    jout_key(&jout, "digests");
    jout_array(&jout);
    for (size_t i = 0; i < request->count; i++) {
        jout_base64(&jout, request->digests[i]);
    }
    jout_array_end(&jout);
    jout_key_text(&jout, "rule", governance->decision.rule);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

static struct fault draft_requested(struct draft *draft, const struct codesign_command *command,
                                    const struct verified_identity *identity, const struct governance *governance)
{
    CLEANUP(buf_free) struct buf about = BUF_INIT(ABOUT_MAX);
    const char *about_text = NULL;
    TRY(print_about(command, identity, governance, &about));
    TRY(buf_cstr(&about, &about_text));
    const struct approval_ask ask = {
        .resource = governance->resource,
        .requester = command->request.principal,
        .rule = governance->decision.rule,
        .action = "sign",
        .about = about_text,
        .approvers = governance->decision.approvers,
        .window_us = governance->decision.window_us,
        .max_signings = governance->decision.max_signings,
        .operation_id = command->id,
    };
    BUG_IF(draft->count >= EVENTS_MAX);
    draft->types[draft->count] = "approval.requested";
    TRY(approvals_print_requested(&ask, &draft->data));
    draft->ends[draft->count++] = draft->data.len;
    return OK;
}

static struct fault draft_refused(struct draft *draft, const char *type, struct op *op,
                                  const struct codesign_command *command, const struct governance *governance,
                                  size_t position, struct fault why)
{
    struct uuid operation_id;
    struct jout jout;
    TRY(codesign_operation_id(command->id, position, &operation_id));
    draft_begin(draft, &jout, type);
    jout_key_text(&jout, "operation_id", operation_id.text);
    jout_key_text(&jout, "command_id", command->id.text);
    jout_key_text(&jout, "mode", codesign_mode_text(command->request.mode));
    jout_key_text(&jout, "code", fault_row(why.code)->text);
    jout_key_text(&jout, "detail", op->note.set && op->note.code == why.code ? op->note.detail : "");
    if (governance != NULL) {
        jout_key_text(&jout, "policy_rule", governance->decision.rule);
        if (governance->resource[0] != '\0') {
            jout_key_text(&jout, "resource", governance->resource);
        }
    }
    return draft_end(draft, &jout);
}

struct fault codesign_record_refused(struct op *op, struct services *services, const struct codesign_command *command,
                                     const struct verified_identity *identity, const struct governance *governance,
                                     struct fault why, uint64_t *ret_seq)
{
    CLEANUP(draft_free) struct draft draft = { .data = BUF_INIT(MESSAGE_MAX) };
    bool proof = governance == NULL && command->request.mode == CODESIGN_KEYLESS;
    const char *type = proof ? "codesign.keyless.refused" : "codesign.refused";
    for (size_t i = 0; i < command->request.count; i++) {
        TRY(draft_refused(&draft, type, op, command, governance, i, why));
    }
    if (why.code == FAULT_APPROVAL_REQUIRED && governance != NULL && governance_asks(governance)) {
        TRY(draft_requested(&draft, command, identity, governance));
    }
    return draft_append(op, services, &draft, command->id, ret_seq);
}

/* ---- failed ---- */

struct fault codesign_record_failed(struct op *op, struct services *services, const struct codesign_operation *first,
                                    struct fault why, uint64_t *ret_seq)
{
    CLEANUP(draft_free) struct draft draft = { .data = BUF_INIT(MESSAGE_MAX) };
    for (size_t i = 0; i < (size_t)first->count; i++) {
        struct uuid operation_id;
        struct jout jout;
        TRY(codesign_operation_id(first->command_id, i, &operation_id));
        draft_begin(&draft, &jout, "codesign.failed");
        jout_key_text(&jout, "operation_id", operation_id.text);
        jout_key_text(&jout, "command_id", first->command_id.text);
        jout_key_text(&jout, "mode", first->mode);
        jout_key_text(&jout, "code", fault_row(why.code)->text);
        TRY(draft_end(&draft, &jout));
    }
    return draft_append(op, services, &draft, first->command_id, ret_seq);
}
