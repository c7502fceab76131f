/* Another program's output at a terminal. For the console_*.c files only. */
#ifndef APPLIANCE_MACHINE_CONSOLE_RUN_H
#define APPLIANCE_MACHINE_CONSOLE_RUN_H

#include "appliance/machine/console_tty.h"

/* Runs it with nothing on its stdin, and shows stdout and stderr at the terminals (one, or all) as they come, until its
 * end or op's deadline, when it is killed (DEADLINE). *ret_code: exit code, or 128 + signal. argv[0] is a path. */
struct fault console_run(struct op *op, const char *const *argv, struct terminal *terminals, size_t count,
                         int *ret_code);

#endif
