/* The log up to a message against a rolling digest and the copies; what copies are missing is written. */
#include "api/projection/internal.h"

#define READ_NS  (30 * NS_PER_S)
#define APPLY_MS 120000

static const struct sql SQL_COPIES_BETWEEN = {
    "prove_copies_between",
    "SELECT stream_seq, sha256 FROM svc.event_envelopes WHERE stream_seq BETWEEN $1 AND $2 ORDER BY stream_seq",
    2,
};
static const struct sql SQL_COPIES_PUT = {
    "prove_copies_put",
    "INSERT INTO svc.event_envelopes (stream_seq, tenant_id, lane, message_id, body, sha256)"
    " SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bytea[])"
    " ON CONFLICT (stream_seq) DO UPDATE SET body = excluded.body, sha256 = excluded.sha256",
    6,
};

struct copies {
    struct sql_array seq, tenant, lane, id, body, sha256;
};
#define COPIES_INIT                                                                                    \
    { SQL_ARRAY_INIT(SQL_ARRAY_INT),  SQL_ARRAY_INIT(SQL_ARRAY_TEXT),  SQL_ARRAY_INIT(SQL_ARRAY_TEXT), \
      SQL_ARRAY_INIT(SQL_ARRAY_TEXT), SQL_ARRAY_INIT(SQL_ARRAY_BYTES), SQL_ARRAY_INIT(SQL_ARRAY_BYTES) }

static void copies_free(struct copies *copies)
{
    struct sql_array *const all[] = { &copies->seq, &copies->tenant, &copies->lane,
                                      &copies->id,  &copies->body,   &copies->sha256 };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        sql_array_free(all[i]);
    }
}

static struct fault copies_write(struct tx *tx, struct copies *copies)
{
    struct sql_array *const all[] = { &copies->seq, &copies->tenant, &copies->lane,
                                      &copies->id,  &copies->body,   &copies->sha256 };
    struct sql_arg args[COUNT_OF(all)];
    if (copies->seq.count == 0) {
        return OK;
    }
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        args[i] = sql_array_arg(all[i]);
    }
    TRY(tx_exec(tx, &SQL_COPIES_PUT, args, COUNT_OF(args), NULL));
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        sql_array_clear(all[i]);
    }
    return OK;
}

static struct fault copies_add(struct copies *copies, const struct event_message *message, const struct sha256 *digest)
{
    TRY(sql_array_int(&copies->seq, (int64_t)message->stream_seq));
    TRY(sql_array_put(&copies->tenant, span_text(message->tenant.text)));
    TRY(sql_array_put(&copies->lane, span_text(message->events[0].lane)));
    TRY(sql_array_put(&copies->id, span_text(message->message_id.text)));
    TRY(sql_array_put(&copies->body, message->body));
    return sql_array_put(&copies->sha256, SPAN_ARRAY(digest->at));
}

struct proof {
    const struct projector_config *config;
    struct copies copies;
    uint64_t last, done, written;
    struct sha256 rolling;
};

/* Equal, or missing, or of what an activated generation replaced since; anything else is a log that is another one. */
static struct fault compare_one(struct op *op, struct proof *proof, const struct rows *rows, size_t *row,
                                const struct event_message *message, const struct sha256 *digest)
{
    bool there = *row < rows_count(rows) && (uint64_t)rows_int(rows, *row, 0) == message->stream_seq;
    bool equal = there && span_equal(rows_bytes(rows, *row, 1), SPAN_ARRAY(digest->at));
    *row += there;
    if (there && !equal && !event_log_replaced(proof->config->log, message->stream_seq, NULL)) {
        return op_fail(op, FAULT(LOG_UNTRUSTED), "message %llu of the event log is not the one that was applied before",
                       (unsigned long long)message->stream_seq);
    }
    if (!equal) {
        TRY(copies_add(&proof->copies, message, digest));
        proof->written++;
    }
    return OK;
}

static struct fault compare(struct op *op, struct proof *proof, const struct event_message *messages, size_t count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    size_t row = 0;
    const struct sql_arg args[] = { SQL_INT((int64_t)messages[0].stream_seq),
                                    SQL_INT((int64_t)messages[count - 1].stream_seq) };
    TRY(tx_begin(op, proof->config->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_COPIES_BETWEEN, args, COUNT_OF(args), &rows));
    for (size_t i = 0; i < count; i++) {
        struct sha256 digest;
        TRY(sha256_of(messages[i].body, &digest));
        TRY(rolling_next(&proof->rolling, &digest, &proof->rolling));
        TRY(compare_one(op, proof, rows, &row, &messages[i], &digest));
        if (proof->copies.seq.count >= 512 || proof->copies.body.encoded.len >= ((size_t)4 << 20)) {
            TRY(copies_write(tx, &proof->copies));
        }
    }
    TRY(copies_write(tx, &proof->copies));
    TRY(tx_commit(&tx));
    proof->done = messages[count - 1].stream_seq;
    return OK;
}

static struct fault walk(struct op *op, struct proof *proof, struct event_reader *reader)
{
    CLEANUP(ahead_freep) struct ahead *ahead = NULL;
    TRY(ahead_start("system:prove", reader, proof->last, &ahead));
    while (proof->done < proof->last) {
        struct ahead_batch *batch = NULL;
        REQUIRE(!op_expired(op), DEADLINE);
        struct fault fault = ahead_next(ahead, clock_mono() + READ_NS, &batch);
        if (!FAULTED(fault)) {
            batch->op->deadline = clock_mono() + APPLY_MS * NS_PER_MS;
            fault = compare(batch->op, proof, batch->messages, batch->count);
        }
        if (FAULTED(fault)) {
            const struct fault_note *note = batch != NULL ? &batch->op->note : &op->note;
            op_note_log(op, "%s", note->log_detail);
            return op_fail(op, fault, "the event log cannot be read behind message %llu: %s",
                           (unsigned long long)proof->done, note->set ? note->detail : fault_row(fault.code)->title);
        }
        if (proof->config->on_progress != NULL) {
            proof->config->on_progress(proof->config->arg, proof->done, proof->last);
        }
    }
    return OK;
}

struct fault projection_prove(struct op *op, const struct projector_config *config, uint64_t last,
                              const struct sha256 *rolling, uint64_t *ret_written)
{
    struct event_log_state state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    struct proof proof = { .config = config, .copies = COPIES_INIT, .last = last };
    TRY(event_log_state_now(op, config->log, &state));
    if (state.last_seq < last) {
        return op_fail(op, FAULT(SNAPSHOT_MISMATCH), "the event log ends at message %llu, before message %llu",
                       (unsigned long long)state.last_seq, (unsigned long long)last);
    }
    TRY(event_reader_new(config->log, 1, &reader));
    struct fault fault = walk(op, &proof, reader);
    copies_free(&proof.copies);
    TRY(fault);
    if (!span_equal(SPAN_ARRAY(proof.rolling.at), SPAN_ARRAY(rolling->at))) {
        return op_fail(op, FAULT(SNAPSHOT_MISMATCH), "the event log up to message %llu is another one",
                       (unsigned long long)last);
    }
    *ret_written = proof.written;
    return OK;
}
