/* A feature's key that gives way to a new one at a user's command. */
#include "api/keys/internal.h"

#define EVENT_MAX 4096

static struct fault generate(struct op *op, struct services *services, struct managed_key *key)
{
    uint64_t lane = 0;
    struct managed_key found;
    TRY(key_lane_last(op, services, &lane));
    struct fault fault = keys_get(op, services, key->ref.id, &found);
    if (fault.code != FAULT_KEY_NOT_FOUND) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    if (key->spki.len == 0) {
        TRY(key_make_in_token(op, services, key));
    }
    return key_append_generated(op, services, key, lane);
}

static struct fault print_activation(struct op *op, const struct managed_key *key, const struct managed_key *former,
                                     int64_t overlap_us, struct buf *data)
{
    struct jout jout;
    jout_init(&jout, data);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", key->ref.id.text);
    jout_key_bool(&jout, "system", key->system);
    jout_key_text(&jout, "reason", "rotation");
    jout_key_text(&jout, "command_id", op->command_id.text);
    if (former != NULL) {
        jout_key_text(&jout, "replaces", former->ref.id.text);
        jout_key_int(&jout, "overlap_us", overlap_us);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* *ret_ran: the command did so before. */
static struct fault activate(struct op *op, struct services *services, const struct managed_key *key,
                             int64_t overlap_us, bool *ret_ran)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct managed_key now, former;
    uint64_t lane = 0;
    TRY(key_lane_last(op, services, &lane));
    TRY(keys_get(op, services, key->ref.id, &now));
    *ret_ran = key_state_of(&now) != KEY_PREPARED;
    if (*ret_ran) {
        return OK;
    }
    struct fault fault = keys_newest(op, services, key->ref.purpose, key->name, &former);
    bool first = fault.code == FAULT_KEY_NOT_FOUND;
    if (first) {
        op->note = (struct fault_note){ 0 };
    } else {
        TRY(fault);
    }
    TRY(print_activation(op, key, first ? NULL : &former, overlap_us, &data));
    return key_append_expecting(op, services, "key.activated", op->command_id.text, key->ref.id, &data, lane);
}

struct fault keys_replace(struct op *op, struct services *services, enum key_purpose purpose,
                          enum key_algorithm algorithm, const char *name, int64_t overlap_us,
                          struct managed_key *ret_key)
{
    struct managed_key key = { .ref = { .tenant = op->tenant, .purpose = purpose },
                               .algorithm = algorithm,
                               .name = name,
                               .state = key_state_text(KEY_PREPARED),
                               .system = true };
    const struct span parts[] = { span_text(op->command_id.text) };
    TRY(uuid_derive("key", parts, COUNT_OF(parts), &key.ref.id));
    struct fault fault = OK;
    bool ran = false;
    for (int i = 0; i < DECIDE_AGAIN_MAX; i++) {
        op->note = (struct fault_note){ 0 };
        fault = generate(op, services, &key);
        if (!FAULTED(fault)) {
            fault = activate(op, services, &key, overlap_us, &ran);
        }
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
    }
    TRY(fault);
    if (ran) {
        op_was_recorded(op);
    }
    return keys_get(op, services, key.ref.id, ret_key);
}
