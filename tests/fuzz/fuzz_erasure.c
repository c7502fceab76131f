/* rooms: privacy events base */
/* A message without a subject: first line the subject, the rest a message's body. What comes out is a message with the
 * same ids, and going over it again changes nothing. */
#include "api/privacy/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const struct feature *const *features_all(size_t *ret_count)
{
    *ret_count = 0;
    return NULL;
}

static void check(struct op *op, const struct event_message *message, const struct privacy_subject *subject)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(EVENT_MESSAGE_MAX), again = BUF_INIT(EVENT_MESSAGE_MAX);
    struct transformed made, second;
    struct event_message replacement;
    struct fault fault = privacy_transform(op, message, subject, &out, &made);
    if (FAULTED(fault) || !made.changed) {
        return;
    }
    fault = event_body_decode(op, message->stream_seq, buf_span(&out), &replacement);
    if (fault.code == FAULT_NO_MEMORY || fault.code == FAULT_TOO_LARGE) {
        return;
    }
    BUG_IF(FAULTED(fault) || replacement.count != message->count);
    for (size_t i = 0; i < message->count; i++) {
        BUG_IF(!uuid_equal(replacement.events[i].id, message->events[i].id));
        BUG_IF(strcmp(replacement.events[i].type, message->events[i].type) != 0);
    }
    fault = privacy_transform(op, &replacement, subject, &again, &second);
    BUG_IF(!FAULTED(fault) && second.changed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct uuid erasure = { "01234567-89ab-7cde-8f01-23456789abcd" };
    CLEANUP(op_freep) struct op *op = NULL;
    struct event_message message;
    struct privacy_subject subject;
    const char *text = NULL;
    const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
    if (line == NULL || FAULTED(op_new("fuzz", (struct tenant_id){ "acme" }, 60000, &op))) {
        return 0;
    }
    size_t len = (size_t)(line - data);
    if (!FAULTED(arena_text(op->arena, span_of(data, len), &text)) &&
        !FAULTED(event_body_decode(op, 1, span_of(line + 1, size - len - 1), &message)) &&
        !FAULTED(privacy_subject_make(op, text, erasure, &subject))) {
        check(op, &message, &subject);
    }
    return 0;
}
