/*
 * One operation: work that is done for somebody. Carries who, how long, the arena, the trace, and one note about what
 * went wrong. Handed down first in every call chain; never shared between threads at the same time.
 */
#ifndef APPLIANCE_BASE_OP_H
#define APPLIANCE_BASE_OP_H

#include "appliance/base/arena.h"
#include "appliance/base/clock.h"
#include "appliance/base/fault.h"
#include "appliance/base/id.h"

#define OP_ROLES_MAX   8
#define OP_SUBJECT_MAX 128

/* Who acts, as verified (never as claimed). permissions: bit n = permission n of identity's table. */
struct principal {
    char subject[OP_SUBJECT_MAX + 1];
    char roles[OP_ROLES_MAX][32];
    size_t role_count;
    uint64_t permissions;
};

/* What the failing layer knows. First writer wins: the innermost place saw the cause. `detail` is safe to show the
 * caller; `log_detail` is for the log only (masked, never secrets). `pointer` is a JSON pointer or parameter name. */
struct fault_note {
    bool set;
    enum fault_code code;
    const char *file;
    int line;
    char detail[256];
    char log_detail[512];
    char pointer[128];
    char resource[160];
    char sqlstate[6];
    int retry_after_s; /* 0 = the default of the retry class */
};

/* What the event log has of this operation. A mutation that is answered with success has an event, or its handler has
 * said why there is none: "no event" is never an accident (api/server/reconcile.h). */
enum op_recorded {
    OP_RECORDED_NOTHING,
    OP_RECORDED_EVENT,   /* events_append */
    OP_RECORDED_EARLIER, /* op_was_recorded: an earlier run of the same command appended it */
    OP_CHANGED_NOTHING,  /* op_changed_nothing: what was asked for was so already */
};

struct trace_span; /* appliance/base/tracing.h */

/* What was sent for an operation and is not answered yet (store_ahead in api/store/store.h). Its answer may be that
 * nothing shall be done: whoever is about to do something outside of the database asks op_settle() first. */
struct op;
struct op_ahead {
    struct fault (*settle)(struct op *op);
};

struct op {
    struct tenant_id tenant;
    struct principal principal;
    char trace_id[33]; /* W3C trace-id, 32 hex */
    char span_id[17];
    uint64_t parent_span;       /* of span_id's span; 0 = none */
    bool sampled;               /* the trace is to be recorded, by whoever records */
    uint64_t spans;             /* opened so far */
    struct trace_span *tracing; /* the innermost one that is open */
    const char *tracestate;     /* W3C, passed on; in the arena; NULL = none */
    mono_ns deadline;
    struct arena *arena; /* owned by whoever made the operation */
    struct fault_note note;
    unsigned tx_open;       /* transactions open on this operation: outside calls meanwhile are a bug */
    struct uuid command_id; /* deterministic for a mutation (from tenant, idempotency key, route); "" otherwise */
    enum op_recorded recorded;
    uint64_t recorded_seq;                 /* stream sequence of the last message that was appended for it; 0 = none */
    struct op_ahead *ahead;                /* NULL: nothing is on its way */
    unsigned store_waits, event_log_waits; /* answers of the database and of the event log that it waited for */
};

static inline struct fault op_settle(struct op *op)
{
    return op->ahead == NULL ? OK : op->ahead->settle(op);
}

/* events_append calls it; so does whoever had another thread append for this operation. */
static inline void op_record(struct op *op, uint64_t stream_seq)
{
    op->recorded = OP_RECORDED_EVENT;
    op->recorded_seq = stream_seq;
}
static inline void op_was_recorded(struct op *op)
{
    op->recorded = OP_RECORDED_EARLIER;
}
static inline void op_changed_nothing(struct op *op)
{
    op->recorded = op->recorded == OP_RECORDED_NOTHING ? OP_CHANGED_NOTHING : op->recorded;
}

/* A system operation (worker, start-up): no principal but `subject`, a new trace, deadline `timeout_ms` from now. */
struct fault op_new(const char *subject, struct tenant_id tenant, int timeout_ms, struct op **ret_op);
void op_free(struct op *op);
DEFINE_FREEP(struct op, op_free)

static inline bool op_expired(const struct op *op)
{
    return clock_mono() >= op->deadline;
}

/* Records the note and gives back the fault: `return op_fail(op, FAULT(X), "what", ...)`. `detail` reaches the caller:
 * say what is wrong and what to do, never data of others. op may be NULL (then only the code travels). */
#define op_fail(op, fault, ...) op_fail_at((op), (fault), __FILE__, __LINE__, __VA_ARGS__)
struct fault op_fail_at(struct op *op, struct fault fault, const char *file, int line, const char *detail, ...)
    PRINTF(5, 6);
/* The same, with the JSON pointer or parameter at fault. */
struct fault op_fail_field(struct op *op, struct fault fault, const char *pointer, const char *detail, ...)
    PRINTF(4, 5);
/* Adds what only the log may see (upstream text). Keeps the first. */
void op_note_log(struct op *op, const char *format, ...) PRINTF(2, 3);

#endif
