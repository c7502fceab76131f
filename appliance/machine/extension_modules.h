/* Kernel modules of a mounted extension: its folder `modules`, *.ko, *.ko.xz or *.ko.zst, in the order of their names
 * (10-first.ko.xz). The kernel takes only those that its own keys signed (lockdown). */
#ifndef APPLIANCE_MACHINE_EXTENSION_MODULES_H
#define APPLIANCE_MACHINE_EXTENSION_MODULES_H

#include "appliance/base/op.h"

bool extension_modules_any(const char *folder);
/* No folder is fine; a module that is loaded already, too. IO names the one that the kernel refuses. */
struct fault extension_modules_load(struct op *op, const char *folder);

#endif
