#include "api/inventory/certificates.h"

struct fault inventory_append(struct op *op, struct services *services, const char *lane, const char *type,
                              const char *seed, const struct buf *data, const uint64_t *expected)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    struct event_append message = { .lane = lane,
                                    .events = &event,
                                    .count = 1,
                                    .expect = expected != NULL,
                                    .expected = expected != NULL ? *expected : 0 };
    const struct span parts[] = { span_text(op->tenant.text), span_text(seed) };
    uint64_t seq = 0;
    TRY(uuid_derive(type, parts, COUNT_OF(parts), &message.message_id));
    struct fault fault = events_append(op, services->log, &message, &seq);
    if (fault.code == FAULT_LOG_CONFLICT) {
        struct fault_note note = op->note;
        op->note = (struct fault_note){ 0 };
        TRY(projector_catch_up(op, services->projector)); /* or the next look would see what this one saw */
        op->note = note;
    }
    TRY(fault);
    return projector_wait(op, services->projector, seq);
}

struct fault inventory_lane_last(struct op *op, struct services *services, const char *lane, uint64_t *ret_seq)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    return projection_lane_last(tx, op->tenant, lane, ret_seq);
}
