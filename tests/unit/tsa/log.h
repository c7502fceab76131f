/* An event log of this test: takes the place of api/events at link time. Keeps what was appended, and can be made slow,
 * held back, or refusing. Included by one test file per program. */
#ifndef TESTS_TSA_LOG_H
#define TESTS_TSA_LOG_H

#include "api/events/events.h"

#include <pthread.h>

#define LOG_EVENTS_MAX 4096

static struct {
    pthread_mutex_t lock;
    pthread_cond_t opened, entered;
    bool held;        /* appends wait until it is lifted, or until their deadline */
    unsigned allowed; /* that many pass although it is held */
    unsigned waiting; /* appends that wait */
    struct fault refuse;
    uint64_t sequence; /* of the last message */
    size_t messages, events, largest;
    char last_type[64], lane[LANE_MAX + 1];
    bool seen[LOG_EVENTS_MAX];  /* by the number in {"n":...} */
    char actor[LOG_EVENTS_MAX]; /* first letter of the subject that it was appended for */
} event_store = { .lock = PTHREAD_MUTEX_INITIALIZER,
                  .opened = PTHREAD_COND_INITIALIZER,
                  .entered = PTHREAD_COND_INITIALIZER,
                  .sequence = 41 };

static struct event_log *log_handle(void)
{
    return (struct event_log *)&event_store;
}

[[maybe_unused]] static void log_reset(void)
{
    event_store.held = false;
    event_store.allowed = 0;
    event_store.waiting = 0;
    event_store.refuse = OK;
    event_store.messages = event_store.events = event_store.largest = 0;
    memset(event_store.seen, 0, sizeof(event_store.seen));
}

[[maybe_unused]] static void log_hold(bool held)
{
    BUG_IF(pthread_mutex_lock(&event_store.lock) != 0);
    event_store.held = held;
    BUG_IF(pthread_cond_broadcast(&event_store.opened) != 0 || pthread_mutex_unlock(&event_store.lock) != 0);
}

[[maybe_unused]] static void log_allow_one(void)
{
    BUG_IF(pthread_mutex_lock(&event_store.lock) != 0);
    event_store.allowed++;
    BUG_IF(pthread_cond_broadcast(&event_store.opened) != 0 || pthread_mutex_unlock(&event_store.lock) != 0);
}

/* Until so many appends are inside and held back. */
[[maybe_unused]] static void log_wait_for_appends(unsigned count)
{
    BUG_IF(pthread_mutex_lock(&event_store.lock) != 0);
    while (event_store.waiting < count) {
        BUG_IF(pthread_cond_wait(&event_store.entered, &event_store.lock) != 0);
    }
    BUG_IF(pthread_mutex_unlock(&event_store.lock) != 0);
}

static void keep(const struct op *op, const struct event_append *append)
{
    event_store.messages++;
    event_store.events += append->count;
    event_store.largest = append->count > event_store.largest ? append->count : event_store.largest;
    (void)snprintf(event_store.lane, sizeof(event_store.lane), "%s", append->lane);
    for (size_t i = 0; i < append->count; i++) {
        unsigned number = 0;
        char text[64] = "";
        size_t len = append->events[i].data.len < sizeof(text) - 1 ? append->events[i].data.len : sizeof(text) - 1;
        memcpy(text, append->events[i].data.at, len);
        (void)snprintf(event_store.last_type, sizeof(event_store.last_type), "%s", append->events[i].type);
        if (sscanf(text, "{\"n\":%u}", &number) == 1 && number < LOG_EVENTS_MAX) {
            BUG_IF(event_store.seen[number]); /* recorded twice */
            event_store.seen[number] = true;
            event_store.actor[number] = op->principal.subject[0];
        }
    }
}

struct fault events_append(struct op *op, struct event_log *log, const struct event_append *append, uint64_t *ret_seq)
{
    BUG_IF(op == NULL || log != log_handle() || append->count == 0 || append->count > EVENTS_PER_MESSAGE_MAX);
    BUG_IF(pthread_mutex_lock(&event_store.lock) != 0);
    event_store.waiting++;
    BUG_IF(pthread_cond_broadcast(&event_store.entered) != 0);
    struct timespec until = { .tv_sec = op->deadline / NS_PER_S, .tv_nsec = op->deadline % NS_PER_S };
    struct fault fault = event_store.refuse;
    while (event_store.held && event_store.allowed == 0 && !FAULTED(fault)) {
        if (pthread_cond_clockwait(&event_store.opened, &event_store.lock, CLOCK_MONOTONIC, &until) != 0) {
            fault = FAULT(DEADLINE);
        }
    }
    event_store.allowed -= event_store.allowed > 0;
    event_store.waiting--;
    if (!FAULTED(fault)) {
        keep(op, append);
        *ret_seq = ++event_store.sequence;
    }
    BUG_IF(pthread_mutex_unlock(&event_store.lock) != 0);
    return fault;
}

#endif
