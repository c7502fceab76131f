/* svc-initdb-sh: /bin/sh of the appliance image, which is no shell (command.h). A static program without rooms. */
#include "appliance/initdb-sh/command.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define REFUSED 126 /* what a shell says of a command that may not be executed */

static int refuse(void)
{
    static const char line[] = "sh: refused: this machine has no shell\n";
    ssize_t put = write(STDERR_FILENO, line, sizeof(line) - 1);
    (void)put;
    return REFUSED;
}

static bool to_null(int target, int flags)
{
    int null = open("/dev/null", flags);
    return null >= 0 && dup2(null, target) == target && (null == target || close(null) == 0);
}

static bool redirect(const struct command *command)
{
    return (!command->input_null || to_null(STDIN_FILENO, O_RDONLY)) &&
           (!command->output_null || to_null(STDOUT_FILENO, O_WRONLY)) &&
           (!command->error_to_output || dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO);
}

int main(int argc, char **argv, char **environment)
{
    static struct command command;
    int line = argc >= 3 && strcmp(argv[1], "-c") == 0 ? (strcmp(argv[2], "--") == 0 ? 3 : 2) : argc;
    if (line + 1 != argc || !command_parse(argv[line], &command) || !redirect(&command)) {
        return refuse();
    }
    (void)execve(command.argv[0], command.argv, environment);
    return refuse();
}
