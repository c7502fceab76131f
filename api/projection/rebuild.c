/* The whole log again, into emptied tables: one thread reads, this one applies. */
#include "api/projection/internal.h"

#define READ_NS  (30 * NS_PER_S)
#define APPLY_MS 120000

struct rebuild {
    const struct projector_config *config;
    struct applier *applier;
    struct event_reader *reader;
    uint64_t last; /* of the log, when it began */
    uint64_t messages;
};

static const struct sql SQL_LAST_COPY = {
    "rebuild_last_copy",
    "SELECT coalesce(max(stream_seq), 0) FROM svc.event_envelopes",
    0,
};

static struct fault apply_all(struct rebuild *rebuild, struct ahead_batch *batch)
{
    struct fault fault = OK;
    bool outbox = false;
    uint64_t bad_seq = 0;
    batch->op->deadline = clock_mono() + APPLY_MS * NS_PER_MS;
    for (size_t at = 0; at < batch->count && !FAULTED(fault);) {
        size_t piece = batch_piece(&batch->messages[at], batch->count - at);
        fault = applier_apply(batch->op, rebuild->applier, &batch->messages[at], piece, &outbox, &bad_seq);
        at += piece;
    }
    rebuild->messages += FAULTED(fault) ? 0 : batch->count;
    return fault;
}

static struct fault replay(struct op *op, struct rebuild *rebuild)
{
    CLEANUP(ahead_freep) struct ahead *ahead = NULL;
    TRY(ahead_start("system:rebuild", rebuild->reader, rebuild->last, &ahead));
    while (rebuild->applier->checkpoint < rebuild->last) {
        struct ahead_batch *batch = NULL;
        REQUIRE(!op_expired(op), DEADLINE);
        struct fault fault = ahead_next(ahead, clock_mono() + READ_NS, &batch);
        fault = FAULTED(fault) ? fault : apply_all(rebuild, batch);
        if (!FAULTED(fault) && rebuild->config->on_progress != NULL) {
            rebuild->config->on_progress(rebuild->config->arg, rebuild->applier->checkpoint, rebuild->last);
        }
        if (FAULTED(fault)) {
            const struct fault_note *note = batch != NULL ? &batch->op->note : &op->note;
            op_note_log(op, "%s", note->log_detail);
            return op_fail(op, fault, "stopped after message %llu: %s",
                           (unsigned long long)rebuild->applier->checkpoint, note->detail);
        }
    }
    return OK;
}

/* A log that ends before the copies do has lost its tail. */
static struct fault check_end(struct op *op, const struct rebuild *rebuild)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, rebuild->config->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_LAST_COPY, NULL, 0, &rows));
    uint64_t copies = (uint64_t)rows_int(rows, 0, 0);
    if (copies > rebuild->last) {
        return op_fail(op, FAULT(LOG_UNTRUSTED), "the event log ends at message %llu, and copies exist up to %llu",
                       (unsigned long long)rebuild->last, (unsigned long long)copies);
    }
    return OK;
}

static struct fault rebuild_with(struct op *op, struct rebuild *rebuild)
{
    struct event_log_state state;
    const struct projector_config *config = rebuild->config;
    TRY(applier_new(config, &rebuild->applier));
    TRY(applier_load(op, rebuild->applier));
    TRY(event_log_state_now(op, config->log, &state));
    rebuild->last = state.last_seq;
    TRY(event_reader_new(config->log, rebuild->applier->checkpoint + 1, &rebuild->reader));
    TRY(replay(op, rebuild));
    return check_end(op, rebuild);
}

struct fault projection_rebuild(struct op *op, const struct projector_config *config, uint64_t *ret_messages)
{
    bool held = false;
    CLEANUP(leadership_freep) struct leadership *leadership = NULL;
    TRY(leadership_try(op, config->store, NULL, &leadership, &held));
    if (!held) {
        return op_fail(op, FAULT(CONFLICT), "a projector is running on this database: stop svc-api first");
    }
    struct rebuild rebuild = { .config = config };
    struct fault fault = rebuild_with(op, &rebuild);
    event_reader_free(rebuild.reader);
    applier_free(rebuild.applier);
    TRY(fault);
    *ret_messages = rebuild.messages;
    return OK;
}
