/* Appending against a real nats-server that the test itself starts, kills and lies about. */
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

static uint64_t messages_in(struct event_log *log)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 5000);
    struct event_log_state state;
    assert_fault(event_log_state_now(op, log, &state), NONE);
    return state.messages;
}

/* ---- what is not accepted as an event log ---- */

static void assert_open_refused(const struct config *config, enum fault_code code, const char *because)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct event_log *log = NULL;
    const char *text = NULL;
    assert_int_equal(event_log_open(config, &why, &log).code, code);
    assert_null(log);
    assert_fault(buf_cstr(&why, &text), NONE);
    assert_non_null(strstr(text, because));
}

static void a_server_that_syncs_later_is_refused(void **state)
{
    (void)state;
    struct nats nats = nats_new(NATS_SYNCS_LATER);
    struct config config = default_config();
    nats_start(&nats);
    nats_use(&nats, 0, &config);
    assert_open_refused(&config, FAULT_LOG_UNSAFE, "acknowledges before data is on disk");
    config.nats_allow_unsynced = true; /* of no use with a single replica */
    assert_open_refused(&config, FAULT_LOG_UNSAFE, "acknowledges before data is on disk");
    nats_remove(&nats);
}

static void a_server_that_does_not_say_is_refused(void **state)
{
    (void)state;
    struct nats nats = nats_new(NATS_SAYS_NOTHING);
    struct config config = default_config();
    nats_start(&nats);
    nats_use(&nats, 0, &config);
    assert_open_refused(&config, FAULT_LOG_UNSAFE, "does not say");
    nats_remove(&nats);
}

static void a_wrong_login_is_refused(void **state)
{
    struct fixture *fixture = *state;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/wrong", fixture->nats.folder);
    fixture->config.nats_credentials = path;
    assert_open_refused(&fixture->config, FAULT_CONFIG, "credentials");
    write_text(path, "nocolon\n");
    assert_open_refused(&fixture->config, FAULT_CONFIG, "user:password");
    write_text(path, "svc:wrong\n");
    assert_open_refused(&fixture->config, FAULT_LOG_UNAVAILABLE, "no connection");
    assert_int_equal(chmod(path, 0644), 0);
    assert_open_refused(&fixture->config, FAULT_CONFIG, "0600");
}

static void a_stream_that_can_lose_messages_is_refused(void **state)
{
    struct fixture *fixture = *state;
    delete_stream(fixture->log);
    make_soft_stream(fixture->log, 0);
    assert_open_refused(&fixture->config, FAULT_LOG_UNSAFE, "deny purge");
    delete_stream(fixture->log);
    const char *subjects[] = { EVENTS_SUBJECTS };
    jsStreamConfig stream;
    assert_int_equal(jsStreamConfig_Init(&stream), NATS_OK);
    stream.Name = "TEST";
    stream.Subjects = subjects;
    stream.SubjectsLen = 1;
    stream.Storage = js_MemoryStorage;
    assert_int_equal(js_AddStream(NULL, fixture->log->js, &stream, NULL, NULL), NATS_OK);
    assert_open_refused(&fixture->config, FAULT_LOG_UNSAFE, "file storage");
}

/* ---- what is not appended ---- */

static void what_is_too_large_or_malformed_is_refused_and_nothing_stored(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 5000);
    CLEANUP(buf_free) struct buf data = BUF_INIT(2 << 20);
    uint64_t seq = 99;
    uint8_t *at = NULL;
    assert_fault(buf_text(&data, "{\"x\":\""), NONE);
    assert_fault(buf_reserve(&data, EVENT_MESSAGE_MAX, &at), NONE);
    memset(at, 'x', EVENT_MESSAGE_MAX);
    assert_fault(buf_text(&data, "\"}"), NONE);
    struct event event = { "test.said", 1, buf_span(&data) };
    struct event_append append = { .lane = "a", .events = &event, .count = 1 };
    assert_fault(events_append(op, fixture->log, &append, &seq), TOO_LARGE);
    event.data = span_text("[]");
    assert_fault(events_append(op, fixture->log, &append, &seq), BAD_ARGUMENT);
    event.data = span_text("{}");
    append.lane = "*";
    assert_fault(events_append(op, fixture->log, &append, &seq), BAD_ARGUMENT);
    append.lane = "a";
    append.count = 0;
    assert_fault(events_append(op, fixture->log, &append, &seq), BAD_ARGUMENT);
    CLEANUP(op_freep) struct op *nobody = op_of("", 5000);
    assert_fault(append_number(nobody, fixture->log, "a", 1, NULL, &seq), BAD_ARGUMENT);
    assert_int_equal(seq, 99);
    assert_int_equal(messages_in(fixture->log), 0);
}

static void the_largest_message_goes_in(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 5000);
    CLEANUP(buf_free) struct buf data = BUF_INIT(2 << 20);
    uint64_t seq = 0;
    uint8_t *at = NULL;
    size_t len = EVENT_MESSAGE_MAX - 400;
    assert_fault(buf_text(&data, "{\"x\":\""), NONE);
    assert_fault(buf_reserve(&data, len, &at), NONE);
    memset(at, 'x', len);
    assert_fault(buf_text(&data, "\"}"), NONE);
    struct event event = { "test.said", 1, buf_span(&data) };
    struct event_append append = { .lane = "a", .events = &event, .count = 1 };
    assert_fault(events_append(op, fixture->log, &append, &seq), NONE);
    assert_int_equal(seq, 1);
}

static void a_lane_that_moved_on_is_a_conflict(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 5000);
    uint64_t seq = 0;
    struct event event = { "test.said", 1, span_text("{}") };
    struct event_append append = { .lane = "a", .events = &event, .count = 1, .expect = true, .expected = 1 };
    assert_fault(events_append(op, fixture->log, &append, &seq), LOG_CONFLICT); /* the lane is empty */
    append.expected = 0;
    assert_fault(events_append(op, fixture->log, &append, &seq), NONE);
    assert_int_equal(seq, 1);
    assert_fault(events_append(op, fixture->log, &append, &seq), LOG_CONFLICT);
    assert_fault(append_number(op, fixture->log, "b", 1, NULL, &seq), NONE); /* another lane does not matter */
    append.expected = 1;
    assert_fault(events_append(op, fixture->log, &append, &seq), NONE);
    assert_int_equal(seq, 3);
    assert_int_equal(messages_in(fixture->log), 3);
}

static void an_id_is_stored_once_and_the_first_counts(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 5000);
    struct uuid id = id_of(1);
    uint64_t first = 0, second = 0;
    struct event_message message;
    assert_fault(append_number(op, fixture->log, "a", 1, &id, &first), NONE);
    assert_fault(append_number(op, fixture->log, "a", 2, NULL, &second), NONE);
    assert_fault(append_number(op, fixture->log, "a", 3, &id, &second), NONE);
    assert_int_equal(second, first);
    assert_int_equal(messages_in(fixture->log), 2);
    assert_fault(event_log_get(op, fixture->log, first, &message), NONE);
    assert_span_text(message.events[0].data, "{\"n\":1}");
}

static void a_repeated_append_with_an_expectation_is_no_conflict(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 5000);
    uint64_t seq = 0;
    struct event event = { "test.said", 1, span_text("{}") };
    struct event_append append = {
        .lane = "a", .message_id = id_of(1), .events = &event, .count = 1, .expect = true, .expected = 0
    };
    assert_fault(events_append(op, fixture->log, &append, &seq), NONE);
    assert_fault(events_append(op, fixture->log, &append, &seq), NONE);
    assert_int_equal(seq, 1);
    assert_int_equal(messages_in(fixture->log), 1);
}

static void an_open_transaction_is_a_bug(void **state)
{
    struct fixture *fixture = *state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct op *op = op_of("acme", 1000);
        uint64_t seq = 0;
        (void)close(2);
        op->tx_open = 1;
        IGNORE(append_number(op, fixture->log, "a", 1, NULL, &seq));
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

/* ---- outages ---- */

static void while_the_server_is_down_appends_fail_in_time_and_work_after_it(void **state)
{
    struct fixture *fixture = *state;
    uint64_t seq = 0;
    nats_kill(&fixture->nats);
    while (
        event_log_connected(fixture->log)) { /* until it is noticed, an append may be under way and not be known of */
        (void)poll(NULL, 0, 5);
    }
    for (int i = 0; i < 3; i++) {
        CLEANUP(op_freep) struct op *op = op_of("acme", 400);
        assert_fault(append_number(op, fixture->log, "a", i, NULL, &seq), LOG_UNAVAILABLE);
        assert_true(clock_mono() < op->deadline + NS_PER_S);
        struct event_log_state now;
        assert_fault(event_log_state_now(op, fixture->log, &now), LOG_UNAVAILABLE);
        assert_fault(event_log_state(op, fixture->log, &now), NONE);
        assert_false(now.connected);
    }
    nats_start(&fixture->nats);
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    assert_fault(append_number(op, fixture->log, "a", 9, NULL, &seq), NONE);
    assert_int_equal(seq, 1); /* nothing of the failed ones came late */
    assert_int_equal(messages_in(fixture->log), 1);
}

static void what_was_acknowledged_is_there_after_a_kill(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    uint64_t seq = 0;
    for (int i = 1; i <= 100; i++) {
        assert_fault(append_number(op, fixture->log, "a", i, NULL, &seq), NONE);
        if (i % 25 == 0) {
            nats_kill(&fixture->nats);
            nats_start(&fixture->nats);
        }
    }
    for (int i = 1; i <= 100; i++) {
        char want[32];
        struct event_message message;
        (void)snprintf(want, sizeof(want), "{\"n\":%d}", i);
        assert_fault(event_log_get(op, fixture->log, (uint64_t)i, &message), NONE);
        assert_span_text(message.events[0].data, want);
    }
    assert_int_equal(messages_in(fixture->log), 100);
}

struct appending {
    struct event_log *log;
    struct fault fault;
    uint64_t seq;
};

static void *append_once(void *arg)
{
    struct appending *appending = arg;
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    struct uuid id = id_of(77);
    appending->fault = append_number(op, appending->log, "a", 77, &id, &appending->seq);
    return NULL;
}

static void stored_and_killed_before_the_answer_counts_once(void **state)
{
    struct fixture *fixture = *state;
    struct proxy proxy = { .server_port = fixture->nats.port };
    struct config config = fixture->config;
    proxy_start(&proxy, &config);
    struct appending appending = { .log = log_for_test(&config) };
    atomic_store(&proxy.hold, true);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, append_once, &appending), 0);
    while (messages_in(fixture->log) == 0) {
        (void)poll(NULL, 0, 5);
    }
    nats_kill(&fixture->nats); /* stored, and the answer never arrived */
    atomic_store(&proxy.hold, false);
    nats_start(&fixture->nats);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_fault(appending.fault, NONE);
    assert_int_equal(appending.seq, 1);
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    uint64_t seq = 0;
    assert_fault(append_number(op, fixture->log, "a", 78, NULL, &seq), NONE);
    assert_int_equal(seq, 2);
    assert_int_equal(messages_in(fixture->log), 2);
    event_log_close(appending.log);
    proxy_stop(&proxy);
}

static void an_answer_that_never_comes_is_told_from_nothing_stored(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 600);
    uint64_t seq = 0;
    nats_freeze(&fixture->nats);
    assert_fault(append_number(op, fixture->log, "a", 1, NULL, &seq), DEADLINE);
    assert_int_equal(kill(fixture->nats.pid, SIGCONT), 0);
}

static void a_server_that_came_back_unsynced_gets_no_event(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    uint64_t seq = 0;
    nats_kill(&fixture->nats);
    nats_configure(&fixture->nats, NATS_SYNCS_LATER);
    nats_start(&fixture->nats);
    assert_fault(append_number(op, fixture->log, "a", 1, NULL, &seq), LOG_UNSAFE);
    assert_non_null(strstr(op->note.log_detail, "acknowledges before data is on disk"));
    nats_kill(&fixture->nats);
    nats_configure(&fixture->nats, NATS_SYNCS);
    nats_start(&fixture->nats);
    CLEANUP(op_freep) struct op *again = op_of("acme", 10000);
    assert_fault(append_number(again, fixture->log, "a", 1, NULL, &seq), NONE);
}

static void a_login_that_is_refused_for_good_is_told(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    struct event_log_state now = { 0 };
    char path[128], text[512];
    nats_kill(&fixture->nats);
    (void)snprintf(path, sizeof(path), "%s/nats.conf", fixture->nats.folder);
    (void)snprintf(text, sizeof(text), "listen: \"127.0.0.1:%d\"\nauthorization { user: svc, password: other }\n",
                   fixture->nats.port);
    write_text(path, text);
    nats_start(&fixture->nats);
    while (!now.closed && !op_expired(op)) {
        assert_fault(event_log_state(op, fixture->log, &now), NONE);
        (void)poll(NULL, 0, 20);
    }
    assert_true(now.closed);
    assert_false(now.connected);
    CLEANUP(op_freep) struct op *after = op_of("acme", 500);
    uint64_t seq = 0;
    assert_fault(append_number(after, fixture->log, "a", 1, NULL, &seq), LOG_UNAVAILABLE);
}

static void a_log_that_vanished_is_not_made_anew(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    uint64_t seq = 0;
    struct event_log_state now;
    assert_fault(append_number(op, fixture->log, "a", 1, NULL, &seq), NONE);
    delete_stream(fixture->log);
    nats_kill(&fixture->nats);
    nats_start(&fixture->nats);
    assert_fault(append_number(op, fixture->log, "a", 1, NULL, &seq), LOG_UNTRUSTED);
    assert_fault(event_log_state_now(op, fixture->log, &now), NONE);
    assert_int_equal(now.last_seq, 0);
    assert_int_equal(event_log_seen(fixture->log), 1);
}

#define APPENDERS 8
#define EACH      50

static void *append_many(void *arg)
{
    struct appending *appending = arg;
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    for (int i = 0; i < EACH && !FAULTED(appending->fault); i++) {
        appending->fault = append_number(op, appending->log, "a", i, NULL, &appending->seq);
    }
    return NULL;
}

static void many_threads_append_at_once(void **state)
{
    struct fixture *fixture = *state;
    pthread_t threads[APPENDERS];
    struct appending appending[APPENDERS] = { 0 };
    for (int i = 0; i < APPENDERS; i++) {
        appending[i].log = fixture->log;
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, &appending[i]), 0);
    }
    for (int i = 0; i < APPENDERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_fault(appending[i].fault, NONE);
    }
    assert_int_equal(messages_in(fixture->log), APPENDERS * EACH);
    assert_int_equal(event_log_seen(fixture->log), APPENDERS * EACH);
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_that_syncs_later_is_refused),
        cmocka_unit_test(a_server_that_does_not_say_is_refused),
        WITH_SERVER(a_wrong_login_is_refused),
        WITH_SERVER(a_stream_that_can_lose_messages_is_refused),
        WITH_SERVER(what_is_too_large_or_malformed_is_refused_and_nothing_stored),
        WITH_SERVER(the_largest_message_goes_in),
        WITH_SERVER(a_lane_that_moved_on_is_a_conflict),
        WITH_SERVER(an_id_is_stored_once_and_the_first_counts),
        WITH_SERVER(a_repeated_append_with_an_expectation_is_no_conflict),
        WITH_SERVER(an_open_transaction_is_a_bug),
        WITH_SERVER(while_the_server_is_down_appends_fail_in_time_and_work_after_it),
        WITH_SERVER(what_was_acknowledged_is_there_after_a_kill),
        WITH_SERVER(stored_and_killed_before_the_answer_counts_once),
        WITH_SERVER(an_answer_that_never_comes_is_told_from_nothing_stored),
        WITH_SERVER(a_server_that_came_back_unsynced_gets_no_event),
        WITH_SERVER(a_login_that_is_refused_for_good_is_told),
        WITH_SERVER(a_log_that_vanished_is_not_made_anew),
        WITH_SERVER(many_threads_append_at_once),
    };
    return cmocka_run_group_tests_name("events/append", tests, NULL, NULL);
}
