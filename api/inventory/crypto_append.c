#include "api/inventory/crypto.h"

struct fault crypto_append(struct op *op, struct services *services, const char *type, const char *seed,
                           const struct buf *data)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    struct event_append message = { .lane = CRYPTO_LANE, .events = &event, .count = 1 };
    const struct span parts[] = { span_text(op->tenant.text), span_text(seed) };
    uint64_t seq = 0;
    TRY(uuid_derive(type, parts, COUNT_OF(parts), &message.message_id));
    TRY(events_append(op, services->log, &message, &seq));
    return projector_wait(op, services->projector, seq);
}
