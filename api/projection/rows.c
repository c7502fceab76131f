/* What one event writes: its message's copy, its audit record, its outbox rows. */
#include "api/projection/internal.h"

#define OUTBOX_PAYLOAD_MAX ((size_t)256 << 10)
#define OUTBOX_ROWS_MAX    256u /* of one message: ids are stream sequence * 256 + number */
#define DESTINATION_MAX    63
#define OUTBOX_KEY_MAX     255

static const struct sql SQL_COPY_INSERT = {
    "projection_copy_insert",
    "INSERT INTO svc.event_envelopes (stream_seq, tenant_id, lane, message_id, body, sha256)"
    " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (stream_seq) DO NOTHING",
    6,
};
static const struct sql SQL_RECORD_INSERT = {
    "projection_record_insert",
    "INSERT INTO svc.audit_records (tenant_id, sequence, event_id, type, actor_subject, time_us, stream_seq, record,"
    " chain) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    9,
};
static const struct sql SQL_OUTBOX_INSERT = {
    "projection_outbox_insert",
    "INSERT INTO svc.outbox (id, tenant_id, destination, key, trace_id, payload, state, worker_id, lease_until_us,"
    " attempts, due_us, created_us) VALUES ($1, $2, $3, $4, $5, $6, 'pending', '', 0, 0, $7, $8)"
    " ON CONFLICT (tenant_id, destination, key) DO NOTHING",
    8,
};
static const struct sql SQL_OUTBOX_SETTLE = {
    "projection_outbox_settle",
    "UPDATE svc.outbox SET state = $4, worker_id = '', lease_until_us = 0, attempts = 0, due_us = 0,"
    " payload = CASE WHEN $4 = 'delivered' THEN ''::bytea ELSE payload END"
    " WHERE tenant_id = $1 AND destination = $2 AND key = $3",
    4,
};
static const struct sql SQL_LANE_LAST = {
    "projection_lane_last",
    "SELECT coalesce(max(stream_seq), 0) FROM svc.event_envelopes WHERE tenant_id = $1 AND lane = $2",
    2,
};

struct op *projection_op(struct projection *projection)
{
    return projection->op;
}

struct tx *projection_tx(struct projection *projection)
{
    return projection->tx;
}

int64_t projection_sequence(const struct projection *projection)
{
    return projection->sequence;
}

utc_us projection_time(const struct projection *projection)
{
    return projection->event->time;
}

struct fault projection_insert_copy(struct projection *projection, const struct event_message *message,
                                    const struct sha256 *digest)
{
    struct sql_arg args[] = {
        SQL_INT((int64_t)message->stream_seq), SQL_TEXT(message->tenant.text), SQL_TEXT(message->events[0].lane),
        SQL_TEXT(message->message_id.text),    SQL_BYTES(message->body),       SQL_BYTES(SPAN_ARRAY(digest->at)),
    };
    return tx_queue(projection->tx, &SQL_COPY_INSERT, args, COUNT_OF(args));
}

struct fault projection_insert_record(struct projection *projection, struct head *head, struct buf *record)
{
    const struct event_view *event = projection->event;
    struct sha256 chain;
    TRY(audit_record_bytes(event, projection->sequence, record));
    TRY(audit_chain_next(&head->next_chain, buf_span(record), &chain));
    struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_INT(projection->sequence),
        SQL_TEXT(event->id.text),
        SQL_TEXT(event->type),
        SQL_TEXT(event->actor_subject),
        SQL_INT(event->time),
        SQL_INT((int64_t)event->stream_seq),
        SQL_BYTES(buf_span(record)),
        SQL_BYTES(SPAN_ARRAY(chain.at)),
    };
    TRY(tx_queue(projection->tx, &SQL_RECORD_INSERT, args, COUNT_OF(args)));
    head->next_sequence = projection->sequence;
    head->next_chain = chain;
    return OK;
}

static bool good_name(const char *text, size_t max)
{
    size_t len = strlen(text);
    return len >= 1 && len <= max;
}

struct fault projection_outbox(struct projection *projection, const char *destination, const char *key,
                               struct span payload, int64_t delay_us)
{
    const struct event_view *event = projection->event;
    BUG_IF(!good_name(destination, DESTINATION_MAX) || !good_name(key, OUTBOX_KEY_MAX) || delay_us < 0);
    if (payload.len > OUTBOX_PAYLOAD_MAX || projection->outbox_rows >= OUTBOX_ROWS_MAX) {
        return op_fail(projection->op, FAULT(TOO_LARGE),
                       "an outbox payload of %zu bytes, or more than %u rows a message", payload.len, OUTBOX_ROWS_MAX);
    }
    struct sql_arg args[] = {
        SQL_INT((int64_t)(event->stream_seq * OUTBOX_ROWS_MAX + projection->outbox_rows)),
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(destination),
        SQL_TEXT(key),
        SQL_TEXT(event->trace_id),
        SQL_BYTES(payload),
        SQL_INT(delay_us > 0 ? event->time + delay_us : 0),
        SQL_INT(event->time),
    };
    TRY(tx_queue(projection->tx, &SQL_OUTBOX_INSERT, args, COUNT_OF(args)));
    projection->outbox_rows++;
    projection->outbox = true;
    return OK;
}

struct fault projection_outbox_settle(struct projection *projection, const char *destination, const char *key,
                                      const char *state)
{
    BUG_IF(strcmp(state, "delivered") != 0 && strcmp(state, "dead-lettered") != 0);
    struct sql_arg args[] = { SQL_TEXT(projection->event->tenant.text), SQL_TEXT(destination), SQL_TEXT(key),
                              SQL_TEXT(state) };
    return tx_queue(projection->tx, &SQL_OUTBOX_SETTLE, args, COUNT_OF(args));
}

struct fault projection_lane_last(struct tx *tx, struct tenant_id tenant, const char *lane, uint64_t *ret_seq)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql_arg args[] = { SQL_TEXT(tenant.text), SQL_TEXT(lane) };
    TRY(tx_query(tx, &SQL_LANE_LAST, args, COUNT_OF(args), &rows));
    *ret_seq = (uint64_t)rows_int(rows, 0, 0);
    return OK;
}
