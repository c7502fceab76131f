/*
 * Kernel modules of the initrd, as scripts/lib/image_boot.py laid them down beside svc-initrd:
 *
 *     /modules/list    "NAME always|device DEPENDENCY..." a line, every module after those that it needs
 *     /modules/alias   "PATTERN NAME" a line: the device names (modalias) that a module drives
 *     /modules/NAME.ko
 *
 * "always" modules are loaded at once, "device" ones when the kernel has found a device that they drive. They are
 * Debian's own files, signed by Debian: under lockdown the kernel takes no others.
 */
#ifndef APPLIANCE_INITRD_MODULES_H
#define APPLIANCE_INITRD_MODULES_H

#include <stdbool.h>

#define MODULES_MAX 256

/* Reads the lists and loads what is always wanted. A module that cannot be loaded is said, and not fatal: what needs
 * it fails by its own name. */
void modules_start(void);

/* Loads what the devices of now ask for; true when something was loaded. */
bool modules_for_devices(void);

#endif
