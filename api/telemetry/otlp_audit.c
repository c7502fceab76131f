#include "api/telemetry/otlp_internal.h"
#include "appliance/base/codec.h"
#include <opentelemetry/proto/collector/logs/v1/logs_service.pb-c.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.pb-c.h>

#define ARENA_MAX ((size_t)64 << 20)
#define PAIRS     9
#define NS_PER_US 1000

typedef Opentelemetry__Proto__Logs__V1__LogRecord log_message;

/* Sixteen bytes, or nothing: a record may be without a trace. */
static struct fault set_trace(struct arena *arena, struct span hex, log_message *log)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(TRACE_ID_LEN);
    struct span kept = { 0 };
    if (hex.len != (size_t)2 * TRACE_ID_LEN || FAULTED(hex_decode(hex, &bytes))) {
        return OK;
    }
    TRY(arena_copy(arena, buf_span(&bytes), &kept));
    log->trace_id = (ProtobufCBinaryData){ .len = kept.len, .data = (uint8_t *)(uintptr_t)kept.at };
    return OK;
}

static struct fault make_log(struct arena *arena, const struct otlp_audit *record, utc_us now, log_message **ret_log)
{
    log_message *log = NULL;
    struct otlp_pairs pairs;
    TRY(arena_take(arena, 1, sizeof(*log), &log));
    opentelemetry__proto__logs__v1__log_record__init(log);
    log->time_unix_nano = (uint64_t)record->time * NS_PER_US;
    log->observed_time_unix_nano = (uint64_t)now * NS_PER_US;
    log->severity_number = OPENTELEMETRY__PROTO__LOGS__V1__SEVERITY_NUMBER__SEVERITY_NUMBER_INFO;
    log->severity_text = (char *)(uintptr_t)"INFO";
    TRY(otlp_text_value(arena, record->type, &log->body));
    TRY(set_trace(arena, record->trace_id, log));
    otlp_pairs_begin(&pairs, arena, PAIRS);
    otlp_put_text(&pairs, "svc.audit.type", record->type);
    otlp_put_text(&pairs, "svc.audit.id", record->id);
    otlp_put_int(&pairs, "svc.audit.sequence", record->sequence);
    otlp_put_int(&pairs, "svc.audit.schema_version", record->schema_version);
    otlp_put_int(&pairs, "svc.audit.stream_sequence", (int64_t)record->stream_seq);
    otlp_put_int(&pairs, "svc.audit.payload_bytes", record->payload_bytes);
    otlp_put_text(&pairs, "svc.tenant.id", record->tenant);
    if (record->subject.len > 0) {
        otlp_put_text(&pairs, "svc.actor.subject", record->subject);
    }
    if (record->role_count > 0) {
        otlp_put_texts(&pairs, "svc.actor.roles", record->roles, record->role_count);
    }
    log->attributes = pairs.at;
    log->n_attributes = pairs.count;
    *ret_log = log;
    return pairs.fault;
}

static struct fault encode(const struct otlp_settings *settings, struct arena *arena, const struct otlp_audit *records,
                           size_t count, utc_us now, struct buf *out)
{
    Opentelemetry__Proto__Logs__V1__ScopeLogs scope = OPENTELEMETRY__PROTO__LOGS__V1__SCOPE_LOGS__INIT;
    Opentelemetry__Proto__Logs__V1__ScopeLogs *scopes[] = { &scope };
    Opentelemetry__Proto__Logs__V1__ResourceLogs resource = OPENTELEMETRY__PROTO__LOGS__V1__RESOURCE_LOGS__INIT;
    Opentelemetry__Proto__Logs__V1__ResourceLogs *resources[] = { &resource };
    Opentelemetry__Proto__Collector__Logs__V1__ExportLogsServiceRequest request =
        OPENTELEMETRY__PROTO__COLLECTOR__LOGS__V1__EXPORT_LOGS_SERVICE_REQUEST__INIT;
    TRY(arena_take(arena, count, sizeof(*scope.log_records), &scope.log_records));
    for (size_t i = 0; i < count; i++) {
        TRY(make_log(arena, &records[i], now, &scope.log_records[i]));
    }
    scope.n_log_records = count;
    TRY(otlp_scope(arena, &scope.scope));
    TRY(otlp_resource(settings, arena, &resource.resource));
    resource.scope_logs = scopes;
    resource.n_scope_logs = 1;
    request.resource_logs = resources;
    request.n_resource_logs = 1;
    return otlp_pack(&request.base, out);
}

struct fault otlp_encode_audit(const struct otlp_settings *settings, const struct otlp_audit *records, size_t count,
                               utc_us now, struct buf *out)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    TRY(arena_new(ARENA_MAX, &arena));
    return encode(settings, arena, records, count, now, out);
}

/* ---- answers ---- */

/* What a stranger says, as one line of printable characters. */
static void put_line(const char *text, char *out, size_t size)
{
    size_t len = 0;
    for (; text[len] != '\0' && len + 1 < size; len++) {
        out[len] = text[len] >= ' ' && text[len] <= '~' ? text[len] : '?';
    }
    out[len] = '\0';
}

static void decode_traces(struct span body, int64_t *ret_rejected, char *why, size_t why_size)
{
    Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceResponse *answer =
        opentelemetry__proto__collector__trace__v1__export_trace_service_response__unpack(NULL, body.len, body.at);
    if (answer != NULL && answer->partial_success != NULL) {
        *ret_rejected = answer->partial_success->rejected_spans;
        put_line(answer->partial_success->error_message, why, why_size);
    }
    opentelemetry__proto__collector__trace__v1__export_trace_service_response__free_unpacked(answer, NULL);
}

static void decode_logs(struct span body, int64_t *ret_rejected, char *why, size_t why_size)
{
    Opentelemetry__Proto__Collector__Logs__V1__ExportLogsServiceResponse *answer =
        opentelemetry__proto__collector__logs__v1__export_logs_service_response__unpack(NULL, body.len, body.at);
    if (answer != NULL && answer->partial_success != NULL) {
        *ret_rejected = answer->partial_success->rejected_log_records;
        put_line(answer->partial_success->error_message, why, why_size);
    }
    opentelemetry__proto__collector__logs__v1__export_logs_service_response__free_unpacked(answer, NULL);
}

void otlp_decode_answer(struct span body, bool logs, int64_t *ret_rejected, char *why, size_t why_size)
{
    *ret_rejected = 0;
    why[0] = '\0';
    if (logs) {
        decode_logs(body, ret_rejected, why, why_size);
    } else {
        decode_traces(body, ret_rejected, why, why_size);
    }
    *ret_rejected = *ret_rejected > 0 ? *ret_rejected : 0;
}
