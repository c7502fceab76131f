/*
 * The machine's clock: chrony, as its own user, from the time servers of the provisioning, or the host's clock of a
 * virtual machine, or nothing but the clock that the machine has. It never steps the clock once the first few updates
 * are over: time stamps depend on it.
 */
#ifndef APPLIANCE_MACHINE_CLOCK_H
#define APPLIANCE_MACHINE_CLOCK_H

#include "appliance/machine/provision.h"

/* Writes chrony's configuration and makes its folder. *ret_source is "ntp", "host" or "none"; with "none" chrony is not
 * to be started. */
struct fault clock_prepare(struct op *op, const struct provision *provision, const char **ret_source);
struct fault clock_print(const struct provision *provision, bool host_clock, struct buf *out); /* chrony.conf */
/* Is there anything for chrony to follow? */
bool clock_wants_chrony(const char *source, const struct provision *provision);
/* Starts chronyd. */
struct fault clock_start(struct op *op, pid_t *ret_pid);
/* Does the kernel's clock follow a source? */
bool clock_synchronised(void);

#endif
