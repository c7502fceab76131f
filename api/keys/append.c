#include "api/keys/internal.h"

static struct fault append(struct op *op, struct services *services, const struct event_append *message)
{
    uint64_t seq = 0;
    struct fault fault = events_append(op, services->log, message, &seq);
    if (fault.code == FAULT_LOG_CONFLICT) {
        struct fault_note note = op->note;
        op->note = (struct fault_note){ 0 };
        TRY(projector_catch_up(op, services->projector)); /* or the next look would see what this one saw */
        op->note = note;
    }
    TRY(fault);
    return projector_wait(op, services->projector, seq);
}

struct fault key_append_generated(struct op *op, struct services *services, const struct managed_key *key,
                                  uint64_t expected_lane)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(8192);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", key->ref.id.text);
    jout_key_text(&jout, "purpose", key_purpose_text(key->ref.purpose));
    jout_key_text(&jout, "algorithm", key_algorithm_text(key->algorithm));
    jout_key_text(&jout, "name", key->name);
    jout_key_bool(&jout, "system", key->system);
    jout_key_base64(&jout, "public_key_der", key->spki);
    if (key_state_of(key) == KEY_PREPARED) {
        jout_key_bool(&jout, "prepared", true);
    }
    if (key->ref.token.text[0] != '\0') {
        jout_key_text(&jout, "token", key->ref.token.text);
    }
    if (key->max_uses > 0) {
        jout_key_int(&jout, "max_uses", key->max_uses);
    }
    if (key->not_after != 0) {
        jout_key_time(&jout, "not_after", key->not_after);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct event event = { .type = "key.generated", .schema_version = 1, .data = buf_span(&data) };
    struct event_append message = {
        .lane = LANE_KEYS, .events = &event, .count = 1, .expect = true, .expected = expected_lane
    };
    const struct span parts[] = { span_text(op->tenant.text), span_text(key->ref.id.text) };
    TRY(uuid_derive("key.generated", parts, COUNT_OF(parts), &message.message_id));
    return append(op, services, &message);
}

/* `expected` NULL: whatever the lane's last is. */
static struct fault append_one(struct op *op, struct services *services, const char *type, const char *message_seed,
                               struct uuid key_id, const struct buf *data, const uint64_t *expected)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    struct event_append message = { .lane = LANE_KEYS,
                                    .events = &event,
                                    .count = 1,
                                    .expect = expected != NULL,
                                    .expected = expected != NULL ? *expected : 0 };
    const struct span parts[] = { span_text(op->tenant.text), span_text(key_id.text), span_text(message_seed) };
    TRY(uuid_derive(type, parts, COUNT_OF(parts), &message.message_id));
    return append(op, services, &message);
}

struct fault key_append_one(struct op *op, struct services *services, const char *type, const char *message_seed,
                            struct uuid key_id, const struct buf *data)
{
    return append_one(op, services, type, message_seed, key_id, data, NULL);
}

struct fault key_append_expecting(struct op *op, struct services *services, const char *type, const char *message_seed,
                                  struct uuid key_id, const struct buf *data, uint64_t expected_lane)
{
    return append_one(op, services, type, message_seed, key_id, data, &expected_lane);
}
