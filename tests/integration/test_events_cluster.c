/* Three nats-servers as one cluster: every keeper of the stream has to say that it syncs. */
#include "nats_testlib.h"

#define SERVERS 3

struct cluster {
    struct nats server[SERVERS];
    int route_port[SERVERS];
    struct config config;
    char urls[256];
};

static void configure(struct cluster *cluster, int which, bool syncs)
{
    struct nats *nats = &cluster->server[which];
    char text[2048], path[128];
    (void)snprintf(text, sizeof(text),
                   "server_name: t%d\nlisten: \"127.0.0.1:%d\"\n"
                   "jetstream { store_dir: \"%s/js\", max_memory_store: 64MB, max_file_store: 1GB%s }\n"
                   "cluster { name: c, listen: \"127.0.0.1:%d\","
                   " routes: [ \"nats://127.0.0.1:%d\", \"nats://127.0.0.1:%d\", \"nats://127.0.0.1:%d\" ] }\n"
                   "system_account: SYS\naccounts {\n"
                   "  SYS: { exports: [ { service: \"%s\", response_type: stream } ] }\n"
                   "  SVC: { jetstream: enabled, users: [ { user: \"svc\", password: \"pw\" } ],"
                   " imports: [ { service: { account: SYS, subject: \"%s\" } } ] }\n}\n",
                   which, nats->port, nats->folder, syncs ? ", sync_interval: always" : "", cluster->route_port[which],
                   cluster->route_port[0], cluster->route_port[1], cluster->route_port[2], EVENTS_SERVER_CHECK,
                   EVENTS_SERVER_CHECK);
    (void)snprintf(path, sizeof(path), "%s/nats.conf", nats->folder);
    write_text(path, text);
}

static int set_up(void **state)
{
    static struct cluster cluster;
    cluster = (struct cluster){ .config = default_config() };
    for (int i = 0; i < SERVERS; i++) {
        cluster.server[i] = nats_new(NATS_SYNCS);
        assert_int_equal(close(loopback_listen(&cluster.route_port[i])), 0);
    }
    for (int i = 0; i < SERVERS; i++) {
        configure(&cluster, i, true);
        nats_start(&cluster.server[i]);
    }
    nats_use(&cluster.server[0], 0, &cluster.config);
    (void)snprintf(cluster.urls, sizeof(cluster.urls), "nats://127.0.0.1:%d,nats://127.0.0.1:%d, nats://127.0.0.1:%d",
                   cluster.server[0].port, cluster.server[1].port, cluster.server[2].port);
    cluster.config.nats_url = cluster.urls;
    cluster.config.nats_replicas = SERVERS;
    *state = &cluster;
    return 0;
}

static int tear_down(void **state)
{
    struct cluster *cluster = *state;
    for (int i = 0; i < SERVERS; i++) {
        nats_remove(&cluster->server[i]);
    }
    return 0;
}

static void append_one(struct event_log *log, uint64_t want)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    uint64_t seq = 0;
    struct uuid id = id_of((int)want);
    assert_fault(append_number(op, log, "a", (int)want, &id, &seq), NONE);
    assert_int_equal(seq, want);
}

static void restart_as(struct cluster *cluster, int which, bool syncs)
{
    nats_kill(&cluster->server[which]);
    configure(cluster, which, syncs);
    nats_start(&cluster->server[which]);
}

static void wait_replicas(struct event_log *log, unsigned count)
{
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    struct event_log_state state = { 0 };
    while (state.replicas_actual != count && !op_expired(op)) {
        if (FAULTED(event_log_state_now(op, log, &state))) {
            state.replicas_actual = 0;
        }
        (void)poll(NULL, 0, 50);
    }
    assert_int_equal(state.replicas_actual, count);
    assert_int_equal(state.replicas_desired, SERVERS);
}

static void wait_whole(struct event_log *log)
{
    wait_replicas(log, SERVERS);
}

static void one_that_syncs_later_is_one_too_many(void **state)
{
    struct cluster *cluster = *state;
    struct event_log *log = log_for_test(&cluster->config);
    append_one(log, 1);
    wait_whole(log);
    event_log_close(log);
    restart_as(cluster, 2, false);
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    const char *text = NULL;
    assert_fault(event_log_open(&cluster->config, &why, &log), LOG_UNSAFE);
    assert_fault(buf_cstr(&why, &text), NONE);
    assert_non_null(strstr(text, "server t2 "));
    cluster->config.nats_allow_unsynced = true; /* three replicas make up for it, and somebody says so */
    log = log_for_test(&cluster->config);
    append_one(log, 2);
    event_log_close(log);
}

static void appends_go_on_when_one_server_dies(void **state)
{
    struct cluster *cluster = *state;
    struct event_log *log = log_for_test(&cluster->config);
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    uint64_t next = 1;
    append_one(log, next++);
    wait_whole(log);
    assert_fault(event_reader_new(log, 1, &reader), NONE);
    for (int i = 0; i < 2; i++) { /* the one that we talk to, and another */
        nats_kill(&cluster->server[i]);
        append_one(log, next++);
        nats_start(&cluster->server[i]);
        wait_whole(log);
        append_one(log, next++);
    }
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    for (uint64_t i = 1; i < next; i++) {
        struct event_message message;
        assert_fault(event_reader_next(op, reader, op->deadline, &message), NONE);
        assert_string_equal(message.message_id.text, id_of((int)i).text);
    }
    event_reader_free(TAKE(reader));
    event_log_close(log);
}

static void one_that_comes_back_unsynced_stops_appends(void **state)
{
    struct cluster *cluster = *state;
    struct event_log *log = log_for_test(&cluster->config);
    append_one(log, 1);
    wait_whole(log);
    nats_kill(&cluster->server[1]);
    wait_replicas(log, SERVERS - 1);
    append_one(log, 2); /* two of three are enough */
    restart_as(cluster, 1, false);
    wait_whole(log);
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    uint64_t seq = 0;
    struct fault fault = append_number(op, log, "a", 3, NULL, &seq);
    assert_fault(fault, LOG_UNSAFE);
    event_log_close(log);
}

#define WITH_CLUSTER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CLUSTER(one_that_syncs_later_is_one_too_many),
        WITH_CLUSTER(one_that_comes_back_unsynced_stops_appends),
        WITH_CLUSTER(appends_go_on_when_one_server_dies),
    };
    return cmocka_run_group_tests_name("events/cluster", tests, NULL, NULL);
}
