#include "api/tsa/stamp.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

#define QUICK_NS (500 * 1000)       /* a signature that takes longer is asked for by its own caller */
#ifndef EXCHANGE_NS                 /* tests hold exchanges back */
#define EXCHANGE_NS (2 * NS_PER_MS) /* how long the signatures of one exchange may take */
#endif
#define SHARE_NS   NS_PER_S       /* who has less time left is served alone: nobody fails for another's haste */
#define LOOKS      8              /* slow so often in a row, at first */
#define LOOK_EVERY (5 * NS_PER_S) /* whether it still is */

/*
 * A signature of a quick token costs less than the sleeps and wake-ups around it, and a message in the log costs much
 * the same whether it records one stamp or twenty. So callers that come while others are at it are served together:
 * whoever finds a free place leads. It takes what waits, itself first, has all of it signed in one exchange, gives its
 * place to the first of those who came meanwhile, and only then makes the tokens, has them recorded and tells the
 * others. Who comes alone waits for nobody. There are half as many places as processors: the other half is for those
 * who read requests, keep the log and apply it.
 *
 * A token that takes its time (a network HSM, RSA) has sessions that work side by side: then everybody leads for itself
 * and nobody waits. How long a signature takes is learned while there are places, as a crowd would measure its own
 * queueing; so now and then a slow token is looked at again.
 *
 * An entry lives on its caller's stack. A caller may leave while it WAITS or has been told to lead; once TAKEN it stays
 * until it is told that it is DONE, whose time is bounded by the leader's deadline. That is told without the lock, as
 * all who are woken would want it next: so who is DONE may leave when it has taken the word, and not before. A message
 * has one actor, so a leader takes those behind it up to the first of somebody else's, or of somebody in a hurry. The
 * queue is bounded by the bulkhead of the route.
 */
enum entry_state { ENTRY_WAITING, ENTRY_LEADS, ENTRY_TAKEN, ENTRY_DONE };

struct entry {
    struct entry *next;
    _Atomic(enum entry_state) state; /* changes with the lock held; from TAKEN to DONE by its leader, without */
    struct tsa_stamp *stamp;
    sem_t told; /* posted when it LEADS, and when it is DONE */
};

struct tsa_press {
    pthread_mutex_t lock;
    struct entry *first, **last;
    unsigned leaders; /* who sign, or have been told to */
    unsigned places;  /* for leaders, while the token is quick */
    mono_ns usual;    /* what a signature takes of late, without a crowd */
    unsigned slow;    /* times in a row that it was not quick */
    mono_ns look;     /* when to look again; until then the token is slow */
};

struct fault tsa_press_new(struct tsa_press **ret_press)
{
    struct tsa_press *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    made->places = processors > 3 ? (unsigned)processors / 2 : 1;
    made->last = &made->first;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    *ret_press = made;
    return OK;
}

void tsa_press_free(struct tsa_press *press)
{
    if (press == NULL) {
        return;
    }
    BUG_IF(press->first != NULL || press->leaders != 0);
    BUG_IF(pthread_mutex_destroy(&press->lock) != 0);
    mem_free(press);
}

static void lock(struct tsa_press *press)
{
    BUG_IF(pthread_mutex_lock(&press->lock) != 0);
}

static void unlock(struct tsa_press *press)
{
    BUG_IF(pthread_mutex_unlock(&press->lock) != 0);
}

static void tell(struct entry *entry, enum entry_state state)
{
    entry->state = state;
    BUG_IF(sem_post(&entry->told) != 0);
}

static bool quick_locked(const struct tsa_press *press)
{
    return press->look == 0 || clock_mono() >= press->look;
}

static bool place_free_locked(const struct tsa_press *press)
{
    return !quick_locked(press) || press->leaders < press->places;
}

static void put_locked(struct tsa_press *press, struct entry *entry)
{
    *press->last = entry;
    press->last = &entry->next;
}

static void remove_locked(struct tsa_press *press, struct entry *gone)
{
    struct entry **at = &press->first;
    while (*at != gone) {
        at = &(*at)->next;
    }
    *at = gone->next;
    if (press->last == &gone->next) {
        press->last = at;
    }
}

/* A leader's place goes to the first who waits and leads not yet. */
static void pass_on_locked(struct tsa_press *press)
{
    struct entry *next = press->first;
    while (next != NULL && next->state == ENTRY_LEADS) {
        next = next->next;
    }
    if (next != NULL) {
        tell(next, ENTRY_LEADS);
    } else {
        press->leaders--;
    }
}

static bool same_actor(const struct principal *a, const struct principal *b)
{
    bool same = strcmp(a->subject, b->subject) == 0 && a->role_count == b->role_count;
    for (size_t i = 0; same && i < a->role_count; i++) {
        same = strcmp(a->roles[i], b->roles[i]) == 0;
    }
    return same;
}

static size_t batch_max_locked(const struct tsa_press *press)
{
    if (!quick_locked(press)) {
        return 1;
    }
    mono_ns fit = press->usual > 0 ? EXCHANGE_NS / press->usual : TSA_BATCH_MAX;
    fit = fit > 1 ? fit : 1;
    return fit < TSA_BATCH_MAX ? (size_t)fit : TSA_BATCH_MAX;
}

/* Itself, and those behind it who only wait: as a list of their own, within the earliest of their deadlines. */
static void take_locked(struct tsa_press *press, struct entry *own, struct stamping *stamping)
{
    struct op *op = stamping->op;
    mono_ns least = clock_mono() + SHARE_NS;
    size_t max = op->deadline < least ? 1 : batch_max_locked(press);
    struct entry **last = &own->next;
    struct entry *entry = own;
    while (entry != NULL && stamping->count < max &&
           (entry == own || (entry->state == ENTRY_WAITING && entry->stamp->op->deadline >= least)) &&
           same_actor(&entry->stamp->op->principal, &op->principal)) {
        struct entry *next = entry->next;
        mono_ns deadline = entry->stamp->op->deadline;
        op->deadline = deadline < op->deadline ? deadline : op->deadline;
        remove_locked(press, entry);
        entry->state = ENTRY_TAKEN;
        stamping->stamps[stamping->count++] = entry->stamp;
        if (entry != own) {
            *last = entry;
            last = &entry->next;
        }
        entry = next;
    }
    *last = NULL;
}

static void learn_locked(struct tsa_press *press, mono_ns span, size_t count)
{
    mono_ns each = span / (mono_ns)count;
    bool less = press->usual == 0 || each < press->usual; /* what is quick once is not slow: something disturbed it */
    press->usual = less ? each : press->usual + (each - press->usual) / 8;
    press->slow = press->usual < QUICK_NS ? 0 : press->slow + 1;
    if (press->slow == 0) {
        press->look = 0;
    } else if (press->slow >= LOOKS) {
        press->look = clock_mono() + LOOK_EVERY;
    }
}

/* What went wrong is told to each of them. */
static void settle(const struct stamping *stamping, struct fault fault)
{
    for (size_t i = 0; i < stamping->count; i++) {
        struct tsa_stamp *stamp = stamping->stamps[i];
        stamp->fault = fault;
        stamp->sequence = stamping->sequence;
        if (FAULTED(fault) && stamp->op != stamping->op) {
            stamp->op->note = stamping->op->note;
        }
    }
}

/* Signs for itself and those behind it, passes its place on, and ends what it took. */
static void work(struct tsa_press *press, struct entry *own, struct stamping *stamping)
{
    lock(press);
    take_locked(press, own, stamping);
    bool crowd = press->leaders > press->places;
    unlock(press);
    mono_ns begun = clock_mono();
    struct fault fault = stamping_sign(stamping);
    mono_ns span = clock_mono() - begun;
    lock(press);
    if (!FAULTED(fault) && !crowd) {
        learn_locked(press, span, stamping->count);
    }
    pass_on_locked(press);
    unlock(press);
    if (FAULTED(fault)) {
        tsa_record_arrived(stamping->tsa->recorder, stamping->begun);
    } else {
        fault = stamping_finish(stamping);
    }
    settle(stamping, fault);
    own->state = ENTRY_DONE;
    for (struct entry *entry = own->next, *next = NULL; entry != NULL; entry = next) {
        next = entry->next; /* who is told leaves */
        tell(entry, ENTRY_DONE);
    }
}

static void lead(struct tsa_press *press, struct entry *own, const struct services *services, struct tsa *tsa)
{
    struct stamping stamping = { .op = own->stamp->op,
                                 .services = services,
                                 .tsa = tsa,
                                 .held = tsa_current_take(&tsa->current),
                                 .begun = tsa_record_expect(tsa->recorder),
                                 .signature_bytes = BUF_INIT(TSA_BATCH_MAX * (SIGNATURE_MAX + 2)) };
    mono_ns deadline = stamping.op->deadline;
    work(press, own, &stamping);
    stamping.op->deadline = deadline;
    tsa_current_give(&tsa->current, stamping.held);
    buf_free(&stamping.signature_bytes);
}

/* Until it is told something: true; or its deadline. Without end when it is in somebody's hands. */
static bool wait_for_word(const struct op *op, struct entry *entry, bool bounded)
{
    struct timespec until = { .tv_sec = op->deadline / NS_PER_S, .tv_nsec = op->deadline % NS_PER_S };
    int rc = 0;
    do {
        rc = bounded ? sem_clockwait(&entry->told, CLOCK_MONOTONIC, &until) : sem_wait(&entry->told);
    } while (rc != 0 && errno == EINTR);
    return rc == 0;
}

/* Its place in the queue, or what became of it: true when it is to lead. */
static bool enter(struct tsa_press *press, struct entry *own)
{
    lock(press);
    bool free_place = place_free_locked(press);
    bool waited_for = press->first != NULL; /* places have become free since: the first of them leads */
    put_locked(press, own);
    if (free_place) {
        press->leaders++;
        if (waited_for) {
            pass_on_locked(press);
        } else {
            own->state = ENTRY_LEADS;
        }
    }
    bool leads = own->state == ENTRY_LEADS && !waited_for;
    unlock(press);
    return leads;
}

/* Told to lead, or DONE, or too late: then out of the queue with it. */
static bool await(struct tsa_press *press, struct entry *own)
{
    bool told = wait_for_word(own->stamp->op, own, true);
    if (told && own->state == ENTRY_DONE) {
        return false;
    }
    lock(press);
    enum entry_state state = own->state;
    if (state == ENTRY_WAITING || (state == ENTRY_LEADS && op_expired(own->stamp->op))) {
        remove_locked(press, own);
        own->stamp->fault = FAULT(DEADLINE);
        if (state == ENTRY_LEADS) {
            pass_on_locked(press);
        }
        unlock(press);
        return false;
    }
    unlock(press);
    if (state != ENTRY_LEADS) { /* in somebody's hands, until the word has come */
        (void)wait_for_word(own->stamp->op, own, false);
    }
    return state == ENTRY_LEADS;
}

struct fault tsa_press(struct op *op, const struct services *services, struct tsa *tsa, struct tsa_stamp *stamp)
{
    struct tsa_press *press = tsa->press;
    struct entry own = { .stamp = stamp };
    stamp->op = op;
    stamp->fault = OK;
    BUG_IF(sem_init(&own.told, 0, 0) != 0);
    if (enter(press, &own) || await(press, &own)) {
        lead(press, &own, services, tsa);
    }
    BUG_IF(sem_destroy(&own.told) != 0);
    if (FAULTED(stamp->fault)) {
        return op->note.set ? stamp->fault
                            : op_fail(op, stamp->fault, "the time stamp could not be made in time; try again");
    }
    op_record(op, stamp->sequence);
    return OK;
}
