/* Taking a signing of an approval that limits them. */
#include "api/approvals/internal.h"

#include <stdio.h>

#define EVENT_MAX ((size_t)4 << 10)

struct wanted_use {
    const char *resource;
    unsigned needed;
    struct uuid operation_id;
    utc_us now;
};

static struct fault denied(struct op *op, const struct approval_use_case *found)
{
    return op_fail(op, FAULT(APPROVAL_DENIED), "%s denied this signing: nothing was signed",
                   found->found && found->row.denied_by != NULL ? found->row.denied_by : "an approver");
}

/* Whether the operation may sign. *ret_limited: only after it has taken one of the signings. */
static struct fault judge(struct op *op, const struct wanted_use *wanted, const struct approval_use_case *found,
                          bool *ret_limited)
{
    struct approval_status status;
    *ret_limited = false;
    if (found->used) {
        return found->used_denied ? denied(op, found) : OK;
    }
    approval_status_of(found->found ? &found->row : NULL, wanted->needed, wanted->now, &status);
    if (status.state == APPROVAL_DENIED) {
        return denied(op, found);
    }
    if (status.state == APPROVAL_USED_UP) {
        return op_fail(op, FAULT(APPROVAL_REQUIRED), "all %lld signings of this approval are made: a new one is needed",
                       (long long)status.max_signings);
    }
    if (status.state != APPROVAL_APPROVED) {
        return op_fail(op, FAULT(APPROVAL_REQUIRED), "there is no approval of this signing");
    }
    *ret_limited = status.max_signings > 0;
    return OK;
}

static struct fault print_used(const struct approval_row *row, const struct wanted_use *wanted, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "request_id", row->id.text);
    jout_key_text(&jout, "resource", row->resource);
    jout_key_text(&jout, "operation_id", wanted->operation_id.text);
    jout_key_int(&jout, "use", row->uses + 1);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault use_once(struct op *op, struct services *services, const struct wanted_use *wanted)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct approval_use_case found;
    bool limited = false;
    TRY(approval_use_case_read(op, services, wanted->resource, wanted->operation_id, &found));
    TRY(judge(op, wanted, &found, &limited));
    if (!limited) {
        return OK;
    }
    TRY(print_used(&found.row, wanted, &data));
    const struct span parts[] = { span_text(op->tenant.text), span_text(found.row.id.text),
                                  span_text(wanted->operation_id.text) };
    TRY(approval_append(op, services, "approval.used", parts, COUNT_OF(parts), &data, found.lane));
    TRY(approval_use_case_read(op, services, wanted->resource, wanted->operation_id, &found));
    TRY(judge(op, wanted, &found, &limited));
    /* Not counted, and yet there would be one: the request was replaced on the way, or the id was spent before. */
    return limited || !found.used ? op_fail(op, FAULT(APPROVAL_REQUIRED), "this approval no longer counts") : OK;
}

struct fault approvals_use(struct op *op, struct services *services, const char *resource, unsigned needed,
                           struct uuid operation_id, utc_us now)
{
    const struct wanted_use wanted = {
        .resource = resource, .needed = needed, .operation_id = operation_id, .now = now
    };
    struct fault fault = OK;
    for (int i = 0; i < USE_AGAIN_MAX; i++) {
        fault = use_once(op, services, &wanted);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    if (fault.code == FAULT_APPROVAL_REQUIRED || fault.code == FAULT_APPROVAL_DENIED) {
        (void)snprintf(op->note.resource, sizeof(op->note.resource), "%s", resource);
    }
    return fault;
}
