/* Faults of the log while it is in use, stores that come back from older backups, and the lost tail that is appended
 * again from the copies. */
#include "projection_testlib.h"

#define APPLIED 40
#define LOST    7

/* ---- a log that was applied, and what becomes of it ---- */

static uint64_t plant_number(struct fixture *fixture, int number)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    body_of_number("acme", "a", number, &body);
    return plant(fixture->raw, "svc.events.acme.a", buf_span(&body));
}

static void plant_numbers(struct fixture *fixture, int first, int last)
{
    for (int i = first; i <= last; i++) {
        assert_int_equal(plant_number(fixture, i), i);
    }
}

static void apply_all(struct fixture *fixture)
{
    instance_project(&fixture->a);
    plant_numbers(fixture, 1, APPLIED);
    assert_fault(wait_for(&fixture->a, APPLIED, 20000), NONE);
}

/* As svc-api that was stopped. */
static void stop(struct fixture *fixture)
{
    projector_stop(TAKE(fixture->a.projector));
}

/* The log with messages 1..last only, `odd_one` another than it was; as an operator's server would have it. */
static void shorten_log(struct fixture *fixture, int last, int odd_one)
{
    delete_stream(fixture->raw);
    make_soft_stream(fixture->raw, 0);
    for (int i = 1; i <= last; i++) {
        (void)plant_number(fixture, i == odd_one ? 9999 : i);
    }
    harden_stream(fixture->raw);
}

static void run(const char *program, const char *const *argv)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)execvp(program, (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The server's store, put away and brought back while the server is down. */
static void store_copy(struct fixture *fixture, const char *from, const char *to)
{
    char source[128], target[128];
    nats_kill(&fixture->nats);
    (void)snprintf(source, sizeof(source), "%s/%s", fixture->nats.folder, from);
    (void)snprintf(target, sizeof(target), "%s/%s", fixture->nats.folder, to);
    run("rm", (const char *const[]){ "rm", "-rf", target, NULL });
    run("cp", (const char *const[]){ "cp", "-a", source, target, NULL });
    nats_start(&fixture->nats);
}

static uint64_t log_end(struct fixture *fixture)
{
    CLEANUP(op_freep) struct op *op = op_of("", 20000);
    struct event_log_state state;
    struct fault fault = event_log_state_now(op, fixture->raw, &state);
    while (FAULTED(fault) && !op_expired(op)) { /* it connects again by itself */
        (void)poll(NULL, 0, 20);
        op->note = (struct fault_note){ 0 };
        fault = event_log_state_now(op, fixture->raw, &state);
    }
    assert_fault(fault, NONE);
    return state.last_seq;
}

static void assert_untrusted(struct fixture *fixture, const char *cause, uint64_t first_bad)
{
    struct projector_state now = state_of(&fixture->a);
    mono_ns until = clock_mono() + 30 * NS_PER_S;
    while ((now.log_trusted || now.first_bad_seq != first_bad || strcmp(now.cause, cause) != 0) &&
           clock_mono() < until) {
        (void)poll(NULL, 0, 20);
        now = state_of(&fixture->a);
    }
    assert_false(now.log_trusted);
    assert_string_equal(now.cause, cause);
    assert_int_equal(now.first_bad_seq, first_bad);
}

static void wait_trusted(struct fixture *fixture)
{
    mono_ns until = clock_mono() + 30 * NS_PER_S;
    while (!state_of(&fixture->a).log_trusted && clock_mono() < until) {
        (void)poll(NULL, 0, 20);
    }
    assert_true(state_of(&fixture->a).log_trusted);
}

static struct fault say_late(struct fixture *fixture, int timeout_ms)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", timeout_ms);
    uint64_t seq = 0;
    return append_number(op, fixture->a.log, "a", 77, NULL, &seq);
}

/* ---- faults while it runs ---- */

static void a_store_from_an_older_backup_is_noticed_and_gets_no_new_message(void **state)
{
    struct fixture *fixture = *state;
    instance_project(&fixture->a);
    plant_numbers(fixture, 1, APPLIED - LOST);
    store_copy(fixture, "js", "older");
    (void)log_end(fixture);
    plant_numbers(fixture, APPLIED - LOST + 1, APPLIED);
    assert_fault(wait_for(&fixture->a, APPLIED, 20000), NONE);
    store_copy(fixture, "js", "newer");
    store_copy(fixture, "older", "js");
    /* Before anybody has looked: the number of a lost message must not be given away. */
    assert_true(FAULTED(say_late(fixture, 1000)));
    assert_untrusted(fixture, "tail_lost", APPLIED - LOST + 1);
    assert_fault(say_late(fixture, 5000), LOG_UNTRUSTED);
    assert_int_equal(log_end(fixture), APPLIED - LOST);

    CLEANUP(op_freep) struct op *op = op_of("", 20000);
    instance_close(&fixture->a);
    instance_open(&fixture->a, &fixture->config);
    instance_project(&fixture->a);
    assert_fault(projector_catch_up(op, fixture->a.projector), LOG_UNTRUSTED); /* a start is refused */
    assert_fault(say_late(fixture, 5000), LOG_UNTRUSTED);
    assert_int_equal(log_end(fixture), APPLIED - LOST);

    store_copy(fixture, "newer", "js"); /* the way back */
    wait_trusted(fixture);
    assert_fault(say_late(fixture, 20000), NONE);
    assert_fault(wait_for(&fixture->a, APPLIED + 1, 20000), NONE);
}

static void a_read_model_from_an_older_backup_catches_up(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    instance_close(&fixture->a);
    fresh_database(&fixture->config);
    instance_open(&fixture->a, &fixture->config);
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, APPLIED, 20000), NONE);
    assert_true(state_of(&fixture->a).log_trusted);
}

static void a_running_projector_notices_a_deleted_stream(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    delete_stream(fixture->raw);
    assert_untrusted(fixture, "rewind", 1);
    assert_fault(say_late(fixture, 5000), LOG_UNTRUSTED);
}

static void a_running_projector_notices_a_replaced_message(void **state)
{
    struct fixture *fixture = *state;
    apply_all(fixture);
    shorten_log(fixture, APPLIED, 1);
    assert_untrusted(fixture, "altered", 1);
}

static void a_running_projector_notices_a_deleted_message(void **state)
{
    struct fixture *fixture = *state;
    delete_stream(fixture->raw);
    make_soft_stream(fixture->raw, 0);
    apply_all(fixture);
    assert_int_equal(js_DeleteMsg(fixture->raw->js, "TEST", 11, NULL, NULL), NATS_OK);
    assert_untrusted(fixture, "gap", 11);
}

/* ---- repair ---- */

static struct fault repair(struct fixture *fixture, uint64_t from, bool go, struct log_repair *ret_repair)
{
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    const struct log_repair_request request = { .from = from, .go = go };
    struct fault fault = projection_repair_log(op, fixture->a.store, fixture->a.log, &request, ret_repair);
    if (FAULTED(fault)) {
        assert_true(op->note.set); /* it says what to do */
    }
    return fault;
}

static void assert_refused(struct fixture *fixture, uint64_t from)
{
    struct log_repair done;
    uint64_t end = log_end(fixture);
    assert_fault(repair(fixture, from, true, &done), LOG_REPAIR);
    assert_int_equal(done.appended, 0);
    assert_int_equal(log_end(fixture), end);
}

static void what_is_not_a_lost_tail_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct log_repair done;
    apply_all(fixture);
    assert_fault(repair(fixture, APPLIED + 1, true, &done), CONFLICT); /* somebody leads */
    stop(fixture);
    assert_refused(fixture, APPLIED + 1);
    assert_refused(fixture, 1);
    shorten_log(fixture, APPLIED - LOST, 23);
    assert_refused(fixture, APPLIED - LOST + 1);
    shorten_log(fixture, APPLIED - LOST, 0);
    assert_refused(fixture, APPLIED - LOST);
    assert_refused(fixture, APPLIED - LOST + 2);
    delete_stream(fixture->raw);
    make_soft_stream(fixture->raw, 0);
    plant_numbers(fixture, 1, APPLIED - LOST);
    assert_int_equal(js_DeleteMsg(fixture->raw->js, "TEST", 20, NULL, NULL), NATS_OK);
    assert_refused(fixture, APPLIED - LOST + 1);
}

static void copies_that_do_not_hold_are_not_used(void **state)
{
    static const char *const damages[][2] = {
        { "UPDATE svc.event_envelopes SET body = body || 'x' WHERE stream_seq = 38",
          "UPDATE svc.event_envelopes SET body = substr(body, 1, length(body) - 1) WHERE stream_seq = 38" },
        { "CREATE TABLE svc.kept AS SELECT * FROM svc.event_envelopes WHERE stream_seq = 38;"
          "UPDATE svc.event_envelopes e SET body = o.body, sha256 = o.sha256 FROM svc.event_envelopes o"
          " WHERE e.stream_seq = 38 AND o.stream_seq = 37",
          "UPDATE svc.event_envelopes e SET body = k.body, sha256 = k.sha256 FROM svc.kept k"
          " WHERE e.stream_seq = k.stream_seq" },
        { "DELETE FROM svc.event_envelopes WHERE stream_seq = 38",
          "INSERT INTO svc.event_envelopes SELECT * FROM svc.kept" },
        { "UPDATE svc.projection_checkpoint SET stream_seq = 36",
          "UPDATE svc.projection_checkpoint SET stream_seq = 40" },
    };
    struct fixture *fixture = *state;
    struct log_repair done;
    apply_all(fixture);
    stop(fixture);
    shorten_log(fixture, APPLIED - LOST, 0);
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        admin_script(&fixture->config, damages[i][0]);
        assert_refused(fixture, APPLIED - LOST + 1);
        admin_script(&fixture->config, damages[i][1]);
    }
    assert_fault(repair(fixture, APPLIED - LOST + 1, false, &done), NONE);
    assert_int_equal(done.log_last, APPLIED - LOST);
    assert_int_equal(done.copies_last, APPLIED);
    assert_int_equal(done.appended, 0);
    assert_int_equal(log_end(fixture), APPLIED - LOST); /* only looked */
}

/* Whoever asks for the messages now gets what was there, and the projector goes on with what comes next. */
static void assert_as_before(struct fixture *fixture, uint64_t count)
{
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    assert_int_equal(log_end(fixture), count);
    assert_int_equal(admin_int(&fixture->config, "SELECT stream_seq FROM svc.projection_checkpoint"), count);
    instance_close(&fixture->a);
    instance_open(&fixture->a, &fixture->config);
    instance_project(&fixture->a);
    assert_fault(projector_catch_up(op, fixture->a.projector), NONE);
    assert_int_equal(say(&fixture->a, "acme", 5), count + 1);
    assert_fault(wait_for(&fixture->a, count + 1, 20000), NONE);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.test_said WHERE n = 5"), 2);
    wait_trusted(fixture);
}

static void a_lost_tail_is_appended_again_where_it_was(void **state)
{
    struct fixture *fixture = *state;
    struct log_repair done;
    apply_all(fixture);
    stop(fixture);
    shorten_log(fixture, APPLIED - LOST, 0);
    assert_fault(repair(fixture, APPLIED - LOST + 1, true, &done), NONE);
    assert_int_equal(done.appended, LOST);
    assert_as_before(fixture, APPLIED);
}

/* With a message whose id came twice: the second one is a message, too. */
static void a_stream_that_was_deleted_is_a_tail_from_one(void **state)
{
    struct fixture *fixture = *state;
    struct log_repair done;
    apply_all(fixture);
    assert_int_equal(plant_number(fixture, 3), APPLIED + 1);
    assert_fault(wait_for(&fixture->a, APPLIED + 1, 20000), NONE);
    stop(fixture);
    delete_stream(fixture->raw);
    instance_close(&fixture->a);
    instance_open(&fixture->a, &fixture->config); /* makes the stream, as svc-api does */
    assert_refused(fixture, 2);
    assert_fault(repair(fixture, 1, true, &done), NONE);
    assert_int_equal(done.appended, APPLIED + 1);
    assert_as_before(fixture, APPLIED + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(a_store_from_an_older_backup_is_noticed_and_gets_no_new_message),
        WITH_STORES(a_read_model_from_an_older_backup_catches_up),
        WITH_STORES(a_running_projector_notices_a_deleted_stream),
        WITH_STORES(a_running_projector_notices_a_replaced_message),
        WITH_STORES(a_running_projector_notices_a_deleted_message),
        WITH_STORES(what_is_not_a_lost_tail_is_refused),
        WITH_STORES(copies_that_do_not_hold_are_not_used),
        WITH_STORES(a_lost_tail_is_appended_again_where_it_was),
        WITH_STORES(a_stream_that_was_deleted_is_a_tail_from_one),
    };
    return cmocka_run_group_tests_name("projection/repair", tests, NULL, NULL);
}
