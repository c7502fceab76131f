/*
 * Kernel modules of the image (and none but them: they are signed by the kernel's maker) by libkmod: what the devices
 * ask for by their modalias, now and when one is plugged in, and a short list that no device asks for.
 */
#ifndef APPLIANCE_MACHINE_MODULES_H
#define APPLIANCE_MACHINE_MODULES_H

#include "appliance/base/op.h"

/* Loads what every device that is there asks for. A module that is missing or does not load is the device's loss, not
 * a fault; IO when there are no modules at all to choose from. */
struct fault modules_settle(struct op *op);
/* By name or alias: "dm_crypt". NOT_FOUND when the kernel has none such (built in is fine), IO when it does not load.
 */
struct fault module_load(struct op *op, const char *name);

/* A socket that is readable when the kernel tells of a device. */
struct fault modules_listen(struct op *op, int *ret_fd);
/* Takes what waits there and loads modules for what came. True when a device came. */
bool modules_take_events(int fd);

#endif
