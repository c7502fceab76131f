#include "appliance/initrd/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

void console_open(void)
{
    int console = open("/dev/console", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (console < 0) {
        return; /* a machine without one boots all the same */
    }
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        (void)dup2(console, fd);
    }
    if (console > STDERR_FILENO) {
        (void)close(console);
    }
}

/* One write a line, so that the kernel's own lines do not come in between. */
__attribute__((format(printf, 2, 0))) static void put_line(int error, const char *format, va_list arguments)
{
    char line[512] = "svc-initrd: ";
    size_t at = strlen(line);
    int more = vsnprintf(line + at, sizeof(line) - at - 1, format, arguments);
    at += more < 0 ? 0 : (size_t)more;
    at = at < sizeof(line) - 2 ? at : sizeof(line) - 2;
    if (error != 0) {
        const char *text = strerrordesc_np(error);
        more = snprintf(line + at, sizeof(line) - at - 1, ": %s", text != NULL ? text : "unknown error");
        at += more < 0 ? 0 : (size_t)more;
        at = at < sizeof(line) - 2 ? at : sizeof(line) - 2;
    }
    line[at++] = '\n';
    if (write(STDERR_FILENO, line, at) < 0) {
        return; /* there is nowhere else to say it */
    }
}

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_line(0, format, arguments);
    va_end(arguments);
}

void stop(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put_line(error, format, arguments);
    va_end(arguments);
    say("this release does not start; the machine boots again in %d seconds", STOP_READ_MS / 1000);
    sync();
    (void)poll(NULL, 0, STOP_READ_MS);
    (void)reboot(RB_AUTOBOOT);
    /* Without the right to reboot we are not process 1 (a test): the end of process 1 is the kernel's panic otherwise,
     * and that reboots as well. */
    _exit(1);
}
