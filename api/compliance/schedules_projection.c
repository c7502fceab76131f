/* Schedules and reports in the read model. A report counts only while it is its schedule's open one: what comes late
 * about another one is no more than an audit record. */
#include "api/compliance/schedules.h"

#define PAYLOAD_MAX 1024
#define TEXT_MAX    32768 /* longer than what is taken: an erasure may have put longer words in place of a subject */

/* The worker's role sees the schedules of every tenant. */
#define OURS "tenant_id = current_setting('svc.tenant', true)"

static const struct sql SQL_OPEN = {
    "report_schedule_open",
    "SELECT open_report FROM svc.report_schedules WHERE " OURS " AND schedule_id = $1",
    1,
};
static const struct sql SQL_MADE = {
    "report_schedule_made",
    "INSERT INTO svc.report_schedules (tenant_id, schedule_id, version, framework, name, report_type, interval_us,"
    " recipient_ref, enabled, created_us, created_by, configured_us, configured_by, made_sequence, counted_from_us,"
    " rounds, open_report, open_since_us)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::bigint, $11::text, $10::bigint, $11::text, $12, $10::bigint, 0,"
    " '', 0)"
    " ON CONFLICT (tenant_id, schedule_id) DO UPDATE SET version = excluded.version, framework = excluded.framework,"
    " name = excluded.name, report_type = excluded.report_type, interval_us = excluded.interval_us,"
    " recipient_ref = excluded.recipient_ref, enabled = excluded.enabled, configured_us = excluded.configured_us,"
    " configured_by = excluded.configured_by, counted_from_us = excluded.counted_from_us, open_report = '',"
    " open_since_us = 0",
    12,
};
static const struct sql SQL_VERSION = {
    "report_schedule_version",
    "INSERT INTO svc.report_schedule_versions (tenant_id, schedule_id, version, definition, configured_us,"
    " configured_by, command_id, event_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    8,
};
static const struct sql SQL_QUEUED = {
    "report_queued",
    "UPDATE svc.report_schedules SET rounds = $4, open_report = $3, open_since_us = $5 WHERE " OURS
    " AND schedule_id = $1 AND version = $2 AND enabled AND open_report = '' AND rounds = $4 - 1",
    5,
};
static const struct sql SQL_ENDED = {
    "report_ended",
    "WITH ended AS (UPDATE svc.report_schedules SET open_report = '', open_since_us = 0, counted_from_us = $5::bigint,"
    " last_report = CASE WHEN $7::text IS NULL THEN $3 ELSE last_report END,"
    " last_generated_us = CASE WHEN $7::text IS NULL THEN $5::bigint ELSE last_generated_us END,"
    " last_failure = $7::text, last_failed_us = CASE WHEN $7::text IS NULL THEN last_failed_us ELSE $5::bigint END"
    " WHERE " OURS " AND schedule_id = $2 AND open_report = $3 RETURNING framework, report_type,"
    " (SELECT o.open_since_us FROM svc.report_schedules o WHERE o.tenant_id = $1 AND o.schedule_id = $2) AS queued_us)"
    " INSERT INTO svc.compliance_reports (tenant_id, report_id, schedule_id, version, framework, report_type, state,"
    " failure, digest, size, window_from_us, window_to_us, queued_us, ended_us, sequence)"
    " SELECT $1::text, $3::text, $2::text, $4::bigint, framework, report_type,"
    " CASE WHEN $7::text IS NULL THEN 'generated' ELSE 'failed' END, $7::text, $8::bytea, $9::bigint, $10::bigint,"
    " $11::bigint, queued_us, $5::bigint, $6::bigint FROM ended",
    11,
};
static const struct sql SQL_PRUNE = {
    "reports_prune",
    "DELETE FROM svc.compliance_reports WHERE schedule_id = $1 AND state = $2 AND sequence <= (SELECT sequence FROM"
    " svc.compliance_reports WHERE schedule_id = $1 AND state = $2 ORDER BY sequence DESC OFFSET $3 LIMIT 1)",
    3,
};

/* ---- configurations ---- */

struct configured_data {
    const char *command_id, *schedule_id;
    struct span definition;
    int64_t version;
};
static const struct jin_field configured_fields[] = {
    JIN_TEXT(struct configured_data, command_id, JIN_REQUIRED, 0, 36),
    JIN_RAW(struct configured_data, definition, JIN_REQUIRED, 2, TEXT_MAX),
    JIN_TEXT(struct configured_data, schedule_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct configured_data, version, JIN_REQUIRED, 1, INT64_MAX),
};
struct definition_data {
    const char *delivery, *framework, *name, *recipient_ref, *report_type;
    int64_t interval_seconds;
    bool enabled;
};
static const struct jin_field definition_fields[] = {
    JIN_TEXT(struct definition_data, delivery, JIN_REQUIRED, 1, 32),
    JIN_BOOL(struct definition_data, enabled, JIN_REQUIRED),
    JIN_TEXT(struct definition_data, framework, JIN_REQUIRED, 1, 64),
    JIN_INT(struct definition_data, interval_seconds, JIN_REQUIRED, 1, SCHEDULE_INTERVAL_MAX),
    JIN_TEXT(struct definition_data, name, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct definition_data, recipient_ref, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct definition_data, report_type, JIN_REQUIRED, 1, 64),
};

/* A new version gives up the report that the old one had open. */
static struct fault give_up_open(struct projection *projection, const char *schedule_id)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(projection_tx(projection), &SQL_OPEN, (struct sql_arg[]){ SQL_TEXT(schedule_id) }, 1, &rows));
    if (rows_count(rows) == 0 || rows_text(rows, 0, 0)[0] == '\0') {
        return OK;
    }
    return projection_outbox_settle(projection, REPORT_OUTBOX, rows_text(rows, 0, 0), "dead-lettered");
}

struct fault project_schedule_configured(struct projection *projection, const struct event_view *event)
{
    struct op *op = projection_op(projection);
    struct configured_data data = { 0 };
    struct definition_data definition = { 0 };
    TRY(jin_decode(op, event->data, configured_fields, COUNT_OF(configured_fields), &data));
    TRY(jin_decode(op, data.definition, definition_fields, COUNT_OF(definition_fields), &definition));
    TRY(give_up_open(projection, data.schedule_id));
    const struct sql_arg made[] = { SQL_TEXT(event->tenant.text),
                                    SQL_TEXT(data.schedule_id),
                                    SQL_INT(data.version),
                                    SQL_TEXT(definition.framework),
                                    SQL_TEXT(definition.name),
                                    SQL_TEXT(definition.report_type),
                                    SQL_INT(definition.interval_seconds * US_PER_S),
                                    SQL_TEXT(definition.recipient_ref),
                                    SQL_BOOL(definition.enabled),
                                    SQL_INT(event->time),
                                    SQL_TEXT(event->actor_subject),
                                    SQL_INT(projection_sequence(projection)) };
    const struct sql_arg version[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.schedule_id),
                                       SQL_INT(data.version),        SQL_SPAN(data.definition),
                                       SQL_INT(event->time),         SQL_TEXT(event->actor_subject),
                                       SQL_TEXT(data.command_id),    SQL_TEXT(event->id.text) };
    TRY(tx_queue(projection_tx(projection), &SQL_MADE, made, COUNT_OF(made)));
    return tx_queue(projection_tx(projection), &SQL_VERSION, version, COUNT_OF(version));
}

/* ---- reports ---- */

struct report_data {
    const char *report_id, *schedule_id, *report_type, *framework, *code;
    int64_t version, round, size, keep;
    utc_us due_at, window_from, window_to;
    struct span digest;
};
#define REPORT_FIELDS                                                    \
    JIN_TEXT(struct report_data, report_id, JIN_REQUIRED, 36, 36),       \
        JIN_TEXT(struct report_data, schedule_id, JIN_REQUIRED, 36, 36), \
        JIN_TEXT(struct report_data, report_type, JIN_REQUIRED, 1, 64),  \
        JIN_TEXT(struct report_data, framework, JIN_REQUIRED, 1, 64),    \
        JIN_INT(struct report_data, version, JIN_REQUIRED, 1, INT64_MAX)
static const struct jin_field queued_fields[] = {
    REPORT_FIELDS,
    JIN_TIME(struct report_data, due_at, JIN_REQUIRED),
    JIN_INT(struct report_data, round, JIN_REQUIRED, 1, INT64_MAX),
};
static const struct jin_field generated_fields[] = {
    REPORT_FIELDS,
    JIN_HEX(struct report_data, digest, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct report_data, keep, JIN_REQUIRED, 1, SCHEDULE_REPORTS_MAX),
    JIN_INT(struct report_data, size, JIN_REQUIRED, 1, INT64_MAX),
    JIN_TIME(struct report_data, window_from, JIN_REQUIRED),
    JIN_TIME(struct report_data, window_to, JIN_REQUIRED),
};
static const struct jin_field failed_fields[] = {
    REPORT_FIELDS,
    JIN_TEXT(struct report_data, code, JIN_REQUIRED, 1, 64),
    JIN_INT(struct report_data, keep, JIN_REQUIRED, 1, SCHEDULE_REPORTS_MAX),
};

static struct fault queue(struct projection *projection, const struct report_data *data)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    struct jout jout;
    jout_init(&jout, &payload);
    jout_object(&jout);
    jout_key_text(&jout, "report_id", data->report_id);
    jout_key_text(&jout, "schedule_id", data->schedule_id);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return projection_outbox(projection, REPORT_OUTBOX, data->report_id, buf_span(&payload), 0);
}

struct fault project_report_queued(struct projection *projection, const struct event_view *event)
{
    struct report_data data = { 0 };
    int64_t affected = 0;
    TRY(jin_decode(projection_op(projection), event->data, queued_fields, COUNT_OF(queued_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.schedule_id), SQL_INT(data.version), SQL_TEXT(data.report_id),
                                    SQL_INT(data.round), SQL_INT(event->time) };
    TRY(tx_exec(projection_tx(projection), &SQL_QUEUED, args, COUNT_OF(args), &affected));
    return affected == 1 ? queue(projection, &data) : OK;
}

static struct fault end(struct projection *projection, const struct event_view *event, const struct report_data *data)
{
    struct tx *tx = projection_tx(projection);
    bool failed = data->code != NULL;
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text),
                                    SQL_TEXT(data->schedule_id),
                                    SQL_TEXT(data->report_id),
                                    SQL_INT(data->version),
                                    SQL_INT(event->time),
                                    SQL_INT(projection_sequence(projection)),
                                    failed ? SQL_TEXT(data->code) : SQL_NONE,
                                    failed ? SQL_NONE : SQL_BYTES(data->digest),
                                    SQL_INT(data->size),
                                    SQL_INT(data->window_from),
                                    SQL_INT(data->window_to) };
    const struct sql_arg prune[] = { SQL_TEXT(data->schedule_id), SQL_TEXT(failed ? "failed" : "generated"),
                                     SQL_INT(data->keep) };
    TRY(tx_queue(tx, &SQL_ENDED, args, COUNT_OF(args)));
    TRY(tx_queue(tx, &SQL_PRUNE, prune, COUNT_OF(prune)));
    return projection_outbox_settle(projection, REPORT_OUTBOX, data->report_id, failed ? "dead-lettered" : "delivered");
}

struct fault project_report_generated(struct projection *projection, const struct event_view *event)
{
    struct report_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, generated_fields, COUNT_OF(generated_fields), &data));
    return end(projection, event, &data);
}

struct fault project_report_failed(struct projection *projection, const struct event_view *event)
{
    struct report_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, failed_fields, COUNT_OF(failed_fields), &data));
    return end(projection, event, &data);
}
