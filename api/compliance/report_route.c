/* The reports that schedules made: listed, and handed out one at a time, each time recorded. */
#include "api/compliance/schedules.h"

#include "api/page.h"
#include "appliance/base/codec.h"

#define ANSWER_MAX ((size_t)1 << 20)

static void print_report(struct jout *jout, const struct report *report)
{
    bool generated = report->failure == NULL;
    jout_object(jout);
    jout_key_text(jout, "report_id", report->id.text);
    jout_key_text(jout, "schedule_id", report->schedule_id.text);
    jout_key_int(jout, "schedule_version", report->version);
    jout_key_text(jout, "framework", report->framework);
    jout_key_text(jout, "report_type", report->report_type);
    jout_key_text(jout, "state", report->state);
    jout_key_time(jout, "queued_at", report->queued);
    jout_key_time(jout, "ended_at", report->ended);
    jout_key_int(jout, "sequence", report->sequence);
    if (generated) {
        jout_key_hex(jout, "digest", report->digest);
        jout_key_int(jout, "size", report->size);
        jout_key_time(jout, "window_from", report->window_from);
        jout_key_time(jout, "window_to", report->window_to);
    } else {
        jout_key_text(jout, "failure_code", report->failure);
    }
    jout_object_end(jout);
}

static struct fault read_filter(struct request *request, const struct page *page, struct report_filter *ret_filter)
{
    struct op *op = request->op;
    struct report_filter filter = { .schedule_id = request_query(request, "schedule_id"),
                                    .report_type = request_query(request, "report_type"),
                                    .state = request_query(request, "state"),
                                    .before = page->number,
                                    .limit = page->limit + 1 };
    enum report_type type = REPORT_EVIDENCE_PACK;
    struct uuid id;
    if (filter.schedule_id != NULL && FAULTED(uuid_parse(span_text(filter.schedule_id), &id))) {
        return op_fail_field(op, FAULT(QUERY), "schedule_id", "schedule_id must be the id of a schedule");
    }
    if (filter.report_type != NULL && !report_type_parse(filter.report_type, &type)) {
        return op_fail_field(op, FAULT(QUERY), "report_type", "report_type must be one of the four");
    }
    if (filter.state != NULL && strcmp(filter.state, "generated") != 0 && strcmp(filter.state, "failed") != 0) {
        return op_fail_field(op, FAULT(QUERY), "state", "state must be generated or failed");
    }
    *ret_filter = filter;
    return OK;
}

struct fault route_report_list(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct report_filter filter;
    struct report *list = NULL;
    struct page page;
    size_t count = 0;
    struct jout jout;
    TRY(page_read(request, &page));
    TRY(read_filter(request, &page, &filter));
    TRY(report_list(request->op, request->services, &filter, &list, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_report(&jout, &list[i]);
    }
    TRY(page_end(request, &jout, more, more ? list[shown - 1].sequence : 0, ""));
    return response_json(request, 0, &out);
}

/* ---- pick-up ---- */

static struct fault find(struct request *request, struct report *ret_report)
{
    struct op *op = request->op;
    struct uuid id;
    struct fault fault = uuid_parse(span_text(request_path(request, "id")), &id);
    fault = FAULTED(fault) ? FAULT(NOT_FOUND) : report_get(op, request->services, id, ret_report);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(op, fault,
                       "no such report, or newer ones took its place: list them with "
                       "GET /api/v1/compliance/reports");
    }
    TRY(fault);
    if (ret_report->failure != NULL) {
        return op_fail(op, FAULT(REPORT_GONE), "this report was not made: %s", ret_report->failure);
    }
    return OK;
}

/* The bytes that the event of its generation has the digest of, or none. */
static struct fault read_document(struct request *request, const struct report *report, struct buf *document,
                                  struct sha256 *ret_digest)
{
    struct op *op = request->op;
    struct report_document found = { .size = 0 };
    struct sha256 digest = { { 0 } };
    struct fault fault = report_document_find(op, request->services, report->id, document, &found);
    if (fault.code == FAULT_NOT_FOUND) {
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(REPORT_GONE),
                       "the audit trail has this report's digest, and the document itself is not here any more");
    }
    TRY(fault);
    TRY(sha256_of(buf_span(document), &digest));
    if (!span_equal(SPAN_ARRAY(digest.at), report->digest)) {
        return op_fail(op, FAULT(REPORT_GONE), "the document that is kept is not the one that was recorded");
    }
    *ret_digest = digest;
    return OK;
}

static struct fault put_headers(struct request *request, const struct report *report)
{
    CLEANUP(buf_free) struct buf digest = BUF_INIT(256);
    const char *name = NULL, *text = NULL;
    TRY(buf_text(&digest, "sha-256=:"));
    TRY(base64_encode(report->digest, &digest));
    TRY(buf_text(&digest, ":"));
    TRY(buf_cstr(&digest, &text));
    TRY(arena_printf(request->op->arena, &name, "attachment; filename=\"%s-%s.json\"", report->report_type,
                     report->id.text));
    TRY(response_header(request, "Content-Disposition", name));
    return response_header(request, "Repr-Digest", text);
}

struct fault route_report_get(struct request *request)
{
    CLEANUP(buf_free) struct buf document = BUF_INIT(REPORT_DOCUMENT_MAX);
    struct report report = { .failure = NULL };
    struct sha256 digest;
    TRY(find(request, &report));
    TRY(read_document(request, &report, &document, &digest));
    TRY(pack_record_read(request->op, request->services, "report", report.framework, &digest));
    TRY(put_headers(request, &report));
    TRY(response_stream_begin(request, 0, "application/json"));
    return response_stream_write(request, buf_span(&document));
}
