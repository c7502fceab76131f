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

struct fault crypto_record_read(struct request *request, const char *artifact, const struct sha256 *digest)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    uint64_t seq = 0;
    struct jout jout;
    if (!response_stream_wanted(request)) {
        return OK;
    }
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "artifact", artifact);
    jout_key_hex(&jout, "sha256", SPAN_ARRAY(digest->at));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct event event = { .type = EVENT_DATASET_READ, .schema_version = 1, .data = buf_span(&data) };
    return events_append(request->op, request->services->log,
                         &(struct event_append){ .lane = DATASET_READ_LANE, .events = &event, .count = 1 }, &seq);
}
