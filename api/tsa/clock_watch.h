/*
 * The clock gate at work in a running svc-api: the thread that checks once a second; a second one for what may block
 * (rounds of the time servers, the mark of the last issued time, the events of a change of state); metrics and log.
 *
 * The mark: every token's event is in the log before the token leaves, so the newest message of the stamps' lane says
 * what was issued last, by whichever instance. It is read at the start, before the first stamp, and every
 * CLOCK_MARK_NS, so that an instance whose clock is behind the others' notices. Nothing is written for it.
 */
#ifndef API_TSA_CLOCK_WATCH_H
#define API_TSA_CLOCK_WATCH_H

#include "api/services.h"
#include "api/tsa/clock.h"

#define CLOCK_MARK_NS (5 * NS_PER_S)

struct clock_watch;
/* For op's tenant. Reads the mark and makes the first check before it returns; the log's and the store's faults,
 * CONFIG. `services` is borrowed. */
struct fault clock_watch_start(struct op *op, struct services *services, struct clock_watch **ret_watch);
void clock_watch_stop(struct clock_watch *watch); /* joins and frees; NULL is fine */
DEFINE_FREEP(struct clock_watch, clock_watch_stop)

/* The time for one token; counts a refusal. TSA_TIME. */
struct fault clock_watch_now(struct op *op, struct clock_watch *watch, utc_us *ret_now);
void clock_watch_state(struct clock_watch *watch, struct clock_state *ret_state);

/* ---- clock_mark.c ---- */

/* The latest time that op's tenant's log knows of in the lane of stamps; 0 when there was never one. */
struct fault clock_mark_read(struct op *op, struct services *services, utc_us *ret_mark);
/* The latest gen_time of the newest message, or its own time where that is later, by at most `flight_us`: as long as a
 * request may be in hand. Pure. */
utc_us clock_mark_of(struct op *op, const struct event_message *message, int64_t flight_us);

/* ---- clock_events.c: changes of state, in order, each in the log exactly once ---- */

#define CLOCK_CHANGES_MAX 16
struct clock_change {
    uint64_t number; /* of this instance: with its id it makes the message id, so a repeat is the same message */
    struct clock_state state;
    utc_us at;
};
struct clock_changes {
    struct uuid instance;
    bool known, trusted; /* the state last put down */
    uint64_t next;
    struct clock_change waiting[CLOCK_CHANGES_MAX];
    size_t count;
};
/* Puts down a change, if it is one: from trusted to not, or back; the first state counts. True when it did. When more
 * wait than there is room for, the two newest, which cancel each other, go. */
bool clock_changes_note(struct clock_changes *changes, const struct clock_state *state, utc_us at);
/* Appends the oldest that waits; it is gone once it is durable. */
struct fault clock_changes_send(struct op *op, struct event_log *log, struct uuid instance,
                                const struct clock_change *change);
void clock_changes_sent(struct clock_changes *changes, uint64_t number);

#endif
