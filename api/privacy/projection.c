#include "api/privacy/internal.h"

static const struct sql SQL_REQUESTED = {
    "privacy_requested",
    "INSERT INTO svc.privacy_erasures (tenant_id, erasure_id, state, requested_by, requested_us, requested_seq,"
    " sealed_subject, generation, reason) VALUES ($1, $2, 'requested', $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
    8,
};
static const struct sql SQL_FAILED = {
    "privacy_failed",
    "UPDATE svc.privacy_erasures SET state = 'failed', failure_code = $2, failure = $3, ended_us = $4,"
    " sealed_subject = ''::bytea WHERE erasure_id = $1 AND state = 'requested'",
    4,
};
static const struct sql SQL_ACTIVATED = {
    "privacy_activated",
    "UPDATE svc.privacy_erasures SET state = 'activated', replaced = $2, activated_us = $3"
    " WHERE erasure_id = $1 AND state = 'requested'",
    3,
};
static const struct sql SQL_COMPLETED = {
    "privacy_completed",
    "UPDATE svc.privacy_erasures SET state = 'completed', rows_blanked = $2, later = $3, ended_us = $4,"
    " sealed_subject = ''::bytea WHERE erasure_id = $1 AND state = 'activated'",
    4,
};
static const struct sql SQL_ATTESTED = {
    "privacy_attested",
    "INSERT INTO svc.privacy_attestations (tenant_id, attestation_id, erasure_id, archive_locator, archive_sha256,"
    " action, note, performed_by, performed_us, attested_by, attested_us, sequence)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
    12,
};

struct requested_data {
    const char *erasure_id, *reason;
    int64_t generation;
    struct span sealed_subject;
};
static const struct jin_field requested_fields[] = {
    JIN_TEXT(struct requested_data, erasure_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct requested_data, generation, JIN_REQUIRED, 2, INT32_MAX),
    JIN_TEXT(struct requested_data, reason, JIN_REQUIRED, 1, REASON_MAX),
    JIN_BASE64(struct requested_data, sealed_subject, JIN_REQUIRED, 1, 65536),
};

struct fault project_erasure_requested(struct projection *projection, const struct event_view *event)
{
    struct requested_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, requested_fields, COUNT_OF(requested_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.erasure_id),
        SQL_TEXT(event->actor_subject),
        SQL_INT(event->time),
        SQL_INT((int64_t)event->stream_seq),
        SQL_BYTES(data.sealed_subject),
        SQL_INT(data.generation),
        SQL_TEXT(data.reason),
    };
    return tx_queue(projection_tx(projection), &SQL_REQUESTED, args, COUNT_OF(args));
}

struct failed_data {
    const char *erasure_id, *code, *detail;
};
static const struct jin_field failed_fields[] = {
    JIN_TEXT(struct failed_data, erasure_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct failed_data, code, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct failed_data, detail, JIN_REQUIRED, 0, 512),
};

struct fault project_erasure_failed(struct projection *projection, const struct event_view *event)
{
    struct failed_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, failed_fields, COUNT_OF(failed_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.erasure_id), SQL_TEXT(data.code), SQL_TEXT(data.detail),
                                    SQL_INT(event->time) };
    return tx_queue(projection_tx(projection), &SQL_FAILED, args, COUNT_OF(args));
}

struct activated_data {
    const char *erasure_id, *statement;
    int64_t boundary_seq, boundary_sequence, count, generation;
    struct span digest, superseded_head, new_head;
};
static const struct jin_field activated_fields[] = {
    JIN_INT(struct activated_data, boundary_seq, JIN_REQUIRED, 1, INT64_MAX),
    JIN_INT(struct activated_data, boundary_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_INT(struct activated_data, count, JIN_REQUIRED, 0, INT32_MAX),
    JIN_HEX(struct activated_data, digest, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct activated_data, erasure_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct activated_data, generation, JIN_REQUIRED, 2, INT32_MAX),
    JIN_HEX(struct activated_data, new_head, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct activated_data, statement, JIN_REQUIRED, 1, 16384),
    JIN_HEX(struct activated_data, superseded_head, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
};

struct fault project_generation_activated(struct projection *projection, const struct event_view *event)
{
    struct activated_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, activated_fields, COUNT_OF(activated_fields), &data));
    struct history_generation generation = {
        .generation = data.generation,
        .erasure_id = data.erasure_id,
        .boundary_seq = data.boundary_seq,
        .boundary_sequence = data.boundary_sequence,
        .replaced = data.count,
        .statement = data.statement,
    };
    memcpy(generation.digest.at, data.digest.at, SHA256_LEN);
    memcpy(generation.superseded_head.at, data.superseded_head.at, SHA256_LEN);
    memcpy(generation.new_head.at, data.new_head.at, SHA256_LEN);
    const struct sql_arg args[] = { SQL_TEXT(data.erasure_id), SQL_INT(data.count), SQL_INT(event->time) };
    TRY(tx_queue(projection_tx(projection), &SQL_ACTIVATED, args, COUNT_OF(args)));
    return projection_generation(projection, &generation);
}

struct completed_data {
    const char *erasure_id;
    int64_t messages, rows_blanked, later;
};
static const struct jin_field completed_fields[] = {
    JIN_TEXT(struct completed_data, erasure_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct completed_data, messages, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct completed_data, rows_blanked, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct completed_data, later, JIN_REQUIRED, 0, INT64_MAX),
};

struct fault project_scrub_completed(struct projection *projection, const struct event_view *event)
{
    struct completed_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, completed_fields, COUNT_OF(completed_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.erasure_id), SQL_INT(data.rows_blanked), SQL_INT(data.later),
                                    SQL_INT(event->time) };
    return tx_queue(projection_tx(projection), &SQL_COMPLETED, args, COUNT_OF(args));
}

struct attested_data {
    const char *attestation_id, *erasure_id, *archive_locator, *action, *note, *performed_by;
    struct span archive_sha256;
    utc_us performed_at;
};
static const struct jin_field attested_fields[] = {
    JIN_TEXT(struct attested_data, attestation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct attested_data, erasure_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct attested_data, archive_locator, JIN_REQUIRED, 1, 1024),
    JIN_HEX(struct attested_data, archive_sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct attested_data, action, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct attested_data, note, JIN_REQUIRED, 0, 2048),
    JIN_TEXT(struct attested_data, performed_by, JIN_REQUIRED, 1, 256),
    JIN_TIME(struct attested_data, performed_at, JIN_REQUIRED),
};

struct fault project_archive_attested(struct projection *projection, const struct event_view *event)
{
    struct attested_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, attested_fields, COUNT_OF(attested_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.attestation_id),
        SQL_TEXT(data.erasure_id),
        SQL_TEXT(data.archive_locator),
        SQL_BYTES(data.archive_sha256),
        SQL_TEXT(data.action),
        SQL_TEXT(data.note),
        SQL_TEXT(data.performed_by),
        SQL_INT(data.performed_at),
        SQL_TEXT(event->actor_subject),
        SQL_INT(event->time),
        SQL_INT(projection_sequence(projection)),
    };
    return tx_queue(projection_tx(projection), &SQL_ATTESTED, args, COUNT_OF(args));
}
