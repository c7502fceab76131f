/*
 * An activated generation of a tenant's history into the read model: replacements are staged in pieces, and then, in
 * one transaction, the tenant's copies become the replacements, its projection rows are deleted and written again from
 * the copies, and the checkpoint's rolling digest is made anew. Whoever looks sees the old tenant or the new one. It
 * rests on copies and replacements alone, so it does not matter how far the log is scrubbed, and a crash begins it
 * again.
 */
#include "api/projection/internal.h"

#include "appliance/base/failpoint.h"

#define REGENERATE_MS  3600000
#define PAGE_MESSAGES  128
#define STAGE_MESSAGES 200
#define LOOK_MESSAGES  2000
#define CLEAR_ROWS     20000
#define ROLLING_ROWS   20000

static const struct sql SQL_STAGE_CLEAR = {
    "regenerate_stage_clear",
    "DELETE FROM svc.history_staging WHERE tenant_id = $1",
    1,
};
static const struct sql SQL_STAGE = {
    "regenerate_stage",
    "INSERT INTO svc.history_staging (tenant_id, stream_seq, body, sha256)"
    " SELECT $1, s, b, h FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) AS x (s, b, h)",
    4,
};
static const struct sql SQL_DIGESTS = {
    "regenerate_digests",
    "SELECT stream_seq, sha256 FROM svc.event_envelopes WHERE stream_seq = ANY ($1::bigint[]) ORDER BY stream_seq",
    1,
};
static const struct sql SQL_LOCK = {
    "regenerate_lock",
    "SELECT stream_seq FROM svc.projection_checkpoint WHERE id = 1 FOR UPDATE",
    0,
};
static const struct sql SQL_REPLACE = {
    "regenerate_replace",
    "WITH piece AS (SELECT stream_seq, body, sha256 FROM svc.history_staging WHERE tenant_id = $1 AND stream_seq > $2"
    " ORDER BY stream_seq LIMIT 500), put AS (UPDATE svc.event_envelopes e SET body = p.body, sha256 = p.sha256"
    " FROM piece p WHERE e.stream_seq = p.stream_seq AND e.tenant_id = $1 RETURNING e.stream_seq)"
    " SELECT count(*), coalesce(max(stream_seq), 0) FROM put",
    2,
};
static const struct sql SQL_CLEAR = { "regenerate_clear", "SELECT svc.clear_tenant($1)", 1 };
static const struct sql SQL_PAGE = {
    "regenerate_page",
    "SELECT e.stream_seq, e.body, EXISTS (SELECT FROM svc.event_envelopes o WHERE o.message_id = e.message_id"
    " AND o.stream_seq < e.stream_seq) FROM svc.event_envelopes e"
    " WHERE e.tenant_id = $1 AND e.stream_seq > $2 AND e.stream_seq <= $3 ORDER BY e.stream_seq LIMIT $4",
    4,
};
static const struct sql SQL_ROLLING_PAGE = {
    "regenerate_rolling_page",
    "SELECT stream_seq, sha256 FROM svc.event_envelopes WHERE stream_seq > $1 AND stream_seq <= $2"
    " ORDER BY stream_seq LIMIT $3",
    3,
};
static const struct sql SQL_ROLLING_SET = {
    "regenerate_rolling_set",
    "UPDATE svc.projection_checkpoint SET rolling = $1 WHERE id = 1",
    1,
};
static const struct sql SQL_ACTIVATED = {
    "regenerate_activated",
    "SELECT coalesce(max(stream_seq), 0) FROM svc.audit_generations",
    0,
};
static const struct sql SQL_GENERATION = {
    "projection_generation",
    "INSERT INTO svc.audit_generations (tenant_id, generation, erasure_id, stream_seq, boundary_seq, boundary_sequence,"
    " replaced, digest, superseded_head, new_head, statement, activated_us)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO NOTHING",
    12,
};

struct regeneration {
    struct op *op; /* its own: deadline, and an arena that is forgotten after each piece */
    struct applier *applier;
    struct event_log *log;
    struct tenant_id tenant;
    uint64_t checkpoint;
    struct sha256 rolling;
};

static void forget_piece(struct regeneration *made)
{
    arena_clear(made->op->arena);
    made->op->tenant = made->tenant;
}

/* ---- staging ---- */

static struct fault stage_clear(struct regeneration *made)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(made->op, made->applier->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_exec(tx, &SQL_STAGE_CLEAR, (struct sql_arg[]){ SQL_TEXT(made->tenant.text) }, 1, NULL));
    return tx_commit(&tx);
}

struct stage_piece {
    struct sql_array seq, body, sha256;
};

static struct fault stage_write(struct regeneration *made, struct stage_piece *piece)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct sql_arg args[] = { SQL_TEXT(made->tenant.text), sql_array_arg(&piece->seq), sql_array_arg(&piece->body),
                              sql_array_arg(&piece->sha256) };
    TRY(tx_begin(made->op, made->applier->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_exec(tx, &SQL_STAGE, args, COUNT_OF(args), NULL));
    TRY(tx_commit(&tx));
    sql_array_clear(&piece->seq);
    sql_array_clear(&piece->body);
    sql_array_clear(&piece->sha256);
    forget_piece(made);
    return OK;
}

static struct fault stage_all(struct regeneration *made, const struct event_replacement *entries, size_t count,
                              struct stage_piece *piece)
{
    TRY(stage_clear(made));
    for (size_t i = 0; i < count; i++) {
        struct event_message message;
        const struct event_replacement *entry = &entries[i];
        TRY(event_history_get(made->op, made->log, entry->generation, entry->stream_seq, &entry->digest, &message));
        TRY(sql_array_int(&piece->seq, (int64_t)entry->stream_seq));
        TRY(sql_array_put(&piece->body, message.body));
        TRY(sql_array_put(&piece->sha256, SPAN_ARRAY(entry->digest.at)));
        bool full = piece->seq.count >= STAGE_MESSAGES || piece->body.encoded.len >= ((size_t)4 << 20);
        if (full || i + 1 == count) {
            TRY(stage_write(made, piece));
        }
    }
    return OK;
}

static struct fault stage(struct regeneration *made, const struct event_replacement *entries, size_t count)
{
    struct stage_piece piece = { SQL_ARRAY_INIT(SQL_ARRAY_INT), SQL_ARRAY_INIT(SQL_ARRAY_BYTES),
                                 SQL_ARRAY_INIT(SQL_ARRAY_BYTES) };
    struct fault fault = stage_all(made, entries, count, &piece);
    sql_array_free(&piece.seq);
    sql_array_free(&piece.body);
    sql_array_free(&piece.sha256);
    return fault;
}

/* ---- the transaction ---- */

static struct fault replace_copies(struct regeneration *made, struct tx *tx)
{
    int64_t from = 0;
    for (;;) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        struct sql_arg args[] = { SQL_TEXT(made->tenant.text), SQL_INT(from) };
        TRY(tx_query(tx, &SQL_REPLACE, args, COUNT_OF(args), &rows));
        if (rows_int(rows, 0, 0) == 0) {
            break;
        }
        from = rows_int(rows, 0, 1);
    }
    return tx_queue(tx, &SQL_STAGE_CLEAR, (struct sql_arg[]){ SQL_TEXT(made->tenant.text) }, 1);
}

static struct fault clear_rows(struct tx *tx)
{
    int64_t gone = 1;
    while (gone > 0) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        TRY(tx_query(tx, &SQL_CLEAR, (struct sql_arg[]){ SQL_INT(CLEAR_ROWS) }, 1, &rows));
        gone = rows_int(rows, 0, 0);
    }
    return OK;
}

static struct fault replay_page(struct regeneration *made, struct tx *tx, struct applier *again, uint64_t *from,
                                size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct event_message *messages = NULL;
    bool *applied = NULL;
    struct sql_arg args[] = { SQL_TEXT(made->tenant.text), SQL_INT((int64_t)*from), SQL_INT((int64_t)made->checkpoint),
                              SQL_INT(PAGE_MESSAGES) };
    TRY(tx_query(tx, &SQL_PAGE, args, COUNT_OF(args), &rows));
    size_t count = rows_count(rows);
    *ret_count = count;
    if (count == 0) {
        return OK;
    }
    TRY(arena_take(made->op->arena, count, sizeof(*messages), &messages));
    TRY(arena_take(made->op->arena, count, sizeof(*applied), &applied));
    size_t took = 0;
    while (took < count && arena_used(made->op->arena) < BATCH_ARENA / 4) {
        uint64_t seq = (uint64_t)rows_int(rows, took, 0);
        TRY(event_body_decode(made->op, seq, rows_bytes(rows, took, 1), &messages[took]));
        applied[took] = rows_bool(rows, took, 2);
        took++;
        *from = seq;
    }
    return applier_replay(made->op, tx, again, messages, applied, took);
}

static struct fault replay(struct regeneration *made, struct tx *tx)
{
    CLEANUP(applier_freep) struct applier *again = NULL;
    uint64_t from = 0;
    size_t count = 1;
    TRY(applier_new(&made->applier->config, &again));
    while (count > 0) {
        TRY(replay_page(made, tx, again, &from, &count));
        forget_piece(made);
    }
    return tx_set_tenant(tx, made->tenant);
}

static struct fault roll(struct regeneration *made, struct tx *tx)
{
    uint64_t from = 0;
    made->rolling = (struct sha256){ 0 };
    while (from < made->checkpoint) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        struct sql_arg args[] = { SQL_INT((int64_t)from), SQL_INT((int64_t)made->checkpoint), SQL_INT(ROLLING_ROWS) };
        TRY(tx_query(tx, &SQL_ROLLING_PAGE, args, COUNT_OF(args), &rows));
        for (size_t row = 0; row < rows_count(rows); row++) {
            struct sha256 digest;
            REQUIRE((uint64_t)rows_int(rows, row, 0) == ++from, LOG_UNTRUSTED); /* the copies have no gap */
            memcpy(digest.at, rows_bytes(rows, row, 1).at, SHA256_LEN);
            TRY(rolling_next(&made->rolling, &digest, &made->rolling));
        }
        REQUIRE(rows_count(rows) > 0, LOG_UNTRUSTED);
    }
    return tx_queue(tx, &SQL_ROLLING_SET, (struct sql_arg[]){ SQL_BYTES(SPAN_ARRAY(made->rolling.at)) }, 1);
}

/* expected 0: wherever the checkpoint is. */
static struct fault lock_checkpoint(struct regeneration *made, struct tx *tx, uint64_t expected)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_LOCK, NULL, 0, &rows));
    REQUIRE(rows_count(rows) == 1, CONFLICT);
    made->checkpoint = (uint64_t)rows_int(rows, 0, 0);
    return expected == 0 || made->checkpoint == expected
               ? OK
               : op_fail(made->op, FAULT(CONFLICT), "another projector moved the checkpoint");
}

static struct fault regenerate_in(struct regeneration *made, struct tx *tx, uint64_t expected)
{
    TRY(lock_checkpoint(made, tx, expected));
    TRY(replace_copies(made, tx));
    TRY(clear_rows(tx));
    TRY(replay(made, tx));
    return roll(made, tx);
}

/* ---- at an activation ---- */

static struct fault differs(struct regeneration *made, const struct event_replacement *entries, size_t count,
                            struct event_replacement *stale, size_t *stale_count)
{
    struct sql_array seqs = SQL_ARRAY_INIT(SQL_ARRAY_INT);
    struct tx *tx = NULL;
    struct rows *rows = NULL;
    struct fault fault = OK;
    for (size_t i = 0; i < count && !FAULTED(fault); i++) {
        fault = sql_array_int(&seqs, (int64_t)entries[i].stream_seq);
    }
    fault = FAULTED(fault) ? fault : tx_begin(made->op, made->applier->store, STORE_BOOKKEEPING, &tx);
    if (!FAULTED(fault)) {
        fault = tx_query(tx, &SQL_DIGESTS, (struct sql_arg[]){ sql_array_arg(&seqs) }, 1, &rows);
    }
    for (size_t row = 0, i = 0; !FAULTED(fault) && row < rows_count(rows) && i < count; i++) {
        if ((uint64_t)rows_int(rows, row, 0) == entries[i].stream_seq) {
            if (!span_equal(rows_bytes(rows, row, 1), SPAN_ARRAY(entries[i].digest.at))) {
                stale[(*stale_count)++] = entries[i];
            }
            row++;
        }
    }
    rows_free(rows);
    tx_rollback(tx);
    sql_array_free(&seqs);
    return fault;
}

static struct fault find_stale(struct op *op, struct regeneration *made, uint64_t activation,
                               struct event_replacement **ret_stale, size_t *ret_count)
{
    struct event_replacement *entries = NULL, *stale = NULL;
    size_t count = 0, stale_count = 0;
    TRY(event_log_replacements(op, made->log, made->tenant, activation, &entries, &count));
    TRY(arena_take(op->arena, count + 1, sizeof(*stale), &stale));
    for (size_t from = 0; from < count; from += LOOK_MESSAGES) {
        size_t left = count - from;
        TRY(differs(made, &entries[from], left < LOOK_MESSAGES ? left : LOOK_MESSAGES, stale, &stale_count));
    }
    *ret_stale = stale;
    *ret_count = stale_count;
    return OK;
}

bool message_activates(const struct event_message *message)
{
    for (size_t i = 0; i < message->count; i++) {
        if (strcmp(message->events[i].type, EVENTS_ACTIVATED) == 0) {
            return true;
        }
    }
    return false;
}

static struct fault regenerate_with(struct op *op, struct regeneration *made, const struct event_message *message)
{
    struct event_replacement *stale = NULL;
    struct tx *tx = NULL;
    size_t count = 0;
    if (event_log_activated(made->log) < message->stream_seq) {
        TRY(event_log_history_load(made->op, made->log));
        REQUIRE(event_log_activated(made->log) >= message->stream_seq, LOG_UNTRUSTED);
    }
    TRY(find_stale(op, made, message->stream_seq, &stale, &count));
    if (count == 0) {
        return OK; /* they were written as replacements from the start: a rebuild */
    }
    TRY(stage(made, stale, count));
    TRY(tx_begin(made->op, made->applier->store, STORE_BOOKKEEPING, &tx));
    struct fault fault = regenerate_in(made, tx, message->stream_seq - 1);
    if (FAULTED(fault)) {
        tx_rollback(tx);
        return fault;
    }
    FAILPOINT("projection.before_regenerated");
    TRY(tx_commit(&tx));
    FAILPOINT("projection.after_regenerated");
    made->applier->rolling = made->rolling;
    heads_clear(made->applier->heads);
    return OK;
}

struct fault applier_regenerate(struct op *op, struct applier *applier, const struct event_message *message)
{
    struct regeneration made = { .applier = applier, .log = applier->config.log, .tenant = message->tenant };
    TRY(batch_op_new("system:projector", &made.op));
    batch_op_reset(made.op, REGENERATE_MS);
    made.op->tenant = message->tenant;
    struct fault fault = regenerate_with(op, &made, message);
    if (FAULTED(fault) && !op->note.set) {
        op->note = made.op->note;
    }
    op_free(made.op);
    return fault;
}

struct fault projection_rehearse(struct op *op, struct projector *projector, const struct event_replacement *entries,
                                 size_t count)
{
    struct regeneration made = { .log = projector->config.log, .tenant = op->tenant };
    struct tx *tx = NULL;
    CLEANUP(applier_freep) struct applier *applier = NULL;
    TRY(applier_new(&projector->config, &applier));
    made.applier = applier;
    TRY(batch_op_new("system:rehearsal", &made.op));
    batch_op_reset(made.op, REGENERATE_MS);
    made.op->tenant = op->tenant;
    struct fault fault = stage(&made, entries, count);
    if (!FAULTED(fault)) {
        fault = tx_begin(made.op, applier->store, STORE_BOOKKEEPING, &tx);
    }
    if (!FAULTED(fault)) {
        fault = regenerate_in(&made, tx, 0);
        /* What travels with nothing behind it has to be answered too. */
        CLEANUP(rows_freep) struct rows *rows = NULL;
        fault = FAULTED(fault) ? fault : tx_query(tx, &SQL_ACTIVATED, NULL, 0, &rows);
        tx_rollback(tx);
    }
    if (FAULTED(fault) && !op->note.set) {
        op->note = made.op->note;
    }
    IGNORE(stage_clear(&made));
    op_free(made.op);
    return fault;
}

/* ---- what the read model knows ---- */

struct fault projection_activated(struct op *op, struct store *store, uint64_t *ret_seq)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_ACTIVATED, NULL, 0, &rows));
    *ret_seq = (uint64_t)rows_int(rows, 0, 0);
    return OK;
}

struct fault projection_generation(struct projection *projection, const struct history_generation *generation)
{
    const struct event_view *event = projection->event;
    struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_INT(generation->generation),
        SQL_TEXT(generation->erasure_id),
        SQL_INT((int64_t)event->stream_seq),
        SQL_INT(generation->boundary_seq),
        SQL_INT(generation->boundary_sequence),
        SQL_INT(generation->replaced),
        SQL_BYTES(SPAN_ARRAY(generation->digest.at)),
        SQL_BYTES(SPAN_ARRAY(generation->superseded_head.at)),
        SQL_BYTES(SPAN_ARRAY(generation->new_head.at)),
        SQL_TEXT(generation->statement),
        SQL_INT(event->time),
    };
    return tx_queue(projection->tx, &SQL_GENERATION, args, COUNT_OF(args));
}
