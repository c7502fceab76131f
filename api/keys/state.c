/* What needs neither store nor token: a key's states, and what they permit. */
#include "api/keys/internal.h"

static const char *const texts[KEY_STATES] = {
    [KEY_PREPARED] = "prepared", [KEY_ACTIVE] = "active",       [KEY_RETIRING] = "retiring",
    [KEY_RETIRED] = "retired",   [KEY_DESTROYED] = "destroyed",
};

/* States go one way only: what was judged of a key stays true. */
static const bool moves[KEY_STATES][KEY_STATES] = {
    [KEY_PREPARED] = { [KEY_ACTIVE] = true, [KEY_DESTROYED] = true },
    [KEY_ACTIVE] = { [KEY_RETIRED] = true, [KEY_DESTROYED] = true },
    [KEY_RETIRING] = { [KEY_RETIRED] = true, [KEY_DESTROYED] = true },
    [KEY_RETIRED] = { [KEY_DESTROYED] = true },
};

const char *key_state_text(enum key_state state)
{
    return texts[state];
}

bool key_state_parse(const char *text, enum key_state *ret_state)
{
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        if (strcmp(texts[i], text) == 0) {
            *ret_state = (enum key_state)i;
            return true;
        }
    }
    return false;
}

enum key_state key_state_of(const struct managed_key *key)
{
    enum key_state state = KEY_DESTROYED;
    return key_state_parse(key->state, &state) ? state : KEY_DESTROYED;
}

bool key_may_move(enum key_state from, enum key_state to)
{
    return moves[from][to];
}

/* The moment from which nothing more is accepted; INT64_MAX = none yet. */
static utc_us end_of(const struct managed_key *key)
{
    utc_us end = key->retires != 0 ? key->retires : INT64_MAX;
    return key->retired != 0 && key->retired < end ? key->retired : end;
}

static struct fault refuse_state(struct op *op, const struct managed_key *key, utc_us at, const char *pointer)
{
    switch (key_state_of(key)) {
    case KEY_PREPARED:
        return op_fail_field(op, FAULT(KEY_STATE), pointer,
                             "the key is prepared and does not sign yet: activate it (svc-cli keys activate)");
    case KEY_ACTIVE:
        return OK;
    case KEY_RETIRING:
    case KEY_RETIRED:
        if (at < end_of(key)) {
            return OK;
        }
        return op_fail_field(op, FAULT(KEY_STATE), pointer, "the key is retired and signs no more%s%s",
                             key->replaced_by != NULL ? ": its place has key " : "",
                             key->replaced_by != NULL ? key->replaced_by : "");
    case KEY_DESTROYED:
    case KEY_STATES:
        break;
    }
    return op_fail_field(op, FAULT(KEY_STATE), pointer, "the key is %s and signs no more", key->state);
}

struct fault keys_check_use(struct op *op, const struct managed_key *key, utc_us at, size_t digests,
                            const char *pointer)
{
    TRY(refuse_state(op, key, at, pointer));
    if (key->not_after != 0 && at >= key->not_after) {
        return op_fail_field(op, FAULT(KEY_EXPIRED), pointer, "the key's not_after has passed: use another key");
    }
    int64_t left = key->max_uses - key->claimed;
    if (digests > 0 && key->max_uses > 0 && (int64_t)digests > left) {
        return op_fail_field(op, FAULT(KEY_EXHAUSTED), pointer,
                             "the key may be used %lld times, and %lld are left: use another key",
                             (long long)key->max_uses, (long long)(left > 0 ? left : 0));
    }
    return OK;
}
