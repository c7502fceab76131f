#include "appliance/machine/power.h"

#include "appliance/base/file.h"
#include "appliance/machine/mounts.h"
#include "appliance/machine/verity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/input.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENT_DEVICES  32
#define TERM_PATIENCE  5000 /* ms from SIGTERM to SIGKILL for what nobody stopped in order */
#define KILL_PATIENCE  3000
#define END_LIMIT_MS   10000
#define BITS_PER_LONG_ (8 * sizeof(unsigned long))

const char *power_action_text(enum power_action action)
{
    switch (action) {
    case POWER_REBOOT:
        return "restarting";
    case POWER_OFF:
        return "powering off";
    case POWER_NONE:
        break;
    }
    return "running";
}

enum power_action power_of_signal(unsigned signal)
{
    switch (signal) {
    case SIGINT:
        return POWER_REBOOT;
    case SIGTERM:
    case SIGPWR:
        return POWER_OFF;
    default:
        return POWER_NONE;
    }
}

void power_setup(void)
{
    (void)reboot(RB_DISABLE_CAD);
}

/* ---- the button ---- */

static bool has_power_key(int fd)
{
    unsigned long keys[KEY_CNT / BITS_PER_LONG_ + 1] = { 0 };
    return ioctl(fd, EVIOCGBIT(EV_KEY, sizeof(keys)), keys) >= 0 &&
           (keys[KEY_POWER / BITS_PER_LONG_] >> (KEY_POWER % BITS_PER_LONG_) & 1) != 0;
}

static bool is_open(const struct power_buttons *buttons, dev_t device)
{
    for (size_t i = 0; i < buttons->count; i++) {
        struct stat have;
        if (fstat(buttons->fds[i], &have) == 0 && have.st_rdev == device) {
            return true;
        }
    }
    return false;
}

/* What is open stays open: a press that waits there is not lost. */
void power_buttons_open(struct power_buttons *buttons)
{
    for (unsigned i = 0; i < EVENT_DEVICES && buttons->count < POWER_BUTTONS_MAX; i++) {
        char path[32];
        struct stat found;
        (void)snprintf(path, sizeof(path), "/dev/input/event%u", i);
        CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &found) == 0 && !is_open(buttons, found.st_rdev) && has_power_key(fd)) {
            buttons->fds[buttons->count++] = fd;
            fd = -1;
        }
    }
}

bool power_buttons_pressed(struct power_buttons *buttons)
{
    bool pressed = false;
    for (size_t i = buttons->count; i > 0; i--) {
        struct input_event event;
        ssize_t got;
        while ((got = read(buttons->fds[i - 1], &event, sizeof(event))) == (ssize_t)sizeof(event)) {
            pressed |= event.type == EV_KEY && event.code == KEY_POWER && event.value == 1;
        }
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) { /* it was unplugged */
            fd_close(buttons->fds[i - 1]);
            buttons->fds[i - 1] = buttons->fds[--buttons->count];
        }
    }
    return pressed;
}

/* ---- the end ---- */

/* Reaps until no child is left or the time is over. */
static void reap_all(int ms)
{
    mono_ns deadline = clock_mono() + ms * NS_PER_MS;
    while (clock_ms_left(deadline) > 0) {
        pid_t ended = waitpid(-1, NULL, WNOHANG);
        if (ended < 0 && errno == ECHILD) {
            return;
        }
        if (ended == 0) {
            (void)poll(NULL, 0, 20);
        }
    }
}

/* A mount that hangs must not keep the machine from ending: the rest is done by a child that may be left behind. */
static void leave_bounded(void)
{
    pid_t child = fork();
    if (child == 0) {
        mounts_leave_all();
        sync();
        CLEANUP(op_freep) struct op *op = NULL;
        if (!FAULTED(op_new("machine", (struct tenant_id){ 0 }, END_LIMIT_MS, &op))) {
            IGNORE(mapped_remove(op, STATE_MAPPED, false));
        }
        _exit(0);
    }
    reap_all(END_LIMIT_MS);
}

void power_end(enum power_action action)
{
    (void)kill(-1, SIGTERM);
    reap_all(TERM_PATIENCE);
    (void)kill(-1, SIGKILL);
    reap_all(KILL_PATIENCE);
    leave_bounded();
    (void)reboot(action == POWER_OFF ? RB_POWER_OFF : RB_AUTOBOOT);
    for (;;) { /* reboot(2) was refused: PID 1 must not end */
        (void)poll(NULL, 0, 1000);
    }
}
