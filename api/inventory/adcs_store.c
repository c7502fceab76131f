/* Observations and drift as the read model has them. */
#include "api/inventory/adcs.h"

#define SCRATCH_MAX ((size_t)32 << 20)

#define ROW_COLUMNS                                                                                                    \
    " o.observation_id, o.domain, o.source_id, o.run_id, o.relay_id, o.event_id, o.recorded_by, o.schema_version,"     \
    " o.sequence, o.complete, o.observed_us, o.recorded_us, r.chain,"                                                  \
    " o.sequence IS NOT DISTINCT FROM (SELECT l.sequence FROM svc.adcs_observations l WHERE l.tenant_id = o.tenant_id" \
    " AND l.domain = o.domain AND l.complete AND l.schema_version = 2 ORDER BY l.observed_us DESC, l.sequence DESC"    \
    " LIMIT 1)"
#define ROW_FROM \
    " FROM svc.adcs_observations o JOIN svc.audit_records r ON r.tenant_id = o.tenant_id AND r.sequence = o.sequence"

static const struct sql SQL_SOURCE = {
    "adcs_source",
    "SELECT coalesce(max(observed_us), 0) FROM svc.adcs_observations WHERE tenant_id = $1 AND domain = $2"
    " AND source_id = $3",
    3,
};
static const struct sql SQL_SUBJECT = {
    "adcs_source_subject",
    "SELECT recorded_by FROM svc.adcs_observations WHERE tenant_id = $1 AND source_id = $2 ORDER BY sequence LIMIT 1",
    2,
};
/* From one name to the next by the index, whatever number of observations each has. */
static const struct sql SQL_DOMAINS = {
    "adcs_domains",
    "WITH RECURSIVE d AS ((SELECT domain FROM svc.adcs_observations WHERE tenant_id = $1 ORDER BY domain LIMIT 1)"
    " UNION ALL SELECT (SELECT o.domain FROM svc.adcs_observations o WHERE o.tenant_id = $1 AND o.domain > d.domain"
    " ORDER BY o.domain LIMIT 1) FROM d WHERE d.domain IS NOT NULL)"
    " SELECT count(domain), coalesce(bool_or(domain = $2), false) FROM d",
    2,
};
static const struct sql SQL_LATEST = {
    "adcs_latest",
    "SELECT" ROW_COLUMNS ", o.observation" ROW_FROM " WHERE o.tenant_id = $1 AND o.domain = $2 AND o.complete"
    " AND o.schema_version = 2 ORDER BY o.observed_us DESC, o.sequence DESC LIMIT 1",
    2,
};
static const struct sql SQL_GET = {
    "adcs_get",
    "SELECT" ROW_COLUMNS ", o.observation" ROW_FROM " WHERE o.tenant_id = $1 AND o.observation_id = $2",
    2,
};
static const struct sql SQL_LIST = {
    "adcs_list",
    "SELECT" ROW_COLUMNS ", NULL::text" ROW_FROM " WHERE o.tenant_id = $1 AND ($2::text IS NULL OR o.domain = $2)"
    " AND o.sequence < $3 AND (NOT $4 OR o.sequence IN (SELECT DISTINCT ON (domain) sequence"
    " FROM svc.adcs_observations WHERE tenant_id = $1 AND complete AND schema_version = 2"
    " ORDER BY domain, observed_us DESC, sequence DESC)) ORDER BY o.sequence DESC LIMIT $5",
    5,
};
static const struct sql SQL_NEXT_DOMAIN = {
    "adcs_next_domain",
    "SELECT domain FROM svc.adcs_observations WHERE tenant_id = $1 AND domain > $2 AND complete AND schema_version = 2"
    " ORDER BY domain LIMIT 1",
    2,
};
static const struct sql SQL_UNOBSERVED = {
    "adcs_unobserved",
    "SELECT domain FROM svc.adcs_observations WHERE tenant_id = $1 GROUP BY domain"
    " HAVING NOT bool_or(complete AND schema_version = 2) ORDER BY domain",
    1,
};

#define DRIFT_COLUMNS                                                                                    \
    " d.event_id, d.domain, d.observation_id, d.source_id, d.run_id, d.relay_id, d.sequence, d.changes," \
    " d.observed_us, d.recorded_us, r.chain, coalesce(o.recorded_by, ''), "
/* A drift is recorded with its observation, in one message: by the same subject. */
#define DRIFT_FROM                                                                                             \
    " FROM svc.adcs_drift d JOIN svc.audit_records r ON r.tenant_id = d.tenant_id AND r.sequence = d.sequence" \
    " LEFT JOIN svc.adcs_observations o ON o.tenant_id = d.tenant_id AND o.observation_id = d.observation_id"

static const struct sql SQL_DRIFT = {
    "adcs_drift_list",
    "SELECT" DRIFT_COLUMNS "d.drift" DRIFT_FROM " WHERE d.tenant_id = $1 AND ($2::text IS NULL OR d.domain = $2)"
    " AND d.sequence < $3 ORDER BY d.sequence DESC LIMIT $4",
    4,
};
static const struct sql SQL_WINDOW = {
    "adcs_drift_window",
    "SELECT" DRIFT_COLUMNS "NULL::text" DRIFT_FROM
    " WHERE d.tenant_id = $1 AND d.recorded_us >= $2 AND d.recorded_us <= $3"
    " ORDER BY d.sequence DESC LIMIT $4",
    4,
};
static const struct sql SQL_DRIFT_DATA = {
    "adcs_drift_data",
    "SELECT drift FROM svc.adcs_drift WHERE tenant_id = $1 AND sequence = $2",
    2,
};
static const struct sql SQL_WINDOW_COUNT = {
    "adcs_drift_count",
    "SELECT count(*) FROM svc.adcs_drift WHERE tenant_id = $1 AND recorded_us >= $2 AND recorded_us <= $3",
    3,
};

struct fault adcs_scratch_new(struct op *op, struct op *ret_scratch)
{
    struct arena *arena = NULL;
    TRY(op_settle(op)); /* two operations cannot both take one answer */
    TRY(arena_new(SCRATCH_MAX, &arena));
    *ret_scratch = *op;
    ret_scratch->arena = arena;
    return OK;
}

void adcs_scratch_clear(struct op *scratch)
{
    arena_free(TAKE(scratch->arena));
}

static struct fault take_text(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static void take_chain(const struct rows *rows, size_t row, size_t column, struct sha256 *ret_chain)
{
    struct span bytes = rows_bytes(rows, row, column);
    BUG_IF(bytes.len != SHA256_LEN);
    memcpy(ret_chain->at, bytes.at, SHA256_LEN);
}

static struct fault take_row(struct op *op, const struct rows *rows, size_t row, struct adcs_row *ret_row)
{
    struct adcs_row made = { .schema_version = rows_int(rows, row, 7),
                             .sequence = rows_int(rows, row, 8),
                             .complete = rows_bool(rows, row, 9),
                             .observed = rows_int(rows, row, 10),
                             .recorded = rows_int(rows, row, 11),
                             .latest = rows_bool(rows, row, 13) };
    TRY(take_text(op, rows, row, 0, &made.observation_id));
    TRY(take_text(op, rows, row, 1, &made.domain));
    TRY(take_text(op, rows, row, 2, &made.source_id));
    TRY(take_text(op, rows, row, 3, &made.run_id));
    TRY(take_text(op, rows, row, 4, &made.relay_id));
    TRY(take_text(op, rows, row, 5, &made.event_id));
    TRY(take_text(op, rows, row, 6, &made.recorded_by));
    take_chain(rows, row, 12, &made.chain);
    TRY(arena_copy(op->arena, span_text(rows_text(rows, row, 14)), &made.data));
    *ret_row = made;
    return OK;
}

static struct fault source_subject(struct op *op, struct tx *tx, const char *source_id, const char **ret_subject)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_TEXT(source_id) };
    TRY(tx_query(tx, &SQL_SUBJECT, args, COUNT_OF(args), &rows));
    *ret_subject = NULL;
    return rows_count(rows) > 0 ? take_text(op, rows, 0, 0, ret_subject) : OK;
}

struct fault adcs_standing_read(struct op *op, struct tx *tx, const char *domain, const char *source_id,
                                struct adcs_standing *ret_standing)
{
    CLEANUP(rows_freep) struct rows *last = NULL;
    CLEANUP(rows_freep) struct rows *latest = NULL;
    CLEANUP(rows_freep) struct rows *domains = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_TEXT(domain), SQL_TEXT(source_id) };
    struct adcs_standing made = { 0 };
    TRY(tx_query(tx, &SQL_SOURCE, args, 3, &last));
    TRY(tx_query(tx, &SQL_LATEST, args, 2, &latest));
    TRY(tx_query(tx, &SQL_DOMAINS, args, 2, &domains));
    TRY(source_subject(op, tx, source_id, &made.source_subject));
    made.source_last = rows_int(last, 0, 0);
    made.domains = rows_int(domains, 0, 0);
    made.known = rows_bool(domains, 0, 1);
    made.found = rows_count(latest) > 0;
    if (made.found) {
        TRY(take_row(op, latest, 0, &made.latest));
    }
    *ret_standing = made;
    return OK;
}

struct fault adcs_row_get(struct op *op, struct tx *tx, const char *observation_id, struct adcs_row *ret_row)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_TEXT(observation_id) };
    TRY(tx_query(tx, &SQL_GET, args, COUNT_OF(args), &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    return take_row(op, rows, 0, ret_row);
}

/* The first domain behind `after` that has a complete observation; NULL = there is none. */
static struct fault next_domain(struct op *op, struct tx *tx, const char *after, const char **ret_domain)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_TEXT(after) };
    TRY(tx_query(tx, &SQL_NEXT_DOMAIN, args, COUNT_OF(args), &rows));
    *ret_domain = NULL;
    return rows_count(rows) > 0 ? take_text(op, rows, 0, 0, ret_domain) : OK;
}

static struct fault visit_latest(struct op *op, struct tx *tx, const char *domain, adcs_row_fn visit, void *arg)
{
    CLEANUP(adcs_scratch_clear) struct op scratch = { 0 };
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_TEXT(domain) };
    struct adcs_row row;
    TRY(tx_query(tx, &SQL_LATEST, args, COUNT_OF(args), &rows));
    if (rows_count(rows) == 0) {
        return OK;
    }
    TRY(adcs_scratch_new(op, &scratch));
    TRY(take_row(&scratch, rows, 0, &row));
    struct fault fault = visit(arg, &scratch, &row);
    op->note = scratch.note;
    return fault;
}

struct fault adcs_latest_each(struct op *op, struct tx *tx, adcs_row_fn visit, void *arg)
{
    const char *at = "";
    while (true) {
        TRY(next_domain(op, tx, at, &at));
        if (at == NULL) {
            return OK;
        }
        TRY(visit_latest(op, tx, at, visit, arg));
    }
}

struct fault adcs_unobserved(struct op *op, struct tx *tx, struct jin_texts *ret_domains)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text) };
    struct jin_texts made = { 0 };
    TRY(tx_query(tx, &SQL_UNOBSERVED, args, COUNT_OF(args), &rows));
    made.count = rows_count(rows);
    TRY(arena_take(op->arena, made.count + 1, sizeof(*made.at), &made.at));
    for (size_t i = 0; i < made.count; i++) {
        TRY(take_text(op, rows, i, 0, &made.at[i]));
    }
    *ret_domains = made;
    return OK;
}

struct fault adcs_rows_list(struct op *op, struct tx *tx, const struct adcs_wanted *wanted, struct adcs_row **ret_rows,
                            size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text),
                                    wanted->domain != NULL ? SQL_TEXT(wanted->domain) : SQL_NONE,
                                    SQL_INT(wanted->before), SQL_BOOL(wanted->latest), SQL_INT(wanted->limit) };
    struct adcs_row *made = NULL;
    TRY(tx_query(tx, &SQL_LIST, args, COUNT_OF(args), &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t i = 0; i < rows_count(rows); i++) {
        TRY(take_row(op, rows, i, &made[i]));
    }
    *ret_rows = made;
    *ret_count = rows_count(rows);
    return OK;
}

/* ---- drift ---- */

static struct fault take_drift(struct op *op, const struct rows *rows, size_t row, struct adcs_drift_row *ret_row)
{
    struct adcs_drift_row made = { .sequence = rows_int(rows, row, 6),
                                   .changes = rows_int(rows, row, 7),
                                   .observed = rows_int(rows, row, 8),
                                   .recorded = rows_int(rows, row, 9) };
    TRY(take_text(op, rows, row, 0, &made.event_id));
    TRY(take_text(op, rows, row, 1, &made.domain));
    TRY(take_text(op, rows, row, 2, &made.observation_id));
    TRY(take_text(op, rows, row, 3, &made.source_id));
    TRY(take_text(op, rows, row, 4, &made.run_id));
    TRY(take_text(op, rows, row, 5, &made.relay_id));
    take_chain(rows, row, 10, &made.chain);
    TRY(take_text(op, rows, row, 11, &made.recorded_by));
    TRY(arena_copy(op->arena, span_text(rows_text(rows, row, 12)), &made.data));
    *ret_row = made;
    return OK;
}

static struct fault take_drifts(struct op *op, const struct rows *rows, bool turned, struct adcs_drift_row **ret_rows,
                                size_t *ret_count)
{
    struct adcs_drift_row *made = NULL;
    size_t count = rows_count(rows);
    TRY(arena_take(op->arena, count + 1, sizeof(*made), &made));
    for (size_t i = 0; i < count; i++) {
        TRY(take_drift(op, rows, turned ? count - 1 - i : i, &made[i]));
    }
    *ret_rows = made;
    *ret_count = count;
    return OK;
}

struct fault adcs_drift_list(struct op *op, struct tx *tx, const struct adcs_wanted *wanted,
                             struct adcs_drift_row **ret_rows, size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text),
                                    wanted->domain != NULL ? SQL_TEXT(wanted->domain) : SQL_NONE,
                                    SQL_INT(wanted->before), SQL_INT(wanted->limit) };
    TRY(tx_query(tx, &SQL_DRIFT, args, COUNT_OF(args), &rows));
    return take_drifts(op, rows, false, ret_rows, ret_count);
}

struct fault adcs_drift_window(struct op *op, struct tx *tx, utc_us from, utc_us to, int64_t limit,
                               struct adcs_drift_row **ret_rows, size_t *ret_count, int64_t *ret_total)
{
    CLEANUP(rows_freep) struct rows *count = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_INT(from), SQL_INT(to), SQL_INT(limit) };
    TRY(tx_query(tx, &SQL_WINDOW_COUNT, args, 3, &count));
    TRY(tx_query(tx, &SQL_WINDOW, args, COUNT_OF(args), &rows));
    TRY(take_drifts(op, rows, true, ret_rows, ret_count));
    *ret_total = rows_int(count, 0, 0);
    return OK;
}

struct fault adcs_drift_data(struct op *op, struct tx *tx, int64_t sequence, struct span *ret_data)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_INT(sequence) };
    TRY(tx_query(tx, &SQL_DRIFT_DATA, args, COUNT_OF(args), &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    return arena_copy(op->arena, span_text(rows_text(rows, 0, 0)), ret_data);
}
