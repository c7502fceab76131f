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

/* ---- under load ---- */

#define WRITERS 4

struct writer {
    struct event_log *log;
    atomic_bool *over;
    int base;
    pthread_t thread;
    atomic_int acknowledged; /* messages base .. base + acknowledged - 1 */
};

static void *write_on(void *arg)
{
    struct writer *writer = arg;
    while (!atomic_load(writer->over)) {
        CLEANUP(op_freep) struct op *op = op_of("acme", 60000);
        int number = writer->base + atomic_load(&writer->acknowledged);
        struct uuid id = id_of(number);
        uint64_t seq = 0;
        if (!FAULTED(append_number(op, writer->log, "a", number, &id, &seq))) {
            atomic_fetch_add(&writer->acknowledged, 1); /* otherwise it is asked again, with its id */
        }
    }
    return NULL;
}

static void wait_written(struct writer *writers, int more)
{
    for (int i = 0; i < WRITERS; i++) {
        int goal = atomic_load(&writers[i].acknowledged) + more;
        for (int tries = 0; tries < 6000 && atomic_load(&writers[i].acknowledged) < goal; tries++) {
            (void)poll(NULL, 0, 20);
        }
        assert_true(atomic_load(&writers[i].acknowledged) >= goal);
    }
}

/* Which server leads the stream: its number. */
static int leader_of(struct event_log *log)
{
    int leader = -1;
    for (int tries = 0; leader < 0 && tries < 1000; tries++) {
        jsStreamInfo *info = NULL;
        if (js_GetStreamInfo(&info, log->js, log->config->nats_stream, NULL, NULL) == NATS_OK &&
            info->Cluster != NULL && info->Cluster->Leader != NULL && info->Cluster->Leader[0] == 't') {
            leader = info->Cluster->Leader[1] - '0';
        } else {
            (void)poll(NULL, 0, 20);
        }
        jsStreamInfo_Destroy(info);
    }
    assert_in_range(leader, 0, SERVERS - 1);
    return leader;
}

/* Every acknowledged number is there, and none twice. */
static void check_written(struct event_log *log, struct writer *writers)
{
    static unsigned char seen[WRITERS][100000];
    memset(seen, 0, sizeof(seen));
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    struct event_log_state state;
    assert_fault(event_log_state_now(op, log, &state), NONE);
    assert_int_equal(state.first_missing, 0);
    assert_fault(event_reader_new(log, 1, &reader), NONE);
    for (uint64_t seq = 1; seq <= state.last_seq; seq++) {
        struct event_message message;
        assert_fault(event_reader_next(op, reader, op->deadline, &message), NONE);
        int number = atoi(message.message_id.text + 24);
        assert_in_range(number / 100000, 0, WRITERS - 1);
        assert_int_equal(seen[number / 100000][number % 100000]++, 0);
        arena_clear(op->arena);
    }
    for (int i = 0; i < WRITERS; i++) {
        for (int n = 0; n < atomic_load(&writers[i].acknowledged); n++) {
            assert_int_equal(seen[i][n], 1);
        }
    }
}

static void a_killed_leader_loses_no_acknowledged_event(void **state)
{
    struct cluster *cluster = *state;
    struct event_log *log = log_for_test(&cluster->config);
    atomic_bool over = false;
    struct writer writers[WRITERS] = { 0 };
    wait_whole(log);
    for (int i = 0; i < WRITERS; i++) {
        writers[i].log = log;
        writers[i].over = &over;
        writers[i].base = i * 100000;
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]), 0);
    }
    wait_written(writers, 20);
    int leader = leader_of(log);
    int other = leader == 0 ? 1 : 0; /* among both is the one that we talk to first */
    nats_kill(&cluster->server[leader]);
    wait_written(writers, 10);          /* two of three choose another one */
    nats_kill(&cluster->server[other]); /* one of three is no quorum: nothing is acknowledged until one more is back */
    nats_start(&cluster->server[other]);
    wait_written(writers, 10);
    nats_start(&cluster->server[leader]);
    wait_whole(log);
    wait_written(writers, 10);
    atomic_store(&over, true);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
    }
    uint64_t again = 0;
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    struct uuid first = id_of(0);
    assert_fault(append_number(op, log, "a", 0, &first, &again), NONE); /* a duplicate is the first one */
    check_written(log, writers);
    event_log_close(log);
}

static void a_stream_gets_the_replicas_that_are_configured_later(void **state)
{
    struct cluster *cluster = *state;
    cluster->config.nats_replicas = 1;
    struct event_log *log = log_for_test(&cluster->config);
    append_one(log, 1);
    event_log_close(log);
    cluster->config.nats_replicas = SERVERS;
    log = log_for_test(&cluster->config);
    wait_whole(log);
    append_one(log, 2);
    event_log_close(log);
}

#define WITH_CLUSTER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(int argc, char **argv)
{
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        WITH_CLUSTER(one_that_syncs_later_is_one_too_many),
        WITH_CLUSTER(one_that_comes_back_unsynced_stops_appends),
        WITH_CLUSTER(a_killed_leader_loses_no_acknowledged_event),
        WITH_CLUSTER(a_stream_gets_the_replicas_that_are_configured_later),
    };
    return cmocka_run_group_tests_name("events/cluster", tests, NULL, NULL);
}
