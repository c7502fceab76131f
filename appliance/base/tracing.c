#include "appliance/base/tracing.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

#define REMEMBERED 4096u /* traces; a power of two */
#define GOLDEN     0x9e3779b97f4a7c15u

atomic_bool trace_recording;
static _Atomic(trace_sink) the_sink;
static _Atomic(void *) the_arg;
static atomic_uint inside; /* callers that may be in the sink */
static _Atomic(uint64_t) threshold;
static _Atomic(uint64_t) said[REMEMBERED]; /* the trace id's last 63 bits, and what its caller said */

/* A bijection that spreads: for ids and samples, not for secrets. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t span_number(uint64_t x)
{
    uint64_t id = mix(x);
    return id != 0 ? id : GOLDEN;
}

/* What is no digit counts as 0. */
uint64_t trace_number(const char *at)
{
    uint64_t number = 0;
    for (size_t i = 0; i < 16 && at[i] != '\0'; i++) {
        char c = at[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                : 0;
        number = number << 4 | digit;
    }
    return number;
}

static void put_number(uint64_t number, uint8_t *at)
{
    for (int i = 0; i < 8; i++) {
        at[i] = (uint8_t)(number >> (56 - 8 * i));
    }
}

/* ---- which traces ---- */

bool trace_ratio_parse(const char *text, unsigned *ret_ppm)
{
    if ((text[0] != '0' && text[0] != '1') || (text[1] != '\0' && (text[1] != '.' || text[2] == '\0'))) {
        return false;
    }
    unsigned ppm = (unsigned)(text[0] - '0') * TRACE_SAMPLE_ALL, worth = TRACE_SAMPLE_ALL / 10;
    for (const char *at = text + (text[1] == '.' ? 2 : 1); *at != '\0'; at++, worth /= 10) {
        if (*at < '0' || *at > '9' || worth == 0) {
            return false;
        }
        ppm += (unsigned)(*at - '0') * worth;
    }
    if (ppm > TRACE_SAMPLE_ALL) {
        return false;
    }
    *ret_ppm = ppm;
    return true;
}

void trace_start(trace_sink sink, void *arg, unsigned sample_ppm)
{
    uint64_t part = sample_ppm >= TRACE_SAMPLE_ALL ? UINT64_MAX : UINT64_MAX / TRACE_SAMPLE_ALL * sample_ppm;
    atomic_store(&threshold, part);
    atomic_store(&the_arg, arg);
    atomic_store(&the_sink, sink);
    atomic_store(&trace_recording, sink != NULL);
}

void trace_stop(void)
{
    atomic_store(&trace_recording, false);
    atomic_store(&the_sink, NULL);
    while (atomic_load(&inside) != 0) { /* a sink does not wait: a few hundred nanoseconds */
        (void)sched_yield();
    }
}

void trace_remember(const char *trace_id, bool sampled)
{
    uint64_t key = trace_number(trace_id + 16);
    if (trace_on()) {
        atomic_store_explicit(&said[mix(key) % REMEMBERED], (key & ~UINT64_C(1)) | sampled, memory_order_relaxed);
    }
}

bool trace_sampled(const char *trace_id)
{
    if (!trace_on() || strnlen(trace_id, 2 * TRACE_ID_LEN + 1) != (size_t)2 * TRACE_ID_LEN) {
        return false;
    }
    uint64_t key = trace_number(trace_id + 16);
    uint64_t word = atomic_load_explicit(&said[mix(key) % REMEMBERED], memory_order_relaxed);
    if (word != 0 && (word & ~UINT64_C(1)) == (key & ~UINT64_C(1))) {
        return (word & 1) != 0;
    }
    uint64_t part = atomic_load_explicit(&threshold, memory_order_relaxed);
    return part != 0 && mix(key ^ GOLDEN) <= part;
}

/* ---- records ---- */

/* The end is now. */
static void set_times(struct trace_record *record, mono_ns began)
{
    struct timespec now = { 0 };
    BUG_IF(clock_gettime(CLOCK_REALTIME, &now) != 0);
    record->ended_ns = now.tv_sec * NS_PER_S + now.tv_nsec;
    record->began_ns = record->ended_ns - (clock_mono() - began);
}

static void set_trace(struct trace_record *record, const char *trace_id)
{
    put_number(trace_number(trace_id), record->trace_id);
    put_number(trace_number(trace_id + 16), record->trace_id + 8);
}

static void set_detail(struct trace_record *record, const char *key, const char *detail)
{
    record->detail_key = detail != NULL && detail[0] != '\0' ? key : NULL;
    record->detail[0] = '\0';
    if (record->detail_key != NULL) {
        size_t len = strnlen(detail, TRACE_DETAIL_MAX);
        memcpy(record->detail, detail, len);
        record->detail[len] = '\0';
    }
}

static void emit(const struct trace_record *record)
{
    (void)atomic_fetch_add(&inside, 1);
    trace_sink sink = atomic_load(&the_sink);
    if (sink != NULL) {
        sink(atomic_load(&the_arg), record);
    }
    (void)atomic_fetch_sub(&inside, 1);
}

/* Below the innermost span that is open. */
static void set_child(struct trace_record *record, const struct op *op, enum trace_kind kind, const char *name,
                      mono_ns began, struct fault fault)
{
    set_times(record, began);
    set_trace(record, op->trace_id);
    record->parent = op->tracing != NULL ? op->tracing->id : trace_number(op->span_id);
    record->parent_remote = false;
    record->failed = FAULTED(fault);
    record->error = record->failed ? fault_row(fault.code)->text : NULL;
    record->kind = kind;
    record->name = name;
    record->tenant = op->tenant;
    record->count = 0;
}

void trace_span_begin(struct op *op, struct trace_span *span, enum trace_kind kind, const char *name)
{
    span->kind = kind;
    span->name = name;
    span->op = op;
    span->attribute.key = NULL;
    span->id = span_number(trace_number(op->span_id) + ++op->spans * GOLDEN);
    span->outer = op->tracing;
    op->tracing = span;
    span->began = clock_mono();
}

void trace_span_end(struct trace_span *span, struct fault fault)
{
    struct op *op = span->op;
    struct trace_record record;
    op->tracing = span->outer;
    set_child(&record, op, span->kind, span->name, span->began, fault);
    set_detail(&record, span->detail_key, span->detail);
    record.id = span->id;
    if (span->attribute.key != NULL) {
        record.attributes[record.count++] = span->attribute;
    }
    emit(&record);
}

void trace_leaf(struct op *op, enum trace_kind kind, const char *name, mono_ns began, struct fault fault)
{
    struct trace_record record;
    if (began != 0 && trace_on() && op->sampled) {
        set_child(&record, op, kind, name, began, fault);
        set_detail(&record, NULL, NULL);
        record.id = span_number(trace_number(op->span_id) + ++op->spans * GOLDEN);
        emit(&record);
    }
}

void trace_operation(const struct op *op, const struct trace_operation *operation)
{
    struct trace_record record;
    if (!trace_on() || !op->sampled) {
        return;
    }
    set_times(&record, operation->began);
    set_trace(&record, op->trace_id);
    set_detail(&record, operation->detail_key, operation->detail);
    record.id = trace_number(op->span_id);
    record.parent = op->parent_span;
    record.parent_remote = operation->parent_remote;
    record.failed = operation->failed;
    record.error = operation->error;
    record.kind = operation->kind;
    record.name = operation->name;
    record.tenant = op->tenant;
    record.count = operation->count;
    memcpy(record.attributes, operation->attributes, sizeof(record.attributes));
    emit(&record);
}

/* ---- across the event log ---- */

/* Of every byte: of two kinds of UUID no part is chance in both. */
uint64_t trace_append_id(const char *message_id)
{
    uint64_t number = 0;
    for (const char *at = message_id; *at != '\0'; at++) {
        number = mix(number ^ (uint8_t)*at) + GOLDEN;
    }
    return span_number(number);
}

uint64_t trace_project_id(const char *trace_id, uint64_t stream_seq)
{
    return span_number(trace_number(trace_id + 16) ^ mix(stream_seq + GOLDEN));
}

void trace_project(const char *trace_id, struct tenant_id tenant, const char *message_id, uint64_t stream_seq,
                   mono_ns began, size_t batch)
{
    struct trace_record record;
    set_times(&record, began);
    set_trace(&record, trace_id);
    set_detail(&record, NULL, NULL);
    record.id = trace_project_id(trace_id, stream_seq);
    record.parent = trace_append_id(message_id);
    record.parent_remote = true;
    record.failed = false;
    record.error = NULL;
    record.kind = TRACE_CONSUMER;
    record.name = "project";
    record.tenant = tenant;
    record.attributes[0] = (struct trace_attribute){ "svc.stream.sequence", NULL, (int64_t)stream_seq };
    record.attributes[1] = (struct trace_attribute){ "svc.projector.batch_messages", NULL, (int64_t)batch };
    record.count = 2;
    emit(&record);
}
