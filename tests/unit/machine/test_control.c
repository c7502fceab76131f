/* PID 1's socket and its status file, with a caller in a process of its own. */
#include "testlib.h"

#include "appliance/machine/control.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], path[96];
static struct op *op;
static int listener = -1;

static int setup(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/control-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/control", folder);
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 60000, &op), NONE);
    assert_fault(control_listen(op, path, &listener), NONE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)close(listener);
    (void)unlink(path);
    (void)rmdir(folder);
    op_free(TAKE(op));
    return 0;
}

/* Echoes the body; refuses "no". */
static struct fault handle(struct op *served, void *arg, enum control_verb verb, struct span body, struct buf *answer)
{
    unsigned *calls = arg;
    *calls += 1;
    if (span_equal_text(body, "no")) {
        return op_fail(served, FAULT(UNSEAL), "not with %s", control_verb_text(verb));
    }
    return buf_put(answer, body);
}

static void wait_caller(void)
{
    struct pollfd waited = { .fd = listener, .events = POLLIN };
    assert_int_equal(poll(&waited, 1, 60000), 1);
}

/* The caller's exit code says whether it got what it should. */
static int call(const char *body, enum fault_code code, const char *said)
{
    pid_t child = fork();
    if (child == 0) {
        struct buf got = BUF_INIT(CONTROL_BODY_MAX);
        struct fault asked = control_ask(op, path, CONTROL_UNLOCK, span_text(body), &got);
        const char *text = FAULTED(asked) ? op->note.detail : (const char *)got.at;
        size_t len = FAULTED(asked) ? strlen(text) : got.len;
        _exit(asked.code == code && len == strlen(said) && memcmp(text, said, len) == 0 ? 0 : 1);
    }
    unsigned calls = 0;
    int status = 0;
    wait_caller();
    control_serve(listener, handle, &calls);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(calls, 1);
    return WEXITSTATUS(status);
}

static void a_caller_that_speaks_otherwise_is_dropped(void **state)
{
    (void)state;
    static const uint8_t odd[] = { CONTROL_VERB_COUNT };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    unsigned calls = 0;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(send(fd, odd, sizeof(odd), 0), sizeof(odd));
    control_serve(listener, handle, &calls);
    uint8_t answer;
    assert_int_equal(recv(fd, &answer, 1, 0), 0);
    (void)close(fd);
    fd = socket(AF_UNIX, SOCK_SEQPACKET, 0); /* and one that is gone before it says anything */
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)close(fd);
    control_serve(listener, handle, &calls);
    control_serve(listener, handle, &calls); /* nobody there: returns at once */
    assert_int_equal(calls, 0);
}

static void nobody_listening_is_a_clear_failure(void **state)
{
    (void)state;
    assert_fault(control_ask(op, "/nonexistent/control", CONTROL_REBOOT, (struct span){ 0 }, NULL), IO);
    assert_non_null(strstr(op->note.detail, "svc-machine does not run here"));
}

static void refusals_travel_with_their_words(void **state)
{
    (void)state;
    assert_int_equal(call("no", FAULT_UNSEAL, "not with unlock"), 0);
}

static void answers_travel_whole(void **state)
{
    (void)state;
    static char large[CONTROL_BODY_MAX];
    memset(large, 'x', sizeof(large) - 1);
    assert_int_equal(call("yes", FAULT_NONE, "yes"), 0);
    assert_int_equal(call(large, FAULT_NONE, large), 0);
    struct stat stat_of;
    assert_int_equal(stat(path, &stat_of), 0);
    assert_int_equal(stat_of.st_mode & 0777, 0600);
}

static void a_status_reads_as_it_was_written(void **state)
{
    (void)state;
    char file[128];
    (void)snprintf(file, sizeof(file), "%s/status.json", folder);
    struct status none = { 0 }, got = { 0 };
    assert_fault(status_read(op, file, &got), NOT_FOUND);
    struct status status = { .phase = PHASE_LOCKED,
                             .version = "1.2.3",
                             .hostname = "svc-1",
                             .addresses = { "192.0.2.1/24", "2001:db8::1/64" },
                             .address_count = 2,
                             .seal = "tpm2",
                             .secure_boot = true,
                             .service_restarts = 3,
                             .since = 1763769600000000,
                             .failure = "line with \"quotes\"" };
    assert_fault(status_write(&status, file), NONE);
    assert_fault(status_read(op, file, &got), NONE);
    assert_int_equal(got.phase, PHASE_LOCKED);
    assert_string_equal(got.version, "1.2.3");
    assert_string_equal(got.profile, "");
    assert_int_equal(got.address_count, 2);
    assert_string_equal(got.addresses[1], "2001:db8::1/64");
    assert_true(got.secure_boot && !got.time_synchronised);
    assert_int_equal(got.service_restarts, 3);
    assert_int_equal(got.since, status.since);
    assert_string_equal(got.failure, status.failure);
    assert_fault(status_write(&none, file), NONE);
    assert_fault(status_read(op, file, &got), NONE);
    assert_int_equal(got.phase, PHASE_STARTING);
    assert_int_equal(unlink(file), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_caller_that_speaks_otherwise_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_listening_is_a_clear_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(refusals_travel_with_their_words, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_travel_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_status_reads_as_it_was_written, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
