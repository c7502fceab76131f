/* Report schedules, the reports of them, the inventory report: the table is the command line, its help, and what it
 * asks of the server. */
#include "api/cli/commands.h"

#define SCHEDULES "/api/v1/compliance/report-schedules"

static const struct flag file_flags[] = {
    { .name = "file", .letter = 'f', .value = "SCHEDULE.json", .required = true, .doc = "the definition; - is stdin" },
};
static const struct flag list_flags[] = {
    { .name = "enabled", .value = "true|false", .doc = "only those that are, or are paused" },
    { .name = "framework", .value = "FRAMEWORK", .doc = "only those of this framework" },
    { .name = "report-type", .value = "TYPE", .doc = "only those of this report type" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag switch_flags[] = {
    { .name = "expected-version", .value = "N", .doc = "the version that you looked at (else the present one)" },
};
static const struct flag report_flags[] = {
    { .name = "schedule", .value = "SCHEDULE_ID", .doc = "only those of this schedule" },
    { .name = "report-type", .value = "TYPE", .doc = "only those of this report type" },
    { .name = "state", .value = "STATE", .doc = "generated or failed" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag get_flags[] = { OUT_FLAG("where the document goes (stdout)") };

#define DEFINITION_HELP                                                                                                  \
    "The file: {\"framework\": \"soc2\", \"name\": ..., \"report_type\": ..., \"interval_seconds\": 3600 to 31622400,\n" \
    "\"delivery\": \"audit_export\", \"recipient_ref\": ...}; report types: framework_evidence_pack,\n"                  \
    "inventory_snapshot, cbom_posture, audit_summary. Needs the permission audit:write."

static const struct command rows[] = {
    { .words = "compliance inventory-report",
      .routes = { { "GET", "/api/v1/compliance/inventory-report" } },
      .run = run_inventory_report,
      .help = "what is covered: frameworks, report types, routes, evidence, counts, schedules",
      .more = "Needs the permission audit:read.",
      .example = "compliance inventory-report" },
    { .words = "compliance report-schedules preview",
      .routes = { { "POST", SCHEDULES "/preview" } },
      FLAGS(file_flags),
      .run = run_schedules_preview,
      .help = "what a report schedule would do; changes nothing and calls nobody",
      .more = DEFINITION_HELP,
      .example = "compliance report-schedules preview -f monthly.json" },
    { .words = "compliance report-schedules create",
      .routes = { { "POST", SCHEDULES }, { "POST", SCHEDULES "/preview" } },
      FLAGS(file_flags),
      .run = run_schedules_create,
      .help = "create a report schedule; its first report is due after one full interval",
      .more = DEFINITION_HELP "\nWithout preview_fingerprint in the file the preview is made first.",
      .example = "compliance report-schedules create -f monthly.json" },
    { .words = "compliance report-schedules list",
      .routes = { { "GET", SCHEDULES } },
      FLAGS(list_flags),
      .run = run_schedules_list,
      .help = "report schedules, newest first",
      .example = "compliance report-schedules list --enabled true" },
    { .words = "compliance report-schedules show",
      .arguments = "SCHEDULE_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", SCHEDULES "/{id}" } },
      .run = run_schedules_show,
      .help = "one report schedule as it stands",
      .example = "compliance report-schedules show 0190a6b2-0001-8000-8000-00000000abcd" },
    { .words = "compliance report-schedules pause",
      .arguments = "SCHEDULE_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", SCHEDULES "/{id}/pause" }, { "GET", SCHEDULES "/{id}" } },
      FLAGS(switch_flags),
      .run = run_schedules_switch,
      .help = "make no more reports of it until it is resumed",
      .example = "compliance report-schedules pause 0190a6b2-0001-8000-8000-00000000abcd" },
    { .words = "compliance report-schedules resume",
      .arguments = "SCHEDULE_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", SCHEDULES "/{id}/resume" }, { "GET", SCHEDULES "/{id}" } },
      FLAGS(switch_flags),
      .run = run_schedules_switch,
      .help = "go on with it; a full interval begins",
      .example = "compliance report-schedules resume 0190a6b2-0001-8000-8000-00000000abcd" },
    { .words = "compliance reports list",
      .routes = { { "GET", "/api/v1/compliance/reports" } },
      FLAGS(report_flags),
      .run = run_reports_list,
      .help = "reports that schedules made, and those that failed, newest first",
      .example = "compliance reports list --state generated" },
    { .words = "compliance reports get",
      .arguments = "REPORT_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/compliance/reports/{id}" } },
      FLAGS(get_flags),
      .run = run_reports_get,
      .help = "the document of a report, byte for byte as it was made; recorded in the audit trail",
      .more = "compliance verify FILE --jwks KEYS checks it offline. Needs the permission audit:read.",
      .example = "compliance reports get 0190a6b2-0001-8000-8000-00000000abcd -o report.json" },
};

const struct command_group commands_of_schedules = { rows, COUNT_OF(rows) };
