/*
 * A lost outbox row, derived again from the message that queued it. The projection functions are asked, not a second
 * account of what they do: they run once more, and their transaction is taken back. What they read is the present, not
 * the past; a row is the same all the same, because a payload is made of what no later event changes.
 */
#include "api/projection/internal.h"

#define RECORD_MAX (2 * EVENT_MESSAGE_MAX)

static const struct sql SQL_COPY = {
    "rederive_copy",
    "SELECT body, sha256 FROM svc.event_envelopes WHERE stream_seq = $1 AND tenant_id = $2",
    2,
};
/* Each record with the chain before it. */
static const struct sql SQL_RECORDS = {
    "rederive_records",
    "SELECT r.sequence, r.event_id, r.record, r.chain, b.chain FROM svc.audit_records r"
    " LEFT JOIN svc.audit_records b ON b.tenant_id = r.tenant_id AND b.sequence = r.sequence - 1"
    " WHERE r.tenant_id = $1 AND r.time_us = $2 AND r.stream_seq = $3 ORDER BY r.sequence",
    3,
};

struct rederivation {
    struct event_message message;
    struct sha256 digest;
    int64_t first_sequence; /* of its events' audit records */
};

static struct fault distrust(struct op *op, uint64_t stream_seq, const char *what)
{
    return op_fail(op, FAULT(OUTBOX_SOURCE), "message %llu: %s", (unsigned long long)stream_seq, what);
}

static struct fault read_copy(struct op *op, struct tx *tx, uint64_t stream_seq, struct rederivation *made)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct span body = { 0 };
    const struct sql_arg args[] = { SQL_INT((int64_t)stream_seq), SQL_TEXT(op->tenant.text) };
    TRY(tx_query(tx, &SQL_COPY, args, COUNT_OF(args), &rows));
    if (rows_count(rows) != 1) {
        return distrust(op, stream_seq, "no copy of it is kept");
    }
    TRY(arena_copy(op->arena, rows_bytes(rows, 0, 0), &body));
    TRY(sha256_of(body, &made->digest));
    if (!span_equal(SPAN_ARRAY(made->digest.at), rows_bytes(rows, 0, 1))) {
        return distrust(op, stream_seq, "its copy is not what the digest says");
    }
    struct fault fault = event_body_decode(op, stream_seq, body, &made->message);
    if (FAULTED(fault)) {
        return distrust(op, stream_seq, "its copy is no message");
    }
    return tenant_id_equal(made->message.tenant, op->tenant)
               ? OK
               : distrust(op, stream_seq, "its copy stands under another tenant than its own");
}

static struct fault check_record(struct op *op, const struct rows *rows, size_t row, const struct event_view *event,
                                 struct buf *record)
{
    static const struct sha256 zero = { 0 };
    int64_t sequence = rows_int(rows, row, 0);
    struct span before = rows_bytes(rows, row, 4);
    struct sha256 previous = zero, chain;
    buf_clear(record);
    TRY(audit_record_bytes(event, sequence, record));
    if (!span_equal_text(rows_bytes(rows, row, 1), event->id.text) ||
        !span_equal(rows_bytes(rows, row, 2), buf_span(record))) {
        return distrust(op, event->stream_seq, "its audit record says something else");
    }
    if (sequence > 1 && before.len != SHA256_LEN) {
        return distrust(op, event->stream_seq, "the audit record before it is not retained");
    }
    if (sequence > 1) {
        memcpy(previous.at, before.at, SHA256_LEN);
    }
    TRY(audit_chain_next(&previous, buf_span(record), &chain));
    return span_equal(rows_bytes(rows, row, 3), SPAN_ARRAY(chain.at))
               ? OK
               : distrust(op, event->stream_seq, "its audit record does not continue the chain");
}

static struct fault check_records(struct op *op, struct tx *tx, struct rederivation *made)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    CLEANUP(buf_free) struct buf record = BUF_INIT(RECORD_MAX);
    const struct event_message *message = &made->message;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_INT(message->events[0].time),
                                    SQL_INT((int64_t)message->stream_seq) };
    TRY(tx_query(tx, &SQL_RECORDS, args, COUNT_OF(args), &rows));
    if (rows_count(rows) != message->count) {
        return distrust(op, message->stream_seq, "its audit records are not retained");
    }
    made->first_sequence = rows_int(rows, 0, 0);
    for (size_t i = 0; i < message->count; i++) {
        TRY(check_record(op, rows, i, &message->events[i], &record));
    }
    return OK;
}

static struct fault read_message(struct op *op, struct projector *projector, uint64_t stream_seq,
                                 struct rederivation *made)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, projector->config.store, STORE_BOOKKEEPING, &tx));
    TRY(read_copy(op, tx, stream_seq, made));
    return check_records(op, tx, made);
}

/* A message whose history was rewritten reads as its replacement, and so does its copy. */
static struct fault check_log(struct op *op, struct event_log *log, const struct rederivation *made)
{
    struct event_message stored;
    struct sha256 digest;
    uint64_t seq = made->message.stream_seq;
    struct fault fault = event_log_get(op, log, seq, &stored);
    if (fault.code == FAULT_NOT_FOUND || fault.code == FAULT_LOG_DECODE) {
        return distrust(op, seq, "the event log does not have it any more");
    }
    TRY(fault);
    TRY(sha256_of(stored.body, &digest));
    return span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(made->digest.at))
               ? OK
               : distrust(op, seq, "the event log has another one in its place");
}

static struct fault project_again(struct op *op, struct projector *projector, const struct rederivation *made,
                                  struct projection_effect *wanted, bool *ret_found)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(applier_freep) struct applier *applier = NULL;
    TRY(applier_new(&projector->config, &applier));
    TRY(tx_begin(op, projector->config.store, STORE_BOOKKEEPING, &tx));
    struct projection projection = { .op = op, .tx = tx, .columns = &applier->columns, .turn = 1, .wanted = wanted };
    applier->columns.tenant = op->tenant;
    for (size_t i = 0; i < made->message.count && !projection.found; i++) {
        projection.event = &made->message.events[i];
        projection.sequence = made->first_sequence + (int64_t)i;
        TRY(applier_project(applier, &projection, projection.event));
    }
    *ret_found = projection.found;
    return OK;
}

struct fault projection_rederive(struct op *op, struct projector *projector, uint64_t stream_seq,
                                 const char *destination, const char *key, struct projection_effect *ret_effect)
{
    struct rederivation made = { 0 };
    struct projection_effect wanted = { .destination = destination, .key = key };
    bool found = false;
    TRY(read_message(op, projector, stream_seq, &made));
    TRY(check_log(op, projector->config.log, &made));
    TRY(project_again(op, projector, &made, &wanted, &found));
    REQUIRE(found, NOT_FOUND);
    *ret_effect = wanted;
    return OK;
}
