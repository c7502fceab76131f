/* compliance inventory-report, compliance report-schedules, compliance reports. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"

#include "appliance/base/json.h"

#define BODY_MAX ((size_t)64 << 10)

static const struct column schedule_lines[] = {
    { "schedule", "schedule_id", COLUMN_TEXT },
    { "name", "name", COLUMN_TEXT },
    { "version", "version", COLUMN_TEXT },
    { "enabled", "enabled", COLUMN_YESNO },
    { "report type", "report_type", COLUMN_TEXT },
    { "framework", "framework", COLUMN_TEXT },
    { "every (seconds)", "interval_seconds", COLUMN_TEXT },
    { "delivery", "delivery", COLUMN_TEXT },
    { "recipient", "recipient_ref", COLUMN_TEXT },
    { "configured by", "configured_by", COLUMN_TEXT },
    { "configured at", "configured_at", COLUMN_TIME },
    { "next due at", "next_due_at", COLUMN_TIME },
    { "on its way", "report_on_its_way", COLUMN_YESNO },
    { "last report", "last_report_id", COLUMN_TEXT },
    { "made at", "last_generated_at", COLUMN_TIME },
    { "last failure", "last_failure_code", COLUMN_TEXT },
    { "failed at", "last_failed_at", COLUMN_TIME },
};
static const struct column schedule_columns[] = {
    { "SCHEDULE", "schedule_id", COLUMN_TEXT },       { "NAME", "name", COLUMN_TEXT },
    { "REPORT TYPE", "report_type", COLUMN_TEXT },    { "FRAMEWORK", "framework", COLUMN_TEXT },
    { "ENABLED", "enabled", COLUMN_YESNO },           { "NEXT DUE AT", "next_due_at", COLUMN_TIME },
    { "LAST REPORT", "last_report_id", COLUMN_TEXT },
};

static struct fault show(struct cli *cli, const struct http_answer *answer, struct view view,
                         const struct column *lines, size_t count)
{
    if (cli->json) {
        print_json(buf_span(&answer->body));
    } else {
        print_pairs(cli->op, stdout, view, lines, count);
    }
    return OK;
}

struct fault run_inventory_report(struct cli *cli)
{
    static const struct column lines[] = {
        { "tenant", "tenant_id", COLUMN_TEXT },
        { "generated at", "generated_at", COLUMN_TIME },
        { "report types", "report_types", COLUMN_LIST },
        { "schedules", "report_schedule_count", COLUMN_TEXT },
        { "enabled", "enabled_report_schedule_count", COLUMN_TEXT },
        { "audit records", "audit.head_sequence", COLUMN_TEXT },
        { "chain head", "audit.chain_head", COLUMN_TEXT },
        { "notice", "notice", COLUMN_TEXT },
    };
    static const struct column frameworks[] = {
        { "FRAMEWORK", "id", COLUMN_TEXT },    { "CATALOGUE", "catalogue", COLUMN_TEXT },
        { "VERSION", "version", COLUMN_TEXT }, { "CONTROLS", "controls", COLUMN_TEXT },
        { "GAPS", "gaps", COLUMN_TEXT },
    };
    static const struct column references[] = {
        { "NEWEST EVIDENCE", "type", COLUMN_TEXT },
        { "SEQUENCE", "sequence", COLUMN_TEXT },
        { "OBSERVED AT", "observed_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view report;
    TRY(api_json(cli, &(struct api_call){ .query = NULL }, &answer, &report));
    TRY(show(cli, &answer, report, lines, COUNT_OF(lines)));
    if (!cli->json) {
        (void)fputc('\n', stdout);
        print_table(cli->op, view_get(report, "frameworks"), frameworks, COUNT_OF(frameworks), "no frameworks");
        (void)fputc('\n', stdout);
        print_table(cli->op, view_get(report, "evidence_references"), references, COUNT_OF(references),
                    "no evidence yet");
        (void)fputc('\n', stdout);
        print_table(cli->op, view_get(report, "report_schedules"), schedule_columns, COUNT_OF(schedule_columns),
                    "no report schedules");
    }
    return OK;
}

/* ---- report schedules ---- */

struct fault run_schedules_preview(struct cli *cli)
{
    static const struct column lines[] = {
        { "fingerprint", "preview_fingerprint", COLUMN_TEXT },
        { "name", "definition.name", COLUMN_TEXT },
        { "report type", "definition.report_type", COLUMN_TEXT },
        { "framework", "definition.framework", COLUMN_TEXT },
        { "every (seconds)", "definition.interval_seconds", COLUMN_TEXT },
        { "delivery", "definition.delivery", COLUMN_TEXT },
        { "recipient", "definition.recipient_ref", COLUMN_TEXT },
        { "enabled", "definition.enabled", COLUMN_YESNO },
        { "reports kept", "reports_kept", COLUMN_TEXT },
        { "writes later", "later_writes", COLUMN_LIST },
        { "recovery", "recovery_steps", COLUMN_LIST },
        { "verification", "verification_steps", COLUMN_LIST },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view preview;
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    TRY(api_json(cli, &(struct api_call){ .body = buf_span(&body) }, &answer, &preview));
    return show(cli, &answer, preview, lines, COUNT_OF(lines));
}

/* The definition with the fingerprint of its own preview. */
static struct fault add_fingerprint(struct cli *cli, struct buf *body)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view definition, preview;
    TRY(view_of(cli->op, buf_span(body), &definition));
    if (definition.json.len < 2 || definition.json.at[0] != '{' ||
        view_is_there(view_get(definition, "preview_fingerprint"))) {
        return OK;
    }
    const struct api_call call = { .route = api_route(cli, "/api/v1/compliance/report-schedules/preview"),
                                   .body = definition.json };
    TRY(api_json(cli, &call, &answer, &preview));
    const char *fingerprint = view_member(cli->op, preview, "preview_fingerprint");
    buf_clear(body);
    TRY(buf_put(body, span_of(definition.json.at, definition.json.len - 1)));
    return buf_printf(body, "%s\"preview_fingerprint\":\"%s\"}", definition.json.len > 2 ? "," : "",
                      fingerprint != NULL ? fingerprint : "");
}

struct fault run_schedules_create(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view schedule;
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    TRY(add_fingerprint(cli, &body));
    TRY(api_json(cli, &(struct api_call){ .body = buf_span(&body) }, &answer, &schedule));
    return show(cli, &answer, schedule, schedule_lines, COUNT_OF(schedule_lines));
}

static struct fault list(struct cli *cli, struct buf *query, const struct column *columns, size_t count,
                         const char *none)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const char *text = NULL;
    struct view page;
    TRY(query_add(query, "report_type", cli_flag(cli, "report-type")));
    TRY(query_add(query, "limit", cli_flag(cli, "limit")));
    TRY(query_add(query, "cursor", cli_flag(cli, "cursor")));
    TRY(buf_cstr(query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, count, none);
    print_more(cli->op, page);
    return OK;
}

struct fault run_schedules_list(struct cli *cli)
{
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    TRY(query_add(&query, "enabled", cli_flag(cli, "enabled")));
    TRY(query_add(&query, "framework", cli_flag(cli, "framework")));
    return list(cli, &query, schedule_columns, COUNT_OF(schedule_columns), "no report schedules");
}

struct fault run_schedules_show(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view schedule;
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0] }, &answer, &schedule));
    return show(cli, &answer, schedule, schedule_lines, COUNT_OF(schedule_lines));
}

/* The version that was looked at: as given, else by looking now. */
static struct fault find_version(struct cli *cli, const char **ret_version)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const char *given = cli_flag(cli, "expected-version");
    struct view schedule;
    if (given != NULL) {
        if (given[0] == '\0' || strspn(given, "0123456789") != strlen(given)) {
            say("--expected-version must be a number");
            return FAULT(BAD_ARGUMENT);
        }
        *ret_version = given;
        return OK;
    }
    const struct api_call call = { .route = api_route(cli, "/api/v1/compliance/report-schedules/{id}"),
                                   .id = cli->arguments[0] };
    TRY(api_json(cli, &call, &answer, &schedule));
    const char *version = view_member(cli->op, schedule, "version");
    REQUIRE(version != NULL, JSON_FIELD);
    *ret_version = version;
    return OK;
}

struct fault run_schedules_switch(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    const char *version = NULL;
    struct view schedule;
    TRY(find_version(cli, &version));
    TRY(buf_printf(&body, "{\"expected_version\":%s}", version));
    const struct api_call call = { .id = cli->arguments[0], .body = buf_span(&body) };
    TRY(api_json(cli, &call, &answer, &schedule));
    return show(cli, &answer, schedule, schedule_lines, COUNT_OF(schedule_lines));
}

/* ---- reports ---- */

struct fault run_reports_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "REPORT", "report_id", COLUMN_TEXT },     { "REPORT TYPE", "report_type", COLUMN_TEXT },
        { "FRAMEWORK", "framework", COLUMN_TEXT },  { "STATE", "state", COLUMN_TEXT },
        { "ENDED AT", "ended_at", COLUMN_TIME },    { "SIZE", "size", COLUMN_TEXT },
        { "FAILURE", "failure_code", COLUMN_TEXT }, { "SCHEDULE", "schedule_id", COLUMN_TEXT },
    };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    TRY(query_add(&query, "schedule_id", cli_flag(cli, "schedule")));
    TRY(query_add(&query, "state", cli_flag(cli, "state")));
    return list(cli, &query, columns, COUNT_OF(columns), "no reports");
}

struct fault run_reports_get(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const char *path = cli_flag(cli, "output");
    TRY(path != NULL ? files_check_writable(cli->op, path) : OK); /* the download is recorded: not for nothing */
    TRY(api_send(cli, &(struct api_call){ .id = cli->arguments[0] }, &answer));
    return files_write(cli->op, path != NULL ? path : "-", buf_span(&answer.body), 0644);
}
