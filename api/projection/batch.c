#include "api/projection/internal.h"

struct fault batch_op_new(const char *subject, struct op **ret_op)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    TRY(arena_new(BATCH_ARENA, &arena));
    TRY(op_new(subject, (struct tenant_id){ "" }, 0, &op));
    arena_free(op->arena);
    op->arena = TAKE(arena);
    *ret_op = TAKE(op);
    return OK;
}

void batch_op_reset(struct op *op, int timeout_ms)
{
    arena_clear(op->arena);
    op->note = (struct fault_note){ 0 };
    op->tenant = (struct tenant_id){ "" };
    op->deadline = clock_mono() + timeout_ms * NS_PER_MS;
}

struct fault batch_read(struct op *op, struct event_reader *reader, mono_ns deadline, struct event_message *messages,
                        size_t max, size_t *ret_count)
{
    size_t count = 0, bytes = 0;
    mono_ns until = deadline;
    while (count < max && bytes < BATCH_BYTES && arena_used(op->arena) < BATCH_ARENA / 2) {
        struct fault fault = event_reader_next(op, reader, until, &messages[count]);
        if (FAULTED(fault)) {
            if (count == 0) {
                return fault;
            }
            break;
        }
        bytes += messages[count++].body.len;
        mono_ns now = clock_mono();
        if (count == 1) {
            deadline = now + BATCH_NS;
        }
        if (now >= deadline) {
            break;
        }
        until = now; /* no more waiting: only what has arrived */
    }
    *ret_count = count;
    return OK;
}

size_t batch_piece(const struct event_message *messages, size_t count)
{
    size_t piece = 0;
    while (piece < count && !message_activates(&messages[piece])) {
        piece++;
    }
    return piece > 0 || count == 0 ? piece : 1;
}
