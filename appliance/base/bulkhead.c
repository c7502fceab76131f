#include "appliance/base/bulkhead.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

/* On the stack of the thread that waits. A permit that comes back is handed to the first waiter itself, so that nobody
 * who comes later can overtake. */
struct waiter {
    struct waiter *behind;
    pthread_cond_t granted_now;
    bool granted;
};

struct bulkhead {
    unsigned limit, queue; /* never change */
    pthread_mutex_t lock;
    unsigned in_use, waiting; /* from here on: under lock */
    struct waiter *first;
    struct waiter **last;
};

static void lock(const struct bulkhead *bulkhead)
{
    BUG_IF(pthread_mutex_lock((pthread_mutex_t *)&bulkhead->lock) != 0);
}

static void unlock(const struct bulkhead *bulkhead)
{
    BUG_IF(pthread_mutex_unlock((pthread_mutex_t *)&bulkhead->lock) != 0);
}

struct fault bulkhead_new(unsigned limit, unsigned queue, struct bulkhead **ret_bulkhead)
{
    REQUIRE(limit >= 1 && limit <= BULKHEAD_LIMIT_MAX && queue <= BULKHEAD_LIMIT_MAX, BAD_ARGUMENT);
    struct bulkhead *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->limit = limit;
    made->queue = queue;
    made->last = &made->first;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    *ret_bulkhead = made;
    return OK;
}

void bulkhead_free(struct bulkhead *bulkhead)
{
    if (bulkhead == NULL) {
        return;
    }
    BUG_IF(bulkhead_in_use(bulkhead) != 0 || bulkhead_waiting(bulkhead) != 0);
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
static bool wait_locked(struct bulkhead *bulkhead, mono_ns deadline)
{
    mono_ns until = deadline > 0 ? deadline : 0;
    struct timespec stop = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    struct waiter self = { .granted_now = PTHREAD_COND_INITIALIZER };
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

struct fault bulkhead_enter(struct bulkhead *bulkhead, mono_ns deadline, struct permit *ret_permit)
{
    lock(bulkhead);
    bool entered = bulkhead->in_use < bulkhead->limit;
    if (entered) {
        bulkhead->in_use++;
    } else if (bulkhead->waiting < bulkhead->queue) {
        entered = wait_locked(bulkhead, deadline);
    }
    unlock(bulkhead);
    REQUIRE(entered, SATURATED);
    *ret_permit = (struct permit){ .lender = bulkhead };
    return OK;
}

void permit_release(struct permit *permit)
{
    struct bulkhead *lender = TAKE(permit->lender);
    if (lender == NULL) {
        return;
    }
    lock(lender);
    BUG_IF(lender->in_use == 0);
    struct waiter *heir = lender->first;
    if (heir != NULL) { /* in_use stays: the permit only changes hands */
        unlink_locked(lender, heir);
        heir->granted = true;
        BUG_IF(pthread_cond_signal(&heir->granted_now) != 0);
    } else {
        lender->in_use--;
    }
    unlock(lender);
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
