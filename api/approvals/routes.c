#include "api/approvals/internal.h"

#include "api/page.h"

#define ANSWER_MAX    ((size_t)256 << 10)
#define LIST_MAX      ((size_t)8 << 20)
#define ID_HINT       "no such request: list them with GET /api/v1/approval-requests"
#define RESOURCE_HINT "nobody asked for an approval of this resource: a refused request does"

/* ---- answers ---- */

/* Within an object that the caller opened. */
static void print_request(struct jout *jout, const struct approval_row *row, utc_us now)
{
    enum approval_standing standing = approval_standing_at(row, now);
    jout_key_text(jout, "request_id", row->id.text);
    jout_key_text(jout, "resource", row->resource);
    jout_key_text(jout, "action", row->action);
    jout_key_text(jout, "state", approval_standing_text(standing));
    jout_key_text(jout, "requester", row->requester);
    jout_key_text(jout, "rule", row->rule);
    jout_key_raw(jout, "about", span_text(row->about));
    jout_key_int(jout, "approvers", row->needed);
    jout_key_int(jout, "approvals", row->approvals);
    jout_key_int(jout, "window_seconds", row->window_us / US_PER_S);
    jout_key_int(jout, "max_signings", row->max_signings);
    jout_key_int(jout, "signings", row->uses);
    jout_key_text(jout, "operation_id", row->operation_id.text);
    jout_key_time(jout, "created_at", row->created);
    if (row->decided != 0) {
        jout_key_time(jout, "decided_at", row->decided);
    }
    if (row->denied_by != NULL) {
        jout_key_text(jout, "denied_by", row->denied_by);
    }
    if (standing != STANDING_REPLACED) {
        jout_key_time(jout, "expires_at", row->expires);
    }
}

static void print_decision(struct jout *jout, const struct approval_decision *decision)
{
    jout_key_text(jout, "decision", decision->verdict);
    jout_key_text(jout, "approver", decision->approver);
    if (decision->reason[0] != '\0') {
        jout_key_text(jout, "reason", decision->reason);
    }
    jout_key_time(jout, "time", decision->time);
}

static struct fault answer_decided(struct request *request, const struct approval_case *decided)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    const struct approval_row *row = &decided->row;
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "request_id", row->id.text);
    jout_key_text(&jout, "resource", row->resource);
    jout_key_text(&jout, "action", row->action);
    print_decision(&jout, &decided->decision);
    jout_key_text(&jout, "state", approval_standing_text(approval_standing_at(row, clock_utc())));
    jout_key_int(&jout, "approvers", row->needed);
    jout_key_int(&jout, "approvals", row->approvals);
    jout_key_time(&jout, "expires_at", row->expires);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

/* ---- deciding ---- */

static struct fault path_id(struct request *request, struct uuid *ret_id)
{
    if (FAULTED(uuid_parse(span_text(request_path(request, "id")), ret_id))) {
        return op_fail(request->op, FAULT(NOT_FOUND), ID_HINT);
    }
    return OK;
}

static struct fault decide(struct request *request, struct uuid id, enum approval_verdict verdict)
{
    const struct approval_body *body = request->body;
    struct approval_case decided;
    const char *reason = body->reason != NULL ? body->reason : "";
    TRY(approval_decide(request->op, request->services, id, verdict, reason, &decided));
    return answer_decided(request, &decided);
}

struct fault route_approval_grant(struct request *request)
{
    struct uuid id;
    TRY(path_id(request, &id));
    return decide(request, id, VERDICT_GRANTED);
}

struct fault route_approval_deny(struct request *request)
{
    struct uuid id;
    TRY(path_id(request, &id));
    return decide(request, id, VERDICT_DENIED);
}

/* The newest request of the resource is the one that counts. */
struct fault route_approval_resource(struct request *request)
{
    const struct approval_body *body = request->body;
    const char *resource = request_path(request, "resource");
    struct approval_row row;
    bool found = false;
    if (approval_resource_valid(resource)) {
        TRY(approval_newest(request->op, request->services, resource, &found, &row));
    }
    if (!found) {
        return op_fail(request->op, FAULT(NOT_FOUND), RESOURCE_HINT);
    }
    if (strcmp(body->action, row.action) != 0) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/action", "/action: this resource asks for \"%s\"",
                             row.action);
    }
    return decide(request, row.id, VERDICT_GRANTED);
}

/* ---- reading ---- */

struct fault route_approval_get(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct uuid id;
    struct approval_row row;
    struct approval_decision *decisions = NULL;
    size_t count = 0;
    TRY(path_id(request, &id));
    struct fault fault = approval_get(request->op, request->services, id, &row);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(request->op, fault, ID_HINT);
    }
    TRY(fault);
    TRY(approval_decisions(request->op, request->services, id, &decisions, &count));
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    print_request(&jout, &row, clock_utc());
    jout_key(&jout, "decisions");
    jout_array(&jout);
    for (size_t i = 0; i < count; i++) {
        jout_object(&jout);
        print_decision(&jout, &decisions[i]);
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

/* A filter that names nothing known would silently show nothing: refused instead. */
static struct fault read_filter(struct request *request, const struct page *page, bool *ret_nothing,
                                struct approval_filter *ret_filter)
{
    const char *waiting = request_query(request, "waiting_for_me");
    struct approval_filter filter = { .standing = request_query(request, "state"),
                                      .now = clock_utc(),
                                      .before_seq = page->number,
                                      .before_id = page->id,
                                      .limit = page->limit + 1 };
    enum approval_standing standing = STANDING_PENDING;
    if (filter.standing != NULL && !approval_standing_parse(filter.standing, &standing)) {
        return op_fail_field(request->op, FAULT(QUERY), "state",
                             "state must be pending, approved, used_up, denied, expired or replaced");
    }
    bool mine = waiting != NULL && strcmp(waiting, "true") == 0;
    if (waiting != NULL && !mine && strcmp(waiting, "false") != 0) {
        return op_fail_field(request->op, FAULT(QUERY), "waiting_for_me", "waiting_for_me must be true or false");
    }
    if (mine && standing != STANDING_PENDING) {
        return op_fail_field(request->op, FAULT(QUERY), "state", "only what is pending waits for anybody");
    }
    filter.waits_for = mine ? request->op->principal.subject : NULL;
    *ret_nothing = mine && !principal_may(&request->op->principal, PERMISSION_CERTS_ISSUE);
    *ret_filter = filter;
    return OK;
}

struct fault route_approval_list(struct request *request)
{
    struct page page;
    struct approval_filter filter = { 0 };
    struct approval_row *rows = NULL;
    size_t count = 0;
    bool nothing = false;
    TRY(page_read(request, &page));
    TRY(read_filter(request, &page, &nothing, &filter));
    if (!nothing) {
        TRY(approval_list(request->op, request->services, &filter, &rows, &count));
    }
    CLEANUP(buf_free) struct buf out = BUF_INIT(LIST_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    for (size_t i = 0; i < shown; i++) {
        jout_object(&jout);
        print_request(&jout, &rows[i], filter.now);
        jout_object_end(&jout);
    }
    TRY(page_end(request, &jout, more, more ? rows[shown - 1].made_seq : 0, more ? rows[shown - 1].id.text : ""));
    return response_json(request, 0, &out);
}
