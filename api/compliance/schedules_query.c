#include "api/compliance/schedules.h"

#define STUCK_US (60 * US_PER_S) /* so long an end may take to be projected */

#define SCHEDULE_COLUMNS                                                                                                \
    "s.tenant_id, s.schedule_id, s.framework, s.name, s.report_type, s.recipient_ref, s.created_by, s.configured_by,"   \
    " s.open_report, s.last_report, s.last_failure, s.version, s.rounds, s.made_sequence, s.interval_us, s.created_us," \
    " s.configured_us, s.counted_from_us, s.last_generated_us, s.last_failed_us, s.enabled FROM svc.report_schedules s "

static const struct sql SQL_SCHEDULE = {
    "report_schedule",
    "SELECT " SCHEDULE_COLUMNS "WHERE s.schedule_id = $1",
    1,
};
static const struct sql SQL_SCHEDULES = {
    "report_schedules",
    "SELECT " SCHEDULE_COLUMNS "WHERE s.made_sequence < $1 AND ($2::text IS NULL OR s.framework = $2)"
    " AND ($3::text IS NULL OR s.report_type = $3) AND ($4::boolean IS NULL OR s.enabled = $4)"
    " ORDER BY s.made_sequence DESC LIMIT $5",
    5,
};
static const struct sql SQL_COUNTS = {
    "report_schedule_counts",
    "SELECT count(*), count(*) FILTER (WHERE enabled) FROM svc.report_schedules",
    0,
};
/* The condition is that of schedule_is_due. The longest overdue first, so that none waits for ever. */
static const struct sql SQL_DUE = {
    "report_schedules_due",
    "SELECT " SCHEDULE_COLUMNS "WHERE s.enabled AND s.open_report = ''"
    " AND (s.counted_from_us + s.interval_us <= $1 OR s.counted_from_us > $1 + s.interval_us)"
    " ORDER BY s.counted_from_us + s.interval_us, s.tenant_id, s.schedule_id LIMIT 64",
    1,
};
static const struct sql SQL_STUCK = {
    "report_schedules_stuck",
    "SELECT " SCHEDULE_COLUMNS "LEFT JOIN svc.outbox o ON o.tenant_id = s.tenant_id AND o.destination = $3"
    " AND o.key = s.open_report WHERE s.open_report <> '' AND abs(s.open_since_us - $1) > $2"
    " AND (o.state IS NULL OR o.state IN ('delivered', 'dead-lettered')) ORDER BY s.open_since_us LIMIT 64",
    3,
};
static const struct sql SQL_MADE_BY = {
    "report_schedule_made_by",
    "SELECT 1::bigint FROM svc.report_schedule_versions WHERE schedule_id = $1 AND version = $2 AND command_id = $3",
    3,
};

#define REPORT_COLUMNS                                                                                       \
    "report_id, schedule_id, framework, report_type, state, failure, digest, version, size, window_from_us," \
    " window_to_us, queued_us, ended_us, sequence FROM svc.compliance_reports "

static const struct sql SQL_REPORT = {
    "compliance_report",
    "SELECT " REPORT_COLUMNS "WHERE report_id = $1",
    1,
};
static const struct sql SQL_REPORTS = {
    "compliance_reports",
    "SELECT " REPORT_COLUMNS "WHERE sequence < $1 AND ($2::text IS NULL OR schedule_id = $2)"
    " AND ($3::text IS NULL OR report_type = $3) AND ($4::text IS NULL OR state = $4)"
    " ORDER BY sequence DESC LIMIT $5",
    5,
};

static struct sql_arg text_or_none(const char *text)
{
    return text != NULL ? SQL_TEXT(text) : SQL_NONE;
}

static struct fault text_of(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

/* ---- schedules ---- */

static struct fault read_schedule(struct op *op, const struct rows *rows, size_t row, struct schedule *ret_schedule)
{
    struct schedule made = {
        .version = rows_int(rows, row, 11),
        .rounds = rows_int(rows, row, 12),
        .made = rows_int(rows, row, 13),
        .created = rows_int(rows, row, 15),
        .configured = rows_int(rows, row, 16),
        .counted_from = rows_int(rows, row, 17),
        .last_generated = rows_int(rows, row, 18),
        .last_failed = rows_int(rows, row, 19),
    };
    struct schedule_definition *definition = &made.definition;
    TRY(tenant_id_parse(span_text(rows_text(rows, row, 0)), &made.tenant));
    TRY(uuid_parse(span_text(rows_text(rows, row, 1)), &made.id));
    TRY(text_of(op, rows, row, 2, &definition->framework));
    TRY(text_of(op, rows, row, 3, &definition->name));
    REQUIRE(report_type_parse(rows_text(rows, row, 4), &definition->type), INTERNAL);
    TRY(text_of(op, rows, row, 5, &definition->recipient_ref));
    TRY(text_of(op, rows, row, 6, &made.created_by));
    TRY(text_of(op, rows, row, 7, &made.configured_by));
    TRY(text_of(op, rows, row, 8, &made.open_report));
    TRY(text_of(op, rows, row, 9, &made.last_report));
    TRY(text_of(op, rows, row, 10, &made.last_failure));
    definition->interval_seconds = rows_int(rows, row, 14) / US_PER_S;
    definition->enabled = rows_bool(rows, row, 20);
    *ret_schedule = made;
    return OK;
}

static struct fault read_schedules(struct op *op, struct tx *tx, const struct sql *sql, const struct sql_arg *args,
                                   struct schedule **ret_list, size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct schedule *made = NULL;
    TRY(tx_query(tx, sql, args, sql->args, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_schedule(op, rows, row, &made[row]));
    }
    *ret_list = made;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault schedule_get(struct op *op, struct services *services, struct uuid id, struct schedule *ret_schedule)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct schedule *list = NULL;
    size_t count = 0;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(read_schedules(op, tx, &SQL_SCHEDULE, (struct sql_arg[]){ SQL_TEXT(id.text) }, &list, &count));
    REQUIRE(count == 1, NOT_FOUND);
    *ret_schedule = list[0];
    return OK;
}

struct fault schedule_list(struct op *op, struct tx *tx, const struct schedule_filter *filter,
                           struct schedule **ret_list, size_t *ret_count)
{
    const struct sql_arg args[] = {
        SQL_INT(filter->before),
        text_or_none(filter->framework),
        text_or_none(filter->report_type),
        filter->enabled == SCHEDULE_ANY ? SQL_NONE : SQL_BOOL(filter->enabled == SCHEDULE_ENABLED),
        SQL_INT(filter->limit),
    };
    return read_schedules(op, tx, &SQL_SCHEDULES, args, ret_list, ret_count);
}

struct fault schedule_counts(struct tx *tx, int64_t *ret_all, int64_t *ret_enabled)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_COUNTS, NULL, 0, &rows));
    *ret_all = rows_int(rows, 0, 0);
    *ret_enabled = rows_int(rows, 0, 1);
    return OK;
}

struct fault schedule_made_by(struct op *op, struct services *services, struct uuid id, int64_t version, bool *ret_made)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(id.text), SQL_INT(version), SQL_TEXT(op->command_id.text) };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_MADE_BY, args, COUNT_OF(args), &rows));
    *ret_made = rows_count(rows) == 1;
    return OK;
}

struct fault schedules_due(struct op *op, struct services *services, utc_us now, struct schedule **ret_list,
                           size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    return read_schedules(op, tx, &SQL_DUE, (struct sql_arg[]){ SQL_INT(now) }, ret_list, ret_count);
}

struct fault schedules_stuck(struct op *op, struct services *services, utc_us now, struct schedule **ret_list,
                             size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    const struct sql_arg args[] = { SQL_INT(now), SQL_INT(STUCK_US), SQL_TEXT(REPORT_OUTBOX) };
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    return read_schedules(op, tx, &SQL_STUCK, args, ret_list, ret_count);
}

/* ---- reports ---- */

static struct fault read_report(struct op *op, const struct rows *rows, size_t row, struct report *ret_report)
{
    struct report made = {
        .version = rows_int(rows, row, 7),
        .size = rows_int(rows, row, 8),
        .window_from = rows_int(rows, row, 9),
        .window_to = rows_int(rows, row, 10),
        .queued = rows_int(rows, row, 11),
        .ended = rows_int(rows, row, 12),
        .sequence = rows_int(rows, row, 13),
    };
    TRY(uuid_parse(span_text(rows_text(rows, row, 0)), &made.id));
    TRY(uuid_parse(span_text(rows_text(rows, row, 1)), &made.schedule_id));
    TRY(text_of(op, rows, row, 2, &made.framework));
    TRY(text_of(op, rows, row, 3, &made.report_type));
    TRY(text_of(op, rows, row, 4, &made.state));
    TRY(text_of(op, rows, row, 5, &made.failure));
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 6), &made.digest));
    *ret_report = made;
    return OK;
}

static struct fault read_reports(struct op *op, struct services *services, const struct sql *sql,
                                 const struct sql_arg *args, struct report **ret_list, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct report *made = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, sql, args, sql->args, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_report(op, rows, row, &made[row]));
    }
    *ret_list = made;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault report_get(struct op *op, struct services *services, struct uuid id, struct report *ret_report)
{
    struct report *list = NULL;
    size_t count = 0;
    TRY(read_reports(op, services, &SQL_REPORT, (struct sql_arg[]){ SQL_TEXT(id.text) }, &list, &count));
    REQUIRE(count == 1, NOT_FOUND);
    *ret_report = list[0];
    return OK;
}

struct fault report_list(struct op *op, struct services *services, const struct report_filter *filter,
                         struct report **ret_list, size_t *ret_count)
{
    const struct sql_arg args[] = { SQL_INT(filter->before), text_or_none(filter->schedule_id),
                                    text_or_none(filter->report_type), text_or_none(filter->state),
                                    SQL_INT(filter->limit) };
    return read_reports(op, services, &SQL_REPORTS, args, ret_list, ret_count);
}
