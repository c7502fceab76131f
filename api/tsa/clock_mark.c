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

utc_us clock_mark_of(struct op *op, const struct event_message *message, int64_t flight_us)
{
    utc_us stated = 0, appended = 0;
    for (size_t i = 0; i < message->count; i++) {
        utc_us gen_time = gen_time_of(op, &message->events[i]);
        stated = gen_time > stated ? gen_time : stated;
        appended = message->events[i].time > appended ? message->events[i].time : appended;
    }
    if (stated == 0 || appended < stated) {
        return stated == 0 ? appended : stated;
    }
    return appended - stated > flight_us ? stated + flight_us : appended;
}

/*
 * A token is recorded some time after its time was taken, so an earlier message may hold a later time than the newest
 * one states: by no more than a request may last, and not later than the newest was appended. The time of an append is
 * the bare wall clock's, which may have been set wrong for a moment, so it does not count beyond that.
 */
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
    *ret_mark = clock_mark_of(op, &message, services->config->http_deadline / 1000);
    return OK;
}
