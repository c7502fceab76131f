/*
 * A ring of cells with a turn each: a cell may be filled when its turn is the number of the put, and emptied when it is
 * one more. Whoever puts claims a number by compare-and-set, so nobody ever waits for anybody.
 */
#include "api/telemetry/otlp_internal.h"
#include "appliance/base/alloc.h"

struct cell {
    atomic_size_t turn;
    struct trace_record record;
};

struct otlp_queue {
    struct cell *cells;
    size_t mask;
    alignas(64) atomic_size_t put;
    alignas(64) atomic_size_t taken; /* by the one who takes */
};

struct fault otlp_queue_new(size_t least, struct otlp_queue **ret_queue)
{
    size_t room = 2;
    while (room < least) {
        room *= 2;
    }
    CLEANUP(otlp_queue_freep) struct otlp_queue *queue = NULL;
    TRY(mem_new(1, sizeof(*queue), &queue));
    TRY(mem_new(room, sizeof(*queue->cells), &queue->cells));
    queue->mask = room - 1;
    for (size_t i = 0; i < room; i++) {
        atomic_init(&queue->cells[i].turn, i);
    }
    *ret_queue = TAKE(queue);
    return OK;
}

void otlp_queue_free(struct otlp_queue *queue)
{
    if (queue != NULL) {
        mem_free(queue->cells);
        mem_free(queue);
    }
}

bool otlp_queue_put(struct otlp_queue *queue, const struct trace_record *record)
{
    size_t number = atomic_load_explicit(&queue->put, memory_order_relaxed);
    for (;;) {
        struct cell *cell = &queue->cells[number & queue->mask];
        size_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        if (turn == number) {
            if (atomic_compare_exchange_weak_explicit(&queue->put, &number, number + 1, memory_order_relaxed,
                                                      memory_order_relaxed)) {
                cell->record = *record;
                atomic_store_explicit(&cell->turn, number + 1, memory_order_release);
                return true;
            }
        } else if (turn < number) {
            return false; /* still holds what was put a round ago */
        } else {
            number = atomic_load_explicit(&queue->put, memory_order_relaxed);
        }
    }
}

size_t otlp_queue_take(struct otlp_queue *queue, struct trace_record *records, size_t max)
{
    size_t number = atomic_load_explicit(&queue->taken, memory_order_relaxed), count = 0;
    while (count < max) {
        struct cell *cell = &queue->cells[number & queue->mask];
        if (atomic_load_explicit(&cell->turn, memory_order_acquire) != number + 1) {
            break;
        }
        records[count++] = cell->record;
        atomic_store_explicit(&cell->turn, number + queue->mask + 1, memory_order_release);
        number++;
    }
    atomic_store_explicit(&queue->taken, number, memory_order_relaxed);
    return count;
}

size_t otlp_queue_length(const struct otlp_queue *queue)
{
    size_t taken = atomic_load_explicit(&queue->taken, memory_order_relaxed);
    return atomic_load_explicit(&queue->put, memory_order_relaxed) - taken;
}
