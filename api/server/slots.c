#include "api/server/slots.h"

#include "appliance/base/alloc.h"

#include <pthread.h>
#include <sys/socket.h>

/* How long a peer may take; a healthy one is far below. */
static const mono_ns patience[SLOT_PHASES] = {
    [SLOT_BODY] = 15 * NS_PER_S,
    [SLOT_WRITING] = 120 * NS_PER_S,
    [SLOT_LINGERING] = 2 * NS_PER_S,
};
#define FIRST_REQUEST_NS NS_PER_S
#define SLOW_NS          (5 * NS_PER_S) /* so long in one step, while threads are short */

struct slot {
    int fd;
    enum slot_phase phase;
    mono_ns since;
    bool served; /* had a request before */
    bool cut;
};

struct slots {
    pthread_mutex_t lock; /* guards all below */
    size_t threads, high_water, taken, open;
    struct slot at[];
};

struct fault slots_new(size_t threads, size_t spare, struct slots **ret_slots)
{
    struct slots *made = NULL;
    TRY(mem_new(1, sizeof(*made) + threads * sizeof(made->at[0]), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    made->threads = threads;
    made->high_water = spare < threads ? threads - spare : 0;
    *ret_slots = made;
    return OK;
}

void slots_free(struct slots *slots)
{
    if (slots == NULL) {
        return;
    }
    BUG_IF(pthread_mutex_destroy(&slots->lock) != 0);
    mem_free(slots);
}

static void lock(struct slots *slots)
{
    BUG_IF(pthread_mutex_lock(&slots->lock) != 0);
}

static void unlock(struct slots *slots)
{
    BUG_IF(pthread_mutex_unlock(&slots->lock) != 0);
}

struct slot *slots_take(struct slots *slots)
{
    lock(slots);
    struct slot *slot = slots->taken < slots->threads ? &slots->at[slots->taken++] : NULL;
    unlock(slots);
    return slot;
}

void slot_open(struct slots *slots, struct slot *slot, int fd, mono_ns now)
{
    lock(slots);
    if (slot->phase == SLOT_FREE) {
        slots->open++;
        *slot = (struct slot){ .fd = fd, .phase = SLOT_WAITING, .since = now };
    }
    unlock(slots);
}

bool slot_knows_fd(struct slots *slots, struct slot *slot)
{
    lock(slots);
    bool known = slot->fd >= 0;
    unlock(slots);
    return known;
}

void slot_learn_fd(struct slots *slots, struct slot *slot, int fd)
{
    lock(slots);
    if (slot->phase != SLOT_FREE) {
        slot->fd = fd;
    }
    unlock(slots);
}

void slot_close(struct slots *slots, struct slot *slot)
{
    lock(slots);
    if (slot->phase != SLOT_FREE) {
        slots->open--;
        *slot = (struct slot){ .fd = -1 };
    }
    unlock(slots);
}

static void enter_locked(struct slot *slot, enum slot_phase phase, mono_ns now)
{
    if (slot->phase != SLOT_FREE) {
        slot->served = slot->served || slot->phase != SLOT_WAITING;
        slot->phase = phase;
        slot->since = now;
    }
}

void slot_enter(struct slots *slots, struct slot *slot, enum slot_phase phase, mono_ns now)
{
    lock(slots);
    enter_locked(slot, phase, now);
    unlock(slots);
}

bool slot_begin(struct slots *slots, struct slot *slot, mono_ns now)
{
    lock(slots);
    bool cut = slot->cut;
    if (!cut) {
        enter_locked(slot, SLOT_HANDLING, now);
    }
    unlock(slots);
    return !cut;
}

bool slots_pressed(struct slots *slots)
{
    lock(slots);
    bool pressed = slots->open > slots->high_water;
    unlock(slots);
    return pressed;
}

static void cut_locked(struct slot *slot)
{
    slot->cut = true;
    (void)shutdown(slot->fd, SHUT_RDWR);
}

static size_t cut_overstayers_locked(struct slots *slots, mono_ns now)
{
    size_t cut = 0;
    for (size_t i = 0; i < slots->taken; i++) {
        struct slot *slot = &slots->at[i];
        mono_ns limit = patience[slot->phase];
        if (limit != 0 && now - slot->since > limit && slot->fd >= 0 && !slot->cut) {
            cut_locked(slot);
            cut++;
        }
    }
    return cut;
}

static struct slot *longest_waiting_locked(struct slots *slots, mono_ns now)
{
    struct slot *longest = NULL;
    for (size_t i = 0; i < slots->taken; i++) {
        struct slot *slot = &slots->at[i];
        if (slot->phase != SLOT_WAITING || slot->cut || slot->fd < 0 ||
            (!slot->served && now - slot->since < FIRST_REQUEST_NS)) {
            continue;
        }
        if (longest == NULL || slot->since < longest->since) {
            longest = slot;
        }
    }
    return longest;
}

/* Who depends on its peer and has got nowhere for a while: a body that does not come, an answer that is not read. */
static struct slot *longest_slow_locked(struct slots *slots, mono_ns now)
{
    struct slot *longest = NULL;
    for (size_t i = 0; i < slots->taken; i++) {
        struct slot *slot = &slots->at[i];
        if (patience[slot->phase] != 0 && !slot->cut && slot->fd >= 0 && now - slot->since > SLOW_NS &&
            (longest == NULL || slot->since < longest->since)) {
            longest = slot;
        }
    }
    return longest;
}

static size_t leaving_locked(const struct slots *slots)
{
    size_t leaving = 0;
    for (size_t i = 0; i < slots->taken; i++) {
        leaving += slots->at[i].cut;
    }
    return leaving;
}

size_t slots_relieve(struct slots *slots, mono_ns now)
{
    lock(slots);
    size_t cut = cut_overstayers_locked(slots, now);
    for (size_t leaving = leaving_locked(slots); slots->open - leaving > slots->high_water; leaving++) {
        struct slot *slot = longest_waiting_locked(slots, now);
        slot = slot != NULL ? slot : longest_slow_locked(slots, now);
        if (slot == NULL) {
            break;
        }
        cut_locked(slot);
        cut++;
    }
    unlock(slots);
    return cut;
}

size_t slots_cut_waiting(struct slots *slots)
{
    size_t cut = 0;
    lock(slots);
    for (size_t i = 0; i < slots->taken; i++) {
        struct slot *slot = &slots->at[i];
        if (slot->phase == SLOT_WAITING && !slot->cut && slot->fd >= 0) {
            cut_locked(slot);
            cut++;
        }
    }
    unlock(slots);
    return cut;
}

size_t slots_cut_all(struct slots *slots)
{
    size_t cut = 0;
    lock(slots);
    for (size_t i = 0; i < slots->taken; i++) {
        struct slot *slot = &slots->at[i];
        if (slot->phase != SLOT_FREE && !slot->cut && slot->fd >= 0) {
            cut_locked(slot);
            cut++;
        }
    }
    unlock(slots);
    return cut;
}

size_t slots_busy(struct slots *slots)
{
    size_t busy = 0;
    lock(slots);
    for (size_t i = 0; i < slots->taken; i++) {
        busy += slots->at[i].phase != SLOT_FREE && slots->at[i].phase != SLOT_WAITING;
    }
    unlock(slots);
    return busy;
}
