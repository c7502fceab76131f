/*
 * Reading ahead: while one batch is applied, a thread reads and decodes the next. At most two batches are held. The
 * reader is the thread's for as long as it runs; the order is that of the log, and a fault comes behind what was read
 * before it.
 */
#include "api/projection/internal.h"

#include "appliance/base/alloc.h"

#include <errno.h>

#define SLOTS   2u
#define POLL_NS (100 * NS_PER_MS) /* so that it notices the end */
#define READ_MS 60000

struct ahead {
    struct event_reader *reader; /* borrowed */
    uint64_t last;               /* reads no further */
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool stopping;
    bool held;            /* the caller has the batch at `taken` */
    size_t filled, taken; /* counts of batches: slot = count % SLOTS */
    struct ahead_batch batches[SLOTS];
};

static void enter(struct ahead *ahead)
{
    BUG_IF(pthread_mutex_lock(&ahead->lock) != 0);
}

static void leave(struct ahead *ahead)
{
    BUG_IF(pthread_cond_broadcast(&ahead->changed) != 0);
    BUG_IF(pthread_mutex_unlock(&ahead->lock) != 0);
}

/* A slot to fill; NULL when it is over. */
static struct ahead_batch *free_slot(struct ahead *ahead)
{
    enter(ahead);
    while (!ahead->stopping && ahead->filled - ahead->taken >= SLOTS) {
        BUG_IF(pthread_cond_wait(&ahead->changed, &ahead->lock) != 0);
    }
    struct ahead_batch *slot = ahead->stopping ? NULL : &ahead->batches[ahead->filled % SLOTS];
    leave(ahead);
    return slot;
}

static bool fill(struct ahead *ahead, struct ahead_batch *batch)
{
    uint64_t left = ahead->last + 1 - event_reader_seq(ahead->reader);
    batch_op_reset(batch->op, READ_MS);
    batch->count = 0;
    batch->fault = batch_read(batch->op, ahead->reader, clock_mono() + POLL_NS, batch->messages,
                              left < BATCH_MESSAGES ? (size_t)left : BATCH_MESSAGES, &batch->count);
    batch->joins = event_reader_joins(ahead->reader);
    return batch->fault.code != FAULT_DEADLINE;
}

static void *run(void *arg)
{
    struct ahead *ahead = arg;
    bool going = true;
    while (going && event_reader_seq(ahead->reader) <= ahead->last) {
        struct ahead_batch *slot = free_slot(ahead);
        if (slot == NULL) {
            break;
        }
        if (fill(ahead, slot)) {
            going = !FAULTED(slot->fault);
            enter(ahead);
            ahead->filled++;
            leave(ahead);
        }
    }
    return NULL;
}

struct fault ahead_start(const char *subject, struct event_reader *reader, uint64_t last, struct ahead **ret_ahead)
{
    CLEANUP(ahead_freep) struct ahead *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->reader = reader;
    made->last = last;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_cond_init(&made->changed, NULL) != 0);
    for (size_t i = 0; i < SLOTS; i++) {
        TRY(batch_op_new(subject, &made->batches[i].op));
    }
    REQUIRE(pthread_create(&made->thread, NULL, run, made) == 0, NO_MEMORY);
    made->runs = true;
    *ret_ahead = TAKE(made);
    return OK;
}

struct fault ahead_next(struct ahead *ahead, mono_ns deadline, struct ahead_batch **ret_batch)
{
    struct timespec time = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    enter(ahead);
    if (ahead->held) {
        ahead->held = false;
        ahead->taken++;
        BUG_IF(pthread_cond_broadcast(&ahead->changed) != 0);
    }
    int waited = 0;
    while (ahead->filled == ahead->taken && waited == 0) {
        waited = pthread_cond_clockwait(&ahead->changed, &ahead->lock, CLOCK_MONOTONIC, &time);
        BUG_IF(waited != 0 && waited != ETIMEDOUT);
    }
    ahead->held = ahead->filled != ahead->taken;
    struct ahead_batch *batch = ahead->held ? &ahead->batches[ahead->taken % SLOTS] : NULL;
    leave(ahead);
    REQUIRE(batch != NULL, DEADLINE);
    *ret_batch = batch;
    return batch->fault;
}

void ahead_free(struct ahead *ahead)
{
    if (ahead == NULL) {
        return;
    }
    enter(ahead);
    ahead->stopping = true;
    leave(ahead);
    if (ahead->runs) {
        BUG_IF(pthread_join(ahead->thread, NULL) != 0);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        op_free(ahead->batches[i].op);
    }
    BUG_IF(pthread_cond_destroy(&ahead->changed) != 0 || pthread_mutex_destroy(&ahead->lock) != 0);
    mem_free(ahead);
}
