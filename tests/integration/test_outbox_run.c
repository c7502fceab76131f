/* The dispatcher against a real database, fed by the projector from a real log. */
#include "projection_testlib.h"

#include "api/outbox/outbox.h"

#include <sched.h>

#define KEYS 4096

/* What the handler does, and what it saw. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned runs[KEYS];          /* by number - 1000 */
    unsigned last_attempts[KEYS]; /* attempt of the latest run */
    bool last_flag[KEYS];
    unsigned order[KEYS], total; /* numbers as they began */
    unsigned running, most_running;
    unsigned running_of[2], most_running_of[2]; /* tenants acme and umbrella */
    unsigned timeouts;
    unsigned results[3];
    bool hold; /* handlers wait until it is false */
    struct fault answer;
    unsigned fail_first;      /* so many runs of a key answer `answer`, later ones succeed */
    struct event_log *settle; /* success appends test.settled */
    struct uuid command_id;
    char trace_id[33];
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void seen_lock(void)
{
    assert_int_equal(pthread_mutex_lock(&seen.lock), 0);
}

static void seen_unlock(void)
{
    assert_int_equal(pthread_mutex_unlock(&seen.lock), 0);
}

static void begin(const struct op *op, unsigned at, const struct outbox_item *item)
{
    size_t who = strcmp(op->tenant.text, "acme") == 0 ? 0 : 1;
    seen.runs[at]++;
    seen.last_attempts[at] = item->attempt;
    seen.last_flag[at] = item->last_attempt;
    seen.order[seen.total++ % KEYS] = at;
    seen.command_id = op->command_id;
    memcpy(seen.trace_id, op->trace_id, sizeof(seen.trace_id));
    seen.running++;
    seen.running_of[who]++;
    seen.most_running = seen.running > seen.most_running ? seen.running : seen.most_running;
    seen.most_running_of[who] =
        seen.running_of[who] > seen.most_running_of[who] ? seen.running_of[who] : seen.most_running_of[who];
    (void)pthread_cond_broadcast(&seen.changed);
    while (seen.hold) {
        (void)pthread_cond_wait(&seen.changed, &seen.lock);
    }
    seen.running--;
    seen.running_of[who]--;
}

static struct fault handle(struct op *op, struct services *services, const struct outbox_item *item)
{
    (void)services;
    struct said said = { 0 };
    TRY(jin_decode(op, item->payload, said_fields, COUNT_OF(said_fields), &said));
    unsigned at = (unsigned)(said.n - 1000) % KEYS;
    seen_lock();
    begin(op, at, item);
    bool fails = FAULTED(seen.answer) && seen.runs[at] <= seen.fail_first;
    struct fault answer = seen.answer;
    struct event_log *settle = seen.settle;
    seen_unlock();
    if (fails) {
        return answer;
    }
    if (settle != NULL) {
        uint64_t seq = 0;
        struct event event = { "test.settled", 1, item->payload };
        struct event_append append = { .lane = "b", .message_id = op->command_id, .events = &event, .count = 1 };
        return events_append(op, settle, &append, &seq);
    }
    return OK;
}

/* As one that waits for another's service. */
static struct fault handle_until_told(struct op *op, struct services *services, const struct outbox_item *item)
{
    (void)op, (void)services;
    seen_lock();
    seen.running++;
    (void)pthread_cond_broadcast(&seen.changed);
    seen_unlock();
    while (!atomic_load(item->stopping)) {
        (void)sched_yield();
    }
    seen_lock();
    seen.running--;
    seen_unlock();
    return FAULT(STORE_BUSY);
}

static void count_timeout(void *arg, const char *tenant, const char *destination)
{
    (void)arg;
    assert_string_equal(tenant, "acme");
    assert_string_equal(destination, "test.out");
    seen_lock();
    seen.timeouts++;
    seen_unlock();
}

static struct outbox_row out_row = { .destination = "test.out", .handler = handle, .deadline_ms = 5000, .attempts = 3 };
static const struct outbox_row *out_tables[] = { &out_row };
static const size_t out_counts[] = { 1 };
static bool outbound;                 /* the next outbox that is started */
static struct outbox *_Atomic outbox; /* woken by the projector's thread */

/* Attempts by what they came to: delivered, retry, dead-lettered. */
static void count_attempt(void *arg, const char *destination, const char *result, double seconds)
{
    (void)arg;
    assert_string_equal(destination, "test.out");
    assert_true(seconds >= 0);
    seen_lock();
    seen.results[result[0] == 'd' && result[2] == 'l' ? 0 : result[0] == 'r' ? 1 : 2]++;
    seen_unlock();
}

static void wake(void *arg)
{
    (void)arg;
    struct outbox *running = outbox;
    if (running != NULL) {
        outbox_wake(running);
    }
}

static struct outbox *outbox_of(struct instance *instance, unsigned threads)
{
    struct outbox *made = NULL;
    struct outbox_config config = { .store = instance->store,
                                    .tables = out_tables,
                                    .counts = out_counts,
                                    .table_count = 1,
                                    .threads = threads,
                                    .outbound = outbound,
                                    .on_timeout = count_timeout,
                                    .on_attempt = count_attempt };
    assert_fault(outbox_start(&config, &made), NONE);
    return made;
}

static int set_up_outbox(void **state)
{
    if (set_up(state) != 0) {
        return -1;
    }
    struct fixture *fixture = *state;
    seen_lock();
    memset(seen.runs, 0, sizeof(seen.runs));
    memset(seen.last_flag, 0, sizeof(seen.last_flag));
    memset(seen.results, 0, sizeof(seen.results));
    seen.total = seen.running = seen.most_running = seen.timeouts = seen.fail_first = 0;
    memset(seen.running_of, 0, sizeof(seen.running_of));
    memset(seen.most_running_of, 0, sizeof(seen.most_running_of));
    seen.hold = false;
    seen.answer = OK;
    seen.settle = NULL;
    seen_unlock();
    out_row = (struct outbox_row){ .destination = "test.out", .handler = handle, .deadline_ms = 5000, .attempts = 3 };
    outbound = false;
    struct projector_config config = projector_config_of(&fixture->a);
    config.on_outbox = wake;
    assert_fault(projector_start(&config, &fixture->a.projector), NONE);
    return 0;
}

static int tear_down_outbox(void **state)
{
    struct fixture *fixture = *state;
    seen_lock();
    seen.hold = false;
    (void)pthread_cond_broadcast(&seen.changed);
    seen_unlock();
    projector_stop(TAKE(fixture->a.projector));
    outbox_free(outbox);
    outbox = NULL;
    return tear_down(state);
}

#define WITH_OUTBOX(test) cmocka_unit_test_setup_teardown(test, set_up_outbox, tear_down_outbox)

static void say_and_wait(struct fixture *fixture, const char *tenant_text, int number)
{
    assert_fault(wait_for(&fixture->a, say(&fixture->a, tenant_text, number), 20000), NONE);
}

static int64_t rows_in(struct fixture *fixture, const char *outbox_state)
{
    char query[128];
    (void)snprintf(query, sizeof(query), "SELECT count(*) FROM svc.outbox WHERE state = '%s'", outbox_state);
    return admin_int(&fixture->config, query);
}

static void wait_rows(struct fixture *fixture, const char *outbox_state, int64_t count)
{
    mono_ns until = clock_mono() + 20 * NS_PER_S;
    while (rows_in(fixture, outbox_state) != count && clock_mono() < until) {
        (void)poll(NULL, 0, 10);
    }
    assert_int_equal(rows_in(fixture, outbox_state), count);
}

static void wait_running(unsigned count)
{
    struct timespec until = { .tv_sec = (clock_mono() + 20 * NS_PER_S) / NS_PER_S };
    int waited = 0;
    seen_lock();
    while (seen.running < count && waited == 0) {
        waited = pthread_cond_clockwait(&seen.changed, &seen.lock, CLOCK_MONOTONIC, &until);
    }
    assert_true(seen.running >= count);
    seen_unlock();
}

/* ---- failures ---- */

static void a_failure_for_good_is_dead_lettered_at_once(void **state)
{
    struct fixture *fixture = *state;
    seen.answer = FAULT(BAD_ARGUMENT);
    seen.fail_first = 99;
    outbox = outbox_of(&fixture->a, 2);
    say_and_wait(fixture, "acme", 1001);
    wait_rows(fixture, "dead-lettered", 1);
    assert_int_equal(seen.runs[1], 1);
    assert_false(seen.last_flag[1]);
}

static void a_passing_failure_is_tried_again_until_the_last_attempt(void **state)
{
    struct fixture *fixture = *state;
    seen.answer = FAULT(STORE_BUSY);
    seen.fail_first = 99;
    outbox = outbox_of(&fixture->a, 2);
    say_and_wait(fixture, "acme", 1001);
    wait_rows(fixture, "dead-lettered", 1);
    assert_int_equal(seen.runs[1], 3);
    assert_int_equal(seen.last_attempts[1], 3);
    assert_true(seen.last_flag[1]);
    assert_int_equal(seen.timeouts, 0);
    outbox_stop(outbox);
    assert_int_equal(seen.results[1], 2);
    assert_int_equal(seen.results[2], 1);
    /* For whoever decides whether it goes again. */
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.outbox o JOIN svc.outbox_failures f"
                                                 " ON f.tenant_id = o.tenant_id AND f.outbox_id = o.id"
                                                 " WHERE f.code = 'store_busy' AND f.attempts = 3"
                                                 " AND f.last_us > f.first_us"),
                     1);
}

static void a_passing_failure_that_passed_is_delivered(void **state)
{
    struct fixture *fixture = *state;
    seen.answer = FAULT(DEADLINE);
    seen.fail_first = 1;
    outbox = outbox_of(&fixture->a, 2);
    say_and_wait(fixture, "acme", 1001);
    wait_rows(fixture, "delivered", 1);
    assert_int_equal(seen.runs[1], 2);
    assert_int_equal(seen.timeouts, 1);
    assert_int_equal(seen.results[0], 1);
    outbox_stop(outbox);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.outbox_failures"), 0); /* it succeeded */
    assert_int_equal(admin_int(&fixture->config, "SELECT attempts + due_us + lease_until_us FROM svc.outbox"), 0);
}

static void a_row_of_an_unknown_destination_is_left_alone(void **state)
{
    struct fixture *fixture = *state;
    out_row.destination = "test.other";
    outbox = outbox_of(&fixture->a, 2);
    say_and_wait(fixture, "acme", 1001);
    CLEANUP(op_freep) struct op *op = op_of("", 1500);
    uint64_t at = 0;
    while (!op_expired(op)) {
        IGNORE(projector_changed(op, fixture->a.projector, &at, op->deadline));
    }
    assert_int_equal(seen.total, 0);
    assert_int_equal(rows_in(fixture, "pending"), 1);
}

/* ---- leases ---- */

static void a_lease_that_holds_is_respected_and_one_that_ran_out_is_taken(void **state)
{
    struct fixture *fixture = *state;
    say_and_wait(fixture, "acme", 1001);
    say_and_wait(fixture, "acme", 1002);
    admin_script(&fixture->config,
                 "UPDATE svc.outbox SET state = 'processing', worker_id = 'gone', attempts = 1, lease_until_us ="
                 " CASE WHEN key = 'k1001' THEN 1 ELSE (extract(epoch FROM now()) * 1000000)::bigint + 60000000 END");
    outbox = outbox_of(&fixture->a, 2);
    wait_rows(fixture, "delivered", 1);
    assert_int_equal(seen.runs[1], 1);
    assert_int_equal(seen.last_attempts[1], 2);
    assert_int_equal(seen.runs[2], 0);
    assert_int_equal(rows_in(fixture, "processing"), 1);
}

static void a_row_whose_worker_died_at_the_last_attempt_is_told_so_once_more(void **state)
{
    struct fixture *fixture = *state;
    say_and_wait(fixture, "acme", 1001);
    admin_script(&fixture->config, "UPDATE svc.outbox SET state = 'processing', worker_id = 'gone', attempts = 3,"
                                   " lease_until_us = 1");
    seen.answer = FAULT(STORE_BUSY);
    seen.fail_first = 99;
    outbox = outbox_of(&fixture->a, 1);
    wait_rows(fixture, "dead-lettered", 1);
    assert_int_equal(seen.runs[1], 1);
    assert_true(seen.last_flag[1]);
}

/* The process that is to be killed: leases a row and never comes back from its handler. */
static int hold_a_row(void)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct config config = default_config();
    struct instance own = { 0 };
    config.postgres_url = getenv("SVC_POSTGRES_URL");
    seen.hold = true;
    if (!FAULTED(store_open(&config, &why, &own.store))) {
        (void)outbox_of(&own, 1);
        (void)pause();
    }
    return 1;
}

static void a_killed_process_leaves_its_row_to_another(void **state)
{
    struct fixture *fixture = *state;
    say_and_wait(fixture, "acme", 1001);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)execl("/proc/self/exe", "hold", "hold", (char *)NULL);
        _exit(127);
    }
    wait_rows(fixture, "processing", 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    admin_script(&fixture->config, "UPDATE svc.outbox SET lease_until_us = 1"); /* time passes */
    outbox = outbox_of(&fixture->a, 1);
    wait_rows(fixture, "delivered", 1);
    assert_int_equal(seen.last_attempts[1], 2);
}

static void an_outcome_after_the_lease_ran_out_changes_nothing(void **state)
{
    struct fixture *fixture = *state;
    seen.hold = true;
    seen.answer = FAULT(BAD_ARGUMENT);
    seen.fail_first = 1;
    outbox = outbox_of(&fixture->a, 1);
    say_and_wait(fixture, "acme", 1001);
    wait_running(1);
    admin_script(&fixture->config, "UPDATE svc.outbox SET worker_id = 'another', attempts = 2");
    seen_lock();
    seen.hold = false;
    (void)pthread_cond_broadcast(&seen.changed);
    seen_unlock();
    outbox_stop(outbox);
    assert_int_equal(rows_in(fixture, "processing"), 1);
    assert_int_equal(admin_int(&fixture->config, "SELECT attempts FROM svc.outbox"), 2);
}

static void two_dispatchers_share_the_rows(void **state)
{
    struct fixture *fixture = *state;
    instance_open(&fixture->b, &fixture->config);
    for (int i = 0; i < 200; i++) {
        (void)say(&fixture->a, i % 2 == 0 ? "acme" : "umbrella", 1000 + i);
    }
    assert_fault(wait_for(&fixture->a, 200, 20000), NONE);
    outbox = outbox_of(&fixture->a, 4);
    struct outbox *other = outbox_of(&fixture->b, 4);
    wait_rows(fixture, "delivered", 200);
    outbox_free(other);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(seen.runs[i], 1);
    }
}

/* ---- fairness ---- */

/* Runs 40 rows of two tenants with 8 threads, all handlers held until `most` of them run. */
static void run_capped(struct fixture *fixture, unsigned most)
{
    for (int i = 0; i < 40; i++) {
        (void)say(&fixture->a, i % 2 == 0 ? "acme" : "umbrella", 1000 + i);
    }
    assert_fault(wait_for(&fixture->a, 40, 20000), NONE);
    seen.hold = true;
    outbox = outbox_of(&fixture->a, 8);
    wait_running(most);
    CLEANUP(op_freep) struct op *op = op_of("", 300);
    uint64_t at = 0;
    while (!op_expired(op)) { /* a while in which more could begin */
        IGNORE(projector_changed(op, fixture->a.projector, &at, op->deadline));
    }
    seen_lock();
    assert_int_equal(seen.running, most);
    seen.hold = false;
    (void)pthread_cond_broadcast(&seen.changed);
    seen_unlock();
    wait_rows(fixture, "delivered", 40);
    assert_int_equal(seen.most_running, most);
}

static void no_tenant_runs_more_than_its_cap(void **state)
{
    out_row.cap_tenant = 2;
    run_capped(*state, 4);
    assert_int_equal(seen.most_running_of[0], 2);
    assert_int_equal(seen.most_running_of[1], 2);
}

static void no_destination_runs_more_than_its_cap(void **state)
{
    out_row.cap_destination = 3;
    run_capped(*state, 3);
}

static void a_busy_tenant_does_not_keep_another_waiting(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 100; i++) {
        (void)say(&fixture->a, "acme", 1000 + i);
    }
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "umbrella", 1500), 20000), NONE);
    outbox = outbox_of(&fixture->a, 1);
    wait_rows(fixture, "delivered", 101);
    unsigned place = 0;
    while (seen.order[place] != 500) {
        place++;
    }
    assert_true(place <= 2);
}

static void what_is_due_later_waits(void **state)
{
    struct fixture *fixture = *state;
    say_and_wait(fixture, "acme", 1001);
    admin_script(&fixture->config, "UPDATE svc.outbox SET due_us ="
                                   " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 1200000");
    mono_ns start = clock_mono();
    outbox = outbox_of(&fixture->a, 1);
    wait_rows(fixture, "delivered", 1);
    assert_true(clock_mono() - start >= NS_PER_S);
}

/* ---- the outbound outbox ---- */

static void rows_are_run_by_the_outbox_of_their_kind_only(void **state)
{
    struct fixture *fixture = *state;
    out_row.outbound = true;
    outbox = outbox_of(&fixture->a, 2);
    say_and_wait(fixture, "acme", 1001);
    CLEANUP(op_freep) struct op *op = op_of("", 1500);
    uint64_t at = 0;
    while (!op_expired(op)) {
        IGNORE(projector_changed(op, fixture->a.projector, &at, op->deadline));
    }
    assert_int_equal(seen.total, 0);
    assert_int_equal(rows_in(fixture, "pending"), 1);
    outbound = true;
    struct outbox *other = outbox_of(&fixture->a, 2);
    wait_rows(fixture, "delivered", 1);
    outbox_free(other);
    assert_int_equal(seen.runs[1], 1);
}

static void a_crowd_before_other_outboxes_hides_no_row_of_ours(void **state)
{
    struct fixture *fixture = *state;
    say_and_wait(fixture, "acme", 1001);
    admin_script(
        &fixture->config,
        "INSERT INTO svc.outbox SELECT 1000000 + n + CASE d WHEN 'a.other' THEN 0 ELSE 1000 END, 'tenant-' || n, d, 'k', '', '', 'pending', '', 0, 0, 0, 0"
        " FROM generate_series(1, 600) n, unnest(ARRAY['a.other', 'z.other']) d WHERE d = 'a.other' OR n > 300");
    outbox = outbox_of(&fixture->a, 2);
    wait_rows(fixture, "delivered", 1);
    assert_int_equal(rows_in(fixture, "pending"), 900);
}

static void every_one_of_many_tenants_gets_its_turn(void **state)
{
    struct fixture *fixture = *state;
    say_and_wait(fixture, "acme", 1001);
    admin_script(
        &fixture->config,
        "INSERT INTO svc.outbox SELECT id * 1000 + n, 'tenant-' || n, destination, 'k' || n, trace_id, payload,"
        " state, worker_id, 0, 0, 0, created_us FROM svc.outbox, generate_series(1, 600) n");
    outbox = outbox_of(&fixture->a, 4);
    wait_rows(fixture, "delivered", 601);
}

static void an_outbound_outbox_keeps_a_thread_for_other_tenants(void **state)
{
    struct fixture *fixture = *state;
    out_row.outbound = outbound = true;
    for (int i = 0; i < 20; i++) {
        (void)say(&fixture->a, "acme", 1000 + i);
    }
    assert_fault(wait_for(&fixture->a, 20, 20000), NONE);
    seen.hold = true;
    outbox = outbox_of(&fixture->a, 8);
    wait_running(6);
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "umbrella", 1500), 20000), NONE);
    wait_running(7); /* the eighth is for another destination */
    seen_lock();
    assert_int_equal(seen.running_of[0], 6);
    assert_int_equal(seen.running_of[1], 1);
    seen.hold = false;
    (void)pthread_cond_broadcast(&seen.changed);
    seen_unlock();
    wait_rows(fixture, "delivered", 21);
}

static void a_handler_is_told_when_its_outbox_is_to_stop(void **state)
{
    struct fixture *fixture = *state;
    out_row.handler = handle_until_told;
    outbox = outbox_of(&fixture->a, 1);
    say_and_wait(fixture, "acme", 1001);
    wait_running(1);
    outbox_stop_begin(outbox);
    outbox_stop(outbox);
    out_row.handler = handle;
    assert_int_equal(rows_in(fixture, "pending"), 1);
}

/* ---- stopping ---- */

static void stopping_waits_for_handlers_and_leases_no_more(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 10; i++) {
        (void)say(&fixture->a, "acme", 1000 + i);
    }
    assert_fault(wait_for(&fixture->a, 10, 20000), NONE);
    outbox = outbox_of(&fixture->a, 2);
    outbox_stop(outbox);
    assert_int_equal(seen.running, 0);
    assert_int_equal(rows_in(fixture, "processing"), 0);
    assert_int_equal(rows_in(fixture, "delivered"), seen.total);
    assert_int_equal(rows_in(fixture, "pending"), 10 - seen.total);
}

/* ---- through and through ---- */

static void the_handlers_operation_carries_trace_and_a_steady_command_id(void **state)
{
    struct fixture *fixture = *state;
    seen.answer = FAULT(STORE_BUSY);
    seen.fail_first = 1;
    outbox = outbox_of(&fixture->a, 1);
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    uint64_t seq = 0;
    assert_fault(append_number(op, fixture->a.log, "a", 1001, NULL, &seq), NONE);
    wait_running(0);
    wait_rows(fixture, "delivered", 1);
    assert_string_equal(seen.trace_id, op->trace_id);
    struct span parts[] = { span_text("acme"), span_text("test.out"), span_text("k1001") };
    struct uuid want;
    assert_fault(uuid_derive("svc.outbox", parts, 3, &want), NONE);
    assert_string_equal(seen.command_id.text, want.text);
}

static void a_command_goes_through_and_is_settled_by_its_event(void **state)
{
    struct fixture *fixture = *state;
    seen.settle = fixture->a.log;
    outbox = outbox_of(&fixture->a, 4);
    for (int i = 0; i < 50; i++) {
        (void)say(&fixture->a, "acme", 1000 + i);
    }
    wait_rows(fixture, "delivered", 50);
    assert_fault(wait_for(&fixture->a, 100, 20000), NONE); /* 50 said, 50 settled, each once */
    assert_int_equal(event_log_seen(fixture->a.log), 100);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.outbox WHERE payload = ''"), 50);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(seen.runs[i], 1);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "hold") == 0) {
        return hold_a_row();
    }
    const struct CMUnitTest tests[] = {
        WITH_OUTBOX(a_failure_for_good_is_dead_lettered_at_once),
        WITH_OUTBOX(a_passing_failure_is_tried_again_until_the_last_attempt),
        WITH_OUTBOX(a_passing_failure_that_passed_is_delivered),
        WITH_OUTBOX(a_row_of_an_unknown_destination_is_left_alone),
        WITH_OUTBOX(a_lease_that_holds_is_respected_and_one_that_ran_out_is_taken),
        WITH_OUTBOX(a_row_whose_worker_died_at_the_last_attempt_is_told_so_once_more),
        WITH_OUTBOX(a_killed_process_leaves_its_row_to_another),
        WITH_OUTBOX(an_outcome_after_the_lease_ran_out_changes_nothing),
        WITH_OUTBOX(two_dispatchers_share_the_rows),
        WITH_OUTBOX(no_tenant_runs_more_than_its_cap),
        WITH_OUTBOX(no_destination_runs_more_than_its_cap),
        WITH_OUTBOX(a_busy_tenant_does_not_keep_another_waiting),
        WITH_OUTBOX(what_is_due_later_waits),
        WITH_OUTBOX(rows_are_run_by_the_outbox_of_their_kind_only),
        WITH_OUTBOX(a_crowd_before_other_outboxes_hides_no_row_of_ours),
        WITH_OUTBOX(every_one_of_many_tenants_gets_its_turn),
        WITH_OUTBOX(an_outbound_outbox_keeps_a_thread_for_other_tenants),
        WITH_OUTBOX(a_handler_is_told_when_its_outbox_is_to_stop),
        WITH_OUTBOX(stopping_waits_for_handlers_and_leases_no_more),
        WITH_OUTBOX(the_handlers_operation_carries_trace_and_a_steady_command_id),
        WITH_OUTBOX(a_command_goes_through_and_is_settled_by_its_event),
    };
    return cmocka_run_group_tests_name("outbox/run", tests, NULL, NULL);
}
