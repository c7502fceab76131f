/* The whole log again, into emptied tables, without threads. */
#include "api/projection/internal.h"

#define READ_NS  (30 * NS_PER_S)
#define APPLY_MS 120000

struct rebuild {
    const struct projector_config *config;
    struct applier *applier;
    struct event_reader *reader;
    struct op *op;
    uint64_t last; /* of the log, when it began */
    uint64_t messages;
    struct event_message batch[BATCH_MESSAGES];
};

static const struct sql SQL_LAST_COPY = {
    "rebuild_last_copy",
    "SELECT coalesce(max(stream_seq), 0) FROM svc.event_envelopes",
    0,
};

static struct fault replay(struct op *op, struct rebuild *rebuild)
{
    while (rebuild->applier->checkpoint < rebuild->last) {
        size_t count = 0;
        bool outbox = false;
        uint64_t bad_seq = 0, left = rebuild->last - rebuild->applier->checkpoint;
        REQUIRE(!op_expired(op), DEADLINE);
        batch_op_reset(rebuild->op, APPLY_MS);
        struct fault fault = batch_read(rebuild->op, rebuild->reader, clock_mono() + READ_NS, rebuild->batch,
                                        left < BATCH_MESSAGES ? left : BATCH_MESSAGES, &count);
        if (!FAULTED(fault)) {
            fault = applier_apply(rebuild->op, rebuild->applier, rebuild->batch, count, &outbox, &bad_seq);
        }
        if (FAULTED(fault)) {
            op_note_log(op, "%s", rebuild->op->note.log_detail);
            return op_fail(op, fault, "stopped after message %llu: %s",
                           (unsigned long long)rebuild->applier->checkpoint, rebuild->op->note.detail);
        }
        rebuild->messages += count;
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
    TRY(batch_op_new("system:rebuild", &rebuild->op));
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
    CLEANUP(store_lock_freep) struct store_lock *leadership = NULL;
    TRY(store_lock_try(op, config->store, STORE_LOCK_PROJECTOR, &leadership, &held));
    if (!held) {
        return op_fail(op, FAULT(CONFLICT), "a projector is running on this database: stop svc-api first");
    }
    struct rebuild rebuild = { .config = config };
    struct fault fault = rebuild_with(op, &rebuild);
    event_reader_free(rebuild.reader);
    applier_free(rebuild.applier);
    op_free(rebuild.op);
    TRY(fault);
    *ret_messages = rebuild.messages;
    return OK;
}
