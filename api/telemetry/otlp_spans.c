#include "api/telemetry/otlp_internal.h"
#include <opentelemetry/proto/collector/trace/v1/trace_service.pb-c.h>

#define ARENA_MAX    ((size_t)64 << 20)
#define SPAN_ID_LEN  8
#define OWN_PAIRS    3 /* tenant, detail, error */
#define FLAG_KNOWN   0x100u
#define FLAG_REMOTE  0x200u
#define FLAG_SAMPLED 1u

typedef Opentelemetry__Proto__Trace__V1__Span span_message;

static struct fault id_bytes(struct arena *arena, uint64_t id, ProtobufCBinaryData *ret_bytes)
{
    uint8_t *at = NULL;
    TRY(arena_take(arena, SPAN_ID_LEN, 1, &at));
    for (int i = 0; i < SPAN_ID_LEN; i++) {
        at[i] = (uint8_t)(id >> (56 - 8 * i));
    }
    *ret_bytes = (ProtobufCBinaryData){ .len = SPAN_ID_LEN, .data = at };
    return OK;
}

static struct fault set_pairs(struct arena *arena, const struct trace_record *record, span_message *span)
{
    struct otlp_pairs pairs;
    otlp_pairs_begin(&pairs, arena, record->count + OWN_PAIRS);
    if (record->detail_key != NULL) {
        otlp_put_text(&pairs, record->detail_key, span_text(record->detail));
    }
    for (size_t i = 0; i < record->count; i++) {
        const struct trace_attribute *attribute = &record->attributes[i];
        if (attribute->text != NULL) {
            otlp_put_text(&pairs, attribute->key, span_text(attribute->text));
        } else {
            otlp_put_int(&pairs, attribute->key, attribute->number);
        }
    }
    if (record->tenant.text[0] != '\0') {
        otlp_put_text(&pairs, "svc.tenant.id", span_text(record->tenant.text));
    }
    if (record->error != NULL) {
        otlp_put_text(&pairs, "error.type", span_text(record->error));
    }
    span->attributes = pairs.at;
    span->n_attributes = pairs.count;
    return pairs.fault;
}

static struct fault set_status(struct arena *arena, const struct trace_record *record, span_message *span)
{
    if (!record->failed) {
        return OK;
    }
    TRY(arena_take(arena, 1, sizeof(*span->status), &span->status));
    opentelemetry__proto__trace__v1__status__init(span->status);
    span->status->code = OPENTELEMETRY__PROTO__TRACE__V1__STATUS__STATUS_CODE__STATUS_CODE_ERROR;
    return OK;
}

static struct fault make_span(struct arena *arena, const struct trace_record *record, span_message **ret_span)
{
    span_message *span = NULL;
    const char *both = NULL;
    TRY(arena_take(arena, 1, sizeof(*span), &span));
    opentelemetry__proto__trace__v1__span__init(span);
    TRY(arena_printf(arena, &both, record->detail_key != NULL ? "%s %s" : "%s", record->name, record->detail));
    TRY(otlp_text(arena, span_text(both), &span->name));
    span->trace_id = (ProtobufCBinaryData){ .len = TRACE_ID_LEN, .data = (uint8_t *)(uintptr_t)record->trace_id };
    TRY(id_bytes(arena, record->id, &span->span_id));
    if (record->parent != 0) {
        TRY(id_bytes(arena, record->parent, &span->parent_span_id));
    }
    span->flags = FLAG_SAMPLED | FLAG_KNOWN | (record->parent_remote ? FLAG_REMOTE : 0);
    span->kind = (Opentelemetry__Proto__Trace__V1__Span__SpanKind)record->kind;
    span->start_time_unix_nano = (uint64_t)record->began_ns;
    span->end_time_unix_nano = (uint64_t)record->ended_ns;
    TRY(set_pairs(arena, record, span));
    TRY(set_status(arena, record, span));
    *ret_span = span;
    return OK;
}

static struct fault encode(const struct otlp_settings *settings, struct arena *arena,
                           const struct trace_record *records, size_t count, struct buf *out)
{
    Opentelemetry__Proto__Trace__V1__ScopeSpans scope = OPENTELEMETRY__PROTO__TRACE__V1__SCOPE_SPANS__INIT;
    Opentelemetry__Proto__Trace__V1__ScopeSpans *scopes[] = { &scope };
    Opentelemetry__Proto__Trace__V1__ResourceSpans resource = OPENTELEMETRY__PROTO__TRACE__V1__RESOURCE_SPANS__INIT;
    Opentelemetry__Proto__Trace__V1__ResourceSpans *resources[] = { &resource };
    Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest request =
        OPENTELEMETRY__PROTO__COLLECTOR__TRACE__V1__EXPORT_TRACE_SERVICE_REQUEST__INIT;
    TRY(arena_take(arena, count, sizeof(*scope.spans), &scope.spans));
    for (size_t i = 0; i < count; i++) {
        TRY(make_span(arena, &records[i], &scope.spans[i]));
    }
    scope.n_spans = count;
    TRY(otlp_scope(arena, &scope.scope));
    TRY(otlp_resource(settings, arena, &resource.resource));
    resource.scope_spans = scopes;
    resource.n_scope_spans = 1;
    request.resource_spans = resources;
    request.n_resource_spans = 1;
    return otlp_pack(&request.base, out);
}

struct fault otlp_encode_spans(const struct otlp_settings *settings, const struct trace_record *records, size_t count,
                               struct buf *out)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    TRY(arena_new(ARENA_MAX, &arena));
    return encode(settings, arena, records, count, out);
}
