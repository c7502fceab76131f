/* Reading against a real nats-server: order, resuming, holes, strangers. */
#include "nats_testlib.h"

struct fixture {
    struct nats nats;
    struct config config;
    struct event_log *log;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){ .nats = nats_new(NATS_SYNCS), .config = default_config() };
    nats_start(&fixture.nats);
    nats_use(&fixture.nats, 0, &fixture.config);
    fixture.log = log_for_test(&fixture.config);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    event_log_close(TAKE(fixture->log));
    nats_remove(&fixture->nats);
    return 0;
}

static mono_ns in_ms(int ms)
{
    return clock_mono() + ms * NS_PER_MS;
}

static void append_range(struct event_log *log, int first, int last)
{
    for (int i = first; i <= last; i++) {
        CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
        uint64_t seq = 0;
        struct uuid id = id_of(i);
        assert_fault(append_number(op, log, "a", i, &id, &seq), NONE);
        assert_int_equal(seq, i);
    }
}

static void assert_next(struct event_reader *reader, int number)
{
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    char want[32];
    struct event_message message;
    (void)snprintf(want, sizeof(want), "{\"n\":%d}", number);
    assert_fault(event_reader_next(op, reader, in_ms(10000), &message), NONE);
    assert_int_equal(message.stream_seq, number);
    assert_string_equal(message.message_id.text, id_of(number).text);
    assert_int_equal(message.count, 1);
    assert_span_text(message.events[0].data, want);
}

static void assert_next_fault(struct event_reader *reader, enum fault_code code)
{
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    struct event_message message = { .stream_seq = 99 };
    assert_int_equal(event_reader_next(op, reader, in_ms(300), &message).code, code);
    assert_int_equal(message.stream_seq, 99);
}

static void without_messages_the_deadline_passes(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next_fault(reader, FAULT_DEADLINE);
    append_range(fixture->log, 1, 1);
    assert_next(reader, 1);
    assert_next_fault(reader, FAULT_DEADLINE);
}

static void a_missing_message_is_noticed_and_not_passed(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    struct event_log_state now;
    struct event_message message;
    delete_stream(fixture->log);
    make_soft_stream(fixture->log, 0);
    append_range(fixture->log, 1, 5);
    assert_int_equal(js_DeleteMsg(fixture->log->js, "TEST", 3, NULL, NULL), NATS_OK);
    harden_stream(fixture->log);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next(reader, 1);
    assert_next(reader, 2);
    assert_next_fault(reader, FAULT_LOG_UNTRUSTED);
    assert_next_fault(reader, FAULT_LOG_UNTRUSTED);
    assert_int_equal(event_reader_seq(reader), 3);
    assert_fault(event_log_get(op, fixture->log, 3, &message), NOT_FOUND);
    assert_fault(event_log_state_now(op, fixture->log, &now), NONE);
    assert_int_equal(now.first_missing, 3);
}

static void a_log_that_begins_late_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    struct event_log_state now;
    delete_stream(fixture->log);
    make_soft_stream(fixture->log, 5);
    harden_stream(fixture->log);
    body_of_number("acme", "a", 5, &body);
    assert_int_equal(plant(fixture->log, "svc.events.acme.a", buf_span(&body)), 5);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next_fault(reader, FAULT_LOG_UNTRUSTED);
    assert_fault(event_log_state_now(op, fixture->log, &now), NONE);
    assert_int_equal(now.first_missing, 1);
}

static void a_message_that_is_not_ours_is_noticed_and_not_passed(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    struct event_message message;
    append_range(fixture->log, 1, 1);
    assert_int_equal(plant(fixture->log, "svc.events.acme.a", span_text("{\"not\":\"ours\"}")), 2);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next(reader, 1);
    assert_next_fault(reader, FAULT_LOG_DECODE);
    assert_next_fault(reader, FAULT_LOG_DECODE);
    assert_int_equal(event_reader_seq(reader), 2);
    assert_fault(event_log_get(op, fixture->log, 2, &message), LOG_DECODE);
}

static void an_empty_message_is_not_ours_either(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    assert_int_equal(plant(fixture->log, "svc.events.acme.a", span_text("")), 1);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next_fault(reader, FAULT_LOG_DECODE);
}

static void a_message_of_another_tenants_subject_is_not_ours(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    body_of_number("acme", "a", 1, &body);
    assert_int_equal(plant(fixture->log, "svc.events.other.a", buf_span(&body)), 1);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next_fault(reader, FAULT_LOG_DECODE);
}

static void reading_begins_anywhere_and_goes_on_with_what_comes(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    append_range(fixture->log, 1, 5);
    assert_fault(event_reader_new(fixture->log, 4, &reader), NONE);
    assert_next(reader, 4);
    assert_next(reader, 5);
    append_range(fixture->log, 6, 7);
    assert_next(reader, 6);
    assert_next(reader, 7);
}

static void reading_goes_on_after_the_server_was_killed(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    append_range(fixture->log, 1, 3);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next(reader, 1);
    nats_kill(&fixture->nats);
    assert_next(reader, 2); /* had arrived before */
    assert_next(reader, 3);
    assert_next_fault(reader, FAULT_DEADLINE);
    nats_start(&fixture->nats);
    append_range(fixture->log, 4, 6);
    assert_next(reader, 4);
    assert_next(reader, 5);
    assert_next(reader, 6);
}

static void what_came_while_the_connection_was_cut_comes_all_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct proxy proxy = { .server_port = fixture->nats.port };
    struct config config = fixture->config;
    proxy_start(&proxy, &config);
    struct event_log *log = log_for_test(&config);
    struct event_reader *reader = NULL;
    append_range(fixture->log, 1, 2);
    assert_fault(event_reader_new(log, 1, &reader), NONE);
    assert_next(reader, 1);
    assert_next(reader, 2);
    atomic_store(&proxy.cut, true);
    while (event_log_connected(log)) {
        (void)poll(NULL, 0, 5);
    }
    append_range(fixture->log, 3, 20); /* the consumer lives on at the server, and nobody hears it */
    atomic_store(&proxy.cut, false);
    for (int i = 3; i <= 20; i++) {
        assert_next(reader, i);
    }
    event_reader_free(reader);
    event_log_close(log);
    proxy_stop(&proxy);
}

static void a_consumer_that_the_server_forgot_is_made_again(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    jsConsumerInfoList *list = NULL;
    append_range(fixture->log, 1, 1);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next(reader, 1);
    assert_int_equal(js_Consumers(&list, fixture->log->js, "TEST", NULL, NULL), NATS_OK);
    assert_int_equal(list->Count, 1);
    assert_int_equal(js_DeleteConsumer(fixture->log->js, "TEST", list->List[0]->Name, NULL, NULL), NATS_OK);
    jsConsumerInfoList_Destroy(list);
    append_range(fixture->log, 2, 2);
    assert_next(reader, 2); /* after its heartbeats were missed */
}

static void a_reader_leaves_no_consumer_behind(void **state)
{
    struct fixture *fixture = *state;
    jsConsumerInfoList *list = NULL;
    struct event_reader *reader = NULL;
    append_range(fixture->log, 1, 1);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    assert_next(reader, 1);
    event_reader_free(reader);
    assert_int_equal(js_Consumers(&list, fixture->log->js, "TEST", NULL, NULL), NATS_NOT_FOUND);
}

#define MANY 20000

static void many_messages_come_in_order_without_a_hole(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    jsCtx *js = fixture->log->js;
    for (int i = 1; i <= MANY; i++) {
        body_of_number("acme", "a", i, &body);
        assert_int_equal(js_PublishAsync(js, "svc.events.acme.a", body.at, (int)body.len, NULL), NATS_OK);
    }
    jsPubOptions options;
    assert_int_equal(jsPubOptions_Init(&options), NATS_OK);
    options.MaxWait = 60000;
    assert_int_equal(js_PublishAsyncComplete(js, &options), NATS_OK);
    assert_fault(event_reader_new(fixture->log, 1, &reader), NONE);
    mono_ns start = clock_mono();
    for (uint64_t i = 1; i <= MANY; i++) {
        struct event_message message;
        assert_fault(event_reader_next(op, reader, in_ms(10000), &message), NONE);
        assert_int_equal(message.stream_seq, i);
        assert_int_equal(message.events[0].time, 1000000 * i);
        arena_clear(op->arena);
    }
    double seconds = (double)(clock_mono() - start) / (double)NS_PER_S;
    print_message("read and decoded %.0f messages a second\n", MANY / seconds);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SERVER(without_messages_the_deadline_passes),
        WITH_SERVER(a_missing_message_is_noticed_and_not_passed),
        WITH_SERVER(a_log_that_begins_late_is_noticed),
        WITH_SERVER(a_message_that_is_not_ours_is_noticed_and_not_passed),
        WITH_SERVER(an_empty_message_is_not_ours_either),
        WITH_SERVER(a_message_of_another_tenants_subject_is_not_ours),
        WITH_SERVER(reading_begins_anywhere_and_goes_on_with_what_comes),
        WITH_SERVER(reading_goes_on_after_the_server_was_killed),
        WITH_SERVER(what_came_while_the_connection_was_cut_comes_all_the_same),
        WITH_SERVER(a_consumer_that_the_server_forgot_is_made_again),
        WITH_SERVER(a_reader_leaves_no_consumer_behind),
        WITH_SERVER(many_messages_come_in_order_without_a_hole),
    };
    return cmocka_run_group_tests_name("events/read", tests, NULL, NULL);
}
