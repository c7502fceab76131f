#include "api/tsa/internal.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#define BATCH_MAX 64    /* events of one message */
#ifndef GATHER_LEAST_NS /* tests have more patience */
#define GATHER_LEAST_NS (1500 * NS_PER_MS / 1000)
#define GATHER_MOST_NS  (10 * NS_PER_MS)
#endif
#ifndef APPENDS_MAX
/* Under way at a time. A second one could be stored before the first, which then is the newest message of the lane and
 * states earlier times: clock_mark.c reads that one alone. */
#define APPENDS_MAX 1
#endif
#define ENTRY_DATA_MAX ((size_t)TSA_BATCH_MAX * 2048)

/*
 * Whoever finds the queue empty and a place free leads: takes what waits (itself first), appends it as one message, and
 * tells each of them; then the first of those who came meanwhile has its place. So while anybody waits either all
 * places are taken, or the first in the queue leads and will take it. Nobody is woken for another's sake. A message
 * costs the log much the same whether it holds one event or ten: so a leader with others on their way
 * (tsa_record_expect) waits until half of them are here, or a quarter of what a signature usually takes. A message has
 * one actor, so a leader takes those who came behind it up to the first of somebody else's. An entry belongs to its
 * caller until it is taken; a caller whose deadline passes while the leader has it leaves it behind for the leader to
 * free. The queue is bounded by the bulkhead of the route.
 */
enum entry_state { ENTRY_WAITING, ENTRY_LEADS, ENTRY_TAKEN, ENTRY_DONE, ENTRY_LEFT };

struct entry {
    struct entry *next;
    enum entry_state state;        /* guarded by lock */
    struct fault fault;            /* of the append, when DONE */
    uint64_t sequence;             /* of the message that holds it, when DONE without a fault */
    const struct principal *actor; /* of its caller's operation; looked at while it WAITS */
    sem_t told;                    /* posted when it is DONE or LEADS */
    size_t count;                  /* of events */
    size_t ends[TSA_BATCH_MAX];    /* where each ends in data */
    struct buf data;               /* immutable, as these two, while in the queue or taken */
};

struct tsa_recorder {
    pthread_mutex_t lock;
    struct entry *first, **last;
    size_t queued;
    unsigned leaders;         /* who lead, or have been told to */
    size_t gather;            /* queued entries that the leader waits for; 0 = it does not */
    pthread_cond_t gathered;  /* on CLOCK_MONOTONIC */
    atomic_size_t on_the_way; /* callers that have begun and are not queued yet */
    _Atomic(mono_ns) usual;   /* how long they have been on their way of late */
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
    atomic_init(&made->on_the_way, 0);
    atomic_init(&made->usual, 0);
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_cond_init(&made->gathered, NULL) != 0);
    *ret_recorder = made;
    return OK;
}

void tsa_recorder_free(struct tsa_recorder *recorder)
{
    if (recorder == NULL) {
        return;
    }
    BUG_IF(recorder->first != NULL || recorder->leaders != 0 || atomic_load(&recorder->on_the_way) != 0);
    BUG_IF(pthread_cond_destroy(&recorder->gathered) != 0 || pthread_mutex_destroy(&recorder->lock) != 0);
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

/* A leader stands first in the queue: who comes behind it does not lead before it has taken what it takes. */
static size_t take_locked(struct tsa_recorder *recorder, const struct principal *actor, struct entry *batch[BATCH_MAX])
{
    size_t count = 0;
    size_t events = 0;
    while (recorder->first != NULL && events + recorder->first->count <= BATCH_MAX &&
           same_actor(recorder->first->actor, actor)) {
        struct entry *entry = recorder->first;
        events += entry->count;
        recorder->first = entry->next;
        entry->state = ENTRY_TAKEN;
        batch[count++] = entry;
    }
    recorder->queued -= count;
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
    recorder->queued--;
    if (recorder->last == &gone->next) {
        recorder->last = at;
    }
}

static struct fault append(struct op *op, struct event_log *log, struct entry *const *batch, size_t count,
                           uint64_t *ret_sequence)
{
    struct event events[BATCH_MAX];
    struct event_append message = { .lane = "tsa", .events = events };
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < batch[i]->count; j++) {
            size_t from = j > 0 ? batch[i]->ends[j - 1] : 0;
            events[message.count++] = (struct event){
                .type = "tsa.timestamp.issued",
                .schema_version = 1,
                .data = span_of(batch[i]->data.at + from, batch[i]->ends[j] - from),
            };
        }
    }
    return events_append(op, log, &message, ret_sequence);
}

static void tell_locked(struct entry *entry, enum entry_state state)
{
    entry->state = state;
    BUG_IF(sem_post(&entry->told) != 0);
}

/* A free place is the first one's, unless that one has one already. */
static void invite_locked(struct tsa_recorder *recorder)
{
    struct entry *first = recorder->first;
    if (first != NULL && first->state == ENTRY_WAITING && recorder->leaders < APPENDS_MAX) {
        recorder->leaders++;
        tell_locked(first, ENTRY_LEADS);
    }
}

static void pass_on_locked(struct tsa_recorder *recorder)
{
    recorder->leaders--;
    invite_locked(recorder);
}

/* Until half of all that are here or on their way are here. Who is alone does not wait. */
static void gather_locked(const struct op *op, struct tsa_recorder *recorder)
{
    mono_ns patience = atomic_load_explicit(&recorder->usual, memory_order_relaxed) / 4;
    patience = patience < GATHER_LEAST_NS ? GATHER_LEAST_NS : patience;
    mono_ns until = clock_mono() + (patience < GATHER_MOST_NS ? patience : GATHER_MOST_NS);
    until = until < op->deadline ? until : op->deadline;
    struct timespec time = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    for (int waited = 0; waited == 0;) {
        size_t half = (recorder->queued + atomic_load(&recorder->on_the_way) + 1) / 2;
        recorder->gather = half < BATCH_MAX ? half : BATCH_MAX;
        if (recorder->queued >= recorder->gather) {
            break;
        }
        waited = pthread_cond_clockwait(&recorder->gathered, &recorder->lock, CLOCK_MONOTONIC, &time);
        BUG_IF(waited != 0 && waited != ETIMEDOUT);
    }
    recorder->gather = 0;
}

static void lead_locked(struct op *op, struct event_log *log, struct tsa_recorder *recorder, struct entry *own)
{
    struct entry *batch[BATCH_MAX];
    uint64_t sequence = 0;
    BUG_IF(recorder->first != own);
    gather_locked(op, recorder);
    size_t count = take_locked(recorder, &op->principal, batch);
    invite_locked(recorder); /* what did not fit, or is somebody else's */
    BUG_IF(pthread_mutex_unlock(&recorder->lock) != 0);
    struct fault fault = append(op, log, batch, count, &sequence);
    BUG_IF(pthread_mutex_lock(&recorder->lock) != 0);
    for (size_t i = 0; i < count; i++) {
        if (batch[i]->state == ENTRY_LEFT) {
            entry_free(batch[i]);
            continue;
        }
        batch[i]->fault = fault;
        batch[i]->sequence = sequence;
        if (batch[i] == own) {
            own->state = ENTRY_DONE;
        } else {
            tell_locked(batch[i], ENTRY_DONE);
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

mono_ns tsa_record_expect(struct tsa_recorder *recorder)
{
    atomic_fetch_add(&recorder->on_the_way, 1);
    return clock_mono();
}

void tsa_record_arrived(struct tsa_recorder *recorder, mono_ns begun)
{
    mono_ns usual = atomic_load_explicit(&recorder->usual, memory_order_relaxed);
    usual += (clock_mono() - begun - usual) / 8; /* what two do at the same time may be lost */
    atomic_store_explicit(&recorder->usual, usual, memory_order_relaxed);
    atomic_fetch_sub(&recorder->on_the_way, 1);
}

static struct fault entry_new(const struct op *op, const struct span *events, size_t count, struct entry **ret_entry)
{
    CLEANUP(entry_freep) struct entry *entry = NULL;
    BUG_IF(count == 0 || count > TSA_BATCH_MAX);
    TRY(mem_new(1, sizeof(*entry), &entry));
    BUG_IF(sem_init(&entry->told, 0, 0) != 0);
    entry->data = (struct buf)BUF_INIT(ENTRY_DATA_MAX);
    entry->actor = &op->principal;
    entry->count = count;
    for (size_t i = 0; i < count; i++) {
        TRY(buf_put(&entry->data, events[i]));
        entry->ends[i] = entry->data.len;
    }
    *ret_entry = TAKE(entry);
    return OK;
}

struct fault tsa_record(struct op *op, struct event_log *log, struct tsa_recorder *recorder, const struct span *events,
                        size_t count, uint64_t *ret_sequence)
{
    CLEANUP(entry_freep) struct entry *entry = NULL;
    TRY(entry_new(op, events, count, &entry));

    BUG_IF(pthread_mutex_lock(&recorder->lock) != 0);
    *recorder->last = entry;
    recorder->last = &entry->next;
    recorder->queued++;
    if (recorder->gather > 0 && recorder->queued >= recorder->gather) {
        BUG_IF(pthread_cond_signal(&recorder->gathered) != 0);
    }
    bool leads = recorder->first == entry && recorder->leaders < APPENDS_MAX;
    if (leads) {
        recorder->leaders++;
        entry->state = ENTRY_LEADS;
    } else {
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
    if (in_time && !FAULTED(fault)) {
        *ret_sequence = entry->sequence;
        op_record(op, entry->sequence);
    }
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
