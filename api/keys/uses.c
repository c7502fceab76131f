/*
 * Limits and uses. The projector applies commands one after another, so it alone decides who gets the last use of a
 * limited key: the whole of a command, or nothing of it. What was merely used is added up over a batch and written to a
 * narrow table of its own; a limit never rests on that.
 */
#include "api/keys/internal.h"

#include "appliance/base/json_view.h"

/* Nothing for a key without limit, which is one look at its row. */
static const struct sql SQL_CLAIM = {
    "keys_claim",
    "WITH taken AS (UPDATE svc.managed_keys SET claimed = claimed + $4::bigint"
    " WHERE key_id = $2 AND max_uses IS NOT NULL AND claimed + $4::bigint <= max_uses RETURNING key_id)"
    " INSERT INTO svc.key_claims (tenant_id, command_id, key_id, count, granted)"
    " SELECT $1::text, $3::text, k.key_id, $4::bigint, EXISTS (SELECT FROM taken) FROM svc.managed_keys k"
    " WHERE k.key_id = $2 AND k.max_uses IS NOT NULL ON CONFLICT DO NOTHING",
    4,
};
static const struct sql SQL_ANY_LIMIT = {
    "keys_any_limit",
    "SELECT EXISTS (SELECT FROM svc.managed_keys WHERE max_uses IS NOT NULL)",
    0,
};
static const struct sql SQL_RETURN = {
    "keys_return",
    "WITH ended AS (UPDATE svc.key_claims SET granted = false WHERE command_id = $1 AND granted"
    " RETURNING key_id, count)"
    " UPDATE svc.managed_keys k SET claimed = k.claimed - ended.count FROM ended WHERE k.key_id = ended.key_id",
    1,
};
static const struct sql SQL_USE = {
    "keys_use",
    "INSERT INTO svc.key_uses (tenant_id, key_id, uses, last_used_us) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT (tenant_id, key_id) DO UPDATE SET uses = key_uses.uses + excluded.uses,"
    " last_used_us = greatest(key_uses.last_used_us, excluded.last_used_us)",
    4,
};
static const struct sql SQL_GRANTED = {
    "keys_granted",
    "SELECT granted FROM svc.key_claims WHERE command_id = $1 AND key_id = $2",
    2,
};

/* Whether a tenant has a limited key at all is asked once for many commands of it. */
#define TURN_LONG 32
enum limits { LIMITS_UNKNOWN, LIMITS_NONE, LIMITS_SOME };
static const char limits_note;

void keys_project_limited(struct projection *projection)
{
    projection_note_set(projection, &limits_note, LIMITS_SOME);
}

static struct fault no_limits(struct projection *projection, bool *ret_none)
{
    int known = projection_note(projection, &limits_note);
    if (known == LIMITS_UNKNOWN && projection_turn(projection) >= TURN_LONG) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        TRY(tx_query(projection_tx(projection), &SQL_ANY_LIMIT, NULL, 0, &rows));
        known = rows_bool(rows, 0, 0) ? LIMITS_SOME : LIMITS_NONE;
        projection_note_set(projection, &limits_note, known);
    }
    *ret_none = known == LIMITS_NONE;
    return OK;
}

struct fault keys_project_claim(struct projection *projection, const char *key_id, const char *command_id,
                                int64_t count)
{
    bool none = false;
    TRY(no_limits(projection, &none));
    if (none) {
        return OK;
    }
    const struct sql_arg args[] = { SQL_TEXT(projection_op(projection)->tenant.text), SQL_TEXT(key_id),
                                    SQL_TEXT(command_id), SQL_INT(count) };
    return tx_queue(projection_tx(projection), &SQL_CLAIM, args, COUNT_OF(args));
}

struct fault keys_project_return(struct projection *projection, const char *command_id)
{
    return tx_queue(projection_tx(projection), &SQL_RETURN, (struct sql_arg[]){ SQL_TEXT(command_id) }, 1);
}

struct fault keys_project_use(struct projection *projection, const char *key_id)
{
    return projection_tally(projection, &SQL_USE, key_id, 1);
}

struct fault keys_project_use_of(struct projection *projection, const struct event_view *event)
{
    const char *key_id = view_member(projection_op(projection), (struct view){ event->data }, "key_id");
    return key_id != NULL ? keys_project_use(projection, key_id) : OK;
}

static struct fault read_claim(struct op *op, struct services *services, const char *key_id, const char *command_id,
                               bool *ret_granted)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_GRANTED, (struct sql_arg[]){ SQL_TEXT(command_id), SQL_TEXT(key_id) }, 2, &rows));
    *ret_granted = rows_count(rows) == 1 && rows_bool(rows, 0, 0);
    return OK;
}

struct fault keys_claim_granted(struct op *op, struct services *services, const struct managed_key *key,
                                struct uuid command_id)
{
    bool granted = key->max_uses == 0;
    if (!granted) {
        TRY(read_claim(op, services, key->ref.id.text, command_id.text, &granted));
    }
    return granted ? OK
                   : op_fail(op, FAULT(KEY_EXHAUSTED),
                             "the key may be used %lld times, and fewer were left than this needs: use another key",
                             (long long)key->max_uses);
}
