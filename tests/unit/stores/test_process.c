#include "unit/stores/testlib.h"

#include "appliance/stores/process.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const char *const SHELL = "/bin/sh";

static struct fault shell(struct op *op, const char *user, const char *script, struct buf *said, int *code)
{
    const char *const argv[] = { SHELL, "-c", script, NULL };
    return process_run(op, &(struct process_spec){ .argv = argv, .user = user }, (struct span){ 0 }, said, code);
}

static void a_program_that_is_not_there_is_refused_with_the_reason(void **state)
{
    struct scratch *scratch = *state;
    const char *const argv[] = { "/nonexistent/program", NULL };
    int code = 77;
    assert_fault(process_run(scratch->op, &(struct process_spec){ .argv = argv }, (struct span){ 0 }, NULL, &code), IO);
    assert_int_equal(code, 77);
    assert_non_null(strstr(scratch->op->note.detail, "/nonexistent/program: executing it: No such file"));
}

static void an_unknown_user_is_refused_before_anything_is_started(void **state)
{
    struct scratch *scratch = *state;
    int code = 0;
    assert_fault(shell(scratch->op, "svc-nobody-knows", "true", NULL, &code), CONFIG);
}

static void a_failing_program_is_reported_with_its_last_line(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(buf_free) struct buf said = BUF_INIT(4096);
    const char *const argv[] = { SHELL, "-c", "echo first; echo disk full >&2; exit 9", NULL };
    assert_fault(process_check(scratch->op, &(struct process_spec){ .argv = argv }, (struct span){ 0 }, &said), IO);
    assert_string_equal(scratch->op->note.detail, "/bin/sh ended with code 9, saying: disk full");
}

static void a_program_beyond_its_deadline_is_killed(void **state)
{
    struct scratch *scratch = *state;
    scratch_renew(scratch, 200);
    int code = 0;
    assert_fault(shell(scratch->op, NULL, "exec tail -f /dev/null", NULL, &code), DEADLINE);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* and reaped */
}

static void a_stop_signal_ends_the_wait(void **state)
{
    struct scratch *scratch = *state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    process_set_interrupt(ends[0]);
    int code = 0;
    struct fault run = shell(scratch->op, NULL, "exec tail -f /dev/null", NULL, &code);
    process_set_interrupt(-1);
    assert_fault(run, CANCELLED);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_signal_is_told_from_an_exit_code(void **state)
{
    struct scratch *scratch = *state;
    int code = 0;
    assert_fault(shell(scratch->op, NULL, "kill -9 $$", NULL, &code), NONE);
    assert_int_equal(code, 128 + SIGKILL);
}

static void input_that_nobody_reads_does_not_kill_us(void **state)
{
    struct scratch *scratch = *state;
    static uint8_t much[1 << 20];
    const char *const argv[] = { "/bin/true", NULL };
    int code = 1;
    assert_fault(process_run(scratch->op, &(struct process_spec){ .argv = argv }, SPAN_ARRAY(much), NULL, &code), NONE);
    assert_int_equal(code, 0);
}

static void much_input_and_output_pass_through_and_the_rest_is_dropped(void **state)
{
    struct scratch *scratch = *state;
    static uint8_t much[300000];
    memset(much, 'a', sizeof(much));
    CLEANUP(buf_free) struct buf whole = BUF_INIT(sizeof(much)), part = BUF_INIT(1000);
    const char *const argv[] = { "/bin/cat", NULL };
    const struct process_spec spec = { .argv = argv };
    assert_fault(process_check(scratch->op, &spec, SPAN_ARRAY(much), &whole), NONE);
    assert_int_equal(whole.len, sizeof(much));
    assert_fault(process_check(scratch->op, &spec, SPAN_ARRAY(much), &part), NONE);
    assert_int_equal(part.len, 1000);
}

static void a_child_has_its_user_and_no_way_to_more(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(buf_free) struct buf said = BUF_INIT(4096);
    const char *text = NULL;
    int code = 0;
    assert_int_equal(setgroups(1, (const gid_t[]){ 641 }), 0); /* ours must not be inherited */
    assert_fault(shell(scratch->op, "svc-pg",
                       "id -u; id -G; grep -E '^(NoNewPrivs|CapEff|SigBlk|SigIgn)' /proc/self/status; pwd; umask; "
                       "ulimit -c; ls /proc/self/fd",
                       &said, &code),
                 NONE);
    assert_int_equal(setgroups(0, NULL), 0);
    assert_fault(buf_cstr(&said, &text), NONE);
    assert_string_equal(text, "640\n640\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
                              "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n/\n0077\n0\n0\n1\n2\n3\n");
}

static void a_child_sees_our_settings_and_no_other_variable(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(buf_free) struct buf said = BUF_INIT(8192);
    const char *text = NULL;
    assert_int_equal(setenv("SVC_LOG_LEVEL", "debug", 1), 0);
    assert_int_equal(setenv("SVC_NATS_URL", "given", 1), 0);
    assert_int_equal(setenv("SVC_TOKEN", "secret-token", 1), 0);
    assert_int_equal(setenv("LD_PRELOAD_LOOKALIKE", "x", 1), 0);
    const char *const argv[] = { "/usr/bin/env", NULL };
    const char *const env[] = { "SVC_NATS_URL=ours", "EXTRA=1", NULL };
    assert_fault(
        process_check(scratch->op, &(struct process_spec){ .argv = argv, .env = env }, (struct span){ 0 }, &said),
        NONE);
    assert_fault(buf_cstr(&said, &text), NONE);
    assert_non_null(strstr(text, "SVC_LOG_LEVEL=debug\n"));
    assert_non_null(strstr(text, "SVC_NATS_URL=ours\n"));
    assert_null(strstr(text, "given"));
    assert_non_null(strstr(text, "EXTRA=1\n"));
    assert_null(strstr(text, "secret-token"));
    assert_null(strstr(text, "LOOKALIKE"));
    (void)unsetenv("SVC_LOG_LEVEL");
    (void)unsetenv("SVC_NATS_URL");
    (void)unsetenv("SVC_TOKEN");
}

/* As service managers hand a socket over: descriptor 3, and two variables, one of them the child's own number. */
static void a_listener_that_is_handed_over_is_there_and_nothing_else_is(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(buf_free) struct buf said = BUF_INIT(4096);
    const char *text = NULL;
    const char *const argv[] = {
        "/bin/sh", "-c",
        "test $LISTEN_PID = $$ && echo mine; echo $LISTEN_FDS; readlink /proc/$$/fd/3 | cut -c1-7; "
        "ls /proc/self/fd",
        NULL
    };
    int low = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int places[] = { low, fcntl(low, F_DUPFD_CLOEXEC, 50) };
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        buf_clear(&said);
        assert_fault(process_check(scratch->op, &(struct process_spec){ .argv = argv, .listener = places[i] },
                                   (struct span){ 0 }, &said),
                     NONE);
        assert_fault(buf_cstr(&said, &text), NONE);
        assert_string_equal(text, "mine\n1\nsocket:\n0\n1\n2\n3\n4\n"); /* 4 is what ls reads the folder with */
    }
    (void)close(places[0]);
    (void)close(places[1]);
}

/* Where nothing is open beyond stdio, the listener and the way of reporting a failed start want the same place. */
static void a_start_that_fails_is_reported_with_a_listener_too(void **state)
{
    struct scratch *scratch = *state;
    const char *const argv[] = { "/nonexistent/program", NULL };
    pid_t pid = 0;
    int low = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int high = fcntl(low, F_DUPFD_CLOEXEC, 50);
    (void)close(low); /* the lowest is free: the report's pipe takes it and the next */
    assert_fault(process_spawn(scratch->op, &(struct process_spec){ .argv = argv, .listener = high }, &pid), IO);
    assert_non_null(strstr(scratch->op->note.detail, "/nonexistent/program"));
    (void)close(high);
}

static void an_answer_is_kept_apart_from_the_log(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(buf_free) struct buf said = BUF_INIT(4096);
    const char *const argv[] = { SHELL, "-c", "echo answer; echo noise >&2", NULL };
    const struct process_spec spec = { .argv = argv, .answer_only = true };
    assert_fault(process_check(scratch->op, &spec, (struct span){ 0 }, &said), NONE);
    assert_true(span_equal_text(buf_span(&said), "answer\n"));
}

/* ---- process_as ---- */

static struct fault report_uid(struct op *op, void *arg, int output)
{
    (void)op;
    (void)arg;
    return dprintf(output, "%d %d", (int)getuid(), (int)geteuid()) > 0 ? OK : FAULT(IO);
}

static struct fault refuse(struct op *op, void *arg, int output)
{
    (void)output;
    return op_fail(op, FAULT(CONFLICT), "refused because of %s", (const char *)arg);
}

static struct fault crash(struct op *op, void *arg, int output)
{
    (void)op;
    (void)arg;
    (void)output;
    (void)kill(getpid(), SIGKILL);
    return OK;
}

static struct fault become_root(struct op *op, void *arg, int output)
{
    (void)op;
    (void)arg;
    (void)output;
    return setresuid(0, 0, 0) == 0 ? FAULT(INTERNAL) : OK;
}

static void work_as_another_user_reports_its_fault_and_note(void **state)
{
    struct scratch *scratch = *state;
    assert_fault(process_as(scratch->op, "svc-pg", refuse, (void *)"a reason", NULL), CONFLICT);
    assert_string_equal(scratch->op->note.detail, "refused because of a reason");
}

/* A file that one of our own groups may read is none that the user may. */
static void a_file_is_opened_with_the_users_groups_alone_and_ours_come_back(void **state)
{
    struct scratch *scratch = *state;
    char path[128];
    gid_t before[64], own[] = { 0, 4711 }, after[8];
    int fd = -1, count = getgroups(64, before);
    if (geteuid() != 0) {
        skip();
    }
    assert_true(count >= 0);
    (void)snprintf(path, sizeof(path), "%s/file", scratch->dir);
    int made = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(made >= 0 && fchown(made, 0, 4711) == 0 && fchmod(made, 0040) == 0 && close(made) == 0);
    assert_int_equal(setgroups(2, own), 0);
    struct fault refused = process_open_as(scratch->op, "nobody", path, &fd);
    int restored = getgroups(8, after);
    assert_int_equal(setgroups((size_t)count, before), 0);
    assert_fault(refused, IO);
    assert_int_equal(restored, 2);
    assert_memory_equal(after, own, sizeof(own));
    assert_int_equal(geteuid(), 0);
    assert_int_equal(getegid(), 0);
    scratch_renew(scratch, 60000);
    assert_int_equal(chmod(path, 0004), 0);
    assert_fault(process_open_as(scratch->op, "nobody", path, &fd), NONE);
    (void)close(fd);
}

static void work_that_dies_is_a_fault(void **state)
{
    struct scratch *scratch = *state;
    assert_fault(process_as(scratch->op, "svc-pg", crash, NULL, NULL), IO);
}

static void work_as_another_user_cannot_go_back(void **state)
{
    struct scratch *scratch = *state;
    assert_fault(process_as(scratch->op, "svc-pg", become_root, NULL, NULL), NONE);
}

static void work_as_another_user_has_its_rights_and_gives_back_its_output(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(buf_free) struct buf said = BUF_INIT(4096);
    assert_fault(process_as(scratch->op, "svc-signer", report_uid, NULL, &said), NONE);
    assert_true(span_equal_text(buf_span(&said), "642 642"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_program_that_is_not_there_is_refused_with_the_reason),
        scratch_test(an_unknown_user_is_refused_before_anything_is_started),
        scratch_test(a_failing_program_is_reported_with_its_last_line),
        scratch_test(a_program_beyond_its_deadline_is_killed),
        scratch_test(a_stop_signal_ends_the_wait),
        scratch_test(a_signal_is_told_from_an_exit_code),
        scratch_test(input_that_nobody_reads_does_not_kill_us),
        scratch_test(much_input_and_output_pass_through_and_the_rest_is_dropped),
        scratch_test(a_child_has_its_user_and_no_way_to_more),
        scratch_test(a_child_sees_our_settings_and_no_other_variable),
        scratch_test(a_listener_that_is_handed_over_is_there_and_nothing_else_is),
        scratch_test(a_start_that_fails_is_reported_with_a_listener_too),
        scratch_test(an_answer_is_kept_apart_from_the_log),
        scratch_test(work_as_another_user_reports_its_fault_and_note),
        scratch_test(a_file_is_opened_with_the_users_groups_alone_and_ours_come_back),
        scratch_test(work_that_dies_is_a_fault),
        scratch_test(work_as_another_user_cannot_go_back),
        scratch_test(work_as_another_user_has_its_rights_and_gives_back_its_output),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
