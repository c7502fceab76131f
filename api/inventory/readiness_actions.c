/* What people decided about an object of the dataset. The newest of each kind stands; all of them stay in the trail. */
#include "api/inventory/crypto.h"

#define TEXT_MAX  32768 /* wider than a request's: an erasure may put in a longer word */
#define EVENT_MAX ((size_t)16 << 10)

static const char *const kinds[] = { "migrate", "retire", "accept", "investigate" };
static const char *const states[] = { "planned", "in_progress", "done", "cancelled" };

static bool is_one_of(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

static struct fault check(struct op *op, struct services *services, const struct action_body *body)
{
    if (!is_one_of(body->action, kinds, COUNT_OF(kinds))) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/action",
                             "/action: must be migrate, retire, accept or investigate");
    }
    if (!is_one_of(body->state, states, COUNT_OF(states))) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/state",
                             "/state: must be planned, in_progress, done or cancelled");
    }
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    return crypto_object_check(op, tx, body->object);
}

static void print_body(struct jout *jout, const struct action_body *body)
{
    jout_key_text(jout, "action", body->action);
    if (body->due != 0) {
        jout_key_time(jout, "due", body->due);
    }
    jout_key_text(jout, "note", body->note != NULL ? body->note : "");
    jout_key_text(jout, "object", body->object);
    jout_key_text(jout, "state", body->state);
}

struct fault route_readiness_action(struct request *request)
{
    const struct action_body *body = request->body;
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct jout jout;
    TRY(check(request->op, request->services, body));
    jout_init(&jout, &data);
    jout_object(&jout);
    print_body(&jout, body);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(crypto_append(request->op, request->services, EVENT_ACTION, request->op->command_id.text, &data));
    return response_json(request, 0, &data);
}

/* ---- projection ---- */

static const struct sql SQL_ACTION = {
    "readiness_action",
    "INSERT INTO svc.readiness_actions (tenant_id, object, action, state, due_us, note, recorded_by, recorded_us,"
    " sequence, event_id, revision) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1)"
    " ON CONFLICT (tenant_id, object, action) DO UPDATE SET state = excluded.state, due_us = excluded.due_us,"
    " note = excluded.note, recorded_by = excluded.recorded_by, recorded_us = excluded.recorded_us,"
    " sequence = excluded.sequence, event_id = excluded.event_id, revision = readiness_actions.revision + 1",
    10,
};
static const struct jin_field action_fields[] = {
    JIN_TEXT(struct action_body, action, JIN_REQUIRED, 1, 16),
    JIN_TIME(struct action_body, due, JIN_OPTIONAL),
    JIN_TEXT(struct action_body, note, JIN_REQUIRED, 0, TEXT_MAX),
    JIN_TEXT(struct action_body, object, JIN_REQUIRED, 1, CRYPTO_OBJECT_MAX - 1),
    JIN_TEXT(struct action_body, state, JIN_REQUIRED, 1, 16),
};

struct fault project_readiness_action(struct projection *projection, const struct event_view *event)
{
    struct action_body data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, action_fields, COUNT_OF(action_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.object),
        SQL_TEXT(data.action),
        SQL_TEXT(data.state),
        data.due != 0 ? SQL_INT(data.due) : SQL_NONE,
        SQL_TEXT(data.note),
        SQL_TEXT(event->actor_subject),
        SQL_INT(event->time),
        SQL_INT(projection_sequence(projection)),
        SQL_TEXT(event->id.text),
    };
    return tx_queue(projection_tx(projection), &SQL_ACTION, args, COUNT_OF(args));
}
