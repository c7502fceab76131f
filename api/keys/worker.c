#include "api/keys/internal.h"

struct erase_payload {
    const char *key_id, *purpose;
};
static const struct jin_field erase_fields[] = {
    JIN_TEXT(struct erase_payload, key_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct erase_payload, purpose, JIN_REQUIRED, 1, 32),
};

/* Takes a destroyed key out of the token. A key that is not there any more was taken out by an earlier attempt. */
struct fault key_erase(struct op *op, struct services *services, const struct outbox_item *item)
{
    struct erase_payload payload = { 0 };
    struct managed_key key;
    TRY(jin_decode(op, item->payload, erase_fields, COUNT_OF(erase_fields), &payload));
    TRY(uuid_parse(span_text(payload.key_id), &key.ref.id));
    TRY(keys_get(op, services, key.ref.id, &key)); /* it knows which token */
    const struct key_ref ref = key.ref;
    struct fault fault = signer_destroy(op, services->signer, &ref);
    if (FAULTED(fault) && fault.code != FAULT_KEY_NOT_FOUND) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", payload.key_id);
    jout_key_bool(&jout, "system", key.system);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return key_append_one(op, services, "key.erased", "erased", ref.id, &data);
}

struct retire_payload {
    const char *key_id;
};
static const struct jin_field retire_fields[] = {
    JIN_TEXT(struct retire_payload, key_id, JIN_REQUIRED, 36, 36),
};

/* The end of an overlap. That the key signs no more from then on is judged by the time, not by this record. */
struct fault key_retire(struct op *op, struct services *services, const struct outbox_item *item)
{
    struct retire_payload payload = { 0 };
    struct managed_key key;
    uint64_t lane = 0;
    TRY(jin_decode(op, item->payload, retire_fields, COUNT_OF(retire_fields), &payload));
    TRY(uuid_parse(span_text(payload.key_id), &key.ref.id));
    TRY(key_lane_last(op, services, &lane));
    TRY(keys_get(op, services, key.ref.id, &key));
    if (key_state_of(&key) != KEY_RETIRING) {
        return OK; /* somebody was quicker */
    }
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", payload.key_id);
    jout_key_bool(&jout, "system", key.system);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return key_append_expecting(op, services, "key.retired", "overlap", key.ref.id, &data, lane);
}
