#include "api/events/internal.h"
#include "testlib.h"

static const char *subjects[] = { EVENTS_SUBJECTS };
static const struct config config = { .nats_stream = "S", .nats_replicas = 1 };

static jsStreamConfig good_stream(void)
{
    jsStreamConfig stream;
    assert_int_equal(jsStreamConfig_Init(&stream), NATS_OK);
    stream.Name = "S";
    stream.Subjects = subjects;
    stream.SubjectsLen = 1;
    stream.Storage = js_FileStorage;
    stream.Discard = js_DiscardNew;
    stream.MaxMsgSize = STREAM_MESSAGE_MAX;
    stream.Replicas = 1;
    stream.Duplicates = DUPLICATE_WINDOW_NS;
    stream.DenyDelete = true;
    stream.DenyPurge = true;
    return stream;
}

static void assert_unsafe(const jsStreamConfig *stream, const struct config *against, const char *because)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    assert_fault(stream_config_check(stream, against, &why), LOG_UNSAFE);
    const char *text = NULL;
    assert_fault(buf_cstr(&why, &text), NONE);
    assert_non_null(strstr(text, because));
}

#define REFUSED(change, because)                  \
    do {                                          \
        jsStreamConfig stream = good_stream();    \
        change;                                   \
        assert_unsafe(&stream, &config, because); \
    } while (0)

static void a_stream_that_could_lose_a_message_is_refused(void **state)
{
    (void)state;
    static const char *others[] = { "svc.events.>", "other.>" }, *narrow[] = { "svc.events.acme.*" };
    REFUSED(stream.Storage = js_MemoryStorage, "file storage");
    REFUSED(stream.Retention = js_WorkQueuePolicy, "retention");
    REFUSED(stream.Retention = js_InterestPolicy, "retention");
    REFUSED(stream.Discard = js_DiscardOld, "discard");
    REFUSED(stream.MaxMsgs = 1000000, "limit");
    REFUSED(stream.MaxBytes = 1 << 30, "limit");
    REFUSED(stream.MaxAge = NS_PER_S, "limit");
    REFUSED(stream.MaxMsgsPerSubject = 1, "limit");
    REFUSED(stream.MaxMsgSize = 1000, "1 MiB");
    REFUSED(stream.Duplicates = NS_PER_S, "20 minutes");
    REFUSED(stream.DenyPurge = false, "deny");
    REFUSED(stream.AllowRollup = true, "rollup");
    REFUSED(stream.NoAck = true, "acknowledge");
    REFUSED(stream.Sealed = true, "sealed");
    REFUSED(stream.SubjectTransform.Destination = "x.>", "rewrite");
    REFUSED((stream.Subjects = others, stream.SubjectsLen = 2), "exactly");
    REFUSED(stream.Subjects = narrow, "exactly");
    REFUSED(stream.Mirror = &(jsStreamSource){ .Name = "m" }, "mirror");
}

static void fewer_replicas_than_configured_are_refused(void **state)
{
    (void)state;
    const struct config three = { .nats_stream = "S", .nats_replicas = 3 };
    jsStreamConfig stream = good_stream();
    assert_unsafe(&stream, &three, "replicas");
}

static void the_stream_that_we_make_is_accepted(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    jsStreamConfig stream = good_stream();
    assert_fault(stream_config_check(&stream, &config, &why), NONE);
}

static void a_server_that_only_talks_of_syncing_is_not_believed(void **state)
{
    (void)state;
    assert_false(server_answer_synced(span_text("")));
    assert_false(server_answer_synced(span_text("{\"jetstream\":{\"config\":{\"sync_interval\":120000000000}}}")));
    assert_false(server_answer_synced(span_text("{\"sync_always\":false}")));
    assert_false(server_answer_synced(span_text("{\"server_name\":\"\\\"sync_always\\\":true\"}")));
    assert_true(server_answer_synced(span_text("{\"sync_interval\":120000000000,\"sync_always\":true}")));
}

static void texts_of_an_answer_end_where_they_end(void **state)
{
    (void)state;
    assert_int_equal(server_answer_text(span_text(""), "\"server_id\"").len, 0);
    assert_int_equal(server_answer_text(span_text("{\"server_id\""), "\"server_id\"").len, 0);
    assert_int_equal(server_answer_text(span_text("{\"server_id\":\"abc"), "\"server_id\"").len, 0);
    assert_int_equal(server_answer_text(span_text("{\"server_id\":12}"), "\"server_id\"").len, 0);
    assert_span_text(server_answer_text(span_text("{\"server_id\":\"abc\",\"x\":1}"), "\"server_id\""), "abc");
    assert_int_equal(server_answer_text(span_text("{\"server_id\":\"\"}"), "\"server_id\"").len, 0);
}

static void a_failure_of_the_library_becomes_one_code(void **state)
{
    (void)state;
    assert_fault(nats_fault(NULL, NATS_TIMEOUT, 0, "x"), DEADLINE);
    assert_fault(nats_fault(NULL, NATS_NO_RESPONDERS, 0, "x"), LOG_UNAVAILABLE);
    assert_fault(nats_fault(NULL, NATS_ERR, JSStreamWrongLastSequenceErr, "x"), LOG_CONFLICT);
    assert_fault(nats_fault(NULL, NATS_ERR, JSStreamStoreFailedErr, "x"), LOG_UNAVAILABLE);
    assert_fault(nats_fault(NULL, NATS_ERR, 0, "x"), INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_that_could_lose_a_message_is_refused),
        cmocka_unit_test(fewer_replicas_than_configured_are_refused),
        cmocka_unit_test(the_stream_that_we_make_is_accepted),
        cmocka_unit_test(a_server_that_only_talks_of_syncing_is_not_believed),
        cmocka_unit_test(texts_of_an_answer_end_where_they_end),
        cmocka_unit_test(a_failure_of_the_library_becomes_one_code),
    };
    return cmocka_run_group_tests_name("events/stream rules", tests, NULL, NULL);
}
