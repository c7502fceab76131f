#include "testlib.h"

#include "api/telemetry/otlp_internal.h"

#include <opentelemetry/proto/collector/logs/v1/logs_service.pb-c.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.pb-c.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct otlp_settings settings = {
    .endpoint = "https://127.0.0.1:1/x/",
    .token_file = "",
    .ca_file = "",
    .timeout_ns = NS_PER_S,
    .instance = "me",
    .interval_ns = NS_PER_MS * 50,
    .queue = 8,
    .sample_ppm = TRACE_SAMPLE_ALL,
};

static struct trace_record record_of(uint64_t id)
{
    return (struct trace_record){ .id = id, .name = "name", .kind = TRACE_INTERNAL, .began_ns = 1, .ended_ns = 2 };
}

/* ---- the queue ---- */

static void a_full_queue_refuses_and_loses_nothing_it_took(void **state)
{
    (void)state;
    CLEANUP(otlp_queue_freep) struct otlp_queue *queue = NULL;
    struct trace_record out[8];
    assert_fault(otlp_queue_new(4, &queue), NONE);
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 6; i++) {
            struct trace_record record = record_of(round * 10 + i);
            assert_int_equal(otlp_queue_put(queue, &record), i < 4);
        }
        assert_int_equal(otlp_queue_length(queue), 4);
        assert_int_equal(otlp_queue_take(queue, out, 3), 3);
        assert_int_equal(otlp_queue_take(queue, out + 3, 8), 1);
        assert_int_equal(otlp_queue_take(queue, out + 4, 4), 0);
        for (uint64_t i = 0; i < 4; i++) {
            assert_int_equal(out[i].id, round * 10 + i);
        }
    }
}

static struct otlp_queue *shared;
static atomic_uint put_count, refused_count, running;
#define PUTS 20000u

static void *put_many(void *arg)
{
    uint64_t base = *(uint64_t *)arg;
    for (uint64_t i = 1; i <= PUTS; i++) {
        struct trace_record record = record_of(base + i);
        record.parent = ~record.id;
        (void)atomic_fetch_add(otlp_queue_put(shared, &record) ? &put_count : &refused_count, 1);
    }
    (void)atomic_fetch_sub(&running, 1);
    return NULL;
}

/* Each that was taken in comes out once, whole, and in the order of its thread. */
static void many_put_at_once_and_nothing_is_torn(void **state)
{
    (void)state;
    uint64_t base[3] = { 1u << 20, 2u << 20, 3u << 20 }, last[3] = { 0 };
    pthread_t threads[3];
    unsigned taken = 0;
    assert_fault(otlp_queue_new(64, &shared), NONE);
    atomic_store(&running, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, put_many, &base[i]), 0);
    }
    for (;;) {
        struct trace_record out[16];
        bool over = atomic_load(&running) == 0;
        size_t count = otlp_queue_take(shared, out, COUNT_OF(out));
        for (size_t i = 0; i < count; i++) {
            size_t who = (size_t)(out[i].id >> 20) - 1;
            assert_int_equal(out[i].parent, ~out[i].id);
            assert_true(who < 3 && out[i].id > last[who]);
            last[who] = out[i].id;
        }
        taken += (unsigned)count;
        if (over && count == 0) {
            break;
        }
    }
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(taken, atomic_load(&put_count));
    assert_int_equal(taken + atomic_load(&refused_count), 3 * PUTS);
    otlp_queue_free(shared);
}

/* Nobody answers at that address: whatever is recorded is dropped, counted, and nobody waits. */
static void spans_without_a_receiver_are_dropped_and_counted(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(otlp_freep) struct otlp *otlp = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    const char *printed = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    assert_fault(otlp_new(&settings, metrics, NULL, &otlp), NONE);
    assert_fault(op_new("x", (struct tenant_id){ "acme" }, 1000, &op), NONE);
    op->sampled = trace_sampled(op->trace_id);
    for (unsigned i = 0; i < 2000; i++) {
        (void)TRACED(op, TRACE_INTERNAL, "x", NULL, NULL, OK);
    }
    otlp_stop(otlp);
    assert_fault(metrics_print(metrics, &text), NONE);
    assert_fault(buf_cstr(&text, &printed), NONE);
    assert_non_null(strstr(printed, "\nsvc_otlp_spans_dropped_total 2000\n"));
    assert_non_null(strstr(printed, "\nsvc_otlp_spans_exported_total 0\n"));
}

/* ---- bodies ---- */

static const char *text_of(Opentelemetry__Proto__Common__V1__KeyValue **pairs, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(pairs[i]->key, key) == 0) {
            return pairs[i]->value->string_value;
        }
    }
    return NULL;
}

static int64_t number_of(Opentelemetry__Proto__Common__V1__KeyValue **pairs, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(pairs[i]->key, key) == 0) {
            return pairs[i]->value->int_value;
        }
    }
    return -1;
}

static void spans_decode_to_what_was_recorded(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf body = BUF_INIT(65536);
    struct trace_record records[] = { record_of(0x0102030405060708), record_of(2) };
    records[0].parent = 0xff;
    records[0].parent_remote = true;
    records[0].failed = true;
    records[0].error = "log_unavailable";
    records[0].detail_key = "http.route";
    (void)snprintf(records[0].detail, sizeof(records[0].detail), "/api/\xff");
    records[0].tenant = (struct tenant_id){ "acme" };
    records[0].attributes[0] = (struct trace_attribute){ "http.status_code", NULL, 503 };
    records[0].count = 1;
    memset(records[0].trace_id, 7, TRACE_ID_LEN);
    assert_fault(otlp_encode_spans(&settings, records, 2, &body), NONE);
    Opentelemetry__Proto__Collector__Trace__V1__ExportTraceServiceRequest *request =
        opentelemetry__proto__collector__trace__v1__export_trace_service_request__unpack(NULL, body.len, body.at);
    assert_non_null(request);
    const Opentelemetry__Proto__Resource__V1__Resource *resource = request->resource_spans[0]->resource;
    assert_string_equal(text_of(resource->attributes, resource->n_attributes, "service.name"), "svc-api");
    assert_string_equal(text_of(resource->attributes, resource->n_attributes, "service.instance.id"), "me");
    assert_non_null(text_of(resource->attributes, resource->n_attributes, "host.name"));
    assert_int_equal(request->resource_spans[0]->scope_spans[0]->n_spans, 2);
    const Opentelemetry__Proto__Trace__V1__Span *first = request->resource_spans[0]->scope_spans[0]->spans[0];
    const Opentelemetry__Proto__Trace__V1__Span *second = request->resource_spans[0]->scope_spans[0]->spans[1];
    assert_string_equal(first->name, "name /api/?");
    assert_memory_equal(first->span_id.data, "\1\2\3\4\5\6\7\10", 8);
    assert_int_equal(first->trace_id.len, 16);
    assert_int_equal(first->parent_span_id.data[7], 0xff);
    assert_int_equal(first->flags, 0x301);
    assert_int_equal(first->status->code, 2);
    assert_string_equal(text_of(first->attributes, first->n_attributes, "http.route"), "/api/?");
    assert_string_equal(text_of(first->attributes, first->n_attributes, "error.type"), "log_unavailable");
    assert_string_equal(text_of(first->attributes, first->n_attributes, "svc.tenant.id"), "acme");
    assert_int_equal(number_of(first->attributes, first->n_attributes, "http.status_code"), 503);
    assert_string_equal(second->name, "name");
    assert_int_equal(second->parent_span_id.len, 0);
    assert_int_equal(second->n_attributes, 0);
    assert_null(second->status);
    opentelemetry__proto__collector__trace__v1__export_trace_service_request__free_unpacked(request, NULL);
}

static void audit_records_decode_to_what_they_say_of_themselves(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf body = BUF_INIT(65536);
    const struct span roles[] = { span_text("ci"), span_text("auditor") };
    const struct otlp_audit records[] = {
        { .type = span_text("codesign.signed"),
          .id = span_text("an-id"),
          .tenant = span_text("acme"),
          .subject = span_text("who"),
          .trace_id = span_text("0af7651916cd43dd8448eb211c80319c"),
          .roles = roles,
          .role_count = 2,
          .sequence = 9,
          .schema_version = 1,
          .payload_bytes = 77,
          .stream_seq = 12,
          .time = 5 },
        { .type = span_text("x"), .id = span_text("y"), .tenant = span_text("acme"), .trace_id = span_text("zz") },
    };
    assert_fault(otlp_encode_audit(&settings, records, 2, 6, &body), NONE);
    Opentelemetry__Proto__Collector__Logs__V1__ExportLogsServiceRequest *request =
        opentelemetry__proto__collector__logs__v1__export_logs_service_request__unpack(NULL, body.len, body.at);
    assert_non_null(request);
    const Opentelemetry__Proto__Logs__V1__LogRecord *log = request->resource_logs[0]->scope_logs[0]->log_records[0];
    const Opentelemetry__Proto__Logs__V1__LogRecord *bare = request->resource_logs[0]->scope_logs[0]->log_records[1];
    assert_string_equal(log->body->string_value, "codesign.signed");
    assert_int_equal(log->time_unix_nano, 5000);
    assert_int_equal(log->observed_time_unix_nano, 6000);
    assert_int_equal(log->trace_id.len, 16);
    assert_string_equal(text_of(log->attributes, log->n_attributes, "svc.audit.id"), "an-id");
    assert_string_equal(text_of(log->attributes, log->n_attributes, "svc.actor.subject"), "who");
    assert_int_equal(number_of(log->attributes, log->n_attributes, "svc.audit.sequence"), 9);
    assert_int_equal(number_of(log->attributes, log->n_attributes, "svc.audit.stream_sequence"), 12);
    assert_int_equal(number_of(log->attributes, log->n_attributes, "svc.audit.payload_bytes"), 77);
    assert_int_equal(log->attributes[8]->value->array_value->n_values, 2);
    assert_null(text_of(bare->attributes, bare->n_attributes, "svc.actor.subject"));
    assert_int_equal(bare->n_attributes, 7);
    assert_int_equal(bare->trace_id.len, 0);
    opentelemetry__proto__collector__logs__v1__export_logs_service_request__free_unpacked(request, NULL);
}

static struct fault encode_once(void)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(65536);
    const struct trace_record record = record_of(1);
    return otlp_encode_spans(&settings, &record, 1, &body);
}

static void every_failing_allocation_is_told(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(encode_once) > 0);
}

/* ---- answers ---- */

static void an_answer_that_takes_a_part_says_which(void **state)
{
    (void)state;
    static const uint8_t partial[] = { 0x0a, 0x09, 0x08, 0x03, 0x12, 0x05, 't', 'o', '\n', 'o', 'l' };
    char why[16] = "left";
    int64_t rejected = 99;
    otlp_decode_answer(SPAN_ARRAY(partial), false, &rejected, why, sizeof(why));
    assert_int_equal(rejected, 3);
    assert_string_equal(why, "to?ol");
    otlp_decode_answer(SPAN_ARRAY(partial), true, &rejected, why, sizeof(why));
    assert_int_equal(rejected, 3);
    otlp_decode_answer((struct span){ 0 }, true, &rejected, why, sizeof(why));
    assert_int_equal(rejected, 0);
    otlp_decode_answer(span_text("<html>"), false, &rejected, why, sizeof(why));
    assert_int_equal(rejected, 0);
    assert_string_equal(why, "");
}

static void retry_after_is_seconds_or_a_date(void **state)
{
    (void)state;
    const utc_us now = 1445412480 * US_PER_S; /* Wed, 21 Oct 2015 07:28:00 GMT */
    assert_int_equal(otlp_retry_after_ns("7", now), 7 * NS_PER_S);
    assert_int_equal(otlp_retry_after_ns("0", now), 0);
    assert_int_equal(otlp_retry_after_ns("99999999999999999999", now), 600 * NS_PER_S);
    assert_int_equal(otlp_retry_after_ns("Wed, 21 Oct 2015 07:28:09 GMT", now), 9 * NS_PER_S);
    assert_int_equal(otlp_retry_after_ns("Wed, 21 Oct 2015 07:27:00 GMT", now), 0);
    assert_int_equal(otlp_retry_after_ns("", now), 0);
    assert_int_equal(otlp_retry_after_ns("-5", now), 0);
    assert_int_equal(otlp_retry_after_ns("soon", now), 0);
}

static void waits_grow_and_heed_the_receiver(void **state)
{
    (void)state;
    struct otlp_reply reply = { .outcome = OTLP_LATER };
    for (unsigned failures = 1; failures < 100; failures++) {
        int64_t most = failures < 7 ? NS_PER_S << (failures - 1) : OTLP_RETRY_MOST_NS;
        most = most < OTLP_RETRY_MOST_NS ? most : OTLP_RETRY_MOST_NS;
        assert_in_range(otlp_wait_ns(&reply, failures), most / 2 - 1, most);
    }
    reply.wait_ns = 300 * NS_PER_S;
    assert_int_equal(otlp_wait_ns(&reply, 1), 300 * NS_PER_S);
}

/* ---- the token ---- */

static void put_file(const char *path, const char *text, mode_t mode)
{
    (void)unlink(path);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void a_token_that_others_may_read_or_that_fits_no_header_is_refused(void **state)
{
    (void)state;
    char path[64];
    (void)snprintf(path, sizeof(path), "/tmp/svc-otlp-token-%d", (int)getpid());
    static const struct {
        const char *text;
        mode_t mode;
        bool fine;
    } cases[] = { { "secret\n", 0644, false },
                  { "", 0600, false },
                  { "two words\n", 0600, false },
                  { "a\r\nb\n", 0600, false },
                  { "secret\n", 0600, true } };
    struct otlp_settings with = settings;
    with.token_file = path;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CLEANUP(otlp_sender_freep) struct otlp_sender *sender = NULL;
        CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
        put_file(path, cases[i].text, cases[i].mode);
        struct fault fault = otlp_sender_new(&with, "/v1/logs", &why, &sender);
        assert_int_equal(fault.code, cases[i].fine ? FAULT_NONE : FAULT_CONFIG);
        assert_int_equal(why.len == 0, cases[i].fine);
    }
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_queue_refuses_and_loses_nothing_it_took),
        cmocka_unit_test(many_put_at_once_and_nothing_is_torn),
        cmocka_unit_test(spans_without_a_receiver_are_dropped_and_counted),
        cmocka_unit_test(spans_decode_to_what_was_recorded),
        cmocka_unit_test(audit_records_decode_to_what_they_say_of_themselves),
        cmocka_unit_test(every_failing_allocation_is_told),
        cmocka_unit_test(an_answer_that_takes_a_part_says_which),
        cmocka_unit_test(retry_after_is_seconds_or_a_date),
        cmocka_unit_test(waits_grow_and_heed_the_receiver),
        cmocka_unit_test(a_token_that_others_may_read_or_that_fits_no_header_is_refused),
    };
    return cmocka_run_group_tests_name("otlp", tests, NULL, NULL);
}
