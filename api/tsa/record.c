#include "api/tsa/internal.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#define BATCH_MAX      64 /* events of one message */
#define EVENT_DATA_MAX 2048

/*
 * Whoever finds no leader leads: takes what waits (itself included, as it stands in the queue), appends it as one
 * message, and tells each of them; then the first of those who came meanwhile leads. Nobody is woken for another's
 * sake. A message has one actor, so a leader takes those who came behind it up to the first of somebody else's. An
 * entry belongs to its caller until it is taken; a caller whose deadline passes while the leader has it leaves
 * it behind for the leader to free. The queue is bounded by the bulkhead of the route.
 */
enum entry_state { ENTRY_WAITING, ENTRY_LEADS, ENTRY_TAKEN, ENTRY_DONE, ENTRY_LEFT };

struct entry {
    struct entry *next;
    enum entry_state state;        /* guarded by lock */
    struct fault fault;            /* of the append, when DONE */
    const struct principal *actor; /* of its caller's operation; looked at while it WAITS */
    sem_t told;                    /* posted when it is DONE or LEADS */
    struct buf data;               /* immutable while in the queue or taken */
};

struct tsa_recorder {
    pthread_mutex_t lock;
    struct entry *first, **last;
    bool leading; /* somebody leads, or has been told to */
};

static void entry_free(struct entry *entry)
{
    if (entry != NULL) {
        (void)sem_destroy(&entry->told);
        buf_free(&entry->data);
        mem_free(entry);
    }
}
DEFINE_FREEP(struct entry, entry_free)

struct fault tsa_recorder_new(struct tsa_recorder **ret_recorder)
{
    struct tsa_recorder *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->last = &made->first;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    *ret_recorder = made;
    return OK;
}

void tsa_recorder_free(struct tsa_recorder *recorder)
{
    if (recorder == NULL) {
        return;
    }
    BUG_IF(recorder->first != NULL || recorder->leading);
    BUG_IF(pthread_mutex_destroy(&recorder->lock) != 0);
    mem_free(recorder);
}

static bool same_actor(const struct principal *a, const struct principal *b)
{
    bool same = strcmp(a->subject, b->subject) == 0 && a->role_count == b->role_count;
    for (size_t i = 0; same && i < a->role_count; i++) {
        same = strcmp(a->roles[i], b->roles[i]) == 0;
    }
    return same;
}

/* A leader stands first in the queue: whoever led before it took all up to there. */
static size_t take_locked(struct tsa_recorder *recorder, const struct principal *actor, struct entry *batch[BATCH_MAX])
{
    size_t count = 0;
    while (recorder->first != NULL && count < BATCH_MAX && same_actor(recorder->first->actor, actor)) {
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

static void tell_locked(struct entry *entry, enum entry_state state)
{
    entry->state = state;
    BUG_IF(sem_post(&entry->told) != 0);
}

/* The first who waits leads from here on. */
static void pass_on_locked(struct tsa_recorder *recorder)
{
    recorder->leading = recorder->first != NULL;
    if (recorder->leading) {
        tell_locked(recorder->first, ENTRY_LEADS);
    }
}

/* Until its own entry is done. */
static void lead_locked(struct op *op, struct event_log *log, struct tsa_recorder *recorder, struct entry *own)
{
    while (own->state != ENTRY_DONE) {
        struct entry *batch[BATCH_MAX];
        size_t count = take_locked(recorder, &op->principal, batch);
        BUG_IF(pthread_mutex_unlock(&recorder->lock) != 0);
        struct fault fault = append(op, log, batch, count);
        BUG_IF(pthread_mutex_lock(&recorder->lock) != 0);
        for (size_t i = 0; i < count; i++) {
            if (batch[i]->state == ENTRY_LEFT) {
                entry_free(batch[i]);
                continue;
            }
            batch[i]->fault = fault;
            if (batch[i] == own) {
                own->state = ENTRY_DONE;
            } else {
                tell_locked(batch[i], ENTRY_DONE);
            }
        }
    }
    pass_on_locked(recorder);
}

/* Until it is told something, or its deadline. */
static void wait_for_word(const struct op *op, struct entry *entry)
{
    struct timespec until = { .tv_sec = op->deadline / NS_PER_S, .tv_nsec = op->deadline % NS_PER_S };
    while (sem_clockwait(&entry->told, CLOCK_MONOTONIC, &until) != 0) {
        if (errno != EINTR) {
            return;
        }
    }
}

/* Its deadline has passed and nobody has told it anything: out of the queue, or LEFT to the leader that carries it. */
static void give_up_locked(struct tsa_recorder *recorder, struct entry *entry)
{
    if (entry->state == ENTRY_TAKEN) {
        entry->state = ENTRY_LEFT;
    } else {
        remove_locked(recorder, entry);
    }
}

struct fault tsa_record(struct op *op, struct event_log *log, struct tsa_recorder *recorder, struct span data)
{
    CLEANUP(entry_freep) struct entry *entry = NULL;
    TRY(mem_new(1, sizeof(*entry), &entry));
    BUG_IF(sem_init(&entry->told, 0, 0) != 0);
    entry->data = (struct buf)BUF_INIT(EVENT_DATA_MAX);
    entry->actor = &op->principal;
    TRY(buf_put(&entry->data, data));

    BUG_IF(pthread_mutex_lock(&recorder->lock) != 0);
    *recorder->last = entry;
    recorder->last = &entry->next;
    bool leads = !recorder->leading;
    recorder->leading = true;
    if (!leads) {
        BUG_IF(pthread_mutex_unlock(&recorder->lock) != 0);
        wait_for_word(op, entry);
        BUG_IF(pthread_mutex_lock(&recorder->lock) != 0);
        leads = entry->state == ENTRY_LEADS;
    }
    if (leads && !op_expired(op)) {
        lead_locked(op, log, recorder, entry);
    }
    bool in_time = entry->state == ENTRY_DONE;
    struct fault fault = entry->fault;
    if (!in_time) {
        give_up_locked(recorder, entry);
    }
    if (leads && !in_time) {
        pass_on_locked(recorder); /* the others have time left */
    }
    if (entry->state == ENTRY_LEFT) {
        (void)TAKE(entry); /* the leader's to free, as soon as the lock is given back */
    }
    BUG_IF(pthread_mutex_unlock(&recorder->lock) != 0);
    return in_time ? fault : op_fail(op, FAULT(DEADLINE), "the time stamp could not be recorded in time; try again");
}
