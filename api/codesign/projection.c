#include "api/codesign/internal.h"

#include "appliance/base/der.h"

#define PAYLOAD_MAX ((size_t)128 << 10)

static const struct sql SQL_COMMANDED = {
    "codesign_commanded",
    "INSERT INTO svc.codesign_operations (tenant_id, operation_id, command_id, position, count, mode, key_id,"
    " identity_method, artifact_type, digest_algorithm, signature_scheme, principal, request_fingerprint,"
    " command_fingerprint, transparency_destination, state, created_us, made_seq) VALUES"
    " ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 'commanded', $16, $17) ON CONFLICT DO NOTHING",
    17,
};
/* Only a commanded operation moves: an end that was recorded twice changes nothing. */
static const struct sql SQL_SIGNED = {
    "codesign_signed",
    "UPDATE svc.codesign_operations SET state = 'signed', algorithm = $2, digest = $3, signature = $4, spki = $5,"
    " chain = $6, fulcio_san = $7, fulcio_issuer = $8, approved_mode = $9 WHERE operation_id = $1"
    " AND state = 'commanded'",
    9,
};
static const struct sql SQL_COMPLETED = {
    "codesign_completed",
    "UPDATE svc.codesign_operations SET state = 'completed', ended_us = $2 WHERE operation_id = $1 AND state = "
    "'signed'",
    2,
};
static const struct sql SQL_ENDED = {
    "codesign_ended",
    "UPDATE svc.codesign_operations SET state = $2, failure_code = $3, resource = $4, ended_us = $5"
    " WHERE operation_id = $1 AND state = 'commanded'",
    5,
};
static const struct sql SQL_DESTROYED = {
    "codesign_destroyed",
    "UPDATE svc.codesign_operations SET ephemeral_destroyed_us = $2 WHERE operation_id = $1"
    " AND ephemeral_destroyed_us IS NULL",
    2,
};
/* What is published. */
static const struct sql SQL_PUBLISHED = {
    "codesign_published",
    "SELECT o.digest_algorithm, o.signature_scheme, o.digest, o.signature, coalesce(o.spki, k.spki), o.chain"
    " FROM svc.codesign_operations o LEFT JOIN svc.managed_keys k ON k.tenant_id = o.tenant_id AND k.key_id = o.key_id"
    " WHERE o.operation_id = $1",
    1,
};

static struct sql_arg text_or_null(const char *text)
{
    return text != NULL ? SQL_TEXT(text) : SQL_NONE;
}

static struct sql_arg bytes_or_null(struct span bytes)
{
    return bytes.len > 0 ? SQL_BYTES(bytes) : SQL_NONE;
}

struct commanded_data {
    const char *operation_id, *command_id, *mode, *key_id, *identity_method, *artifact_type, *digest_algorithm,
        *signature_scheme, *request_fingerprint, *command_fingerprint, *transparency_destination;
    int64_t position, count;
    struct span sealed_command;
};
static const struct jin_field commanded_fields[] = {
    JIN_TEXT(struct commanded_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct commanded_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct commanded_data, position, JIN_REQUIRED, 0, BATCH_MAX - 1),
    JIN_INT(struct commanded_data, count, JIN_REQUIRED, 1, BATCH_MAX),
    JIN_TEXT(struct commanded_data, mode, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct commanded_data, key_id, JIN_OPTIONAL, 36, 36),
    JIN_TEXT(struct commanded_data, identity_method, JIN_OPTIONAL, 1, METHOD_MAX),
    JIN_TEXT(struct commanded_data, artifact_type, JIN_REQUIRED, 1, ARTIFACT_TYPE_MAX),
    JIN_TEXT(struct commanded_data, digest_algorithm, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct commanded_data, signature_scheme, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct commanded_data, request_fingerprint, JIN_REQUIRED, FINGERPRINT_LEN, FINGERPRINT_LEN),
    JIN_TEXT(struct commanded_data, command_fingerprint, JIN_REQUIRED, FINGERPRINT_LEN, FINGERPRINT_LEN),
    JIN_TEXT(struct commanded_data, transparency_destination, JIN_REQUIRED, 1, 512),
    JIN_BASE64(struct commanded_data, sealed_command, JIN_OPTIONAL, 1, SEALED_COMMAND_MAX),
};

static struct fault queue_command(struct projection *projection, const struct event_view *event,
                                  const struct commanded_data *data)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(PAYLOAD_MAX);
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "command_id", data->command_id);
    jout_key_int(&jout, "accepted_us", event->time);
    jout_key_base64(&jout, "sealed_command", data->sealed_command);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(json_canonical(buf_span(&json), &payload));
    return projection_outbox(projection, CODESIGN_COMMAND, data->command_id, buf_span(&payload), 0);
}

struct fault codesign_project_commanded(struct projection *projection, const struct event_view *event)
{
    struct commanded_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, commanded_fields, COUNT_OF(commanded_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.operation_id), /* from here on in the order of project_rows.c */
        SQL_TEXT(data.command_id),
        SQL_INT(data.position),
        SQL_INT(data.count),
        SQL_TEXT(data.mode),
        text_or_null(data.key_id),
        text_or_null(data.identity_method),
        SQL_TEXT(data.artifact_type),
        SQL_TEXT(data.digest_algorithm),
        SQL_TEXT(data.signature_scheme),
        SQL_TEXT(event->actor_subject),
        SQL_TEXT(data.request_fingerprint),
        SQL_TEXT(data.command_fingerprint),
        SQL_TEXT(data.transparency_destination),
        SQL_INT(event->time),
        SQL_INT((int64_t)event->stream_seq),
    };
    TRY(projection_folds(projection)
            ? codesign_row_commanded(projection, data.operation_id, args + 1, COUNT_OF(args) - 1)
            : tx_queue(projection_tx(projection), &SQL_COMMANDED, args, COUNT_OF(args)));
    if (data.sealed_command.len == 0) {
        return OK; /* one more digest of a command whose first event spoke for all */
    }
    TRY(data.key_id != NULL ? keys_project_claim(projection, data.key_id, data.command_id, data.count) : OK);
    return queue_command(projection, event, &data);
}

/* codesign.signed and codesign.keyless.signed. */
struct signed_data {
    const char *operation_id, *key_id, *public_key_sha256, *identity_method, *fulcio_san, *fulcio_issuer, *algorithm,
        *digest_algorithm, *signature_scheme, *artifact_type, *principal, *policy_rule, *approval_resource,
        *approval_request_id, *issuance;
    struct span digest, signature, public_key_der, certificate_chain;
    bool approved_mode;
};
static const struct jin_field signed_fields[] = {
    JIN_TEXT(struct signed_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct signed_data, key_id, JIN_OPTIONAL, 36, 36),
    JIN_TEXT(struct signed_data, public_key_sha256, JIN_OPTIONAL, 64, 64),
    JIN_TEXT(struct signed_data, identity_method, JIN_OPTIONAL, 1, METHOD_MAX),
    JIN_TEXT(struct signed_data, fulcio_san, JIN_OPTIONAL, 1, IDENTITY_MAX),
    JIN_TEXT(struct signed_data, fulcio_issuer, JIN_OPTIONAL, 1, IDENTITY_MAX),
    JIN_BASE64(struct signed_data, public_key_der, JIN_OPTIONAL, 1, SPKI_MAX),
    JIN_BASE64(struct signed_data, certificate_chain, JIN_OPTIONAL, 1, CHAIN_BYTES_MAX),
    JIN_TEXT(struct signed_data, issuance, JIN_OPTIONAL, 1, 32), /* for readers */
    JIN_TEXT(struct signed_data, algorithm, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct signed_data, digest_algorithm, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct signed_data, signature_scheme, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct signed_data, artifact_type, JIN_REQUIRED, 1, ARTIFACT_TYPE_MAX),
    JIN_BASE64(struct signed_data, digest, JIN_REQUIRED, SHA256_LEN, DIGEST_MAX),
    JIN_TEXT(struct signed_data, principal, JIN_REQUIRED, 1, OP_SUBJECT_MAX),
    JIN_BASE64(struct signed_data, signature, JIN_REQUIRED, 1, SIGNATURE_MAX),
    JIN_BOOL(struct signed_data, approved_mode, JIN_OPTIONAL), /* missing in older events: nothing was claimed */
    JIN_TEXT(struct signed_data, policy_rule, JIN_OPTIONAL, 1, 256),
    JIN_TEXT(struct signed_data, approval_resource, JIN_OPTIONAL, 1, APPROVAL_RESOURCE_MAX),
    JIN_TEXT(struct signed_data, approval_request_id, JIN_OPTIONAL, 0, 36),
};

static struct fault project_signature(struct projection *projection, const struct event_view *event)
{
    struct signed_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, signed_fields, COUNT_OF(signed_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(data.operation_id),   SQL_TEXT(data.algorithm),           SQL_BYTES(data.digest),
        SQL_BYTES(data.signature),     bytes_or_null(data.public_key_der), bytes_or_null(data.certificate_chain),
        text_or_null(data.fulcio_san), text_or_null(data.fulcio_issuer),   SQL_BOOL(data.approved_mode),
    };
    bool kept = false;
    TRY(codesign_row_signed(projection, data.operation_id, args + 1, COUNT_OF(args) - 1, &kept));
    TRY(kept ? OK : tx_queue(projection_tx(projection), &SQL_SIGNED, args, COUNT_OF(args)));
    return data.key_id != NULL ? keys_project_use(projection, data.key_id) : OK;
}

struct fault codesign_project_signed(struct projection *projection, const struct event_view *event)
{
    return project_signature(projection, event);
}

struct fault codesign_project_keyless_signed(struct projection *projection, const struct event_view *event)
{
    return project_signature(projection, event);
}

struct ended_data {
    const char *operation_id, *command_id, *mode, *transparency_destination, *code, *detail, *policy_rule, *resource,
        *ephemeral_id;
};
static const struct jin_field completed_fields[] = {
    JIN_TEXT(struct ended_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct ended_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct ended_data, mode, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct ended_data, transparency_destination, JIN_REQUIRED, 1, 512),
};
static const struct jin_field ended_fields[] = {
    JIN_TEXT(struct ended_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct ended_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct ended_data, mode, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct ended_data, code, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct ended_data, detail, JIN_OPTIONAL, 0, 256),
    JIN_TEXT(struct ended_data, policy_rule, JIN_OPTIONAL, 0, 256),
    JIN_TEXT(struct ended_data, resource, JIN_OPTIONAL, 0, APPROVAL_RESOURCE_MAX),
};
static const struct jin_field destroyed_fields[] = {
    JIN_TEXT(struct ended_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct ended_data, ephemeral_id, JIN_REQUIRED, 36, 36),
};

static bool is_keyless(const struct ended_data *data)
{
    return strcmp(data->mode, "keyless") == 0;
}

static struct fault queue_cleanup(struct projection *projection, const char *operation_id)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(1024);
    struct jout jout;
    jout_init(&jout, &payload);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", operation_id);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return projection_outbox(projection, CODESIGN_CLEANUP, operation_id, buf_span(&payload), 0);
}

/* The leaf of certificates that stand one behind the other. */
static struct span first_certificate(struct span chain)
{
    struct der_element element;
    return chain.len > 0 && !FAULTED(der_next(&chain, &element)) ? element.whole : (struct span){ 0 };
}

static struct fault publish(struct projection *projection, const struct ended_data *data)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    if (strcmp(data->transparency_destination, TRANSPARENCY_NONE) == 0) {
        return OK;
    }
    TRY(projection_fold_write(projection));
    TRY(tx_query(projection_tx(projection), &SQL_PUBLISHED, (struct sql_arg[]){ SQL_TEXT(data->operation_id) }, 1,
                 &rows));
    if (rows_count(rows) != 1) {
        return OK;
    }
    const struct transparency_item item = {
        .operation_id = data->operation_id,
        .destination = data->transparency_destination,
        .digest_algorithm = rows_text(rows, 0, 0),
        .signature_scheme = rows_text(rows, 0, 1),
        .digest = rows_bytes(rows, 0, 2),
        .signature = rows_bytes(rows, 0, 3),
        .spki = rows_bytes(rows, 0, 4),
        .certificate = first_certificate(rows_bytes(rows, 0, 5)),
    };
    return transparency_queue(projection, &item);
}

struct fault codesign_project_completed(struct projection *projection, const struct event_view *event)
{
    struct ended_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, completed_fields, COUNT_OF(completed_fields), &data));
    bool kept = false;
    const struct sql_arg args[] = { SQL_TEXT(data.operation_id), SQL_INT(event->time) };
    TRY(codesign_row_completed(projection, data.operation_id, event->time, &kept));
    TRY(kept ? OK : tx_queue(projection_tx(projection), &SQL_COMPLETED, args, COUNT_OF(args)));
    TRY(projection_outbox_settle(projection, CODESIGN_COMMAND, data.command_id, "delivered"));
    TRY(publish(projection, &data));
    return is_keyless(&data) ? queue_cleanup(projection, data.operation_id) : OK;
}

static struct fault end_badly(struct projection *projection, const struct event_view *event, const char *state,
                              const char *settled, struct ended_data *data)
{
    TRY(jin_decode(projection_op(projection), event->data, ended_fields, COUNT_OF(ended_fields), data));
    const struct sql_arg args[] = { SQL_TEXT(data->operation_id), SQL_TEXT(state), SQL_TEXT(data->code),
                                    text_or_null(data->resource), SQL_INT(event->time) };
    bool kept = false;
    TRY(codesign_row_ended(projection, data->operation_id, state, args + 2, COUNT_OF(args) - 2, &kept));
    TRY(kept ? OK : tx_queue(projection_tx(projection), &SQL_ENDED, args, COUNT_OF(args)));
    TRY(is_keyless(data) ? OK : keys_project_return(projection, data->command_id));
    return projection_outbox_settle(projection, CODESIGN_COMMAND, data->command_id, settled);
}

struct fault codesign_project_refused(struct projection *projection, const struct event_view *event)
{
    struct ended_data data = { 0 };
    return end_badly(projection, event, "refused", "delivered", &data);
}

/* A try may have made the ephemeral key before the signing failed: it goes in any case. */
struct fault codesign_project_failed(struct projection *projection, const struct event_view *event)
{
    struct ended_data data = { 0 };
    TRY(end_badly(projection, event, "failed", "dead-lettered", &data));
    return is_keyless(&data) ? queue_cleanup(projection, data.operation_id) : OK;
}

struct fault codesign_project_destroyed(struct projection *projection, const struct event_view *event)
{
    struct ended_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, destroyed_fields, COUNT_OF(destroyed_fields), &data));
    bool kept = false;
    const struct sql_arg args[] = { SQL_TEXT(data.operation_id), SQL_INT(event->time) };
    TRY(codesign_row_destroyed(projection, data.operation_id, event->time, &kept));
    TRY(kept ? OK : tx_queue(projection_tx(projection), &SQL_DESTROYED, args, COUNT_OF(args)));
    return projection_outbox_settle(projection, CODESIGN_CLEANUP, data.operation_id, "delivered");
}
