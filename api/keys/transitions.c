/* The moves of a user's key from state to state. */
#include "api/keys/internal.h"

#define EVENT_MAX 4096

static struct fault check_move(struct op *op, const struct managed_key *key, const struct key_move *move)
{
    enum key_state from = key_state_of(key);
    if (key->system) {
        return op_fail(op, FAULT(FORBIDDEN),
                       "this key belongs to the appliance itself (%s) and is not moved by request",
                       key_purpose_text(key->ref.purpose));
    }
    if (from == move->to) {
        return op_fail(op, FAULT(KEY_STATE), "the key is %s already", key->state);
    }
    if (!key_may_move(from, move->to)) {
        return op_fail(op, FAULT(KEY_STATE), "the key is %s: from there it cannot become %s", key->state,
                       key_state_text(move->to));
    }
    if (key->version != move->expected_version) {
        return op_fail_field(op, FAULT(CONFLICT), "/expected_version",
                             "the key is at version %lld: read it again, then decide", (long long)key->version);
    }
    return OK;
}

static struct fault begin(struct op *op, struct jout *jout, struct buf *data, const struct managed_key *key,
                          const struct key_move *move)
{
    jout_init(jout, data);
    jout_object(jout);
    jout_key_text(jout, "key_id", key->ref.id.text);
    jout_key_bool(jout, "system", key->system);
    jout_key_text(jout, "reason", move->reason);
    jout_key_text(jout, "command_id", op->command_id.text);
    return OK;
}

static struct fault end(struct op *op, struct services *services, struct jout *jout, struct buf *data, const char *type,
                        struct uuid id, uint64_t lane)
{
    jout_object_end(jout);
    TRY(jout_end(jout));
    return key_append_expecting(op, services, type, op->command_id.text, id, data, lane);
}

/* The key whose place this one takes; none is fine. */
static struct fault find_former(struct op *op, struct services *services, const struct managed_key *key,
                                struct managed_key *ret_former, bool *ret_found)
{
    struct fault fault = keys_newest(op, services, key->ref.purpose, key->name, ret_former);
    *ret_found = !FAULTED(fault);
    if (fault.code == FAULT_KEY_NOT_FOUND) {
        op->note = (struct fault_note){ 0 };
        return OK;
    }
    return fault;
}

static struct fault activate(struct op *op, struct services *services, const struct managed_key *key,
                             const struct key_move *move, uint64_t lane)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct managed_key former;
    struct jout jout;
    bool found = false;
    TRY(find_former(op, services, key, &former, &found));
    TRY(begin(op, &jout, &data, key, move));
    if (found) {
        int64_t overlap = move->overlap_us >= 0 ? move->overlap_us : services->config->keys_overlap / 1000;
        jout_key_text(&jout, "replaces", former.ref.id.text);
        jout_key_int(&jout, "overlap_us", overlap);
    }
    if (move->max_uses > 0) {
        jout_key_int(&jout, "max_uses", move->max_uses);
    }
    if (move->not_after != 0) {
        jout_key_time(&jout, "not_after", move->not_after);
    }
    return end(op, services, &jout, &data, "key.activated", key->ref.id, lane);
}

static struct fault retire(struct op *op, struct services *services, const struct managed_key *key,
                           const struct key_move *move, uint64_t lane)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct jout jout;
    bool later = move->overlap_us > 0;
    if (later && key_state_of(key) != KEY_ACTIVE) {
        return op_fail_field(op, FAULT(KEY_STATE), "/overlap",
                             "the key is retiring: its overlap is running, and only ends earlier (without overlap)");
    }
    TRY(begin(op, &jout, &data, key, move));
    if (later) {
        jout_key_int(&jout, "overlap_us", move->overlap_us);
    }
    return end(op, services, &jout, &data, later ? "key.retiring" : "key.retired", key->ref.id, lane);
}

static struct fault destroy(struct op *op, struct services *services, const struct managed_key *key,
                            const struct key_move *move, uint64_t lane)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct jout jout;
    TRY(key_destroy_permitted(op, services, key, move->reason));
    TRY(begin(op, &jout, &data, key, move));
    jout_key_text(&jout, "purpose", key_purpose_text(key->ref.purpose));
    return end(op, services, &jout, &data, "key.destroyed", key->ref.id, lane);
}

static struct fault ran_before(struct op *op, struct services *services, struct uuid id, enum key_state to,
                               bool *ret_ran)
{
    const char *command = "";
    TRY(to == KEY_DESTROYED ? key_destroy_command(op, services, id, &command)
                            : key_move_command(op, services, id, &command));
    *ret_ran = strcmp(command, op->command_id.text) == 0;
    return OK;
}

static struct fault move_once(struct op *op, struct services *services, struct uuid id, const struct key_move *move)
{
    uint64_t lane = 0;
    struct managed_key key;
    bool ran = false;
    TRY(key_lane_last(op, services, &lane));
    TRY(keys_get(op, services, id, &key));
    TRY(ran_before(op, services, id, move->to, &ran));
    if (ran) {
        op_was_recorded(op);
        return OK;
    }
    TRY(check_move(op, &key, move));
    return move->to == KEY_ACTIVE    ? activate(op, services, &key, move, lane)
           : move->to == KEY_RETIRED ? retire(op, services, &key, move, lane)
                                     : destroy(op, services, &key, move, lane);
}

struct fault key_transition(struct op *op, struct services *services, struct uuid id, const struct key_move *move,
                            struct managed_key *ret_key)
{
    struct fault fault = OK;
    BUG_IF(move->to != KEY_ACTIVE && move->to != KEY_RETIRED && move->to != KEY_DESTROYED);
    for (int i = 0; i < DECIDE_AGAIN_MAX; i++) {
        fault = move_once(op, services, id, move);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    TRY(fault);
    return keys_get(op, services, id, ret_key);
}
