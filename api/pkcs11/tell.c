#include "api/pkcs11/tell.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_SIZE 2048

/* The file is opened for each line: a host that closes descriptors which it does not know must not make us write into
 * something else. */
static int open_log(const struct settings *settings)
{
    const char *path = settings != NULL ? settings->log_file : secure_getenv("SVC_PKCS11_LOG");
    if (path == NULL || path[0] == '\0') {
        return -1;
    }
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, S_IRUSR | S_IWUSR);
}

/* What a server said may not move the cursor of a terminal, or begin a line of its own. */
static void make_printable(char *line)
{
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) {
            *c = '?';
        }
    }
}

void tell(const struct settings *settings, const char *format, ...)
{
    char line[LINE_SIZE], when[RFC3339_MAX];
    rfc3339_print(clock_utc(), when);
    int head = snprintf(line, sizeof(line), "svc-pkcs11 %s: ", when);
    size_t used = head > 0 ? (size_t)head : 0;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    make_printable(line);
    size_t len = strlen(line);
    line[len] = '\n'; /* a byte was left for it */
    CLEANUP(fd_closep) int fd = open_log(settings);
    ssize_t written = write(fd >= 0 ? fd : STDERR_FILENO, line, len + 1);
    (void)written;
}
