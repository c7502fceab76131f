#include "api/tsa/internal.h"

#include "appliance/base/alloc.h"

#include <pthread.h>

#define BATCH_MAX      64 /* events of one message */
#define EVENT_DATA_MAX 2048

/*
 * Whoever finds no leader leads: takes what waits (itself included, as it stands in the queue), appends it as one
 * message, tells everybody. Who comes meanwhile waits for the next leader, who is one of them. An entry belongs to its
 * caller until it is taken; a caller whose deadline passes while the leader has it leaves it behind for the leader to
 * free. The queue is bounded by the bulkhead of the route.
 */
enum entry_state { ENTRY_WAITING, ENTRY_TAKEN, ENTRY_DONE, ENTRY_LEFT };

struct entry {
    struct entry *next;
    enum entry_state state; /* guarded by lock */
    struct fault fault;     /* of the append, when DONE */
    struct buf data;        /* immutable while in the queue or taken */
};

struct tsa_recorder {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    struct entry *first, **last;
    bool leading;
};

static void entry_free(struct entry *entry)
{
    if (entry != NULL) {
        buf_free(&entry->data);
        mem_free(entry);
    }
}
DEFINE_FREEP(struct entry, entry_free)

struct fault tsa_recorder_new(struct tsa_recorder **ret_recorder)
{
    struct tsa_recorder *made = NULL;
    pthread_condattr_t monotonic;
    TRY(mem_new(1, sizeof(*made), &made));
    made->last = &made->first;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0 ||
           pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
           pthread_cond_init(&made->changed, &monotonic) != 0 || pthread_condattr_destroy(&monotonic) != 0);
    *ret_recorder = made;
    return OK;
}

void tsa_recorder_free(struct tsa_recorder *recorder)
{
    if (recorder == NULL) {
        return;
    }
    BUG_IF(recorder->first != NULL || recorder->leading);
    BUG_IF(pthread_cond_destroy(&recorder->changed) != 0 || pthread_mutex_destroy(&recorder->lock) != 0);
    mem_free(recorder);
}

static size_t take_locked(struct tsa_recorder *recorder, struct entry *batch[BATCH_MAX])
{
    size_t count = 0;
    while (recorder->first != NULL && count < BATCH_MAX) {
        struct entry *entry = recorder->first;
        recorder->first = entry->next;
        entry->state = ENTRY_TAKEN;
        batch[count++] = entry;
    }
    if (recorder->first == NULL) {
        recorder->last = &recorder->first;
    }
    return count;
}

static void remove_locked(struct tsa_recorder *recorder, struct entry *gone)
{
    struct entry **at = &recorder->first;
    while (*at != gone) {
        at = &(*at)->next;
    }
    *at = gone->next;
    if (recorder->last == &gone->next) {
        recorder->last = at;
    }
}

static struct fault append(struct op *op, struct event_log *log, struct entry *const *batch, size_t count)
{
    struct event events[BATCH_MAX];
    uint64_t sequence = 0;
    for (size_t i = 0; i < count; i++) {
        events[i] = (struct event){
            .type = "tsa.timestamp.issued",
            .schema_version = 1,
            .data = buf_span(&batch[i]->data),
        };
    }
    struct event_append message = { .lane = "tsa", .events = events, .count = count };
    return events_append(op, log, &message, &sequence);
}

static void lead_locked(struct op *op, struct event_log *log, struct tsa_recorder *recorder)
{
    struct entry *batch[BATCH_MAX];
    size_t count = take_locked(recorder, batch);
    recorder->leading = true;
    BUG_IF(pthread_mutex_unlock(&recorder->lock) != 0);
    struct fault fault = append(op, log, batch, count);
    BUG_IF(pthread_mutex_lock(&recorder->lock) != 0);
    recorder->leading = false;
    for (size_t i = 0; i < count; i++) {
        if (batch[i]->state == ENTRY_LEFT) {
            entry_free(batch[i]);
            continue;
        }
        batch[i]->state = ENTRY_DONE;
        batch[i]->fault = fault;
    }
    BUG_IF(pthread_cond_broadcast(&recorder->changed) != 0);
}

/* False when the deadline has passed: the entry is then out of the queue, or LEFT to the leader that carries it. */
static bool wait_locked(const struct op *op, struct tsa_recorder *recorder, struct entry *entry)
{
    struct timespec until = { .tv_sec = op->deadline / NS_PER_S, .tv_nsec = op->deadline % NS_PER_S };
    if (pthread_cond_timedwait(&recorder->changed, &recorder->lock, &until) == 0 || entry->state == ENTRY_DONE) {
        return true;
    }
    if (entry->state == ENTRY_TAKEN) {
        entry->state = ENTRY_LEFT;
    } else {
        remove_locked(recorder, entry);
    }
    return false;
}

struct fault tsa_record(struct op *op, struct event_log *log, struct tsa_recorder *recorder, struct span data)
{
    CLEANUP(entry_freep) struct entry *entry = NULL;
    TRY(mem_new(1, sizeof(*entry), &entry));
    entry->data = (struct buf)BUF_INIT(EVENT_DATA_MAX);
    TRY(buf_put(&entry->data, data));

    bool in_time = true;
    BUG_IF(pthread_mutex_lock(&recorder->lock) != 0);
    *recorder->last = entry;
    recorder->last = &entry->next;
    while (in_time && entry->state != ENTRY_DONE) {
        if (recorder->leading) {
            in_time = wait_locked(op, recorder, entry);
        } else {
            lead_locked(op, log, recorder);
        }
    }
    struct fault fault = entry->fault;
    if (entry->state == ENTRY_LEFT) {
        (void)TAKE(entry); /* the leader's to free, as soon as the lock is given back */
    }
    BUG_IF(pthread_mutex_unlock(&recorder->lock) != 0);
    return in_time ? fault : op_fail(op, FAULT(DEADLINE), "the time stamp could not be recorded in time; try again");
}
