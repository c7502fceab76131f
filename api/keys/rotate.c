/* Rotation of the key that wraps the data keys of sealed commands, while everything goes on. */
#include "api/keys/internal.h"

#include "api/keys/seal.h"

static struct fault rotate_once(struct op *op, struct services *services, struct managed_key *key)
{
    uint64_t lane = 0;
    TRY(key_lane_last(op, services, &lane));
    TRY(key_make_in_token(op, services, key));
    return key_append_generated(op, services, key, lane);
}

struct fault key_rotate_seal(struct op *op, struct services *services, struct managed_key *ret_key)
{
    struct managed_key key = { .ref = { .tenant = op->tenant, .purpose = KEY_PURPOSE_SEAL },
                               .algorithm = KEY_ALGORITHM_AES_256,
                               .name = SEAL_KEY_NAME,
                               .state = key_state_text(KEY_ACTIVE),
                               .system = true };
    const struct span parts[] = { span_text(op->command_id.text) };
    TRY(uuid_derive("key", parts, COUNT_OF(parts), &key.ref.id));
    struct fault fault = keys_get(op, services, key.ref.id, ret_key);
    if (!FAULTED(fault)) {
        op_was_recorded(op); /* this command has run before */
    }
    for (int i = 0; i < DECIDE_AGAIN_MAX && (fault.code == FAULT_KEY_NOT_FOUND || fault.code == FAULT_LOG_CONFLICT);
         i++) {
        op->note = (struct fault_note){ 0 };
        fault = rotate_once(op, services, &key);
    }
    TRY(fault);
    keys_seal_renew(op->tenant);
    TRY(keys_seal_prepare(op, services)); /* so that the next signing does not wait for it */
    return keys_get(op, services, key.ref.id, ret_key);
}

struct fault route_seal_rotate(struct request *request)
{
    struct managed_key key;
    TRY(key_rotate_seal(request->op, request->services, &key));
    return route_key_answer(request, &key);
}
