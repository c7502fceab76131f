/*
 * Messages into the read model, one transaction at a time. In a batch the copies, audit records, feature rows and the
 * checkpoint go in together; what is not read is queued, so that a batch costs two round trips. The commit is not
 * waited for on disk (synchronous_commit off): after a crash of the database the checkpoint is as old as the rows are,
 * and the log has the rest.
 */
#include "api/projection/internal.h"

#include "appliance/base/alloc.h"

#define RECORD_MAX    (2 * EVENT_MESSAGE_MAX)
#define FOLD_MESSAGES 8u /* a batch of fewer has little to fold */

static const struct sql SQL_CHECKPOINT_MAKE = {
    "projection_checkpoint_make",
    "INSERT INTO svc.projection_checkpoint (id, stream_seq, rolling) VALUES (1, 0, $1) ON CONFLICT DO NOTHING",
    1,
};
/* The batch's first and only question. Its first row says that the checkpoint was where we thought it was, and has
 * moved (a second projector waits here, and then moves nothing); the others are copies that are there already. Behind
 * SELECT the planner does not see the numbers: it would think that a plan for just these is better, and make one each
 * time, which takes several times as long as the statement. */
static const struct sql SQL_MOVE_AND_COPIES = {
    "projection_move_and_copies",
    "WITH moved AS (UPDATE svc.projection_checkpoint SET stream_seq = $1, rolling = $2 WHERE id = 1 AND stream_seq = $3"
    " RETURNING set_config('synchronous_commit', 'off', true))"
    " SELECT 0::bigint, ''::bytea, '' FROM moved"
    " UNION ALL "
    "SELECT stream_seq, sha256, message_id FROM svc.event_envelopes"
    " WHERE stream_seq > (SELECT $3::bigint) AND stream_seq <= (SELECT $1::bigint)"
    " UNION ALL "
    "SELECT stream_seq, sha256, message_id FROM svc.event_envelopes"
    " WHERE message_id = ANY (string_to_array((SELECT $4::text), ',')) AND stream_seq <= $3",
    4,
};
static const struct sql SQL_COPY_RENEW = {
    "projection_copy_renew",
    "UPDATE svc.event_envelopes SET body = $2, sha256 = $3 WHERE stream_seq = $1",
    3,
};
static const struct sql SQL_AUDIT_HEAD_SET = {
    "projection_audit_head_set",
    "INSERT INTO svc.audit_heads (tenant_id, sequence, chain) VALUES ($1, $2, $3)"
    " ON CONFLICT (tenant_id) DO UPDATE SET sequence = excluded.sequence, chain = excluded.chain",
    3,
};
static const struct sql SQL_FAILURE_SET = {
    "projection_failure_set",
    "INSERT INTO svc.projection_failure (id, stream_seq, code, first_us, attempts) VALUES (1, $1, $2, $3, 1)"
    " ON CONFLICT (id) DO UPDATE SET code = excluded.code, stream_seq = excluded.stream_seq,"
    " first_us = CASE WHEN projection_failure.stream_seq = excluded.stream_seq THEN projection_failure.first_us"
    " ELSE excluded.first_us END,"
    " attempts = CASE WHEN projection_failure.stream_seq = excluded.stream_seq THEN projection_failure.attempts + 1"
    " ELSE 1 END",
    3,
};
static const struct sql SQL_FAILURE_CLEAR = {
    "projection_failure_clear",
    "DELETE FROM svc.projection_failure",
    0,
};
static const struct sql SQL_WHERE = {
    "projection_where",
    "SELECT coalesce((SELECT stream_seq FROM svc.projection_checkpoint), 0),"
    " coalesce((SELECT stream_seq FROM svc.projection_failure), 0),"
    " (SELECT rolling FROM svc.projection_checkpoint)",
    0,
};

/* ---- the rows of all features ---- */

static int row_order(const void *a, const void *b)
{
    const struct event_row *first = *(const struct event_row *const *)a;
    const struct event_row *second = *(const struct event_row *const *)b;
    int types = strcmp(first->type, second->type);
    return types != 0
               ? types
               : (first->schema_version > second->schema_version) - (first->schema_version < second->schema_version);
}

static struct fault sort_rows(const struct projector_config *config, struct applier *applier)
{
    for (size_t i = 0; i < config->table_count; i++) {
        applier->row_count += config->counts[i];
    }
    TRY(mem_new(applier->row_count, sizeof(*applier->rows), &applier->rows));
    size_t at = 0;
    for (size_t i = 0; i < config->table_count; i++) {
        for (size_t j = 0; j < config->counts[i]; j++) {
            applier->rows[at++] = &config->tables[i][j];
        }
    }
    qsort(applier->rows, applier->row_count, sizeof(*applier->rows), row_order);
    for (size_t i = 1; i < applier->row_count; i++) {
        BUG_IF(row_order(&applier->rows[i - 1], &applier->rows[i]) == 0); /* two features claim one event */
    }
    return OK;
}

static const struct event_row *row_of(const struct applier *applier, const struct event_view *event)
{
    struct event_row key = { .type = event->type, .schema_version = event->schema_version };
    const struct event_row *wanted = &key;
    const struct event_row **found =
        bsearch(&wanted, applier->rows, applier->row_count, sizeof(*applier->rows), row_order);
    return found != NULL ? *found : NULL;
}

struct fault applier_new(const struct projector_config *config, struct applier **ret_applier)
{
    CLEANUP(applier_freep) struct applier *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->config = *config;
    made->store = config->store;
    row_columns_init(&made->columns);
    TRY(heads_new(&made->heads));
    TRY(sort_rows(config, made));
    *ret_applier = TAKE(made);
    return OK;
}

void applier_free(struct applier *applier)
{
    if (applier != NULL) {
        heads_free(applier->heads);
        row_columns_free(&applier->columns);
        mem_free(applier->rows);
        mem_free(applier);
    }
}

/* ---- where things stand ---- */

struct fault projection_where(struct op *op, struct store *store, uint64_t *ret_checkpoint, uint64_t *ret_failed_seq,
                              struct sha256 *ret_rolling)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_WHERE, NULL, 0, &rows));
    struct span rolling = rows_bytes(rows, 0, 2);
    REQUIRE(rolling.len == SHA256_LEN || rolling.len == 0, INTERNAL);
    *ret_rolling = (struct sha256){ 0 };
    if (rolling.len == SHA256_LEN) {
        memcpy(ret_rolling->at, rolling.at, SHA256_LEN);
    }
    *ret_checkpoint = (uint64_t)rows_int(rows, 0, 0);
    *ret_failed_seq = (uint64_t)rows_int(rows, 0, 1);
    return OK;
}

struct fault applier_load(struct op *op, struct applier *applier)
{
    struct sha256 zero = { 0 };
    uint64_t failed = 0;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    heads_clear(applier->heads);
    TRY(tx_begin(op, applier->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_exec(tx, &SQL_CHECKPOINT_MAKE, (struct sql_arg[]){ SQL_BYTES(SPAN_ARRAY(zero.at)) }, 1, NULL));
    TRY(tx_commit(&tx));
    TRY(projection_where(op, applier->store, &applier->checkpoint, &failed, &applier->rolling));
    applier->failure_recorded = failed != 0;
    return OK;
}

struct fault applier_record_failure(struct op *op, struct applier *applier, uint64_t stream_seq, struct fault fault)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, applier->store, STORE_BOOKKEEPING, &tx));
    struct sql_arg args[] = { SQL_INT((int64_t)stream_seq), SQL_TEXT(fault_row(fault.code)->text),
                              SQL_INT(clock_utc()) };
    TRY(tx_exec(tx, &SQL_FAILURE_SET, args, COUNT_OF(args), NULL));
    TRY(tx_commit(&tx));
    applier->failure_recorded = true;
    return OK;
}

/* ---- one batch ---- */

struct batch {
    struct applier *applier;
    struct projection projection;
    const struct event_message *messages;
    size_t count;
    struct sha256 *digests; /* of the bodies */
    bool *again;            /* the id was applied before */
    bool *copied;           /* the copy is there already (in a rebuild) */
    bool *stale;            /* likewise, and it is of what an activated generation replaced since */
    uint32_t *by_id;        /* open addressing: 1 + index of the first message of an id; 0 = empty */
    size_t by_id_size;      /* a power of two */
    uint32_t *order;        /* one tenant behind the other, each in the log's order */
    struct sha256 rolling;
    struct buf record;
};

struct fault rolling_next(const struct sha256 *previous, const struct sha256 *body, struct sha256 *ret_next)
{
    static const char domain[] = "svc.log.rolling.v1"; /* with its NUL */
    struct span parts[] = { SPAN_ARRAY(domain), SPAN_ARRAY(previous->at), SPAN_ARRAY(body->at) };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_next);
}

static struct fault hash_bodies(struct op *op, struct batch *batch)
{
    TRY(arena_take(op->arena, batch->count, sizeof(*batch->digests), &batch->digests));
    batch->rolling = batch->applier->rolling;
    for (size_t i = 0; i < batch->count; i++) {
        TRY(sha256_of(batch->messages[i].body, &batch->digests[i]));
        TRY(rolling_next(&batch->rolling, &batch->digests[i], &batch->rolling));
    }
    return OK;
}

/* The slot of an id: of the first message that has it, or the empty one where it belongs. */
static uint32_t *slot_of(const struct batch *batch, struct span id)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (size_t i = 0; i < id.len; i++) {
        hash = (hash ^ id.at[i]) * 1099511628211u;
    }
    for (size_t at = (size_t)hash;; at++) {
        uint32_t *slot = &batch->by_id[at & (batch->by_id_size - 1)];
        if (*slot == 0 || span_equal_text(id, batch->messages[*slot - 1].message_id.text)) {
            return slot;
        }
    }
}

/* An id that stands in the batch twice counts the first time. */
static struct fault index_ids(struct op *op, struct batch *batch)
{
    batch->by_id_size = 16;
    while (batch->by_id_size < 2 * batch->count) {
        batch->by_id_size *= 2;
    }
    TRY(arena_take(op->arena, batch->count, sizeof(*batch->again), &batch->again));
    TRY(arena_take(op->arena, batch->count, sizeof(*batch->copied), &batch->copied));
    TRY(arena_take(op->arena, batch->count, sizeof(*batch->stale), &batch->stale));
    TRY(arena_take(op->arena, batch->by_id_size, sizeof(*batch->by_id), &batch->by_id));
    for (size_t i = 0; i < batch->count; i++) {
        uint32_t *slot = slot_of(batch, span_text(batch->messages[i].message_id.text));
        batch->again[i] = *slot != 0;
        *slot = *slot != 0 ? *slot : (uint32_t)i + 1;
    }
    return OK;
}

static int by_tenant(const void *a, const void *b, void *of)
{
    const struct event_message *messages = of;
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    int tenants = strcmp(messages[first].tenant.text, messages[second].tenant.text);
    return tenants != 0 ? tenants : (first > second) - (first < second);
}

/* What a projection reads and writes is its tenant's, so tenants may be applied one behind the other within the
 * transaction: the rows of each are then written by few statements. */
static struct fault order_by_tenant(struct op *op, struct batch *batch)
{
    TRY(arena_take(op->arena, batch->count, sizeof(*batch->order), &batch->order));
    for (size_t i = 0; i < batch->count; i++) {
        batch->order[i] = (uint32_t)i;
    }
    qsort_r(batch->order, batch->count, sizeof(*batch->order), by_tenant, (void *)batch->messages);
    return OK;
}

/* A copy that is there already (in a rebuild) must be equal; an id that is there already was applied. */
static struct fault compare_copy(struct op *op, struct batch *batch, const struct rows *rows, size_t row,
                                 uint64_t *ret_bad_seq)
{
    uint64_t first = batch->messages[0].stream_seq, seq = (uint64_t)rows_int(rows, row, 0);
    struct span digest = rows_bytes(rows, row, 1), id = rows_bytes(rows, row, 2);
    bool equal = seq < first || span_equal(digest, SPAN_ARRAY(batch->digests[seq - first].at));
    if (!equal && event_log_replaced(batch->applier->config.log, seq, NULL)) {
        batch->stale[seq - first] = true; /* the log reads as the replacement, whose digest was compared */
    } else if (!equal) {
        *ret_bad_seq = seq;
        return op_fail(op, FAULT(LOG_UNTRUSTED), "message %llu of the event log is not the one that was applied before",
                       (unsigned long long)seq);
    }
    if (seq >= first) {
        batch->copied[seq - first] = true;
    }
    uint32_t slot = *slot_of(batch, id);
    if (slot != 0 && seq < batch->messages[slot - 1].stream_seq) {
        batch->again[slot - 1] = true;
    }
    return OK;
}

static struct fault begin_batch(struct op *op, struct tx *tx, struct batch *batch, uint64_t *ret_bad_seq)
{
    CLEANUP(buf_free) struct buf ids = BUF_INIT(BATCH_MESSAGES * sizeof(struct uuid));
    CLEANUP(rows_freep) struct rows *rows = NULL;
    for (size_t i = 0; i < batch->count; i++) {
        TRY(buf_text(&ids, i > 0 ? "," : ""));
        TRY(buf_text(&ids, batch->messages[i].message_id.text));
    }
    struct sql_arg args[] = { SQL_INT((int64_t)batch->messages[batch->count - 1].stream_seq),
                              SQL_BYTES(SPAN_ARRAY(batch->rolling.at)), SQL_INT((int64_t)batch->applier->checkpoint),
                              SQL_SPAN(buf_span(&ids)) };
    TRY(tx_query(tx, &SQL_MOVE_AND_COPIES, args, COUNT_OF(args), &rows));
    bool moved = false;
    for (size_t row = 0; row < rows_count(rows); row++) {
        if (rows_int(rows, row, 0) == 0) {
            moved = true;
        } else {
            TRY(compare_copy(op, batch, rows, row, ret_bad_seq));
        }
    }
    return moved ? OK : op_fail(op, FAULT(CONFLICT), "another projector moved the checkpoint");
}

struct fault applier_project(const struct applier *applier, struct projection *projection,
                             const struct event_view *event)
{
    const struct event_row *row = row_of(applier, event);
    REQUIRE(row != NULL, PROJECTION_FAILED);
    return row->project != NULL ? row->project(projection, event) : OK;
}

static struct fault apply_event(struct batch *batch, const struct event_view *event)
{
    struct projection *projection = &batch->projection;
    struct head *head = NULL;
    const struct event_row *row = row_of(batch->applier, event);
    if (row == NULL) {
        return op_fail(projection->op, FAULT(PROJECTION_FAILED), "no feature of this version knows %s of version %lld",
                       event->type, (long long)event->schema_version);
    }
    TRY(heads_get(projection->tx, batch->applier->heads, event->tenant, &head));
    projection->event = event;
    projection->sequence = head->next_sequence + 1;
    TRY(projection_insert_record(projection, head, &batch->record));
    return row->project != NULL ? row->project(projection, event) : OK;
}

static struct fault set_heads(struct batch *batch, struct tx *tx)
{
    for (struct head *head = heads_touched(batch->applier->heads); head != NULL; head = head->touched) {
        TRY(tx_set_tenant(tx, head->tenant));
        struct sql_arg args[] = { SQL_TEXT(head->tenant.text), SQL_INT(head->next_sequence),
                                  SQL_BYTES(SPAN_ARRAY(head->next_chain.at)) };
        TRY(tx_queue(tx, &SQL_AUDIT_HEAD_SET, args, COUNT_OF(args)));
    }
    return OK;
}

static struct fault renew_copy(struct tx *tx, const struct event_message *message, const struct sha256 *digest)
{
    struct sql_arg args[] = { SQL_INT((int64_t)message->stream_seq), SQL_BYTES(message->body),
                              SQL_BYTES(SPAN_ARRAY(digest->at)) };
    return tx_queue(tx, &SQL_COPY_RENEW, args, COUNT_OF(args));
}

static void begin_turn(struct batch *batch, size_t at)
{
    size_t end = at + 1;
    struct tenant_id tenant = batch->messages[batch->order[at]].tenant;
    while (end < batch->count && tenant_id_equal(batch->messages[batch->order[end]].tenant, tenant)) {
        end++;
    }
    batch->projection.turn = end - at;
    batch->projection.note_count = 0;
}

static struct fault apply_messages(struct op *op, struct tx *tx, struct batch *batch)
{
    for (size_t at = 0; at < batch->count; at++) {
        size_t i = batch->order[at];
        const struct event_message *message = &batch->messages[i];
        if (!tenant_id_equal(op->tenant, message->tenant)) {
            TRY(projection_fold_write(&batch->projection));
            TRY(projection_rows_write(&batch->projection));
            begin_turn(batch, at);
            op->tenant = message->tenant;
            batch->projection.columns->tenant = message->tenant;
            TRY(tx_set_tenant(tx, message->tenant));
        }
        batch->projection.outbox_rows = 0;
        TRY(batch->copied[i] ? OK : projection_insert_copy(&batch->projection, message, &batch->digests[i]));
        TRY(batch->stale[i] ? renew_copy(tx, message, &batch->digests[i]) : OK);
        for (size_t j = 0; j < message->count && !batch->again[i]; j++) {
            memcpy(op->trace_id, message->events[j].trace_id, strlen(message->events[j].trace_id) + 1);
            TRY(apply_event(batch, &message->events[j]));
        }
    }
    TRY(projection_fold_write(&batch->projection));
    TRY(projection_rows_write(&batch->projection));
    TRY(projection_tallies_write(&batch->projection));
    return set_heads(batch, tx);
}

static struct fault apply_in(struct op *op, struct tx **tx, struct batch *batch, uint64_t *ret_bad_seq)
{
    TRY(tx_begin(op, batch->applier->store, STORE_BOOKKEEPING, tx));
    batch->projection.tx = *tx;
    TRY(begin_batch(op, *tx, batch, ret_bad_seq));
    TRY(apply_messages(op, *tx, batch));
    if (batch->applier->failure_recorded) {
        TRY(tx_queue(*tx, &SQL_FAILURE_CLEAR, NULL, 0));
    }
    return tx_commit(tx);
}

struct fault applier_replay(struct op *op, struct tx *tx, struct applier *applier, const struct event_message *messages,
                            const bool *again, size_t count)
{
    struct batch batch = {
        .applier = applier,
        .projection = { .op = op, .tx = tx, .columns = &applier->columns },
        .messages = messages,
        .count = count,
        .record = BUF_INIT(RECORD_MAX),
    };
    row_columns_clear(&applier->columns);
    op->tenant = (struct tenant_id){ "" };
    heads_begin(applier->heads);
    struct fault fault = hash_bodies(op, &batch);
    fault = FAULTED(fault) ? fault : index_ids(op, &batch);
    fault = FAULTED(fault) ? fault : order_by_tenant(op, &batch);
    for (size_t i = 0; i < count && !FAULTED(fault); i++) {
        batch.again[i] = again[i];
        batch.copied[i] = true;
    }
    fault = FAULTED(fault) ? fault : apply_messages(op, tx, &batch);
    buf_free(&batch.record);
    TRY(fault);
    heads_commit(applier->heads);
    return OK;
}

/* A transaction of its own. */
static struct fault attempt(struct op *op, struct batch *batch, bool folds, uint64_t *ret_bad_seq)
{
    struct tx *tx = NULL;
    batch->projection = (struct projection){ .op = op, .columns = &batch->applier->columns };
    row_columns_clear(&batch->applier->columns);
    op->tenant = (struct tenant_id){ "" };
    heads_begin(batch->applier->heads);
    struct fault fault = hash_bodies(op, batch);
    fault = FAULTED(fault) ? fault : index_ids(op, batch);
    fault = FAULTED(fault) ? fault : order_by_tenant(op, batch);
    fault = FAULTED(fault) || !folds ? fault : fold_new(op, &batch->projection.fold);
    fault = FAULTED(fault) ? fault : apply_in(op, &tx, batch, ret_bad_seq);
    tx_rollback(tx);
    fold_done(batch->projection.fold);
    return fault;
}

struct fault applier_apply(struct op *op, struct applier *applier, const struct event_message *messages, size_t count,
                           bool *ret_outbox, uint64_t *ret_bad_seq)
{
    BUG_IF(count == 0 || count > BATCH_MESSAGES || messages[0].stream_seq != applier->checkpoint + 1);
    struct batch batch = {
        .applier = applier,
        .messages = messages,
        .count = count,
        .record = BUF_INIT(RECORD_MAX),
    };
    bool folds = count >= FOLD_MESSAGES;
    bool activates = message_activates(&messages[0]);
    BUG_IF(activates && count > 1);
    if (activates) {
        int64_t ms = clock_ms_left(op->deadline);
        TRY(applier_regenerate(op, applier, &messages[0]));
        op->deadline = clock_mono() + ms * NS_PER_MS; /* that has a deadline of its own */
    }
    struct fault fault = attempt(op, &batch, folds, ret_bad_seq);
    if (folds && fault.code == FAULT_DUPLICATE) { /* a folded row met one that stands there */
        op->note = (struct fault_note){ 0 };
        fault = attempt(op, &batch, false, ret_bad_seq);
    }
    buf_free(&batch.record);
    TRY(fault);
    heads_commit(applier->heads);
    applier->checkpoint = messages[count - 1].stream_seq;
    applier->rolling = batch.rolling;
    applier->failure_recorded = false;
    *ret_outbox = batch.projection.outbox || activates;
    return OK;
}
