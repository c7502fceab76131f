#include "api/codesign/internal.h"

#define PAYLOAD_MAX ((size_t)64 << 10)

static const struct sql SQL_COMMANDED = {
    "codesign_commanded",
    "INSERT INTO svc.codesign_operations (tenant_id, operation_id, key_id, artifact_type, signature_scheme, principal,"
    " request_fingerprint, command_fingerprint, transparency_destination, state, created_us, made_seq)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'commanded', $10, $11) ON CONFLICT DO NOTHING",
    11,
};
/* Only a commanded operation moves: an end that was recorded twice changes nothing. */
static const struct sql SQL_SIGNED = {
    "codesign_signed",
    "UPDATE svc.codesign_operations SET state = 'signed', algorithm = $2, digest = $3, signature = $4"
    " WHERE operation_id = $1 AND state = 'commanded'",
    4,
};
static const struct sql SQL_COMPLETED = {
    "codesign_completed",
    "UPDATE svc.codesign_operations SET state = 'completed', ended_us = $2 WHERE operation_id = $1 AND state = "
    "'signed'",
    2,
};
static const struct sql SQL_FAILED = {
    "codesign_failed",
    "UPDATE svc.codesign_operations SET state = 'failed', failure_code = $2, ended_us = $3"
    " WHERE operation_id = $1 AND state = 'commanded'",
    3,
};

struct commanded_data {
    const char *operation_id, *key_id, *artifact_type, *signature_scheme, *request_fingerprint, *command_fingerprint,
        *transparency_destination;
    struct span sealed_command;
};
static const struct jin_field commanded_fields[] = {
    JIN_TEXT(struct commanded_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct commanded_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct commanded_data, artifact_type, JIN_REQUIRED, 1, ARTIFACT_TYPE_MAX),
    JIN_TEXT(struct commanded_data, signature_scheme, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct commanded_data, request_fingerprint, JIN_REQUIRED, FINGERPRINT_LEN, FINGERPRINT_LEN),
    JIN_TEXT(struct commanded_data, command_fingerprint, JIN_REQUIRED, FINGERPRINT_LEN, FINGERPRINT_LEN),
    JIN_TEXT(struct commanded_data, transparency_destination, JIN_REQUIRED, 1, 256),
    JIN_BASE64(struct commanded_data, sealed_command, JIN_REQUIRED, 1, SEALED_COMMAND_MAX),
};
struct signed_data {
    const char *operation_id, *key_id, *algorithm, *hash_algorithm, *signature_scheme, *artifact_type, *principal,
        *public_key_sha256;
    struct span digest, signature;
};
static const struct jin_field signed_fields[] = {
    JIN_TEXT(struct signed_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct signed_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct signed_data, algorithm, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct signed_data, hash_algorithm, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct signed_data, signature_scheme, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct signed_data, artifact_type, JIN_REQUIRED, 1, ARTIFACT_TYPE_MAX),
    JIN_BASE64(struct signed_data, digest, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct signed_data, principal, JIN_REQUIRED, 1, OP_SUBJECT_MAX),
    JIN_TEXT(struct signed_data, public_key_sha256, JIN_REQUIRED, 64, 64),
    JIN_BASE64(struct signed_data, signature, JIN_REQUIRED, 1, SIGNATURE_MAX),
};
struct ended_data {
    const char *operation_id, *transparency_destination, *code;
};
static const struct jin_field completed_fields[] = {
    JIN_TEXT(struct ended_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct ended_data, transparency_destination, JIN_REQUIRED, 1, 256),
};
static const struct jin_field failed_fields[] = {
    JIN_TEXT(struct ended_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct ended_data, code, JIN_REQUIRED, 1, 64),
};

static struct fault queue_command(struct projection *projection, const struct commanded_data *data)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(PAYLOAD_MAX);
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", data->operation_id);
    jout_key_base64(&jout, "sealed_command", data->sealed_command);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(json_canonical(buf_span(&json), &payload));
    return projection_outbox(projection, CODESIGN_COMMAND, data->operation_id, buf_span(&payload), 0);
}

struct fault project_commanded(struct projection *projection, const struct event_view *event)
{
    struct commanded_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, commanded_fields, COUNT_OF(commanded_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.operation_id),
        SQL_TEXT(data.key_id),
        SQL_TEXT(data.artifact_type),
        SQL_TEXT(data.signature_scheme),
        SQL_TEXT(event->actor_subject),
        SQL_TEXT(data.request_fingerprint),
        SQL_TEXT(data.command_fingerprint),
        SQL_TEXT(data.transparency_destination),
        SQL_INT(event->time),
        SQL_INT((int64_t)event->stream_seq),
    };
    TRY(tx_queue(projection_tx(projection), &SQL_COMMANDED, args, COUNT_OF(args)));
    return queue_command(projection, &data);
}

struct fault project_signed(struct projection *projection, const struct event_view *event)
{
    struct signed_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, signed_fields, COUNT_OF(signed_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.operation_id), SQL_TEXT(data.algorithm), SQL_BYTES(data.digest),
                                    SQL_BYTES(data.signature) };
    return tx_queue(projection_tx(projection), &SQL_SIGNED, args, COUNT_OF(args));
}

struct fault project_completed(struct projection *projection, const struct event_view *event)
{
    struct ended_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, completed_fields, COUNT_OF(completed_fields), &data));
    TRY(tx_queue(projection_tx(projection), &SQL_COMPLETED,
                 (struct sql_arg[]){ SQL_TEXT(data.operation_id), SQL_INT(event->time) }, 2));
    return projection_outbox_settle(projection, CODESIGN_COMMAND, data.operation_id, "delivered");
}

struct fault project_failed(struct projection *projection, const struct event_view *event)
{
    struct ended_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, failed_fields, COUNT_OF(failed_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.operation_id), SQL_TEXT(data.code), SQL_INT(event->time) };
    TRY(tx_queue(projection_tx(projection), &SQL_FAILED, args, COUNT_OF(args)));
    return projection_outbox_settle(projection, CODESIGN_COMMAND, data.operation_id, "dead-lettered");
}
