#include "api/codesign/internal.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and every waiter in it */
static pthread_cond_t changed; /* one for all: a waiter that is not meant looks and sleeps on */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct codesign_waiter *first;

static void make_condition(void)
{
    pthread_condattr_t monotonic;
    BUG_IF(pthread_condattr_init(&monotonic) != 0);
    BUG_IF(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_cond_init(&changed, &monotonic) != 0);
    BUG_IF(pthread_condattr_destroy(&monotonic) != 0);
}

static void enter(void)
{
    BUG_IF(pthread_once(&once, make_condition) != 0);
    BUG_IF(pthread_mutex_lock(&lock) != 0);
}

static void leave(void)
{
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

void codesign_waiter_enter(struct codesign_waiter *waiter, struct uuid id)
{
    enter();
    *waiter = (struct codesign_waiter){ .id = id, .next = first };
    first = waiter;
    leave();
}

void codesign_waiter_leave(struct codesign_waiter *waiter)
{
    enter();
    for (struct codesign_waiter **at = &first; *at != NULL; at = &(*at)->next) {
        if (*at == waiter) {
            *at = waiter->next;
            break;
        }
    }
    leave();
}

bool codesign_waiter_wait(struct codesign_waiter *waiter, mono_ns until, uint64_t *ret_seq)
{
    const struct timespec when = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    enter();
    while (!waiter->ended && pthread_cond_timedwait(&changed, &lock, &when) == 0) {
    }
    bool ended = waiter->ended;
    if (ended) {
        *ret_seq = waiter->seq;
    }
    leave();
    return ended;
}

enum fault_code codesign_waiter_last(struct codesign_waiter *waiter)
{
    enter();
    enum fault_code last = waiter->last;
    leave();
    return last;
}

void codesign_waiters_ended(struct uuid id, uint64_t seq)
{
    bool any = false;
    enter();
    for (struct codesign_waiter *waiter = first; waiter != NULL; waiter = waiter->next) {
        if (uuid_equal(waiter->id, id)) {
            waiter->ended = true;
            waiter->seq = seq;
            any = true;
        }
    }
    if (any) {
        BUG_IF(pthread_cond_broadcast(&changed) != 0);
    }
    leave();
}

void codesign_waiters_met(struct uuid id, struct fault fault)
{
    enter();
    for (struct codesign_waiter *waiter = first; waiter != NULL; waiter = waiter->next) {
        if (uuid_equal(waiter->id, id)) {
            waiter->last = fault.code;
        }
    }
    leave();
}
