/*
 * The end: reboot and power-off, and who asks for them (power button, Ctrl-Alt-Del, signals to PID 1).
 */
#ifndef APPLIANCE_MACHINE_POWER_H
#define APPLIANCE_MACHINE_POWER_H

#include "appliance/base/op.h"

enum power_action { POWER_NONE, POWER_REBOOT, POWER_OFF };
const char *power_action_text(enum power_action action);

/* What a signal to PID 1 means: SIGINT (Ctrl-Alt-Del, see power_setup) reboots; SIGTERM and SIGPWR power off. */
enum power_action power_of_signal(unsigned signal);
/* Ctrl-Alt-Del becomes a signal to PID 1 instead of an immediate reboot. */
void power_setup(void);

#define POWER_BUTTONS_MAX 8
struct power_buttons {
    int fds[POWER_BUTTONS_MAX];
    size_t count;
};
/* Opens every input device that has a power key and is not open yet (more may have come). There may be none. */
void power_buttons_open(struct power_buttons *buttons);
/* Reads what waits there: was the key pressed? What was unplugged is closed. */
bool power_buttons_pressed(struct power_buttons *buttons);

/* Everything that is not a kernel thread gets SIGTERM, a moment later SIGKILL; what is mounted is left, the state's
 * device closed, and the machine ends. Does not return; PID 1 only. */
[[noreturn]] void power_end(enum power_action action);

#endif
