/*
 * Dead letters that go again. Every row that goes is an event of its own ("outbox.requeued", with who and why), and all
 * of one command are one message. What is decided rests on the lane's end as it was looked at, so two commands never
 * requeue one row: the second one is decided again, by what the first one left. A command that is repeated after a
 * crash finds its own message and is done.
 */
#include "api/operations/internal.h"

#define TRIES      5
#define LOOK_MOST  500 /* rows of one bulk command that are looked at */
#define EVENT_MAX  ((size_t)4 << 10)
#define EVENTS_MAX ((size_t)512 << 10)

static const struct sql SQL_MINE = {
    "operations_requeued_by",
    "SELECT stream_seq, body FROM svc.event_envelopes WHERE message_id = $1 AND tenant_id = $2",
    2,
};

struct plan {
    struct uuid message_id;
    uint64_t lane;
    bool done; /* by an earlier run of this command */
    struct event events[REQUEUE_MOST];
    size_t count;
    struct requeued told;
};

static struct fault add(struct op *op, struct plan *plan, const struct outbox_seen *seen, const char *reason)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct jout jout;
    struct event *event = &plan->events[plan->count];
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "destination", seen->destination);
    jout_key_text(&jout, "key", seen->key);
    jout_key_int(&jout, "outbox_id", seen->id);
    jout_key_text(&jout, "reason", reason);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    *event = (struct event){ .type = EVENT_OUTBOX_REQUEUED, .schema_version = 1 };
    TRY(arena_copy(op->arena, buf_span(&data), &event->data));
    plan->count++;
    return OK;
}

static struct fault look_for_mine(struct op *op, struct tx *tx, struct plan *plan)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct event_message message;
    const struct sql_arg args[] = { SQL_TEXT(plan->message_id.text), SQL_TEXT(op->tenant.text) };
    TRY(tx_query(tx, &SQL_MINE, args, COUNT_OF(args), &rows));
    if (rows_count(rows) == 0) {
        return OK;
    }
    TRY(event_body_decode(op, (uint64_t)rows_int(rows, 0, 0), rows_bytes(rows, 0, 1), &message));
    plan->told.requeued = (int64_t)message.count;
    plan->done = true;
    return OK;
}

static struct fault begin_plan(struct op *op, struct tx *tx, struct plan *plan)
{
    const struct span parts[] = { span_text(op->tenant.text), span_text(op->command_id.text) };
    TRY(uuid_derive(EVENT_OUTBOX_REQUEUED, parts, COUNT_OF(parts), &plan->message_id));
    TRY(projection_lane_last(tx, op->tenant, OPERATIONS_LANE, &plan->lane));
    return look_for_mine(op, tx, plan);
}

static struct fault judge(struct op *op, struct tx *tx, const struct outbox_seen *seen, bool *ret_allowed,
                          const char **ret_why)
{
    const struct outbox_row *row = destination_find(seen->destination);
    if (row == NULL) {
        *ret_allowed = false;
        *ret_why = "this version has no such destination";
        return OK;
    }
    return destination_judge(tx, op->tenant, row, seen->key, ret_allowed, ret_why);
}

/* ---- one ---- */

static struct fault plan_one(struct op *op, struct services *services, int64_t id, const char *reason,
                             struct plan *plan)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct outbox_seen seen;
    const char *why = "";
    bool allowed = false;
    TRY(tx_begin_snapshot(op, services->store, STORE_REQUEST, &tx)); /* the row and its effect as of one moment */
    TRY(begin_plan(op, tx, plan));
    if (plan->done) {
        return OK;
    }
    TRY(outbox_get(op, tx, id, &seen));
    if (strcmp(seen.state, "dead-lettered") != 0) {
        return op_fail(op, FAULT(OUTBOX_NOT_DEAD), "it is %s: only what is dead-lettered is requeued", seen.state);
    }
    TRY(judge(op, tx, &seen, &allowed, &why));
    if (!allowed) {
        return op_fail(op, FAULT(OUTBOX_FINAL), "%s is not requeued: %.200s", seen.destination, why);
    }
    return add(op, plan, &seen, reason);
}

/* ---- many ---- */

/* Those that may not go hold up no other. */
static struct fault plan_rows(struct op *op, struct tx *tx, const char *destination, int64_t limit, const char *reason,
                              struct plan *plan)
{
    struct outbox_seen *list = NULL;
    size_t count = 0, i = 0;
    TRY(outbox_dead(op, tx, destination, 0, LOOK_MOST + 1, &list, &count));
    for (; i < count && i < LOOK_MOST && (int64_t)plan->count < limit; i++) {
        const char *why = "";
        bool allowed = false;
        TRY(judge(op, tx, &list[i], &allowed, &why));
        if (allowed) {
            TRY(add(op, plan, &list[i], reason));
        } else {
            plan->told.refused++;
            plan->told.refused_why = plan->told.refused_why == NULL ? why : plan->told.refused_why;
        }
    }
    plan->told.requeued = (int64_t)plan->count;
    plan->told.more = i < count;
    return OK;
}

static struct fault plan_many(struct op *op, struct services *services, const char *destination, int64_t limit,
                              const char *reason, struct plan *plan)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin_snapshot(op, services->store, STORE_REQUEST, &tx)); /* the row and its effect as of one moment */
    TRY(begin_plan(op, tx, plan));
    if (plan->done) {
        return OK;
    }
    TRY(plan_rows(op, tx, destination, limit, reason, plan));
    if (plan->count == 0 && plan->told.refused > 0) {
        return op_fail(op, FAULT(OUTBOX_FINAL), "none of %s is requeued: %.200s", destination, plan->told.refused_why);
    }
    return plan->count > 0 ? OK : op_fail(op, FAULT(OUTBOX_NOT_DEAD), "nothing of %.63s is dead-lettered", destination);
}

/* ---- both ---- */

static struct fault carry_out(struct op *op, struct services *services, const struct plan *plan)
{
    uint64_t seq = 0;
    const struct event_append message = { .lane = OPERATIONS_LANE,
                                          .message_id = plan->message_id,
                                          .events = plan->events,
                                          .count = plan->count,
                                          .expect = true,
                                          .expected = plan->lane };
    if (plan->done) {
        op_changed_nothing(op);
        return OK;
    }
    struct fault fault = events_append(op, services->log, &message, &seq);
    if (fault.code == FAULT_LOG_CONFLICT) {
        op->note = (struct fault_note){ 0 };
        TRY(projector_catch_up(op, services->projector)); /* or the next look would see what this one saw */
        return fault;
    }
    TRY(fault);
    return projector_wait(op, services->projector, seq);
}

struct fault requeue_one(struct op *op, struct services *services, int64_t id, const char *reason)
{
    struct fault fault = OK;
    for (int i = 0; i < TRIES; i++) {
        struct plan *plan = NULL;
        TRY(arena_take(op->arena, 1, sizeof(*plan), &plan));
        TRY(plan_one(op, services, id, reason, plan));
        fault = carry_out(op, services, plan);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
    }
    return fault;
}

struct fault requeue_many(struct op *op, struct services *services, const char *destination, int64_t limit,
                          const char *reason, struct requeued *ret_requeued)
{
    struct fault fault = OK;
    if (destination_find(destination) == NULL) {
        return op_fail_field(op, FAULT(NOT_FOUND), "/destination", "no such destination: see GET /api/v1/outbox");
    }
    for (int i = 0; i < TRIES; i++) {
        struct plan *plan = NULL;
        TRY(arena_take(op->arena, 1, sizeof(*plan), &plan));
        TRY(plan_many(op, services, destination, limit, reason, plan));
        fault = carry_out(op, services, plan);
        *ret_requeued = plan->told;
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
    }
    return fault;
}
