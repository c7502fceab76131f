#include "appliance/base/bulkhead.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

struct bulkhead {
    unsigned limit, queue; /* never change */
    pthread_mutex_t lock;
    pthread_cond_t left;
    unsigned in_use, waiting; /* under lock */
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
    pthread_condattr_t attributes;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_condattr_init(&attributes) != 0);
    BUG_IF(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_cond_init(&made->left, &attributes) != 0);
    (void)pthread_condattr_destroy(&attributes);
    *ret_bulkhead = made;
    return OK;
}

void bulkhead_free(struct bulkhead *bulkhead)
{
    if (bulkhead == NULL) {
        return;
    }
    BUG_IF(bulkhead_in_use(bulkhead) != 0);
    (void)pthread_cond_destroy(&bulkhead->left);
    (void)pthread_mutex_destroy(&bulkhead->lock);
    mem_free(bulkhead);
}

/* Waits for a place; false at the deadline. Under lock. */
static bool wait_locked(struct bulkhead *bulkhead, mono_ns deadline)
{
    struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    bulkhead->waiting++;
    int code = 0;
    while (bulkhead->in_use >= bulkhead->limit && code != ETIMEDOUT) {
        code = pthread_cond_timedwait(&bulkhead->left, &bulkhead->lock, &until);
        BUG_IF(code != 0 && code != ETIMEDOUT);
    }
    bulkhead->waiting--;
    return bulkhead->in_use < bulkhead->limit;
}

struct fault bulkhead_enter(struct bulkhead *bulkhead, mono_ns deadline, struct permit *ret_permit)
{
    lock(bulkhead);
    bool fits = bulkhead->in_use < bulkhead->limit;
    if (!fits && bulkhead->waiting < bulkhead->queue) {
        fits = wait_locked(bulkhead, deadline);
    }
    if (fits) {
        bulkhead->in_use++;
    }
    unlock(bulkhead);
    REQUIRE(fits, SATURATED);
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
    lender->in_use--;
    BUG_IF(pthread_cond_signal(&lender->left) != 0);
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
