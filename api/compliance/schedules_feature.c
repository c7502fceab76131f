#include "api/compliance/compliance.h"
#include "api/compliance/schedules.h"

const struct metric schedules_metrics[1] = {
    {
        .name = "svc_compliance_reports_total",
        .kind = METRIC_COUNTER,
        .help = "Scheduled reports that ended, by type and outcome: generated, or the code of the failure.",
        .labels = { "report_type", "outcome" },
    },
};

#define DEFINITION_FIELDS                                                                                            \
    JIN_TEXT(struct schedule_body, framework, JIN_REQUIRED, 1, 64),                                                  \
        JIN_TEXT(struct schedule_body, name, JIN_REQUIRED, 1, SCHEDULE_NAME_MAX),                                    \
        JIN_TEXT(struct schedule_body, report_type, JIN_REQUIRED, 1, 64),                                            \
        JIN_INT(struct schedule_body, interval_seconds, JIN_REQUIRED, SCHEDULE_INTERVAL_MIN, SCHEDULE_INTERVAL_MAX), \
        JIN_TEXT(struct schedule_body, delivery, JIN_REQUIRED, 1, 64),                                               \
        JIN_TEXT(struct schedule_body, recipient_ref, JIN_REQUIRED, 1, SCHEDULE_RECIPIENT_MAX),                      \
        JIN_RAW(struct schedule_body, enabled, JIN_OPTIONAL, 4, 5)
static const struct jin_field preview_fields[] = { DEFINITION_FIELDS };
static const struct jin_field create_fields[] = {
    DEFINITION_FIELDS,
    JIN_TEXT(struct schedule_body, preview_fingerprint, JIN_OPTIONAL, 64, 64),
};
static const struct jin_field switch_fields[] = {
    JIN_INT(struct schedule_switch_body, expected_version, JIN_REQUIRED, 1, INT32_MAX),
};

static const char *const schedule_query[] = { "enabled", "framework", "report_type", "limit", "cursor", NULL };
static const char *const report_query[] = { "schedule_id", "report_type", "state", "limit", "cursor", NULL };

static const struct answer_field inventory_answer[] = {
    { "format", "string", "svc.compliance.inventory-report.v1." },
    { "tenant_id", "string", "The caller's tenant." },
    { "generated_at", "string", "RFC 3339." },
    { "frameworks", "array", "Each: id, catalogue, version, controls, gaps." },
    { "report_types", "array", "The four of them." },
    { "served_routes", "array", "Each: method, path, permission (null = none is needed)." },
    { "evidence_references", "array",
      "The newest record of each event type that a framework asks for: event_id, sequence, type, observed_at, chain." },
    { "inventory_counts", "object", "What the inventory holds, by kind." },
    { "report_schedules", "array", "The first page of them, newest first." },
    { "more_report_schedules", "boolean", "There are more: list them." },
    { "report_schedule_count", "integer", "All of the tenant's." },
    { "enabled_report_schedule_count", "integer", "Those that are enabled." },
    { "audit", "object", "head_sequence, chain_head, generation, archived_through." },
    { "notice", "string", "What this report does not say." },
};
static const struct answer_field preview_answer[] = {
    { "preview_fingerprint", "string",
      "SHA-256 over definition, tenant and reports_kept: a request to create that names it is refused when they differ." },
    { "tenant_id", "string", "The caller's tenant, which the fingerprint is bound to." },
    { "effect_free", "boolean", "True: no event, no row, no report, nothing resolved, nobody called." },
    { "definition", "object", "As it would be kept." },
    { "reports_kept", "integer", "How many documents of a schedule are kept." },
    { "later_writes", "array", "What creating it would write, at once and later." },
    { "recovery_steps", "array", "How to stop it, and what happens after a failure." },
    { "verification_steps", "array", "How to see that it did what it should." },
};
static const struct answer_field schedule_answer[] = {
    { "schedule_id", "string", "Names the schedule." },
    { "version", "integer", "Of its configuration; 1 = the first." },
    { "delivery", "string", "audit_export: documents are kept for pick-up." },
    { "enabled", "boolean", "False: paused." },
    { "framework", "string", "One of the fifteen ids." },
    { "interval_seconds", "integer", "3600 to 31622400." },
    { "name", "string", "As given." },
    { "recipient_ref", "string", "As given; nothing resolves it." },
    { "report_type", "string", "One of the four." },
    { "created_by", "string", "Subject." },
    { "created_at", "string", "RFC 3339." },
    { "configured_by", "string", "Subject of the present version." },
    { "configured_at", "string", "RFC 3339." },
    { "next_due_at", "string", "While it is enabled." },
    { "report_on_its_way", "boolean", "One is queued and not ended." },
    { "last_report_id", "string", "Of the last one that was made." },
    { "last_generated_at", "string", "RFC 3339." },
    { "last_failure_code", "string", "Present when the last report failed." },
    { "last_failed_at", "string", "RFC 3339." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Newest first." },
    { "next_cursor", "string", "Present when there are more." },
};
static const struct answer_field document_answer[] = {
    { "format", "string", "svc.compliance.evidence-pack.v5 or svc.compliance.report.v1." },
    { "signed_export", "object", "The signed manifest." },
    { "public_key_der", "string", "Base64 of the PKIX public key." },
};

#define SCHEDULES "/api/v1/compliance/report-schedules"
#define REPORTS   "/api/v1/compliance/reports"
#define SWITCH_ROUTE                                                                                               \
    .method = ROUTE_POST, .permission = PERMISSION_AUDIT_WRITE, .flags = ROUTE_MUTATION, .bulkhead = BULKHEAD_API, \
    .body_max = 4096, .body = switch_fields, .body_count = COUNT_OF(switch_fields),                                \
    .body_size = sizeof(struct schedule_switch_body), .answer = schedule_answer,                                   \
    .answer_count = COUNT_OF(schedule_answer), .success_status = 200

static const struct route routes[] = {
    {
        .name = "compliance.inventory-report",
        .method = ROUTE_GET,
        .path = "/api/v1/compliance/inventory-report",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_EVIDENCE,
        .answer = inventory_answer,
        .answer_count = COUNT_OF(inventory_answer),
        .success_status = 200,
        .handler = route_inventory_report,
        .doc = "What is covered, told mechanically: frameworks, report types, routes, evidence, counts, schedules. "
               "Recorded as compliance.pack.read.",
    },
    {
        .name = "compliance.report-schedules.preview",
        .method = ROUTE_POST,
        .path = SCHEDULES "/preview",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_EFFECT_FREE,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = preview_fields,
        .body_count = COUNT_OF(preview_fields),
        .body_size = sizeof(struct schedule_body),
        .answer = preview_answer,
        .answer_count = COUNT_OF(preview_answer),
        .success_status = 200,
        .handler = route_schedule_preview,
        .doc = "What a schedule would do. Changes nothing, makes no report and calls nobody.",
    },
    {
        .name = "compliance.report-schedules.create",
        .method = ROUTE_POST,
        .path = SCHEDULES,
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = create_fields,
        .body_count = COUNT_OF(create_fields),
        .body_size = sizeof(struct schedule_body),
        .answer = schedule_answer,
        .answer_count = COUNT_OF(schedule_answer),
        .success_status = 201,
        .handler = route_schedule_create,
        .doc = "Create what was previewed: enabled, the first report due after one full interval.",
    },
    {
        .name = "compliance.report-schedules.list",
        .method = ROUTE_GET,
        .path = SCHEDULES,
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = schedule_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_schedule_list,
        .doc = "Report schedules of the tenant, newest first.",
    },
    {
        .name = "compliance.report-schedules.get",
        .method = ROUTE_GET,
        .path = SCHEDULES "/{id}",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .answer = schedule_answer,
        .answer_count = COUNT_OF(schedule_answer),
        .success_status = 200,
        .handler = route_schedule_get,
        .doc = "One schedule as it stands.",
    },
    {
        .name = "compliance.report-schedules.pause",
        .path = SCHEDULES "/{id}/pause",
        SWITCH_ROUTE,
        .handler = route_schedule_pause,
        .doc = "Another version with enabled=false; what is queued and not generated is given up.",
    },
    {
        .name = "compliance.report-schedules.resume",
        .path = SCHEDULES "/{id}/resume",
        SWITCH_ROUTE,
        .handler = route_schedule_resume,
        .doc = "Another version with enabled=true; a full interval begins.",
    },
    {
        .name = "compliance.reports.list",
        .method = ROUTE_GET,
        .path = REPORTS,
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = report_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_report_list,
        .doc = "Reports that schedules made, and those that failed, newest first.",
    },
    {
        .name = "compliance.reports.get",
        .method = ROUTE_GET,
        .path = REPORTS "/{id}",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_EVIDENCE,
        .answer = document_answer,
        .answer_count = COUNT_OF(document_answer),
        .success_status = 200,
        .handler = route_report_get,
        .doc = "The document of one report, byte for byte as it was made. Each download is recorded first.",
    },
};

static const struct event_row events[] = {
    { EVENT_SCHEDULE_CONFIGURED, 1, project_schedule_configured,
      "A report schedule was created, paused or resumed: one immutable version of it." },
    { EVENT_REPORT_QUEUED, 1, project_report_queued, "A schedule was due, and its report is to be made." },
    { EVENT_REPORT_GENERATED, 1, project_report_generated,
      "A report was made and its document, of this digest, is kept for pick-up. It was sent nowhere." },
    { EVENT_REPORT_FAILED, 1, project_report_failed, "A report could not be made; the schedule goes on." },
};

/* A report that nobody finished is ended by the worker below, whatever became of its row. */
static const struct outbox_upkeep upkeep = {
    .closed = "a report that failed is not made again: the schedule's next one is due after its interval",
};

/* Outbound: on the threads that wait for others, of which it gets one, so that no signing waits for a report. */
static const struct outbox_row outbox[] = {
    { .destination = REPORT_OUTBOX,
      .handler = report_generate,
      .deadline_ms = 30000,
      .attempts = 240,
      .cap_tenant = 1,
      .cap_destination = 1,
      .outbound = true,
      .upkeep = &upkeep,
      .doc = "The report of a schedule that was due." },
};

static const struct worker_row workers[] = {
    { .name = "report-schedules", .period_ms = 1000, .leader_only = true, .run = reports_work },
};

const struct feature compliance_schedules_feature = {
    .name = "report-schedules",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .outbox = outbox,
    .outbox_count = COUNT_OF(outbox),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .metrics = schedules_metrics,
    .metric_count = COUNT_OF(schedules_metrics),
};
