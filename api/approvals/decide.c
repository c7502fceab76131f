/* What approvers decide. The lane's expected sequence makes two decisions at once meet, and the projection judges. */
#include "api/approvals/internal.h"

#define EVENT_MAX ((size_t)8 << 10)

struct fault approval_append(struct op *op, struct services *services, const char *type, const struct span *parts,
                             size_t count, const struct buf *data, uint64_t expected_lane)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    struct event_append message = {
        .lane = APPROVALS_LANE, .events = &event, .count = 1, .expect = true, .expected = expected_lane
    };
    uint64_t seq = 0;
    TRY(uuid_derive(type, parts, count, &message.message_id));
    struct fault fault = events_append(op, services->log, &message, &seq);
    if (fault.code == FAULT_LOG_CONFLICT) {
        TRY(projector_catch_up(op, services->projector)); /* the next try would only meet the same otherwise */
        return fault;
    }
    TRY(fault);
    return projector_wait(op, services->projector, seq);
}

/* What was asked for, by whom, and whether this was the approval that was still due, stand in the record itself: it is
 * evidence, and who reads it later has nothing else. */
static struct fault print_decided(const struct approval_row *row, enum approval_verdict verdict, const char *approver,
                                  const char *reason, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "request_id", row->id.text);
    jout_key_text(&jout, "resource", row->resource);
    jout_key_text(&jout, "action", row->action);
    jout_key_text(&jout, "requester", row->requester);
    jout_key_text(&jout, "approver", approver);
    jout_key_text(&jout, "reason", reason);
    if (verdict == VERDICT_GRANTED) {
        jout_key_bool(&jout, "approved", row->approvals + 1 >= row->needed);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault closed(struct op *op, const struct approval_row *row, utc_us now)
{
    return op_fail(op, FAULT(APPROVAL_CLOSED), "the request is %s: nothing more is decided about it",
                   approval_standing_text(approval_standing_at(row, now)));
}

static bool takes(const struct approval_row *row, enum approval_verdict verdict, utc_us now)
{
    enum approval_standing standing = approval_standing_at(row, now);
    return standing == STANDING_PENDING || (standing == STANDING_APPROVED && verdict == VERDICT_DENIED);
}

static struct fault check_case(struct op *op, const struct approval_case *found, enum approval_verdict verdict)
{
    if (!found->found) {
        return op_fail(op, FAULT(NOT_FOUND), "no such request: list them with GET /api/v1/approval-requests");
    }
    if (strcmp(found->row.requester, op->principal.subject) == 0) {
        return op_fail(op, FAULT(SELF_APPROVAL), "you asked for this: somebody else decides about it");
    }
    utc_us now = clock_utc();
    return found->decided || takes(&found->row, verdict, now) ? OK : closed(op, &found->row, now);
}

static struct fault decide_once(struct op *op, struct services *services, struct uuid id, enum approval_verdict verdict,
                                const char *reason, struct approval_case *found)
{
    static const char *const types[] = { [VERDICT_GRANTED] = "approval.granted", [VERDICT_DENIED] = "approval.denied" };
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    const char *approver = op->principal.subject;
    TRY(approval_case_read(op, services, id, approver, verdict, found));
    TRY(check_case(op, found, verdict));
    if (found->decided) {
        op_changed_nothing(op);
        return OK; /* recorded before: that is the answer */
    }
    TRY(print_decided(&found->row, verdict, approver, reason, &data));
    const struct span parts[] = { span_text(op->tenant.text), span_text(id.text), span_text(approver) };
    TRY(approval_append(op, services, types[verdict], parts, COUNT_OF(parts), &data, found->lane));
    TRY(approval_case_read(op, services, id, approver, verdict, found));
    if (!found->decided) {
        return closed(op, &found->row, clock_utc()); /* it closed while this was on its way */
    }
    metrics_add(services->metrics, APPROVALS_TOTAL, 1, (const char *const[]){ approval_verdict_text(verdict) });
    return OK;
}

struct fault approval_decide(struct op *op, struct services *services, struct uuid id, enum approval_verdict verdict,
                             const char *reason, struct approval_case *ret_case)
{
    struct fault fault = OK;
    struct approval_case found;
    for (int i = 0; i < DECIDE_AGAIN_MAX; i++) {
        fault = decide_once(op, services, id, verdict, reason, &found);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    TRY(fault);
    *ret_case = found;
    return OK;
}
