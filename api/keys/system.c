/* What a feature does with keys of its own: those are moved by the feature's events, not by requests. */
#include "api/keys/internal.h"

struct fault keys_prepare(struct op *op, struct services *services, enum key_purpose purpose,
                          enum key_algorithm algorithm, const char *name, struct managed_key *ret_key)
{
    struct managed_key key = {
        .ref = { .tenant = op->tenant, .purpose = purpose },
        .algorithm = algorithm,
        .name = name,
        .state = key_state_text(KEY_PREPARED),
        .system = true,
    };
    const struct span parts[] = { span_text(op->tenant.text), span_text(key_purpose_text(purpose)),
                                  span_text(key_algorithm_text(algorithm)), span_text(name) };
    TRY(uuid_derive("key.prepared", parts, COUNT_OF(parts), &key.ref.id));
    struct fault fault = OK;
    for (int i = 0; i < DECIDE_AGAIN_MAX; i++) {
        uint64_t lane = 0;
        TRY(key_lane_last(op, services, &lane));
        fault = keys_get(op, services, key.ref.id, ret_key);
        if (fault.code != FAULT_KEY_NOT_FOUND) {
            return fault;
        }
        op->note = (struct fault_note){ 0 };
        if (key.spki.len == 0) {
            TRY(key_make_in_token(op, services, &key));
        }
        fault = key_append_generated(op, services, &key, lane);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    TRY(fault);
    return keys_get(op, services, key.ref.id, ret_key);
}
