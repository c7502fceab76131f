#include "api/outbox/internal.h"
#include "appliance/base/tracing.h"

void outbox_trace_begin(struct op *op, const struct job *job)
{
    memcpy(op->trace_id, job->trace_id, sizeof(op->trace_id));
    op->sampled = trace_sampled(op->trace_id);
    if (op->sampled) {
        op->parent_span = trace_project_id(op->trace_id, projection_outbox_seq(job->id));
    }
}

void outbox_trace_end(const struct op *op, const struct job *job, struct fault fault, mono_ns began)
{
    const struct trace_operation span = {
        .kind = TRACE_CONSUMER,
        .name = "deliver",
        .detail_key = "svc.outbox.destination",
        .detail = job->row->destination,
        .began = began,
        .parent_remote = true,
        .failed = FAULTED(fault),
        .error = FAULTED(fault) ? fault_row(fault.code)->text : NULL,
        .attributes = { { "svc.outbox.attempt", NULL, job->attempt }, { "svc.outbox.id", NULL, job->id } },
        .count = 2,
    };
    trace_operation(op, &span);
}
