/* `svc-machine boot`: PID 1 of the appliance image (machine.h). */
#ifndef APPLIANCE_MACHINE_BOOT_H
#define APPLIANCE_MACHINE_BOOT_H

/* Returns, with an exit code, only when this process is not PID 1. */
int machine_boot(void);

#endif
