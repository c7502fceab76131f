/*
 * How svc-initrd gives up: one clear line on the console, a while to read it, and a reboot, so that the boot loader's
 * count runs down and the release before this one comes up. Nothing is repaired and nobody is asked.
 */
#ifndef APPLIANCE_INITRD_STOP_H
#define APPLIANCE_INITRD_STOP_H

#define STOP_READ_MS 10000 /* as panic=10 on the kernel's command line */

/* Opens /dev/console as standard input, output and error. Before it, what is said goes where the kernel put it. */
void console_open(void);

/* One line, "svc-initrd: ...". */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Says why (and errno's text when `error` is not 0), then reboots. */
[[noreturn]] __attribute__((format(printf, 2, 3))) void stop(int error, const char *format, ...);

#endif
