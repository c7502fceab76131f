/*
 * The operator's console: every terminal that the kernel has as a console (serial line, screen), plain lines, a closed
 * list of commands, no shell. It is a process of its own, `svc-machine console`: a child of PID 1 from before the state
 * is open until power-off, started again when it ends. It reads status.json (status.h), asks PID 1 by its socket
 * (control.h) for what only PID 1 can do, and runs the product's own commands for the rest.
 *
 * By phase: PROVISIONING, it takes `provision` and asks the questions; LOCKED, it asks for the PIN or the recovery key;
 * a recovery key that was just made is shown until somebody says that it is written down; at the first READY it hands
 * over (admin.h): admin token shown once, certificates written to the provisioning medium.
 */
#ifndef APPLIANCE_MACHINE_CONSOLE_H
#define APPLIANCE_MACHINE_CONSOLE_H

#include "appliance/base/op.h"

#include <sys/types.h>

/* Starts `svc-machine console`; PID 1 reaps *ret_pid and starts it again. */
struct fault console_start(struct op *op, pid_t *ret_pid);
/* `svc-machine console`: runs until SIGTERM. Returns the exit code. */
int console_main(void);

/* Commands of svc-machine besides, for main.c; words[0] is the command: `certificate csr|import FILE|show`,
 * `token issue`, `provision check FILE`. *ret_known: it was one of them, and the result is the exit code. */
int console_command_line(int count, char *const *words, bool *ret_known);

#endif
