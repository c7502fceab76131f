/* A version is never changed: whatever is configured, paused or resumed is another one. */
#include "api/compliance/schedules.h"

#include "appliance/base/secret.h"

#define EVENT_MAX ((size_t)8 << 10)
#define TRIES     5

static struct fault print_configured(const struct op *op, struct uuid id, int64_t version,
                                     const struct schedule_definition *definition, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "command_id", op->command_id.text);
    jout_key(&jout, "definition");
    jout_object(&jout);
    schedule_definition_print(definition, &jout);
    jout_object_end(&jout);
    jout_key_text(&jout, "schedule_id", id.text);
    jout_key_int(&jout, "version", version);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* The lane's expected sequence makes two configurations at once meet: one of them looks again. */
static struct fault append(struct op *op, struct services *services, struct uuid id, int64_t version,
                           const struct schedule_definition *definition, uint64_t lane)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    uint64_t seq = 0;
    TRY(print_configured(op, id, version, definition, &data));
    const struct event event = { .type = EVENT_SCHEDULE_CONFIGURED, .schema_version = 1, .data = buf_span(&data) };
    const struct span parts[] = { span_text(op->tenant.text), span_text(id.text), span_text(op->command_id.text) };
    struct event_append message = {
        .lane = SCHEDULE_LANE, .events = &event, .count = 1, .expect = true, .expected = lane
    };
    TRY(uuid_derive(event.type, parts, COUNT_OF(parts), &message.message_id));
    struct fault fault = events_append(op, services->log, &message, &seq);
    if (fault.code == FAULT_LOG_CONFLICT) {
        TRY(projector_catch_up(op, services->projector)); /* the next try would only meet the same otherwise */
        return fault;
    }
    TRY(fault);
    return projector_wait(op, services->projector, seq);
}

/* Before anything that is decided from the read model. */
static struct fault read_lane(struct op *op, struct services *services, uint64_t *ret_lane, int64_t *ret_all)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    int64_t enabled = 0;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(projection_lane_last(tx, op->tenant, SCHEDULE_LANE, ret_lane));
    return schedule_counts(tx, ret_all, &enabled);
}

/* ---- create ---- */

static struct fault check_preview(struct op *op, struct services *services, const struct schedule_body *body,
                                  const struct schedule_definition *definition)
{
    char present[2 * SHA256_LEN + 1];
    if (body->preview_fingerprint == NULL) {
        return OK;
    }
    TRY(schedule_fingerprint(op->tenant, definition, services->config->reports_kept, present));
    if (!secret_equal(span_text(present), span_text(body->preview_fingerprint))) {
        return op_fail_field(op, FAULT(PREVIEW_CHANGED), "/preview_fingerprint",
                             "make the preview again: it was of another definition, or of another tenant");
    }
    return OK;
}

static struct fault create_once(struct op *op, struct services *services, struct uuid id,
                                const struct schedule_definition *definition)
{
    uint64_t lane = 0;
    int64_t all = 0;
    struct schedule before;
    TRY(read_lane(op, services, &lane, &all));
    struct fault fault = schedule_get(op, services, id, &before);
    if (!FAULTED(fault)) {
        op_was_recorded(op); /* this command has run before */
        return OK;
    }
    if (fault.code != FAULT_NOT_FOUND) {
        return fault;
    }
    op->note = (struct fault_note){ 0 };
    if (all >= SCHEDULES_PER_TENANT) {
        return op_fail(op, FAULT(CONFLICT), "a tenant has at most %d schedules", SCHEDULES_PER_TENANT);
    }
    return append(op, services, id, 1, definition, lane);
}

struct fault schedule_create(struct op *op, struct services *services, const struct schedule_body *body,
                             struct schedule *ret_schedule)
{
    struct schedule_definition definition;
    struct fault fault = OK;
    struct uuid id;
    const struct span parts[] = { span_text(op->tenant.text), span_text(op->command_id.text) };
    TRY(schedule_normalise(op, body, &definition));
    TRY(check_preview(op, services, body, &definition));
    TRY(uuid_derive("compliance.schedule", parts, COUNT_OF(parts), &id));
    for (int i = 0; i < TRIES; i++) {
        fault = create_once(op, services, id, &definition);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    TRY(fault);
    return schedule_get(op, services, id, ret_schedule);
}

/* ---- pause and resume ---- */

static struct fault switch_once(struct op *op, struct services *services, struct uuid id, int64_t expected,
                                bool enabled)
{
    struct schedule schedule;
    uint64_t lane = 0;
    int64_t all = 0;
    bool made = false;
    TRY(read_lane(op, services, &lane, &all));
    struct fault fault = schedule_get(op, services, id, &schedule);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(op, fault, "no such schedule: list them with GET /api/v1/compliance/report-schedules");
    }
    TRY(fault);
    if (schedule.version != expected) {
        TRY(schedule_made_by(op, services, id, expected + 1, &made));
        if (made) {
            op_was_recorded(op); /* this command has run before */
            return OK;
        }
        return op_fail_field(op, FAULT(CONFLICT), "/expected_version",
                             "the schedule is at version %lld: read it again, then decide",
                             (long long)schedule.version);
    }
    if (schedule.definition.enabled == enabled) {
        op_changed_nothing(op);
        return OK;
    }
    schedule.definition.enabled = enabled;
    return append(op, services, id, expected + 1, &schedule.definition, lane);
}

struct fault schedule_switch(struct op *op, struct services *services, struct uuid id, int64_t expected, bool enabled,
                             struct schedule *ret_schedule)
{
    struct fault fault = OK;
    for (int i = 0; i < TRIES; i++) {
        fault = switch_once(op, services, id, expected, enabled);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    TRY(fault);
    return schedule_get(op, services, id, ret_schedule);
}
