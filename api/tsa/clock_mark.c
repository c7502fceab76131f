#include "api/tsa/clock_watch.h"

#include "appliance/base/json_view.h"

#define STAMP_LANE "tsa" /* record.c's */

static utc_us gen_time_of(struct op *op, const struct event_view *event)
{
    struct view data = { 0 };
    utc_us time = 0;
    if (strcmp(event->type, "tsa.timestamp.issued") != 0 || FAULTED(view_of(op, event->data, &data))) {
        return 0;
    }
    const char *text = view_member(op, data, "gen_time");
    if (text == NULL || FAULTED(rfc3339_parse(span_text(text), &time))) {
        return 0;
    }
    return time;
}

utc_us clock_mark_of(struct op *op, const struct event_message *message)
{
    utc_us mark = 0;
    for (size_t i = 0; i < message->count; i++) {
        const struct event_view *event = &message->events[i];
        utc_us stated = gen_time_of(op, event);
        mark = event->time > mark ? event->time : mark;
        mark = stated > mark ? stated : mark;
    }
    return mark;
}

/* A message is stamped with the time of its append, which is after the times of all tokens in it and before it: the
 * newest message is enough. */
struct fault clock_mark_read(struct op *op, struct services *services, utc_us *ret_mark)
{
    uint64_t sequence = 0;
    struct event_message message = { 0 };
    {
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
        TRY(projection_lane_last(tx, op->tenant, STAMP_LANE, &sequence));
    }
    if (sequence == 0) {
        *ret_mark = 0;
        return OK;
    }
    TRY(event_log_get(op, services->log, sequence, &message));
    *ret_mark = clock_mark_of(op, &message);
    return OK;
}
