/* Feeds in the read model. A batch counts only while it is the feed's own: what comes late about another one is no more
 * than an audit record. */
#include "api/feeds/internal.h"

#define PAYLOAD_MAX ((size_t)2 << 10)

static const struct sql SQL_OPEN = {
    "feed_open_batch",
    "SELECT batch_id, batch_round, version FROM svc.audit_feeds WHERE tenant_id = $1 AND feed_id = $2",
    2,
};
static const struct sql SQL_CONFIGURED = {
    "feed_configured",
    "INSERT INTO svc.audit_feeds (tenant_id, feed_id, version, kind, host, credential, config, enabled, saved_us,"
    " saved_by, next_sequence, delivered_sequence, state, batch_id, batch_round, batch_first, batch_last)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, 'idle', '', 0, 0, 0)"
    " ON CONFLICT (tenant_id, feed_id) DO UPDATE SET version = excluded.version, kind = excluded.kind,"
    " host = excluded.host, credential = excluded.credential, config = excluded.config, enabled = excluded.enabled,"
    " saved_us = excluded.saved_us, saved_by = excluded.saved_by,"
    " next_seed = CASE WHEN audit_feeds.next_sequence = excluded.next_sequence THEN audit_feeds.next_seed END,"
    " next_sequence = excluded.next_sequence,"
    " state = CASE WHEN audit_feeds.delivered_sequence > 0 THEN 'delivered' ELSE 'idle' END, error_code = NULL,"
    " failed_us = NULL, failed_attempts = NULL, collector_request_id = NULL, batch_id = '', batch_round = 0,"
    " batch_first = 0, batch_last = 0, batch_seed = NULL, batch_head = NULL, batch_ids = NULL, batch_body = NULL",
    11,
};
static const struct sql SQL_VERSION = {
    "feed_version",
    "INSERT INTO svc.audit_feed_versions (tenant_id, feed_id, version, config, enabled, from_sequence, saved_us,"
    " saved_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    8,
};
static const struct sql SQL_BATCHED = {
    "feed_batched",
    "UPDATE svc.audit_feeds SET state = 'queued', batch_id = $4, batch_round = 0, batch_first = $5, batch_last = $6,"
    " batch_seed = $7, batch_head = $8, batch_ids = $9, batch_body = $10"
    " WHERE tenant_id = $1 AND feed_id = $2 AND version = $3 AND batch_id = '' AND enabled AND state <> 'failed'"
    " AND next_sequence = $5",
    10,
};
static const struct sql SQL_REQUEUED = {
    "feed_requeued",
    "UPDATE svc.audit_feeds SET batch_round = $5 WHERE tenant_id = $1 AND feed_id = $2 AND version = $3"
    " AND batch_id = $4 AND batch_round = $5 - 1",
    5,
};
static const struct sql SQL_DELIVERED = {
    "feed_delivered",
    "UPDATE svc.audit_feeds SET state = 'delivered', delivered_sequence = greatest(delivered_sequence, batch_last),"
    " delivered_us = $5, delivered_request_id = $6, next_sequence = batch_last + 1, next_seed = batch_head,"
    " batch_id = '', batch_round = 0, batch_first = 0, batch_last = 0, batch_seed = NULL, batch_head = NULL,"
    " batch_ids = NULL, batch_body = NULL WHERE tenant_id = $1 AND feed_id = $2 AND version = $3 AND batch_id = $4",
    6,
};
static const struct sql SQL_FAILED = {
    "feed_failed",
    "UPDATE svc.audit_feeds SET state = 'failed', error_code = $5, failed_us = $6, failed_attempts = $7,"
    " collector_request_id = $8 WHERE tenant_id = $1 AND feed_id = $2 AND version = $3 AND batch_id = $4",
    8,
};

struct feed_data {
    const char *feed_id, *kind, *host, *credential;
    int64_t version, from_sequence;
    bool enabled;
    struct span config;
    const char *batch_id, *code, *collector_request_id;
    int64_t round, first_sequence, last_sequence, records, attempts;
    struct span seed, head, ids, body;
};
static const struct jin_field configured_fields[] = {
    JIN_RAW(struct feed_data, config, JIN_REQUIRED, 2, FEED_CONFIG_MAX),
    JIN_TEXT(struct feed_data, credential, JIN_REQUIRED, 0, 68),
    JIN_BOOL(struct feed_data, enabled, JIN_REQUIRED),
    JIN_TEXT(struct feed_data, feed_id, JIN_REQUIRED, 1, FEED_ID_MAX),
    JIN_INT(struct feed_data, from_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_TEXT(struct feed_data, host, JIN_REQUIRED, 1, 300),
    JIN_TEXT(struct feed_data, kind, JIN_REQUIRED, 1, 32),
    JIN_INT(struct feed_data, version, JIN_REQUIRED, 1, INT64_MAX),
};
#define BATCH_FIELDS                                                       \
    JIN_TEXT(struct feed_data, batch_id, JIN_REQUIRED, 36, 36),            \
        JIN_TEXT(struct feed_data, feed_id, JIN_REQUIRED, 1, FEED_ID_MAX), \
        JIN_INT(struct feed_data, round, JIN_REQUIRED, 0, INT64_MAX),      \
        JIN_INT(struct feed_data, version, JIN_REQUIRED, 1, INT64_MAX)
static const struct jin_field batched_fields[] = {
    BATCH_FIELDS,
    JIN_HEX(struct feed_data, body, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct feed_data, first_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_HEX(struct feed_data, head, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_HEX(struct feed_data, ids, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct feed_data, last_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_HEX(struct feed_data, seed, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
};
static const struct jin_field requeued_fields[] = { BATCH_FIELDS };
static const struct jin_field delivered_fields[] = {
    BATCH_FIELDS,
    JIN_INT(struct feed_data, attempts, JIN_REQUIRED, 1, INT64_MAX),
    JIN_TEXT(struct feed_data, collector_request_id, JIN_OPTIONAL, 1, FEED_REQUEST_ID_MAX),
    JIN_INT(struct feed_data, first_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_INT(struct feed_data, last_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_INT(struct feed_data, records, JIN_REQUIRED, 1, INT64_MAX),
};
static const struct jin_field failed_fields[] = {
    BATCH_FIELDS,
    JIN_INT(struct feed_data, attempts, JIN_REQUIRED, 0, INT64_MAX),
    JIN_TEXT(struct feed_data, code, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct feed_data, collector_request_id, JIN_OPTIONAL, 1, FEED_REQUEST_ID_MAX),
};

static struct fault decode(struct projection *projection, const struct event_view *event,
                           const struct jin_field *fields, size_t count, struct feed_data *ret_data)
{
    return jin_decode(projection_op(projection), event->data, fields, count, ret_data);
}

static struct fault settle(struct projection *projection, const struct feed_data *data, const char *state)
{
    const char *key = NULL;
    TRY(feed_outbox_key(projection_op(projection), data->feed_id, data->batch_id, data->version, data->round, &key));
    return projection_outbox_settle(projection, FEED_OUTBOX, key, state);
}

static struct fault queue(struct projection *projection, const struct feed_data *data)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(PAYLOAD_MAX);
    const char *key = NULL;
    struct jout jout;
    jout_init(&jout, &payload);
    jout_object(&jout);
    jout_key_text(&jout, "batch_id", data->batch_id);
    jout_key_text(&jout, "feed_id", data->feed_id);
    jout_key_int(&jout, "round", data->round);
    jout_key_int(&jout, "version", data->version);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(feed_outbox_key(projection_op(projection), data->feed_id, data->batch_id, data->version, data->round, &key));
    return projection_outbox(projection, FEED_OUTBOX, key, buf_span(&payload), 0);
}

/* A new version gives up the batch that the old one had open. */
static struct fault give_up_open(struct projection *projection, const struct event_view *event, const char *feed_id)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(feed_id) };
    TRY(tx_query(projection_tx(projection), &SQL_OPEN, args, COUNT_OF(args), &rows));
    if (rows_count(rows) == 0 || rows_text(rows, 0, 0)[0] == '\0') {
        return OK;
    }
    const struct feed_data open = { .feed_id = feed_id,
                                    .batch_id = rows_text(rows, 0, 0),
                                    .round = rows_int(rows, 0, 1),
                                    .version = rows_int(rows, 0, 2) };
    return settle(projection, &open, "dead-lettered");
}

struct fault feed_project_configured(struct projection *projection, const struct event_view *event)
{
    struct feed_data data = { 0 };
    TRY(decode(projection, event, configured_fields, COUNT_OF(configured_fields), &data));
    TRY(give_up_open(projection, event, data.feed_id));
    const struct sql_arg feed[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.feed_id),
                                    SQL_INT(data.version),        SQL_TEXT(data.kind),
                                    SQL_TEXT(data.host),          SQL_TEXT(data.credential),
                                    SQL_SPAN(data.config),        SQL_BOOL(data.enabled),
                                    SQL_INT(event->time),         SQL_TEXT(event->actor_subject),
                                    SQL_INT(data.from_sequence) };
    const struct sql_arg version[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.feed_id),
                                       SQL_INT(data.version),        SQL_SPAN(data.config),
                                       SQL_BOOL(data.enabled),       SQL_INT(data.from_sequence),
                                       SQL_INT(event->time),         SQL_TEXT(event->actor_subject) };
    TRY(tx_queue(projection_tx(projection), &SQL_CONFIGURED, feed, COUNT_OF(feed)));
    return tx_queue(projection_tx(projection), &SQL_VERSION, version, COUNT_OF(version));
}

struct fault feed_project_batched(struct projection *projection, const struct event_view *event)
{
    struct feed_data data = { 0 };
    int64_t affected = 0;
    TRY(decode(projection, event, batched_fields, COUNT_OF(batched_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.feed_id),
                                    SQL_INT(data.version),        SQL_TEXT(data.batch_id),
                                    SQL_INT(data.first_sequence), SQL_INT(data.last_sequence),
                                    SQL_BYTES(data.seed),         SQL_BYTES(data.head),
                                    SQL_BYTES(data.ids),          SQL_BYTES(data.body) };
    TRY(tx_exec(projection_tx(projection), &SQL_BATCHED, args, COUNT_OF(args), &affected));
    return affected == 1 ? queue(projection, &data) : OK;
}

struct fault feed_project_requeued(struct projection *projection, const struct event_view *event)
{
    struct feed_data data = { 0 };
    int64_t affected = 0;
    TRY(decode(projection, event, requeued_fields, COUNT_OF(requeued_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.feed_id), SQL_INT(data.version),
                                    SQL_TEXT(data.batch_id), SQL_INT(data.round) };
    TRY(tx_exec(projection_tx(projection), &SQL_REQUEUED, args, COUNT_OF(args), &affected));
    if (affected != 1) {
        return OK;
    }
    struct feed_data before = data; /* a rebuild has its row again */
    before.round--;
    TRY(settle(projection, &before, "dead-lettered"));
    return queue(projection, &data);
}

static struct sql_arg text_or_none(const char *text)
{
    return text != NULL ? SQL_TEXT(text) : SQL_NONE;
}

struct fault feed_project_delivered(struct projection *projection, const struct event_view *event)
{
    struct feed_data data = { 0 };
    TRY(decode(projection, event, delivered_fields, COUNT_OF(delivered_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.feed_id),
                                    SQL_INT(data.version),        SQL_TEXT(data.batch_id),
                                    SQL_INT(event->time),         text_or_none(data.collector_request_id) };
    TRY(tx_queue(projection_tx(projection), &SQL_DELIVERED, args, COUNT_OF(args)));
    return settle(projection, &data, "delivered");
}

struct fault feed_project_failed(struct projection *projection, const struct event_view *event)
{
    struct feed_data data = { 0 };
    TRY(decode(projection, event, failed_fields, COUNT_OF(failed_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.feed_id),
                                    SQL_INT(data.version),        SQL_TEXT(data.batch_id),
                                    SQL_TEXT(data.code),          SQL_INT(event->time),
                                    SQL_INT(data.attempts),       text_or_none(data.collector_request_id) };
    TRY(tx_queue(projection_tx(projection), &SQL_FAILED, args, COUNT_OF(args)));
    return settle(projection, &data, "dead-lettered");
}
