#include "api/keys/internal.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <time.h>

static const struct sql SQL_GENERATED = {
    "keys_generated",
    "INSERT INTO svc.managed_keys (tenant_id, key_id, purpose, algorithm, name, state, version, system, spki, chain,"
    " created_us, created_by, token, max_uses, not_after_us, activated_us) VALUES ($1, $2, $3, $4, $5, $10, 1, $6, $7,"
    " '', $8, $9, $11, $12, $13, $14) ON CONFLICT DO NOTHING",
    14,
};
static const struct sql SQL_CERTIFIED = {
    "keys_certified",
    "UPDATE svc.managed_keys SET chain = $2, certify_command = $3, certificate_not_after_us = $4,"
    " version = version + 1 WHERE key_id = $1",
    4,
};
static const struct sql SQL_DESTROYED = {
    "keys_destroyed",
    "UPDATE svc.managed_keys SET state = 'destroyed', version = version + 1, destroyed_us = $2, destroyed_by = $3,"
    " destroy_reason = $4, destroy_command = $5 WHERE key_id = $1 AND state <> 'destroyed'",
    5,
};
static const struct sql SQL_ERASED = {
    "keys_erased",
    "UPDATE svc.managed_keys SET erased_us = $2, version = version + 1 WHERE key_id = $1 AND erased_us IS NULL",
    2,
};

struct key_data {
    const char *key_id, *purpose, *algorithm, *name, *reason, *command_id, *subject, *token;
    bool system, prepared;
    int64_t max_uses;
    utc_us not_after;
    struct span public_key_der, certificate_chain, csr_sha256;
};
static const struct jin_field generated_fields[] = {
    JIN_TEXT(struct key_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct key_data, purpose, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct key_data, algorithm, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct key_data, name, JIN_REQUIRED, 1, KEY_NAME_MAX),
    JIN_BOOL(struct key_data, system, JIN_REQUIRED),
    JIN_BASE64(struct key_data, public_key_der, JIN_REQUIRED, 0, SPKI_MAX),
    JIN_BOOL(struct key_data, prepared, JIN_OPTIONAL),
    JIN_TEXT(struct key_data, token, JIN_OPTIONAL, 1, TOKEN_NAME_SIZE - 1),
    JIN_INT(struct key_data, max_uses, JIN_OPTIONAL, 1, INT64_MAX),
    JIN_TIME(struct key_data, not_after, JIN_OPTIONAL),
};
static const struct jin_field certified_fields[] = {
    JIN_TEXT(struct key_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_BOOL(struct key_data, system, JIN_OPTIONAL), /* here and below: for readers */
    JIN_BASE64(struct key_data, certificate_chain, JIN_REQUIRED, 1, KEY_CHAIN_MAX),
    JIN_TEXT(struct key_data, command_id, JIN_OPTIONAL, 36, 36), /* of the user's command, where there was one */
};
static const struct jin_field csr_signed_fields[] = {
    JIN_TEXT(struct key_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct key_data, subject, JIN_REQUIRED, 1, KEY_SUBJECT_MAX),
    JIN_HEX(struct key_data, csr_sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
};
static const struct jin_field destroyed_fields[] = {
    JIN_TEXT(struct key_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_BOOL(struct key_data, system, JIN_OPTIONAL),
    JIN_TEXT(struct key_data, purpose, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct key_data, reason, JIN_REQUIRED, 1, 256),
    JIN_TEXT(struct key_data, command_id, JIN_REQUIRED, 36, 36),
};
static const struct jin_field erased_fields[] = {
    JIN_TEXT(struct key_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_BOOL(struct key_data, system, JIN_OPTIONAL),
};

struct fault project_key_generated(struct projection *projection, const struct event_view *event)
{
    struct key_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, generated_fields, COUNT_OF(generated_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.key_id),
        SQL_TEXT(data.purpose),
        SQL_TEXT(data.algorithm),
        SQL_TEXT(data.name),
        SQL_BOOL(data.system),
        SQL_BYTES(data.public_key_der),
        SQL_INT(event->time),
        SQL_TEXT(event->actor_subject),
        SQL_TEXT(key_state_text(data.prepared ? KEY_PREPARED : KEY_ACTIVE)),
        SQL_TEXT(data.token != NULL ? data.token : ""),
        data.max_uses > 0 ? SQL_INT(data.max_uses) : SQL_NONE,
        data.not_after != 0 ? SQL_INT(data.not_after) : SQL_NONE,
        data.prepared ? SQL_NONE : SQL_INT(event->time),
    };
    if (data.max_uses > 0) {
        keys_project_limited(projection);
    }
    return tx_queue(projection_tx(projection), &SQL_GENERATED, args, COUNT_OF(args));
}

/* The end of the first of these certificates; nothing when it does not decode. */
static struct sql_arg end_of(struct span chain)
{
    const unsigned char *at = chain.at;
    X509 *leaf = d2i_X509(NULL, &at, (long)chain.len);
    struct tm end = { 0 };
    bool good = leaf != NULL && ASN1_TIME_to_tm(X509_get0_notAfter(leaf), &end) == 1;
    X509_free(leaf);
    ERR_clear_error();
    return good ? SQL_INT((int64_t)timegm(&end) * US_PER_S) : SQL_NONE;
}

struct fault project_key_certified(struct projection *projection, const struct event_view *event)
{
    struct key_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, certified_fields, COUNT_OF(certified_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.key_id), SQL_BYTES(data.certificate_chain),
                                    data.command_id != NULL ? SQL_TEXT(data.command_id) : SQL_NONE,
                                    end_of(data.certificate_chain) };
    TRY(tx_queue(projection_tx(projection), &SQL_CERTIFIED, args, COUNT_OF(args)));
    return key_project_leaf(projection, data.key_id, data.certificate_chain, args[3]);
}

/* For the audit alone: a request changes nothing of the key, its version neither. */
struct fault project_key_csr_signed(struct projection *projection, const struct event_view *event)
{
    struct key_data data = { 0 };
    return jin_decode(projection_op(projection), event->data, csr_signed_fields, COUNT_OF(csr_signed_fields), &data);
}

/* The worker finds in the read model which token holds the key: the row outlives the key. */
static struct fault queue_erasure(struct projection *projection, const struct key_data *data)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(1024);
    struct jout jout;
    jout_init(&jout, &payload);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", data->key_id);
    jout_key_text(&jout, "purpose", data->purpose);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return projection_outbox(projection, KEYS_DESTINATION_ERASE, data->key_id, buf_span(&payload), 0);
}

struct fault project_key_destroyed(struct projection *projection, const struct event_view *event)
{
    struct key_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, destroyed_fields, COUNT_OF(destroyed_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.key_id), SQL_INT(event->time), SQL_TEXT(event->actor_subject),
                                    SQL_TEXT(data.reason), SQL_TEXT(data.command_id) };
    TRY(tx_queue(projection_tx(projection), &SQL_DESTROYED, args, COUNT_OF(args)));
    TRY(projection_outbox_settle(projection, KEYS_DESTINATION_RETIRE, data.key_id, "delivered"));
    return queue_erasure(projection, &data);
}

struct fault project_key_erased(struct projection *projection, const struct event_view *event)
{
    struct key_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, erased_fields, COUNT_OF(erased_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.key_id), SQL_INT(event->time) };
    TRY(tx_queue(projection_tx(projection), &SQL_ERASED, args, COUNT_OF(args)));
    return projection_outbox_settle(projection, KEYS_DESTINATION_ERASE, data.key_id, "delivered");
}

struct fault keys_project_certificates(struct projection *projection, const char *key_id, struct span chain)
{
    const struct sql_arg args[] = { SQL_TEXT(key_id), SQL_BYTES(chain), SQL_NONE, end_of(chain) };
    TRY(tx_queue(projection_tx(projection), &SQL_CERTIFIED, args, COUNT_OF(args)));
    return key_project_leaf(projection, key_id, chain, args[3]);
}

struct fault keys_project_end(struct projection *projection, const struct event_view *event, const char *key_id,
                              enum key_purpose purpose, const char *reason)
{
    const struct key_data data = { .key_id = key_id, .purpose = key_purpose_text(purpose) };
    const struct sql_arg args[] = { SQL_TEXT(key_id), SQL_INT(event->time), SQL_TEXT(event->actor_subject),
                                    SQL_TEXT(reason), SQL_NONE };
    TRY(tx_queue(projection_tx(projection), &SQL_DESTROYED, args, COUNT_OF(args)));
    return queue_erasure(projection, &data);
}
