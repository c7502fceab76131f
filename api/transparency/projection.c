#include "api/transparency/internal.h"

#include "appliance/base/codec.h"

static const struct sql SQL_QUEUED = {
    "transparency_queued",
    "INSERT INTO svc.transparency_entries (tenant_id, operation_id, log, state, queued_us, sequence)"
    " VALUES ($1, $2, $3, 'pending', $4, $5) ON CONFLICT DO NOTHING",
    5,
};
/* The first outcome counts. */
static const struct sql SQL_PUBLISHED = {
    "transparency_published",
    "UPDATE svc.transparency_entries SET state = 'published', entry_id = $3, kind = $4, version = $5, log_id = $6,"
    " log_index = $7, integrated_time = nullif($8, 0), entry_timestamp = $9, body = $10, proof_index = $11,"
    " tree_size = $12, root_hash = $13, hashes = $14, checkpoint = $15, ended_us = $16"
    " WHERE tenant_id = $1 AND operation_id = $2 AND state = 'pending'",
    16,
};
static const struct sql SQL_FAILED = {
    "transparency_failed",
    "UPDATE svc.transparency_entries SET state = 'failed', failure_code = $3, ended_us = $4"
    " WHERE tenant_id = $1 AND operation_id = $2 AND state = 'pending'",
    4,
};

/* Canonical JSON: the members stand in the order of their names. */
static struct fault print_payload(const struct transparency_item *item, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    if (item->certificate.len > 0) {
        jout_key_base64(&jout, "certificate", item->certificate);
    }
    jout_key_text(&jout, "destination", item->destination);
    jout_key_base64(&jout, "digest", item->digest);
    jout_key_text(&jout, "digest_algorithm", item->digest_algorithm);
    jout_key_text(&jout, "operation_id", item->operation_id);
    jout_key_base64(&jout, "public_key", item->spki);
    jout_key_base64(&jout, "signature", item->signature);
    jout_key_text(&jout, "signature_scheme", item->signature_scheme);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault transparency_queue(struct projection *projection, const struct transparency_item *item)
{
    if (strcmp(item->destination, TRANSPARENCY_NONE) == 0) {
        return OK;
    }
    CLEANUP(buf_free) struct buf payload = BUF_INIT(TLOG_PAYLOAD_MAX);
    const struct sql_arg args[] = { SQL_TEXT(projection_op(projection)->tenant.text), SQL_TEXT(item->operation_id),
                                    SQL_TEXT(item->destination), SQL_INT(projection_time(projection)),
                                    SQL_INT(projection_sequence(projection)) };
    TRY(print_payload(item, &payload));
    TRY(tx_queue(projection_tx(projection), &SQL_QUEUED, args, COUNT_OF(args)));
    return projection_outbox(projection, TRANSPARENCY_DESTINATION, item->operation_id, buf_span(&payload), 0);
}

struct published_data {
    const char *operation_id, *log, *entry_id, *kind, *version;
    struct span log_id, set, body;
    int64_t log_index, integrated_time;
    struct proof_data {
        int64_t log_index, tree_size;
        struct span root_hash;
        struct jin_texts hashes;
        const char *checkpoint;
    } proof;
};
static const struct jin_field proof_fields[] = {
    JIN_TEXT(struct proof_data, checkpoint, JIN_REQUIRED, 1, TLOG_CHECKPOINT_MAX),
    JIN_TEXTS(struct proof_data, hashes, JIN_REQUIRED, 0, TLOG_HASHES_MAX),
    JIN_INT(struct proof_data, log_index, JIN_REQUIRED, 0, TLOG_NUMBER_MAX),
    JIN_HEX(struct proof_data, root_hash, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct proof_data, tree_size, JIN_REQUIRED, 1, TLOG_NUMBER_MAX),
};
static const struct jin_field published_fields[] = {
    JIN_BASE64(struct published_data, body, JIN_REQUIRED, 1, 65536),
    JIN_TEXT(struct published_data, entry_id, JIN_REQUIRED, 64, 80),
    JIN_INT(struct published_data, integrated_time, JIN_OPTIONAL, 1, TLOG_NUMBER_MAX),
    JIN_TEXT(struct published_data, kind, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct published_data, log, JIN_REQUIRED, 1, 600),
    JIN_HEX(struct published_data, log_id, JIN_REQUIRED, 1, SHA256_LEN),
    JIN_INT(struct published_data, log_index, JIN_REQUIRED, 0, TLOG_NUMBER_MAX),
    JIN_TEXT(struct published_data, operation_id, JIN_REQUIRED, 36, 36),
    { .name = "proof",
      .kind = JIN_KIND_OBJECT,
      .flags = JIN_REQUIRED,
      .offset = offsetof(struct published_data, proof),
      .sub = proof_fields,
      .sub_count = COUNT_OF(proof_fields) },
    JIN_BASE64(struct published_data, set, JIN_OPTIONAL, 1, 4096),
    JIN_TEXT(struct published_data, version, JIN_REQUIRED, 1, 16),
};

struct failed_data {
    const char *operation_id, *log, *code;
};
static const struct jin_field failed_fields[] = {
    JIN_TEXT(struct failed_data, code, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct failed_data, log, JIN_REQUIRED, 1, 600),
    JIN_TEXT(struct failed_data, operation_id, JIN_REQUIRED, 36, 36),
};

static struct fault join_hashes(const struct jin_texts *hashes, struct buf *out)
{
    for (size_t i = 0; i < hashes->count; i++) {
        TRY(hex_decode(span_text(hashes->at[i]), out));
    }
    REQUIRE(out->len == hashes->count * SHA256_LEN, JSON_FIELD);
    return OK;
}

struct fault project_published(struct projection *projection, const struct event_view *event)
{
    CLEANUP(buf_free) struct buf hashes = BUF_INIT(TLOG_HASHES_MAX * SHA256_LEN);
    struct published_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, published_fields, COUNT_OF(published_fields), &data));
    TRY(join_hashes(&data.proof.hashes, &hashes));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.operation_id),
        SQL_TEXT(data.entry_id),
        SQL_TEXT(data.kind),
        SQL_TEXT(data.version),
        SQL_BYTES(data.log_id),
        SQL_INT(data.log_index),
        SQL_INT(data.integrated_time),
        data.set.len > 0 ? SQL_BYTES(data.set) : SQL_NONE,
        SQL_BYTES(data.body),
        SQL_INT(data.proof.log_index),
        SQL_INT(data.proof.tree_size),
        SQL_BYTES(data.proof.root_hash),
        SQL_BYTES(buf_span(&hashes)),
        SQL_TEXT(data.proof.checkpoint),
        SQL_INT(event->time),
    };
    TRY(tx_queue(projection_tx(projection), &SQL_PUBLISHED, args, COUNT_OF(args)));
    return projection_outbox_settle(projection, TRANSPARENCY_DESTINATION, data.operation_id, "delivered");
}

struct fault project_failed(struct projection *projection, const struct event_view *event)
{
    struct failed_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, failed_fields, COUNT_OF(failed_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.operation_id), SQL_TEXT(data.code),
                                    SQL_INT(event->time) };
    TRY(tx_queue(projection_tx(projection), &SQL_FAILED, args, COUNT_OF(args)));
    return projection_outbox_settle(projection, TRANSPARENCY_DESTINATION, data.operation_id, "dead-lettered");
}
