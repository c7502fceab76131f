#include "api/inventory/crypto.h"

static const struct sql SQL_ATTESTED = {
    "attest_recorded",
    "INSERT INTO svc.operator_attestations (tenant_id, attestation_id, sequence, event_id, statement, title, note,"
    " locator, evidence_sha256, media_type, valid_from_us, expires_us, attested_by, attested_us)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING",
    14,
};
static const struct sql SQL_WITHDRAWN = {
    "attest_withdrawn",
    "UPDATE svc.operator_attestations SET withdrawn_us = $2, withdrawn_by = $3, withdraw_reason = $4,"
    " withdraw_command = $5 WHERE attestation_id = $1 AND withdrawn_us IS NULL",
    5,
};

struct recorded_data {
    const char *attestation_id;
    struct attest_body body;
};
/* Wider than what a request may say: an erasure may put a longer word in the place of a shorter one. */
#define TEXT_MAX 32768
static const struct jin_field evidence_fields[] = {
    JIN_TEXT(struct attest_evidence, locator, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_TEXT(struct attest_evidence, media_type, JIN_REQUIRED, 1, TEXT_MAX),
    JIN_HEX(struct attest_evidence, sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
};
#define BODY_FIELD(member, KIND, flags_, min_, max_) \
    { .name = #member,                               \
      .kind = JIN_KIND_##KIND,                       \
      .flags = (flags_),                             \
      .min = (min_),                                 \
      .max = (max_),                                 \
      .offset = offsetof(struct recorded_data, body.member) }
static const struct jin_field recorded_fields[] = {
    JIN_TEXT(struct recorded_data, attestation_id, JIN_REQUIRED, 36, 36),
    { .name = "evidence",
      .kind = JIN_KIND_OBJECT,
      .flags = JIN_REQUIRED,
      .offset = offsetof(struct recorded_data, body.evidence),
      .sub = evidence_fields,
      .sub_count = COUNT_OF(evidence_fields) },
    BODY_FIELD(expires_at, TIME, JIN_OPTIONAL, 0, 0),
    BODY_FIELD(note, TEXT, JIN_REQUIRED, 0, TEXT_MAX),
    BODY_FIELD(statement, TEXT, JIN_REQUIRED, 1, TEXT_MAX),
    BODY_FIELD(title, TEXT, JIN_REQUIRED, 1, TEXT_MAX),
    BODY_FIELD(valid_from, TIME, JIN_REQUIRED, 0, 0),
};

struct fault project_attested(struct projection *projection, const struct event_view *event)
{
    struct recorded_data data = { 0 };
    const struct attest_body *body = &data.body;
    TRY(jin_decode(projection_op(projection), event->data, recorded_fields, COUNT_OF(recorded_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.attestation_id),
        SQL_INT(projection_sequence(projection)),
        SQL_TEXT(event->id.text),
        SQL_TEXT(body->statement),
        SQL_TEXT(body->title),
        SQL_TEXT(body->note),
        SQL_TEXT(body->evidence.locator),
        SQL_BYTES(body->evidence.sha256),
        SQL_TEXT(body->evidence.media_type),
        SQL_INT(body->valid_from),
        body->expires_at != 0 ? SQL_INT(body->expires_at) : SQL_NONE,
        SQL_TEXT(event->actor_subject),
        SQL_INT(event->time),
    };
    return tx_queue(projection_tx(projection), &SQL_ATTESTED, args, COUNT_OF(args));
}

struct withdrawn_data {
    const char *attestation_id, *command_id, *reason;
};
static const struct jin_field withdrawn_fields[] = {
    JIN_TEXT(struct withdrawn_data, attestation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct withdrawn_data, command_id, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct withdrawn_data, reason, JIN_REQUIRED, 1, TEXT_MAX),
};

struct fault project_attestation_withdrawn(struct projection *projection, const struct event_view *event)
{
    struct withdrawn_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, withdrawn_fields, COUNT_OF(withdrawn_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(data.attestation_id), SQL_INT(event->time),      SQL_TEXT(event->actor_subject),
        SQL_TEXT(data.reason),         SQL_TEXT(data.command_id),
    };
    return tx_queue(projection_tx(projection), &SQL_WITHDRAWN, args, COUNT_OF(args));
}
