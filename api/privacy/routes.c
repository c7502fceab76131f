#include "api/privacy/internal.h"

#include "api/page.h"
#include "appliance/base/codec.h"

#define ANSWER_MAX ((size_t)8 << 20)
#define EVENT_MAX  ((size_t)16 << 10)

/* ---- erasures ---- */

static void print_finding(struct jout *jout, const struct finding *finding)
{
    jout_key_int(jout, "messages", finding->messages);
    if (finding->messages > 0) {
        jout_key_int(jout, "first_stream_sequence", (int64_t)finding->first_seq);
        jout_key_int(jout, "last_stream_sequence", (int64_t)finding->last_seq);
    }
    jout_key_int(jout, "residual", finding->residual);
    jout_key(jout, "types");
    jout_array(jout);
    for (size_t i = 0; i < finding->type_count; i++) {
        jout_object(jout);
        jout_key_text(jout, "type", finding->types[i].type);
        jout_key_int(jout, "messages", finding->types[i].messages);
        jout_key_int(jout, "residual", finding->types[i].residual);
        jout_object_end(jout);
    }
    jout_array_end(jout);
}

struct fault route_privacy_preview(struct request *request)
{
    const struct preview_body *body = request->body;
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct privacy_subject subject = { 0 };
    struct standing standing = { 0 };
    struct finding finding = { 0 };
    struct uuid none;
    char fingerprint[2 * SHA256_LEN + 1];
    TRY(uuid_new(&none));
    TRY(privacy_look(request->op, request->services, body->subject, none, &subject, &standing, &finding));
    TRY(privacy_fingerprint(request->op, request->services, &subject, &standing, &finding, fingerprint));
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "preview_fingerprint", fingerprint);
    jout_key_int(&jout, "generation", standing.generation);
    print_finding(&jout, &finding);
    jout_key_int(&jout, "archived_segments", standing.archives);
    jout_key_bool(&jout, "erasure_open", standing.open);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

static void print_erasure(struct jout *jout, const struct erasure *erasure)
{
    jout_object(jout);
    jout_key_text(jout, "erasure_id", erasure->id.text);
    jout_key_text(jout, "state", erasure->state);
    jout_key_int(jout, "generation", erasure->generation);
    jout_key_text(jout, "requested_by", erasure->requested_by);
    jout_key_time(jout, "requested_at", erasure->requested);
    jout_key_text(jout, "reason", erasure->reason);
    jout_key_int(jout, "boundary_stream_sequence", (int64_t)erasure->requested_seq);
    if (erasure->activated != 0) {
        jout_key_time(jout, "activated_at", erasure->activated);
        jout_key_int(jout, "messages", erasure->replaced);
    }
    if (erasure->failure_code != NULL) {
        jout_key_text(jout, "failure_code", erasure->failure_code);
        jout_key_text(jout, "failure", erasure->failure);
    }
    if (erasure->ended != 0) {
        jout_key_time(jout, "ended_at", erasure->ended);
    }
    if (strcmp(erasure->state, "completed") == 0) {
        jout_key_int(jout, "answers_blanked", erasure->rows_blanked);
        jout_key_int(jout, "later_messages", erasure->later);
    }
    jout_object_end(jout);
}

static struct fault answer_erasure(struct request *request, struct uuid id)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct erasure erasure;
    struct jout jout;
    TRY(erasure_get(request->op, request->services, id, &erasure));
    jout_init(&jout, &out);
    print_erasure(&jout, &erasure);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_privacy_erase(struct request *request)
{
    const struct erase_body *body = request->body;
    struct uuid id;
    TRY(erasure_request(request->op, request->services, body->subject, body->preview_fingerprint, body->reason, &id));
    return answer_erasure(request, id);
}

struct fault route_privacy_get(struct request *request)
{
    struct uuid id;
    if (FAULTED(uuid_parse(span_text(request_path(request, "id")), &id))) {
        return op_fail(request->op, FAULT(NOT_FOUND), "no such erasure");
    }
    return answer_erasure(request, id);
}

struct fault route_privacy_list(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct erasure *list = NULL;
    size_t count = 0;
    TRY(page_read(request, &page));
    TRY(erasure_list(request->op, request->services, page.number, page.limit + 1, &list, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_erasure(&jout, &list[i]);
    }
    TRY(page_end(request, &jout, more, more ? (int64_t)list[shown - 1].requested_seq : 0, ""));
    return response_json(request, 0, &out);
}

/* ---- attestations ---- */

static void print_attestation(struct jout *jout, const struct attestation *attestation)
{
    jout_object(jout);
    jout_key_text(jout, "attestation_id", attestation->attestation_id);
    jout_key_text(jout, "erasure_id", attestation->erasure_id);
    jout_key_text(jout, "archive_locator", attestation->archive_locator);
    jout_key_hex(jout, "archive_sha256", attestation->archive_sha256);
    jout_key_text(jout, "action", attestation->action);
    jout_key_text(jout, "note", attestation->note);
    jout_key_text(jout, "performed_by", attestation->performed_by);
    jout_key_time(jout, "performed_at", attestation->performed_at);
    jout_key_text(jout, "attested_by", attestation->attested_by);
    jout_key_time(jout, "attested_at", attestation->attested);
    jout_object_end(jout);
}

static struct fault check_attestation(struct request *request, const struct attest_body *body)
{
    struct op *op = request->op;
    struct erasure erasure;
    struct uuid id;
    if (strcmp(body->action, "destroyed") != 0 && strcmp(body->action, "rewritten") != 0 &&
        strcmp(body->action, "retained") != 0) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/action", "/action: must be destroyed, rewritten or retained");
    }
    if (body->performed_at > clock_utc()) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/performed_at", "/performed_at: lies in the future");
    }
    if (FAULTED(uuid_parse(span_text(body->erasure_id), &id))) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/erasure_id", "/erasure_id: is no id of an erasure");
    }
    struct fault fault = erasure_get(op, request->services, id, &erasure);
    return fault.code == FAULT_NOT_FOUND
               ? op_fail_field(op, FAULT(JSON_FIELD), "/erasure_id", "/erasure_id: there is no such erasure")
               : fault;
}

static struct fault print_attested(const struct attest_body *body, struct uuid id, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "action", body->action);
    jout_key_text(&jout, "archive_locator", body->archive_locator);
    jout_key_hex(&jout, "archive_sha256", body->archive_sha256);
    jout_key_text(&jout, "attestation_id", id.text);
    jout_key_text(&jout, "erasure_id", body->erasure_id);
    jout_key_text(&jout, "note", body->note != NULL ? body->note : "");
    jout_key_text(&jout, "performed_by", body->performed_by);
    jout_key_time(&jout, "performed_at", body->performed_at);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault route_privacy_attest(struct request *request)
{
    const struct attest_body *body = request->body;
    struct op *op = request->op;
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX), out = BUF_INIT(EVENT_MAX);
    const struct span parts[] = { span_text(op->command_id.text) };
    struct uuid id;
    uint64_t seq = 0;
    struct jout jout;
    TRY(check_attestation(request, body));
    TRY(uuid_derive("privacy.attestation", parts, COUNT_OF(parts), &id));
    TRY(print_attested(body, id, &data));
    TRY(privacy_append(op, request->services, EVENTS_PRIVACY_LANE, EVENT_ATTESTED, id, "attested", &data, NULL, &seq));
    TRY(projector_wait(op, request->services->projector, seq));
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "attestation_id", id.text);
    jout_key_text(&jout, "erasure_id", body->erasure_id);
    jout_key_text(&jout, "archive_locator", body->archive_locator);
    jout_key_text(&jout, "action", body->action);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_privacy_attestations(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct attestation *list = NULL;
    size_t count = 0;
    TRY(page_read(request, &page));
    TRY(attestation_list(request->op, request->services, page.number, page.limit + 1, &list, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_attestation(&jout, &list[i]);
    }
    TRY(page_end(request, &jout, more, more ? list[shown - 1].sequence : 0, ""));
    return response_json(request, 0, &out);
}

/* ---- generations ---- */

static void print_generation(struct jout *jout, const struct generation_row *row)
{
    jout_object(jout);
    jout_key_int(jout, "generation", row->generation);
    jout_key_time(jout, "activated_at", row->activated);
    jout_key_text(jout, "erasure_id", row->erasure_id);
    jout_key_int(jout, "boundary_sequence", row->boundary_sequence);
    jout_key_int(jout, "messages", row->replaced);
    jout_key_hex(jout, "digest", SPAN_ARRAY(row->digest.at));
    jout_key_hex(jout, "superseded_head", SPAN_ARRAY(row->superseded_head.at));
    jout_key_hex(jout, "new_head", SPAN_ARRAY(row->new_head.at));
    jout_key_text(jout, "statement", row->statement);
    jout_object_end(jout);
}

struct fault route_audit_history(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct generation_row *rows = NULL;
    size_t count = 0;
    struct jout jout;
    TRY(generation_list(request->op, request->services, &rows, &count));
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "tenant_id", request->op->tenant.text);
    jout_key_int(&jout, "generation", count > 0 ? rows[count - 1].generation : 1);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < count; i++) {
        print_generation(&jout, &rows[i]);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}
