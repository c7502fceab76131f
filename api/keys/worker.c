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
    struct key_ref ref = { .tenant = op->tenant };
    TRY(jin_decode(op, item->payload, erase_fields, COUNT_OF(erase_fields), &payload));
    TRY(uuid_parse(span_text(payload.key_id), &ref.id));
    TRY(key_purpose_parse(span_text(payload.purpose), &ref.purpose));
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
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return key_append_one(op, services, "key.erased", "erased", ref.id, &data);
}
