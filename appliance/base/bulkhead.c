#include "appliance/base/bulkhead.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define SPARE_PART 16u /* one place in so many is not for a tenant that is alone */

struct neighbours {
    int64_t memory_ns; /* never changes */
    pthread_mutex_t lock;
    struct tenant_id latest; /* under lock: who came last */
    mono_ns latest_at;
    _Atomic mono_ns crowded_until; /* when the one before who came last is forgotten */
};

/* A tenant with places; its slot is another's once it has none. */
struct holder {
    struct tenant_id tenant;
    unsigned places, in_use;
    unsigned most; /* in use at once while shares hold; as its latest charge said */
};

/* On the stack of the thread that waits. A permit that comes back is handed to the first waiter itself, so that nobody
 * who comes later can overtake. */
struct waiter {
    struct waiter *behind;
    struct holder *holder; /* NULL: of no tenant */
    pthread_cond_t granted_now;
    bool granted;
};

struct bulkhead {
    unsigned limit, queue;         /* never change */
    struct neighbours *neighbours; /* NULL: shares always hold */
    pthread_mutex_t lock;
    unsigned joined, in_use, waiting; /* from here on: under lock */
    struct waiter *first;
    struct waiter **last;
    uint64_t rejected, shares;
    uint64_t backlog;
    size_t holder_count, holders_most;
    struct holder holders[]; /* one for each place at most */
};

static void lock(const struct bulkhead *bulkhead)
{
    BUG_IF(pthread_mutex_lock((pthread_mutex_t *)&bulkhead->lock) != 0);
}

static void unlock(const struct bulkhead *bulkhead)
{
    BUG_IF(pthread_mutex_unlock((pthread_mutex_t *)&bulkhead->lock) != 0);
}

struct fault neighbours_new(int64_t memory_ns, struct neighbours **ret_neighbours)
{
    struct neighbours *made = NULL;
    REQUIRE(memory_ns >= 0, BAD_ARGUMENT);
    TRY(mem_new(1, sizeof(*made), &made));
    made->memory_ns = memory_ns;
    atomic_init(&made->crowded_until, 0);
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    *ret_neighbours = made;
    return OK;
}

void neighbours_free(struct neighbours *neighbours)
{
    if (neighbours != NULL) {
        (void)pthread_mutex_destroy(&neighbours->lock);
        mem_free(neighbours);
    }
}

/* Whoever came before the latest one did so no later than anybody else did but the latest: one name is enough. */
static void neighbours_see(struct neighbours *neighbours, struct tenant_id tenant)
{
    if (neighbours == NULL) {
        return;
    }
    mono_ns now = clock_mono();
    BUG_IF(pthread_mutex_lock(&neighbours->lock) != 0);
    if (!tenant_id_equal(neighbours->latest, tenant)) {
        if (neighbours->latest.text[0] != 0) {
            atomic_store(&neighbours->crowded_until, neighbours->latest_at + neighbours->memory_ns);
        }
        neighbours->latest = tenant;
    }
    neighbours->latest_at = now;
    BUG_IF(pthread_mutex_unlock(&neighbours->lock) != 0);
}

static bool shares_hold(const struct bulkhead *bulkhead)
{
    return bulkhead->neighbours == NULL || clock_mono() < atomic_load(&bulkhead->neighbours->crowded_until);
}

void bulkhead_among(struct bulkhead *bulkhead, struct neighbours *neighbours)
{
    bulkhead->neighbours = neighbours;
}

static struct fault make(unsigned limit, unsigned queue, size_t holders, struct bulkhead **ret_bulkhead)
{
    struct bulkhead *made = NULL;
    TRY(mem_new(1, sizeof(*made) + holders * sizeof(made->holders[0]), &made));
    made->limit = limit;
    made->holders_most = holders;
    made->queue = queue;
    made->last = &made->first;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    *ret_bulkhead = made;
    return OK;
}

struct fault bulkhead_new(unsigned limit, unsigned queue, struct bulkhead **ret_bulkhead)
{
    REQUIRE(limit >= 1 && limit <= BULKHEAD_LIMIT_MAX && queue <= BULKHEAD_LIMIT_MAX, BAD_ARGUMENT);
    return make(limit, queue, limit + queue, ret_bulkhead);
}

struct fault bulkhead_new_of_backlog(unsigned queue, struct bulkhead **ret_bulkhead)
{
    return make(1, queue, 0, ret_bulkhead);
}

void bulkhead_free(struct bulkhead *bulkhead)
{
    if (bulkhead == NULL) {
        return;
    }
    BUG_IF(bulkhead->joined != 0 || bulkhead_in_use(bulkhead) != 0 || bulkhead_waiting(bulkhead) != 0);
    (void)pthread_mutex_destroy(&bulkhead->lock);
    mem_free(bulkhead);
}

static void unlink_locked(struct bulkhead *bulkhead, const struct waiter *waiter)
{
    struct waiter **at = &bulkhead->first;
    while (*at != waiter) {
        at = &(*at)->behind;
    }
    *at = waiter->behind;
    if (*at == NULL) {
        bulkhead->last = at;
    }
    bulkhead->waiting--;
}

/* True with a permit handed over, false at the deadline. */
static bool wait_locked(struct bulkhead *bulkhead, struct holder *holder, mono_ns deadline)
{
    mono_ns until = deadline > 0 ? deadline : 0;
    struct timespec stop = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    struct waiter self = { .holder = holder, .granted_now = PTHREAD_COND_INITIALIZER };
    *bulkhead->last = &self;
    bulkhead->last = &self.behind;
    bulkhead->waiting++;
    int code = 0;
    while (!self.granted && code != ETIMEDOUT) {
        code = pthread_cond_clockwait(&self.granted_now, &bulkhead->lock, CLOCK_MONOTONIC, &stop);
        BUG_IF(code != 0 && code != ETIMEDOUT);
    }
    if (!self.granted) {
        unlink_locked(bulkhead, &self);
    }
    (void)pthread_cond_destroy(&self.granted_now);
    return self.granted;
}

static bool may_have_turn(const struct holder *holder, bool shares)
{
    return holder == NULL || !shares || holder->in_use < holder->most;
}

static void take_turn_locked(struct bulkhead *bulkhead, struct holder *holder)
{
    bulkhead->in_use++;
    if (holder != NULL) {
        holder->in_use++;
    }
}

/* Turns that are free go to the first who may have one. */
static void grant_locked(struct bulkhead *bulkhead)
{
    bool shares = bulkhead->waiting > 0 && shares_hold(bulkhead);
    struct waiter *next = NULL;
    for (struct waiter *heir = bulkhead->first; heir != NULL && bulkhead->in_use < bulkhead->limit; heir = next) {
        next = heir->behind;
        if (may_have_turn(heir->holder, shares)) {
            unlink_locked(bulkhead, heir);
            take_turn_locked(bulkhead, heir->holder);
            heir->granted = true;
            BUG_IF(pthread_cond_signal(&heir->granted_now) != 0);
        }
    }
}

/* True with a permit. Then all who wait are of tenants that have their share of turns: nobody is overtaken. */
static bool turn_locked(struct bulkhead *bulkhead, struct holder *holder, mono_ns deadline)
{
    grant_locked(bulkhead); /* their shares may have ceased to hold */
    if (bulkhead->in_use < bulkhead->limit && may_have_turn(holder, shares_hold(bulkhead))) {
        take_turn_locked(bulkhead, holder);
        return true;
    }
    return wait_locked(bulkhead, holder, deadline);
}

static bool has_place_locked(const struct bulkhead *bulkhead)
{
    return bulkhead->joined + bulkhead->in_use + bulkhead->waiting < bulkhead->limit + bulkhead->queue;
}

struct fault bulkhead_enter(struct bulkhead *bulkhead, mono_ns deadline, struct permit *ret_permit)
{
    lock(bulkhead);
    bool entered = has_place_locked(bulkhead) && turn_locked(bulkhead, NULL, deadline);
    bulkhead->rejected += !entered;
    unlock(bulkhead);
    REQUIRE(entered, SATURATED);
    *ret_permit = (struct permit){ .lender = bulkhead, .stage = PERMIT_IN_USE };
    return OK;
}

struct fault bulkhead_join(struct bulkhead *bulkhead, struct permit *ret_permit)
{
    lock(bulkhead);
    bool joins = has_place_locked(bulkhead);
    bulkhead->joined += joins;
    bulkhead->rejected += !joins;
    unlock(bulkhead);
    REQUIRE(joins, SATURATED);
    *ret_permit = (struct permit){ .lender = bulkhead, .stage = PERMIT_JOINED };
    return OK;
}

/* NULL for no tenant, or one without a place. */
static struct holder *holder_locked(struct bulkhead *bulkhead, const struct tenant_id *tenant)
{
    for (size_t i = 0; i < bulkhead->holder_count && tenant->text[0] != 0; i++) {
        struct holder *holder = &bulkhead->holders[i];
        if (holder->places > 0 && tenant_id_equal(holder->tenant, *tenant)) {
            return holder;
        }
    }
    return NULL;
}

static struct holder *new_holder_locked(struct bulkhead *bulkhead, struct tenant_id tenant)
{
    struct holder *free = bulkhead->holders;
    while (free < bulkhead->holders + bulkhead->holder_count && free->places > 0) {
        free++;
    }
    bulkhead->holder_count += free == bulkhead->holders + bulkhead->holder_count;
    BUG_IF(bulkhead->holder_count > bulkhead->holders_most);
    *free = (struct holder){ .tenant = tenant };
    return free;
}

static void discharge_locked(struct bulkhead *bulkhead, struct permit *permit)
{
    struct holder *holder = holder_locked(bulkhead, &permit->tenant);
    BUG_IF(holder == NULL && permit->tenant.text[0] != 0);
    if (holder != NULL) {
        holder->places--;
        permit->tenant = (struct tenant_id){ 0 };
    }
}

/* How many of the places one tenant may have now. */
static unsigned places_of_one(const struct bulkhead *bulkhead, unsigned percent)
{
    unsigned places = bulkhead->limit + bulkhead->queue;
    unsigned share = places * percent / 100;
    unsigned spare = places >= 2 * SPARE_PART ? places / SPARE_PART : 1;
    return shares_hold(bulkhead) || share > places - spare ? share : places - spare;
}

struct fault permit_charge(struct permit *permit, struct tenant_id tenant, unsigned percent)
{
    struct bulkhead *bulkhead = permit->lender;
    BUG_IF(permit->stage != PERMIT_JOINED || permit->tenant.text[0] != 0 || tenant.text[0] == 0);
    unsigned turns = (bulkhead->limit * percent + 99) / 100;
    neighbours_see(bulkhead->neighbours, tenant);
    lock(bulkhead);
    struct holder *holder = holder_locked(bulkhead, &tenant);
    bool fits = holder == NULL || holder->places < places_of_one(bulkhead, percent);
    if (fits) {
        holder = holder != NULL ? holder : new_holder_locked(bulkhead, tenant);
        holder->most = turns;
        holder->places++;
        permit->tenant = tenant;
    }
    bulkhead->rejected += !fits;
    bulkhead->shares += !fits;
    unlock(bulkhead);
    REQUIRE(fits, SATURATED);
    return OK;
}

struct fault permit_turn(struct permit *permit, mono_ns deadline)
{
    struct bulkhead *bulkhead = permit->lender;
    BUG_IF(permit->stage != PERMIT_JOINED);
    lock(bulkhead);
    bulkhead->joined--;
    bool entered = turn_locked(bulkhead, holder_locked(bulkhead, &permit->tenant), deadline);
    if (!entered) {
        bulkhead->rejected++;
        discharge_locked(bulkhead, permit);
    }
    unlock(bulkhead);
    permit->stage = PERMIT_IN_USE;
    permit->lender = entered ? bulkhead : NULL;
    REQUIRE(entered, SATURATED);
    return OK;
}

static void end_turn_locked(struct bulkhead *bulkhead, const struct permit *permit)
{
    struct holder *holder = holder_locked(bulkhead, &permit->tenant);
    BUG_IF(bulkhead->in_use == 0 || (holder != NULL && holder->in_use == 0));
    bulkhead->in_use--;
    if (holder != NULL) {
        holder->in_use--;
    }
}

void permit_release(struct permit *permit)
{
    struct bulkhead *lender = TAKE(permit->lender);
    if (lender == NULL) {
        return;
    }
    lock(lender);
    if (permit->stage == PERMIT_IN_USE) {
        end_turn_locked(lender, permit);
        discharge_locked(lender, permit);
        grant_locked(lender);
    } else {
        BUG_IF(lender->joined == 0);
        lender->joined--;
        discharge_locked(lender, permit);
    }
    unlock(lender);
}

void bulkhead_backlog(struct bulkhead *bulkhead, uint64_t behind)
{
    lock(bulkhead);
    bulkhead->backlog = behind;
    unlock(bulkhead);
}

struct fault bulkhead_backlog_fits(struct bulkhead *bulkhead, uint64_t behind)
{
    lock(bulkhead);
    bool fits = behind <= bulkhead->queue;
    bulkhead->backlog = behind;
    bulkhead->rejected += !fits;
    unlock(bulkhead);
    REQUIRE(fits, SATURATED);
    return OK;
}

unsigned bulkhead_in_use(const struct bulkhead *bulkhead)
{
    lock(bulkhead);
    unsigned in_use = bulkhead->in_use;
    unlock(bulkhead);
    return in_use;
}

unsigned bulkhead_waiting(const struct bulkhead *bulkhead)
{
    lock(bulkhead);
    unsigned waiting = bulkhead->waiting;
    unlock(bulkhead);
    return waiting;
}

void bulkhead_load(const struct bulkhead *bulkhead, struct bulkhead_load *ret_load)
{
    lock(bulkhead);
    uint64_t elsewhere = bulkhead->backlog < UINT32_MAX ? bulkhead->backlog : UINT32_MAX;
    *ret_load = (struct bulkhead_load){ .limit = bulkhead->limit,
                                        .queue = bulkhead->queue,
                                        .in_use = bulkhead->in_use + (elsewhere > 0),
                                        .waiting = bulkhead->waiting + (unsigned)elsewhere,
                                        .rejected = bulkhead->rejected,
                                        .shares = bulkhead->shares };
    unlock(bulkhead);
}
