#include "api/projection/internal.h"
#include "appliance/base/tracing.h"

#define NEW_US (60 * US_PER_S) /* what is older is replayed: its trace is over */

void projection_traced(const struct event_message *messages, size_t count, mono_ns began)
{
    if (!trace_on()) {
        return;
    }
    utc_us oldest = clock_utc() - NEW_US;
    for (size_t i = 0; i < count; i++) {
        const struct event_message *message = &messages[i];
        if (message->count > 0 && message->events[0].time >= oldest && trace_sampled(message->events[0].trace_id)) {
            trace_project(message->events[0].trace_id, message->tenant, message->message_id.text, message->stream_seq,
                          began, count);
        }
    }
}
