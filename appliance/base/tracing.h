/*
 * Spans of W3C traces, where they begin and end. Every room may name a piece of its work; what is recorded goes to one
 * sink of the process (api/telemetry/otlp.h), and while there is none, or the operation's trace is not sampled, a span
 * costs two loads and nothing else: no clock, no copy, no allocation ever.
 *
 *     return TRACED(op, TRACE_PRODUCER, "append", "svc.events.lane", append->lane, append_it(op, log, append));
 *
 * An operation is a span itself (op->span_id); those that open within it are its children or each other's. Across the
 * event log nothing travels but the trace id, so the ids of the spans on both sides follow from what both sides know:
 * the span of an append from the message id, that of the projection from the stream sequence. Whether the trace is
 * sampled follows from its id, or is what its caller said, which this process remembers for a while.
 *
 * Thread-safe; an operation's spans belong to the thread that works on it.
 */
#ifndef APPLIANCE_BASE_TRACING_H
#define APPLIANCE_BASE_TRACING_H

#include "appliance/base/op.h"

#include <stdatomic.h>

/* The numbers are OTLP's. */
enum trace_kind { TRACE_INTERNAL = 1, TRACE_SERVER, TRACE_CLIENT, TRACE_PRODUCER, TRACE_CONSUMER };

#define TRACE_ATTRIBUTES_MAX 8
#define TRACE_DETAIL_MAX     127
#define TRACE_ID_LEN         16
#define TRACE_SAMPLE_ALL     1000000u

/* Key and text are constants of the program. */
struct trace_attribute {
    const char *key;
    const char *text; /* NULL = the number */
    int64_t number;
};

/* One span that ended, as the sink gets it. Names, keys and errors are constants of the program; the detail, which
 * belongs to the span's name as well ("append keys"), is cut to its room. */
struct trace_record {
    uint8_t trace_id[TRACE_ID_LEN];
    uint64_t id, parent; /* parent 0 = none */
    bool parent_remote;
    bool failed;
    enum trace_kind kind;
    const char *name, *detail_key; /* detail_key NULL = no detail */
    char detail[TRACE_DETAIL_MAX + 1];
    struct tenant_id tenant;
    int64_t began_ns, ended_ns; /* since 1970 */
    const char *error;          /* closed code, NULL = none */
    struct trace_attribute attributes[TRACE_ATTRIBUTES_MAX];
    size_t count;
};
/* Must not wait. */
typedef void (*trace_sink)(void *arg, const struct trace_record *record);

/* Starts recording: of the traces whose caller says nothing, so many of a million. One sink at a time. */
void trace_start(trace_sink sink, void *arg, unsigned sample_ppm);
/* Nothing is recorded when this returns, and nobody is in the sink any more. */
void trace_stop(void);
/* "1", "0.25", "0.001": a part of 1 with up to six decimals. False: it is not. */
bool trace_ratio_parse(const char *text, unsigned *ret_ppm);

extern atomic_bool trace_recording;
static inline bool trace_on(void)
{
    return atomic_load_explicit(&trace_recording, memory_order_relaxed);
}

/* Of a trace id (32 hex digits): what its caller said, as far as it is remembered, otherwise what its id gives. False
 * while nothing is recorded. */
bool trace_sampled(const char *trace_id);
/* The caller's word, for later steps of the same trace in this process: the last few thousand. */
void trace_remember(const char *trace_id, bool sampled);

/* ---- spans within an operation ---- */

struct trace_span {
    bool on;
    enum trace_kind kind;
    struct op *op;
    struct trace_span *outer;
    uint64_t id;
    mono_ns began;
    const char *name, *detail_key, *detail; /* the detail is read when the span ends */
    struct trace_attribute attribute;       /* one more, for whoever opened it; key NULL = none */
};
void trace_span_begin(struct op *op, struct trace_span *span, enum trace_kind kind, const char *name);
void trace_span_end(struct trace_span *span, struct fault fault);

/* Opens a span below the innermost one of `op`; every way out must close it, the innermost first. detail_key may be
 * NULL. op may be NULL: no span. */
static inline void trace_enter(struct op *op, struct trace_span *span, enum trace_kind kind, const char *name,
                               const char *detail_key, const char *detail)
{
    span->on = trace_on() && op != NULL && op->sampled;
    if (span->on) {
        span->detail_key = detail_key;
        span->detail = detail;
        trace_span_begin(op, span, kind, name);
    }
}
static inline struct fault trace_leave(struct trace_span *span, struct fault fault)
{
    if (span->on) {
        trace_span_end(span, fault);
    }
    return fault;
}
/* A span that ended and had none within it, for what does not end where it began. began 0 = none. */
void trace_leaf(struct op *op, enum trace_kind kind, const char *name, mono_ns began, struct fault fault);
/* `call` within a span of its own; gives its fault. */
#define TRACED(op, kind, name, detail_key, detail, call)                   \
    __extension__({                                                        \
        struct trace_span span_;                                           \
        trace_enter((op), &span_, (kind), (name), (detail_key), (detail)); \
        trace_leave(&span_, (call));                                       \
    })

/* ---- the operation's own span ---- */

struct trace_operation {
    enum trace_kind kind;
    const char *name, *detail_key, *detail;
    mono_ns began;
    bool parent_remote, failed;
    const char *error;
    struct trace_attribute attributes[TRACE_ATTRIBUTES_MAX];
    size_t count;
};
/* Records it, when the operation's trace is sampled: op->span_id below op->parent_span. */
void trace_operation(const struct op *op, const struct trace_operation *operation);

/* Sixteen hex digits as a span's number. */
uint64_t trace_number(const char *hex);

/* ---- spans that both sides of the event log can name ---- */

uint64_t trace_append_id(const char *message_id);
uint64_t trace_project_id(const char *trace_id, uint64_t stream_seq);
/* A span that belongs to no operation of this thread. trace_id is 32 hex digits. */
void trace_project(const char *trace_id, struct tenant_id tenant, const char *message_id, uint64_t stream_seq,
                   mono_ns began, size_t batch);

#endif
