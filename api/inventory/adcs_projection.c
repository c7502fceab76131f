/* Rows of observations and drift. The data is kept whole and read only where it is asked for: what an erasure rewrote
 * must still make a row. */
#include "api/inventory/adcs.h"

#define PART_MAX ((int64_t)1 << 20)
#define TEXT_MAX 32768 /* longer than what is taken: an erasure may have put longer words in place of others */

static const struct sql SQL_OBSERVED = {
    "adcs_observed",
    "INSERT INTO svc.adcs_observations (tenant_id, observation_id, domain, schema_version, complete, source_id, run_id,"
    " relay_id, observed_us, event_id, sequence, recorded_us, recorded_by, observation)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING",
    14,
};
static const struct sql SQL_DRIFTED = {
    "adcs_drifted",
    "INSERT INTO svc.adcs_drift (tenant_id, sequence, event_id, domain, observation_id, source_id, run_id, relay_id,"
    " observed_us, recorded_us, changes, drift) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
    " ON CONFLICT DO NOTHING",
    12,
};

struct observed_data {
    const char *domain, *observation_id, *relay_id, *run_id, *source_id;
    utc_us observed_at;
    bool complete;
    int64_t schema_version;
    struct span ca_restrictions, enrollment_services, iis_endpoints, principals, templates;
};
static const struct jin_field observed_fields[] = {
    JIN_RAW(struct observed_data, ca_restrictions, JIN_OPTIONAL, 2, PART_MAX),
    JIN_BOOL(struct observed_data, complete, JIN_REQUIRED),
    JIN_TEXT(struct observed_data, domain, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_RAW(struct observed_data, enrollment_services, JIN_OPTIONAL, 2, PART_MAX),
    JIN_RAW(struct observed_data, iis_endpoints, JIN_OPTIONAL, 2, PART_MAX),
    JIN_TEXT(struct observed_data, observation_id, JIN_REQUIRED, 36, 36),
    JIN_TIME(struct observed_data, observed_at, JIN_REQUIRED),
    JIN_RAW(struct observed_data, principals, JIN_REQUIRED, 2, PART_MAX),
    JIN_TEXT(struct observed_data, relay_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct observed_data, run_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_INT(struct observed_data, schema_version, JIN_REQUIRED, 1, 2),
    JIN_TEXT(struct observed_data, source_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_RAW(struct observed_data, templates, JIN_REQUIRED, 2, PART_MAX),
};

struct fault adcs_project_observed(struct projection *projection, const struct event_view *event)
{
    struct observed_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, observed_fields, COUNT_OF(observed_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.observation_id),
        SQL_TEXT(data.domain),
        SQL_INT(event->schema_version),
        SQL_BOOL(data.complete),
        SQL_TEXT(data.source_id),
        SQL_TEXT(data.run_id),
        SQL_TEXT(data.relay_id),
        SQL_INT(data.observed_at),
        SQL_TEXT(event->id.text),
        SQL_INT(projection_sequence(projection)),
        SQL_INT(event->time),
        SQL_TEXT(event->actor_subject),
        SQL_SPAN(event->data),
    };
    return tx_queue(projection_tx(projection), &SQL_OBSERVED, args, COUNT_OF(args));
}

struct drifted_data {
    const char *domain, *observation_id, *relay_id, *run_id, *source_id;
    utc_us observed_at;
    int64_t changes_left_out, changes_total, findings_appeared, findings_cleared, rules_version;
    struct span before, changes;
};
static const struct jin_field drifted_fields[] = {
    JIN_RAW(struct drifted_data, before, JIN_REQUIRED, 2, PART_MAX),
    JIN_RAW(struct drifted_data, changes, JIN_REQUIRED, 2, PART_MAX),
    JIN_INT(struct drifted_data, changes_left_out, JIN_REQUIRED, 0, INT32_MAX),
    JIN_INT(struct drifted_data, changes_total, JIN_REQUIRED, 1, INT32_MAX),
    JIN_TEXT(struct drifted_data, domain, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_INT(struct drifted_data, findings_appeared, JIN_REQUIRED, 0, INT32_MAX),
    JIN_INT(struct drifted_data, findings_cleared, JIN_REQUIRED, 0, INT32_MAX),
    JIN_TEXT(struct drifted_data, observation_id, JIN_REQUIRED, 36, 36),
    JIN_TIME(struct drifted_data, observed_at, JIN_REQUIRED),
    JIN_TEXT(struct drifted_data, relay_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_INT(struct drifted_data, rules_version, JIN_REQUIRED, 1, INT32_MAX),
    JIN_TEXT(struct drifted_data, run_id, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct drifted_data, source_id, JIN_REQUIRED, 1, TEXT_MAX),
};

struct fault adcs_project_drifted(struct projection *projection, const struct event_view *event)
{
    struct drifted_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, drifted_fields, COUNT_OF(drifted_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),  SQL_INT(projection_sequence(projection)),
        SQL_TEXT(event->id.text),      SQL_TEXT(data.domain),
        SQL_TEXT(data.observation_id), SQL_TEXT(data.source_id),
        SQL_TEXT(data.run_id),         SQL_TEXT(data.relay_id),
        SQL_INT(data.observed_at),     SQL_INT(event->time),
        SQL_INT(data.changes_total),   SQL_SPAN(event->data),
    };
    return tx_queue(projection_tx(projection), &SQL_DRIFTED, args, COUNT_OF(args));
}
