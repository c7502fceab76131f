#include "appliance/machine/console_run.h"

#include "appliance/base/file.h"
#include "appliance/stores/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 4096

/* In the child: becomes the program, with the pipe as its output. */
[[noreturn]] static void become(struct op *op, const char *const *argv, int output)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
        dup2(output, STDERR_FILENO) >= 0) {
        IGNORE(process_exec(op, &(struct process_spec){ .argv = argv }));
        (void)dprintf(STDERR_FILENO, "%s\n", op->note.detail);
    }
    _exit(127);
}

static void show(struct terminal *terminals, size_t count, struct span text)
{
    for (size_t i = 0; i < count; i++) {
        terminal_put(&terminals[i], text);
    }
}

/* Until the other end is closed. A part of a character at the end of a chunk waits for its rest. */
static struct fault relay(struct op *op, int from, struct terminal *terminals, size_t count)
{
    char chunk[CHUNK];
    size_t kept = 0;
    while (true) {
        struct pollfd waited = { .fd = from, .events = POLLIN };
        int ready = poll(&waited, 1, clock_ms_left(op->deadline));
        if (ready == 0) {
            return op_fail(op, FAULT(DEADLINE), "it took too long and was stopped");
        }
        ssize_t got = ready < 0 ? -1 : read(from, chunk + kept, sizeof(chunk) - kept);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        size_t len = kept + (got > 0 ? (size_t)got : 0), whole = len;
        while (got > 0 && whole > 0 && len - whole < 4 && ((uint8_t)chunk[whole - 1] & 0x80) != 0) {
            whole--;
        }
        whole = whole == 0 ? len : whole;
        show(terminals, count, span_of(chunk, whole));
        kept = len - whole;
        memmove(chunk, chunk + whole, kept);
        if (got <= 0) {
            return OK;
        }
    }
}

struct fault console_run(struct op *op, const char *const *argv, struct terminal *terminals, size_t count,
                         int *ret_code)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return op_fail(op, FAULT(IO), "no pipe: %s", strerrordesc_np(errno));
    }
    CLEANUP(fd_closep) int from = ends[0];
    CLEANUP(fd_closep) int to = ends[1];
    pid_t child = fork();
    if (child < 0) {
        return op_fail(op, FAULT(IO), "no process: %s", strerrordesc_np(errno));
    }
    if (child == 0) {
        become(op, argv, to);
    }
    fd_closep(&to);
    struct fault relayed = relay(op, from, terminals, count);
    if (FAULTED(relayed)) {
        (void)kill(child, SIGKILL);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return relayed;
}
