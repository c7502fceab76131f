/*
 * The one kind of command line that PostgreSQL's initdb gives to /bin/sh, taken apart: a program of PostgreSQL in one
 * of the modes that initdb uses, its arguments (plain words, "..." and '...'), and redirections to /dev/null.
 * Everything else is refused: other programs, variables, pipes, lists, patterns, other files. No allocation, no
 * library.
 */
#ifndef APPLIANCE_INITDB_SH_COMMAND_H
#define APPLIANCE_INITDB_SH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#define COMMAND_WORDS_MAX 64
#define COMMAND_BYTES_MAX 8192
#define COMMAND_PROGRAM   "/usr/lib/postgresql/17/bin/postgres"

struct command {
    char *argv[COMMAND_WORDS_MAX + 1]; /* into `space`; NULL behind the last */
    size_t count;
    bool input_null, output_null, error_to_output; /* < /dev/null, > /dev/null, 2>&1 behind it */
    char space[COMMAND_BYTES_MAX];
};
/* False: refused, and `command` is of no use. */
bool command_parse(const char *line, struct command *ret_command);

#endif
