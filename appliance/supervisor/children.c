#include "appliance/supervisor/children.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "appliance/supervisor/appliance.h"
#include "appliance/supervisor/disks.h"
#include "appliance/supervisor/state.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRAIN_TICK_MS  100
#define DISKS_NS       (10 * NS_PER_S)
#define FORCE_LIMIT_NS (5 * NS_PER_S) /* from force_signal to SIGKILL */

struct children {
    const struct appliance *appliance;
    int stop_fd, child_fd;
    unsigned stop_signals;
    utc_us started_at;
    bool ready; /* all of the appliance: for state.json */
    mono_ns disks_due;
    bool disks_failed; /* said once */
    struct unit units[CHILDREN_MAX];
    size_t count;
};

static int signals_to_fd(const int *signals, size_t count)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < count; i++) {
        sigaddset(&set, signals[i]);
    }
    return sigprocmask(SIG_BLOCK, &set, NULL) != 0 ? -1 : signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

struct fault children_new(const struct appliance *appliance, struct children **ret_children)
{
    CLEANUP(children_freep) struct children *made = NULL;
    TRY(mem_new(1, sizeof(*made), (void *)&made));
    made->appliance = appliance;
    made->started_at = clock_utc();
    made->stop_fd = signals_to_fd((const int[]){ SIGTERM, SIGINT, SIGHUP }, 3);
    made->child_fd = signals_to_fd((const int[]){ SIGCHLD }, 1);
    REQUIRE(made->stop_fd >= 0 && made->child_fd >= 0, IO);
    REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, IO);
    *ret_children = TAKE(made);
    return OK;
}

void children_free(struct children *children)
{
    if (children == NULL) {
        return;
    }
    fd_close(children->stop_fd);
    fd_close(children->child_fd);
    mem_free(children);
}

int children_stop_fd(const struct children *children)
{
    return children->stop_fd;
}

unsigned children_stop_signals(const struct children *children)
{
    return children->stop_signals;
}

int children_refused(const struct children *children, const char **ret_name)
{
    for (size_t i = 0; i < children->count; i++) {
        if (children->units[i].refused != 0) {
            *ret_name = children->units[i].row->name;
            return children->units[i].refused;
        }
    }
    return 0;
}

static void publish(struct children *children)
{
    const struct state state = {
        .started_at = children->started_at, .ready = children->ready, .units = children->units, .count = children->count
    };
    struct fault written = state_write(children->appliance->config->run_dir, &state);
    if (FAULTED(written)) {
        log_fault(LOG_LEVEL_WARN, "state_not_written", NULL, written);
    }
}

void children_all_ready(struct children *children)
{
    children->ready = true;
    publish(children);
}

struct fault children_add(struct children *children, const struct unit_row *row, size_t *ret_unit)
{
    REQUIRE(children->count < CHILDREN_MAX, TOO_LARGE);
    struct unit *unit = &children->units[children->count];
    *unit = (struct unit){ .row = row };
    children->count++;
    *ret_unit = children->count - 1;
    publish(children);
    unit_start(unit, children->appliance);
    return OK;
}

/* ---- what has happened ---- */

static void take_stop_signals(struct children *children)
{
    struct signalfd_siginfo info;
    while (read(children->stop_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        children->stop_signals++;
        log_write(INFO, "stop_requested", LOG_TEXT("signal", sigabbrev_np((int)info.ssi_signo)),
                  LOG_INT("count", children->stop_signals));
    }
}

/* All that ended: ours, and orphans that were left to us. */
static void reap(struct children *children)
{
    struct signalfd_siginfo info;
    while (read(children->child_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
    }
    bool changed = false;
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < children->count; i++) {
            if (children->units[i].pid == pid) {
                unit_ended(&children->units[i], children->appliance, status);
                changed = true;
            }
        }
    }
    if (changed) {
        publish(children);
    }
}

static void do_what_is_due(struct children *children)
{
    mono_ns now = clock_mono();
    for (size_t i = 0; i < children->count; i++) {
        struct unit *unit = &children->units[i];
        if (unit->state == UNIT_WAITING && unit->next <= now) {
            unit_start(unit, children->appliance);
        }
        if (unit->state == UNIT_STARTING && unit->next <= now) {
            unit_probe(unit, children->appliance);
        }
        unit_tell_away(unit, children->appliance, clock_mono());
    }
}

/* For svc-api, which watches the space and does not see these folders. */
static void tell_disks(struct children *children)
{
    mono_ns now = clock_mono();
    if (children->disks_due > now) {
        return;
    }
    children->disks_due = now + DISKS_NS;
    struct fault told = disks_write(children->appliance->config);
    if (FAULTED(told) && !children->disks_failed) {
        log_fault(LOG_LEVEL_WARN, "disks_not_told", NULL, told);
    }
    children->disks_failed = FAULTED(told);
}

static int ms_to_next(const struct children *children, int max_ms)
{
    int due_ms = clock_ms_left(children->disks_due);
    int wait = due_ms < max_ms ? due_ms : max_ms;
    for (size_t i = 0; i < children->count; i++) {
        enum unit_state state = children->units[i].state;
        if (state == UNIT_WAITING || state == UNIT_STARTING) {
            mono_ns due = unit_away_due(&children->units[i]), next = children->units[i].next;
            int left = clock_ms_left(due < next ? due : next);
            wait = left < wait ? left : wait;
        }
    }
    return wait;
}

static struct fault wait_for_events(struct children *children, int wait_ms)
{
    struct pollfd fds[2] = {
        { .fd = children->stop_fd, .events = POLLIN },
        { .fd = children->child_fd, .events = POLLIN },
    };
    REQUIRE(poll(fds, COUNT_OF(fds), wait_ms) >= 0 || errno == EINTR, IO);
    take_stop_signals(children);
    reap(children);
    return OK;
}

struct fault children_step(struct children *children, int max_ms)
{
    TRY(wait_for_events(children, ms_to_next(children, max_ms)));
    if (children->stop_signals == 0) {
        do_what_is_due(children);
        tell_disks(children);
    }
    return OK;
}

struct fault children_wait_ready(struct children *children, size_t unit)
{
    const char *name = NULL;
    while (children->units[unit].state != UNIT_READY) {
        TRY(children_step(children, 1000));
        REQUIRE(children->stop_signals == 0, CANCELLED);
        REQUIRE(children_refused(children, &name) == 0, CONFIG);
    }
    return OK;
}

struct fault children_pause(struct children *children, int ms)
{
    mono_ns end = clock_mono() + ms * NS_PER_MS;
    for (int left = ms; left > 0; left = clock_ms_left(end)) {
        TRY(children_step(children, left));
        REQUIRE(children->stop_signals == 0, CANCELLED);
    }
    return OK;
}

/* ---- the end ---- */

static void signal_unit(const struct unit *unit, int signal)
{
    if (kill(unit->pid, signal) != 0 && errno != ESRCH) {
        log_write(WARN, "signal_failed", LOG_TEXT("unit", unit->row->name), LOG_INT("errno", errno));
    }
}

static void stop_unit(struct children *children, struct unit *unit)
{
    unit->state = UNIT_STOPPED;
    if (unit->pid == 0) {
        return;
    }
    log_write(INFO, "stopping", LOG_TEXT("unit", unit->row->name));
    mono_ns begun = clock_mono();
    mono_ns force_at = begun + unit->row->stop_ms * NS_PER_MS, kill_at = force_at + FORCE_LIMIT_NS;
    bool forced = false, killed = false;
    signal_unit(unit, unit->row->stop_signal);
    while (unit->pid != 0) {
        mono_ns now = clock_mono();
        if (!forced && (now >= force_at || children->stop_signals > 1)) {
            forced = true;
            kill_at = now + FORCE_LIMIT_NS;
            log_write(WARN, "forced", LOG_TEXT("unit", unit->row->name),
                      LOG_INT("after_ms", (now - begun) / NS_PER_MS));
            signal_unit(unit, unit->row->force_signal);
        }
        if (forced && now >= kill_at) {
            if (killed) { /* not even that ends it: it hangs in the kernel, and waiting longer would not help */
                log_write(ERROR, "left_behind", LOG_TEXT("unit", unit->row->name), LOG_INT("pid", unit->pid));
                return;
            }
            killed = true;
            kill_at = now + FORCE_LIMIT_NS;
            signal_unit(unit, SIGKILL);
        }
        if (FAULTED(wait_for_events(children, DRAIN_TICK_MS))) {
            force_at = now; /* signals cannot be waited for any more: do not wait for an orderly end either */
        }
    }
}

void children_drain(struct children *children)
{
    for (size_t i = children->count; i > 0; i--) {
        stop_unit(children, &children->units[i - 1]);
    }
}
