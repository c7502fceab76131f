#include "appliance/stores/process.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/stores/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIPE_CHUNK 4096
#define GROUPS_MAX 256

static int interrupt_fd = -1; /* set once, before anything is started */

void process_set_interrupt(int fd)
{
    interrupt_fd = fd;
}

static struct fault pipe_new(struct op *op, int ret_ends[2])
{
    if (pipe2(ret_ends, O_CLOEXEC) != 0) {
        return op_fail(op, FAULT(IO), "cannot make a pipe: %s", strerrordesc_np(errno));
    }
    return OK;
}

/* For the child's stdin: unlike a pipe, a socket whose reader is gone can be written without a signal. */
static struct fault socket_new(struct op *op, int ret_ends[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_ends) != 0) {
        return op_fail(op, FAULT(IO), "cannot make a socket pair: %s", strerrordesc_np(errno));
    }
    return OK;
}

/* Reads what the child reports about its own start: nothing (the pipe closed by exec) is success. */
static struct fault spawn_report(struct op *op, const struct process_spec *spec, int from)
{
    struct child_failure failure = { 0 };
    ssize_t got;
    do {
        got = read(from, &failure, sizeof(failure));
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        return OK;
    }
    return op_fail(op, FAULT(IO), "cannot start %s: %s: %s", spec->argv[0], child_step_text(failure.step),
                   strerrordesc_np(failure.error));
}

static struct fault spawn_with(struct op *op, const struct process_spec *spec, int input, int output, pid_t *ret_pid)
{
    CLEANUP(child_plan_clear) struct child_plan plan = { .input = input, .output = output };
    TRY(child_plan_fill(op, spec, &plan));
    int report[2];
    TRY(pipe_new(op, report));
    CLEANUP(fd_closep) int report_read = report[0];
    CLEANUP(fd_closep) int report_write = report[1];
    plan.report = report_write;

    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        return op_fail(op, FAULT(IO), "cannot fork: %s", strerrordesc_np(errno));
    }
    if (pid == 0) {
        child_become(&plan, parent);
    }
    fd_closep(&report_write);
    struct fault started = spawn_report(op, spec, report_read);
    if (FAULTED(started)) {
        (void)waitpid(pid, NULL, 0);
        return started;
    }
    *ret_pid = pid;
    return OK;
}

struct fault process_spawn(struct op *op, const struct process_spec *spec, pid_t *ret_pid)
{
    return spawn_with(op, spec, -1, -1, ret_pid);
}

struct fault process_exec(struct op *op, const struct process_spec *spec)
{
    CLEANUP(child_plan_clear) struct child_plan plan = { .input = -1, .output = -1, .report = -1 };
    TRY(child_plan_fill(op, spec, &plan));
    struct child_failure failure = child_replace(&plan);
    return op_fail(op, FAULT(IO), "cannot start %s: %s: %s", spec->argv[0], child_step_text(failure.step),
                   strerrordesc_np(failure.error));
}

/* ---- running to the end ---- */

struct run {
    pid_t pid;
    int pidfd, input, output; /* -1 = closed */
    struct span left;
    struct buf *said;
};

static void run_feed(struct run *run)
{
    ssize_t put = send(run->input, run->left.at, run->left.len, MSG_NOSIGNAL);
    if (put >= 0) {
        run->left = span_of(run->left.at + put, run->left.len - (size_t)put);
    }
    if (run->left.len == 0 || (put < 0 && errno != EAGAIN && errno != EINTR)) {
        fd_closep(&run->input);
    }
}

static void run_drain(struct run *run)
{
    uint8_t chunk[PIPE_CHUNK];
    ssize_t got = read(run->output, chunk, sizeof(chunk));
    if (got > 0) {
        size_t room = run->said->max - run->said->len;
        size_t keep = (size_t)got < room ? (size_t)got : room;
        IGNORE(buf_put(run->said, span_of(chunk, keep))); /* what does not fit is dropped, as promised */
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        fd_closep(&run->output);
    }
}

static struct fault run_wait(struct op *op, const char *what, struct run *run)
{
    for (;;) {
        struct pollfd fds[4] = {
            { .fd = run->pidfd, .events = POLLIN },
            { .fd = interrupt_fd, .events = POLLIN },
            { .fd = run->input, .events = POLLOUT },
            { .fd = run->output, .events = POLLIN },
        };
        int ready = poll(fds, COUNT_OF(fds), clock_ms_left(op->deadline));
        if (ready < 0 && errno != EINTR) {
            return op_fail(op, FAULT(IO), "cannot wait for %s: %s", what, strerrordesc_np(errno));
        }
        if (fds[1].revents != 0) {
            return op_fail(op, FAULT(CANCELLED), "%s was ended: the appliance is stopping", what);
        }
        if (fds[2].revents != 0) {
            run_feed(run);
        }
        if (fds[3].revents != 0) {
            run_drain(run);
        }
        /* A grandchild may keep the pipe open: the end of the process is what counts, after the pipe has run dry. */
        if (fds[0].revents != 0 && (fds[3].revents & POLLIN) == 0) {
            return OK;
        }
        if (ready == 0 && op_expired(op)) {
            return op_fail(op, FAULT(DEADLINE), "%s did not end in time", what);
        }
    }
}

static struct fault run_to_end(struct op *op, const char *what, struct run *run, int *ret_code)
{
    run->pidfd = pidfd_open(run->pid, 0);
    struct fault waited = run->pidfd < 0 ? op_fail(op, FAULT(IO), "cannot watch %s", what) : run_wait(op, what, run);
    if (FAULTED(waited)) {
        (void)kill(run->pid, SIGKILL);
    }
    int status = 0;
    while (waitpid(run->pid, &status, 0) < 0 && errno == EINTR) {
    }
    fd_closep(&run->pidfd);
    TRY(waited);
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return OK;
}

static void unblock(int fd)
{
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

struct fault process_run(struct op *op, const struct process_spec *spec, struct span input, struct buf *output,
                         int *ret_code)
{
    CLEANUP(fd_closep) int in_read = -1;
    CLEANUP(fd_closep) int in_write = -1;
    CLEANUP(fd_closep) int out_read = -1;
    CLEANUP(fd_closep) int out_write = -1;
    int ends[2];
    if (input.len > 0) {
        TRY(socket_new(op, ends));
        in_read = ends[0];
        in_write = ends[1];
        unblock(in_write);
    }
    if (output != NULL) {
        TRY(pipe_new(op, ends));
        out_read = ends[0];
        out_write = ends[1];
        unblock(out_read);
    }
    struct run run = { .left = input, .said = output };
    TRY(spawn_with(op, spec, in_read < 0 && spec->input > 0 ? spec->input : in_read, out_write, &run.pid));
    fd_closep(&in_read);
    fd_closep(&out_write);
    run.input = in_write;
    run.output = out_read;
    in_write = out_read = -1;
    struct fault ended = run_to_end(op, spec->argv[0], &run, ret_code);
    fd_closep(&run.input);
    fd_closep(&run.output);
    return ended;
}

/* The last line with something in it, for a message. */
static struct span last_line(struct span text)
{
    while (text.len > 0 && (text.at[text.len - 1] == '\n' || text.at[text.len - 1] == ' ')) {
        text.len--;
    }
    size_t start = text.len;
    while (start > 0 && text.at[start - 1] != '\n') {
        start--;
    }
    return span_of(text.at + start, text.len - start);
}

struct fault process_check(struct op *op, const struct process_spec *spec, struct span input, struct buf *output)
{
    int code = 0;
    TRY(process_run(op, spec, input, output, &code));
    if (code == 0) {
        return OK;
    }
    struct span said = output != NULL && output->len > 0 ? last_line(buf_span(output)) : span_text("nothing");
    return op_fail(op, FAULT(IO), "%s ended with code %d, saying: %.*s", spec->argv[0], code,
                   said.len > 160 ? 160 : (int)said.len, (const char *)said.at);
}

/* ---- our own code with another user's rights ---- */

struct as_report {
    enum fault_code code;
    char detail[256];
};

[[noreturn]] static void as_child(struct op *op, const char *user, process_work_fn work, void *arg, int output)
{
    struct as_report report = { .code = FAULT_NONE };
    struct fault done = child_drop(op, user);
    if (!FAULTED(done)) {
        done = work(op, arg, output);
    }
    report.code = done.code;
    if (FAULTED(done)) {
        (void)snprintf(report.detail, sizeof(report.detail), "%s", op->note.detail);
    }
    ssize_t put = write(output, &report, sizeof(report)); /* last, so the reader finds it at the end */
    _exit(put == (ssize_t)sizeof(report) ? 0 : 1);
}

static struct fault as_result(struct op *op, const char *user, int code, struct buf *said, struct buf *ret_output)
{
    struct as_report report;
    if (code != 0 || said->len < sizeof(report)) {
        return op_fail(op, FAULT(IO), "work as user %s ended with code %d", user, code);
    }
    size_t len = said->len - sizeof(report);
    memcpy(&report, said->at + len, sizeof(report));
    if (report.code != FAULT_NONE) {
        return op_fail(op, (struct fault){ report.code }, "%s", report.detail);
    }
    return ret_output != NULL ? buf_put(ret_output, span_of(said->at, len)) : OK;
}

struct fault process_as(struct op *op, const char *user, process_work_fn work, void *arg, struct buf *ret_output)
{
    int ends[2];
    TRY(pipe_new(op, ends));
    CLEANUP(fd_closep) int out_read = ends[0];
    CLEANUP(fd_closep) int out_write = ends[1];
    pid_t pid = fork();
    if (pid < 0) {
        return op_fail(op, FAULT(IO), "cannot fork: %s", strerrordesc_np(errno));
    }
    if (pid == 0) {
        as_child(op, user, work, arg, out_write);
    }
    fd_closep(&out_write);
    unblock(out_read);
    CLEANUP(buf_free) struct buf said = BUF_INIT((size_t)1 << 20);
    struct run run = { .pid = pid, .input = -1, .output = out_read, .said = &said };
    out_read = -1;
    int code = 0;
    struct fault ended = run_to_end(op, user, &run, &code);
    fd_closep(&run.output);
    TRY(ended);
    return as_result(op, user, code, &said, ret_output);
}

/* ---- one file with another user's rights ---- */

struct rights {
    gid_t gid;
    gid_t groups[GROUPS_MAX];
    int count;
};

/* The groups first: with ours the file would be opened with more than the user's rights. */
static bool take_rights(uid_t uid, gid_t gid)
{
    return setgroups(0, NULL) == 0 && setegid(gid) == 0 && seteuid(uid) == 0;
}

/* Going on with others' rights than our own would fail in odd places, or succeed in some. */
static void give_back(const struct rights *own)
{
    BUG_IF(seteuid(0) != 0 || setegid(own->gid) != 0 || setgroups((size_t)own->count, own->groups) != 0);
}

struct fault process_open_as(struct op *op, const char *user, const char *path, int *ret_fd)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    struct stat status;
    bool root = uid == 0;
    struct rights own = { .gid = gid };
    if (root) {
        TRY(process_user(op, user, &uid, &gid));
        own.count = getgroups(GROUPS_MAX, own.groups);
        if (own.count < 0) {
            return op_fail(op, FAULT(IO), "this process has more than %d groups", GROUPS_MAX);
        }
        if (!take_rights(uid, gid)) {
            give_back(&own);
            return op_fail(op, FAULT(IO), "cannot take the rights of user %s", user);
        }
    }
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int error = errno;
    if (root) {
        give_back(&own);
    }
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return op_fail(op, FAULT(IO), "%s: cannot be read: %s", path, fd < 0 ? strerrordesc_np(error) : "is no file");
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}
