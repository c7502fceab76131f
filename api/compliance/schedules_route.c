#include "api/compliance/schedules.h"

#include "api/page.h"

#define ANSWER_MAX ((size_t)1 << 20)

void schedule_print(struct jout *jout, const struct schedule *schedule)
{
    int64_t interval_us = schedule->definition.interval_seconds * US_PER_S;
    jout_object(jout);
    jout_key_text(jout, "schedule_id", schedule->id.text);
    jout_key_int(jout, "version", schedule->version);
    schedule_definition_print(&schedule->definition, jout);
    jout_key_text(jout, "created_by", schedule->created_by);
    jout_key_time(jout, "created_at", schedule->created);
    jout_key_text(jout, "configured_by", schedule->configured_by);
    jout_key_time(jout, "configured_at", schedule->configured);
    if (schedule->definition.enabled) {
        jout_key_time(jout, "next_due_at", schedule_next(schedule->counted_from, interval_us));
    }
    jout_key_bool(jout, "report_on_its_way", schedule->open_report[0] != '\0');
    if (schedule->last_report != NULL) {
        jout_key_text(jout, "last_report_id", schedule->last_report);
        jout_key_time(jout, "last_generated_at", schedule->last_generated);
    }
    if (schedule->last_failure != NULL) {
        jout_key_text(jout, "last_failure_code", schedule->last_failure);
        jout_key_time(jout, "last_failed_at", schedule->last_failed);
    }
    jout_object_end(jout);
}

static struct fault answer_schedule(struct request *request, const struct schedule *schedule)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    schedule_print(&jout, schedule);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

/* ---- preview ---- */

static void put_list(struct jout *jout, const char *key, const char *const *texts, size_t count)
{
    jout_key(jout, key);
    jout_array(jout);
    for (size_t i = 0; i < count; i++) {
        jout_text(jout, texts[i]);
    }
    jout_array_end(jout);
}

static void put_plan(struct jout *jout, const struct schedule_definition *definition)
{
    static const char *const later[] = {
        ("one event " EVENT_SCHEDULE_CONFIGURED ": version 1 of the definition, which nothing changes any more"),
        ("after each full interval, counted from the configuration or from the report before: " EVENT_REPORT_QUEUED
         ", then " EVENT_REPORT_GENERATED " with the document's digest, or " EVENT_REPORT_FAILED),
        ("the document of each report, kept here for pick-up until the schedule has reports_kept newer ones; nothing "
         "is sent anywhere"),
    };
    static const char *const recovery[] = {
        "pause it: a new version with enabled=false; what is queued and not generated is given up",
        "resume it: a new version with enabled=true, and a fresh full interval",
        ("a report that fails is tried again for some hours; then its failure is recorded and the schedule goes on "
         "with its next interval"),
    };
    static const char *const verification[] = {
        "GET /api/v1/compliance/report-schedules/{schedule_id} shows version, next_due_at and the last report",
        ("GET /api/v1/audit/records?type=" EVENT_SCHEDULE_CONFIGURED " shows every version as an event"),
        ("svc-cli compliance reports get REPORT_ID -o FILE, and compare its SHA-256 with the digest "
         "of " EVENT_REPORT_GENERATED),
    };
    put_list(jout, "later_writes", later, definition->enabled ? COUNT_OF(later) : 1);
    put_list(jout, "recovery_steps", recovery, COUNT_OF(recovery));
    put_list(jout, "verification_steps", verification, COUNT_OF(verification));
}

struct fault route_schedule_preview(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct op *op = request->op;
    struct schedule_definition definition;
    char fingerprint[2 * SHA256_LEN + 1];
    int64_t keep = request->services->config->reports_kept;
    struct jout jout;
    TRY(schedule_normalise(op, request->body, &definition));
    TRY(schedule_fingerprint(op->tenant, &definition, keep, fingerprint));
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "preview_fingerprint", fingerprint);
    jout_key_text(&jout, "tenant_id", op->tenant.text);
    jout_key_bool(&jout, "effect_free", true);
    jout_key(&jout, "definition");
    jout_object(&jout);
    schedule_definition_print(&definition, &jout);
    jout_object_end(&jout);
    jout_key_int(&jout, "reports_kept", keep);
    put_plan(&jout, &definition);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

/* ---- mutations ---- */

struct fault route_schedule_create(struct request *request)
{
    struct schedule schedule;
    TRY(schedule_create(request->op, request->services, request->body, &schedule));
    return answer_schedule(request, &schedule);
}

static struct fault path_id(struct request *request, struct uuid *ret_id)
{
    if (FAULTED(uuid_parse(span_text(request_path(request, "id")), ret_id))) {
        return op_fail(request->op, FAULT(NOT_FOUND),
                       "no such schedule: list them with GET /api/v1/compliance/report-schedules");
    }
    return OK;
}

static struct fault set_enabled(struct request *request, bool enabled)
{
    const struct schedule_switch_body *body = request->body;
    struct schedule schedule;
    struct uuid id;
    TRY(path_id(request, &id));
    TRY(schedule_switch(request->op, request->services, id, body->expected_version, enabled, &schedule));
    return answer_schedule(request, &schedule);
}

struct fault route_schedule_pause(struct request *request)
{
    return set_enabled(request, false);
}

struct fault route_schedule_resume(struct request *request)
{
    return set_enabled(request, true);
}

/* ---- reading ---- */

struct fault route_schedule_get(struct request *request)
{
    struct schedule schedule;
    struct uuid id;
    TRY(path_id(request, &id));
    struct fault fault = schedule_get(request->op, request->services, id, &schedule);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(request->op, fault, "no such schedule: list them with GET /api/v1/compliance/report-schedules");
    }
    TRY(fault);
    return answer_schedule(request, &schedule);
}

/* A filter that names nothing known would silently show nothing: refused instead. */
static struct fault read_filter(struct request *request, const struct page *page, struct schedule_filter *ret_filter)
{
    struct op *op = request->op;
    const char *enabled = request_query(request, "enabled");
    struct schedule_filter filter = { .framework = request_query(request, "framework"),
                                      .report_type = request_query(request, "report_type"),
                                      .before = page->number,
                                      .limit = page->limit + 1 };
    enum report_type type = REPORT_EVIDENCE_PACK;
    if (filter.framework != NULL && !framework_known(filter.framework)) {
        return op_fail_field(op, FAULT(QUERY), "framework", "framework must be one of the fifteen ids");
    }
    if (filter.report_type != NULL && !report_type_parse(filter.report_type, &type)) {
        return op_fail_field(op, FAULT(QUERY), "report_type", "report_type must be one of the four");
    }
    bool yes = enabled != NULL && strcmp(enabled, "true") == 0;
    if (enabled != NULL && !yes && strcmp(enabled, "false") != 0) {
        return op_fail_field(op, FAULT(QUERY), "enabled", "enabled must be true or false");
    }
    filter.enabled = enabled == NULL ? SCHEDULE_ANY : yes ? SCHEDULE_ENABLED : SCHEDULE_PAUSED;
    *ret_filter = filter;
    return OK;
}

static struct fault read_page(struct request *request, const struct schedule_filter *filter, struct schedule **ret_list,
                              size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(request->op, request->services->store, STORE_REQUEST, &tx));
    return schedule_list(request->op, tx, filter, ret_list, ret_count);
}

struct fault route_schedule_list(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct schedule_filter filter;
    struct schedule *list = NULL;
    struct page page;
    size_t count = 0;
    struct jout jout;
    TRY(page_read(request, &page));
    TRY(read_filter(request, &page, &filter));
    TRY(read_page(request, &filter, &list, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        schedule_print(&jout, &list[i]);
    }
    TRY(page_end(request, &jout, more, more ? list[shown - 1].made : 0, ""));
    return response_json(request, 0, &out);
}
