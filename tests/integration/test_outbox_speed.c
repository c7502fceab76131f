/* Not a test of right and wrong: figures of the way of a mutation, on this machine, now. Printed, never compared. */
#include "projection_testlib.h"

#include "api/outbox/outbox.h"

#define ALONE    300
#define THREADS  16
#define EACH     60
#define REPLAYED 20000

static struct outbox *_Atomic outbox;
static struct event_log *handler_log;

static void wake(void *arg)
{
    (void)arg;
    struct outbox *running = outbox;
    if (running != NULL) {
        outbox_wake(running);
    }
}

static struct fault handle(struct op *op, struct services *services, const struct outbox_item *item)
{
    (void)services;
    uint64_t seq = 0;
    struct event event = { "test.settled", 1, item->payload };
    struct event_append append = { .lane = "b", .message_id = op->command_id, .events = &event, .count = 1 };
    return events_append(op, handler_log, &append, &seq);
}

static const struct outbox_row out_row = {
    .destination = "test.out", .handler = handle, .deadline_ms = 5000, .attempts = 3
};
static const struct outbox_row *const out_tables[] = { &out_row };
static const size_t out_counts[] = { 1 };

static int by_value(const void *a, const void *b)
{
    mono_ns first = *(const mono_ns *)a, second = *(const mono_ns *)b;
    return (first > second) - (first < second);
}

static void print_times(const char *what, mono_ns *times, size_t count, mono_ns all)
{
    qsort(times, count, sizeof(*times), by_value);
    print_message("%-44s p50 %6.2f ms  p95 %6.2f ms  p99 %6.2f ms  %7.0f/s\n", what, (double)times[count / 2] / 1e6,
                  (double)times[count * 95 / 100] / 1e6, (double)times[count * 99 / 100] / 1e6,
                  (double)count / ((double)all / 1e9));
}

struct runner {
    struct fixture *fixture;
    enum { APPEND, APPLY, COMMAND } what;
    int first, count;
    mono_ns times[1024];
};

/* The settled row of one command, seen as a request thread would see it. */
static void wait_settled(struct runner *runner, const char *key)
{
    static const struct sql SQL_STATE = { "test_state",
                                          "SELECT state FROM svc.outbox WHERE tenant_id = $1 AND"
                                          " destination = 'test.out' AND key = $2",
                                          2 };
    CLEANUP(op_freep) struct op *op = op_of("acme", 30000);
    uint64_t seen = 0;
    for (bool done = false; !done;) {
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        CLEANUP(rows_freep) struct rows *rows = NULL;
        IGNORE(projector_changed(op, runner->fixture->a.projector, &seen, op->deadline));
        struct sql_arg args[] = { SQL_TEXT("acme"), SQL_TEXT(key) };
        if (FAULTED(tx_begin(op, runner->fixture->a.store, STORE_REQUEST, &tx)) ||
            FAULTED(tx_query(tx, &SQL_STATE, args, 2, &rows))) {
            return;
        }
        done = rows_count(rows) == 1 && strcmp(rows_text(rows, 0, 0), "delivered") == 0;
    }
}

static void *run(void *arg)
{
    struct runner *runner = arg;
    for (int i = 0; i < runner->count; i++) {
        char key[32];
        int number = runner->first + i;
        mono_ns start = clock_mono();
        uint64_t seq = say(&runner->fixture->a, "acme", runner->what == COMMAND ? 1000 + number : number % 999);
        if (runner->what == APPLY) {
            IGNORE(wait_for(&runner->fixture->a, seq, 30000));
        } else if (runner->what == COMMAND) {
            (void)snprintf(key, sizeof(key), "k%d", 1000 + number);
            wait_settled(runner, key);
        }
        runner->times[i] = clock_mono() - start;
    }
    return NULL;
}

static struct runner runners[THREADS];
static mono_ns all_times[THREADS * 1024];

static void measure(struct fixture *fixture, const char *what, int kind, int threads, int each)
{
    static int next = 1;
    pthread_t ids[THREADS];
    size_t count = 0;
    mono_ns start = clock_mono();
    for (int i = 0; i < threads; i++) {
        runners[i] = (struct runner){ .fixture = fixture, .first = next, .count = each };
        runners[i].what = (typeof(runners[i].what))kind;
        next += each;
        assert_int_equal(pthread_create(&ids[i], NULL, run, &runners[i]), 0);
    }
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        memcpy(all_times + count, runners[i].times, (size_t)each * sizeof(mono_ns));
        count += (size_t)each;
    }
    print_times(what, all_times, count, clock_mono() - start);
}

static void the_way_of_a_mutation(void **state)
{
    struct fixture *fixture = *state;
    measure(fixture, "append, alone", APPEND, 1, ALONE);
    measure(fixture, "append, 16 threads", APPEND, THREADS, EACH);
    struct projector_config config = projector_config_of(&fixture->a);
    config.on_outbox = wake;
    assert_fault(projector_start(&config, &fixture->a.projector), NONE);
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    assert_fault(projector_catch_up(op, fixture->a.projector), NONE);
    measure(fixture, "append and applied, alone", APPLY, 1, ALONE);
    measure(fixture, "append and applied, 16 threads", APPLY, THREADS, EACH);
    handler_log = fixture->a.log;
    struct outbox_config outbox_config = {
        .store = fixture->a.store, .tables = out_tables, .counts = out_counts, .table_count = 1, .threads = 4
    };
    struct outbox *made = NULL;
    assert_fault(outbox_start(&outbox_config, &made), NONE);
    outbox = made;
    measure(fixture, "command to settled (two events), alone", COMMAND, 1, ALONE);
    measure(fixture, "command to settled (two events), 16 threads", COMMAND, THREADS, EACH);
    outbox_stop(made);
    projector_stop(TAKE(fixture->a.projector));
    outbox = NULL;
    outbox_free(made);
}

static void a_replay(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    for (int i = 1; i <= REPLAYED; i++) {
        body_of_number("acme", "a", i, &body);
        assert_int_equal(js_PublishAsync(fixture->raw->js, "svc.events.acme.a", body.at, (int)body.len, NULL), NATS_OK);
    }
    jsPubOptions options;
    assert_int_equal(jsPubOptions_Init(&options), NATS_OK);
    options.MaxWait = 120000;
    assert_int_equal(js_PublishAsyncComplete(fixture->raw->js, &options), NATS_OK);
    struct projector_config config = projector_config_of(&fixture->a);
    CLEANUP(op_freep) struct op *op = op_of("", 300000);
    uint64_t messages = 0;
    mono_ns start = clock_mono();
    assert_fault(projection_rebuild(op, &config, &messages), NONE);
    print_message("replay into the read model: %.0f messages/s\n",
                  (double)messages / ((double)(clock_mono() - start) / 1e9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(the_way_of_a_mutation),
        WITH_STORES(a_replay),
    };
    return cmocka_run_group_tests_name("outbox/speed", tests, NULL, NULL);
}
