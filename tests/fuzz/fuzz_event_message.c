/* rooms: events base */
/* A message of the log: first line the subject, the rest the body. What decodes must be, byte for byte, what the
 * encoder makes of the decoded parts. */
#include "api/events/events.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_round_trip(const struct event_message *message)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(EVENT_MESSAGE_MAX);
    struct event events[EVENTS_PER_MESSAGE_MAX];
    struct principal actor = { .role_count = message->events[0].actor_role_count };
    (void)snprintf(actor.subject, sizeof(actor.subject), "%s", message->events[0].actor_subject);
    for (size_t i = 0; i < actor.role_count; i++) {
        (void)snprintf(actor.roles[i], sizeof(actor.roles[i]), "%s", message->events[0].actor_roles[i]);
    }
    for (size_t i = 0; i < message->count; i++) {
        const struct event_view *view = &message->events[i];
        events[i] = (struct event){ view->type, view->schema_version, view->data };
    }
    struct event_body body = {
        .actor = &actor,
        .tenant = message->tenant,
        .lane = message->events[0].lane,
        .trace_id = message->events[0].trace_id,
        .message_id = message->message_id,
        .time = message->events[0].time,
        .events = events,
        .count = message->count,
    };
    BUG_IF(FAULTED(event_message_encode(&body, &out)));
    BUG_IF(!span_equal(buf_span(&out), message->body));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct event_message message;
    const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
    if (line == NULL || FAULTED(op_new("fuzz", (struct tenant_id){ "" }, 60000, &op))) {
        return 0;
    }
    size_t subject = (size_t)(line - data);
    if (!FAULTED(
            event_message_decode(op, 1, span_of(data, subject), span_of(line + 1, size - subject - 1), &message))) {
        check_round_trip(&message);
    }
    return 0;
}
