/*
 * What is mounted where. Everything that can be written is nosuid, nodev and noexec; the root stays as svc-initrd left
 * it (read-only, verified).
 */
#ifndef APPLIANCE_MACHINE_MOUNTS_H
#define APPLIANCE_MACHINE_MOUNTS_H

#include "appliance/base/op.h"

#define STATE_MAPPED "svc-state" /* /dev/mapper/svc-state */

/* /proc /sys /dev and what hangs there, /run /tmp /dev/shm /run/log. What is mounted already keeps its content and gets
 * our flags. */
struct fault mounts_early(struct op *op);
/* The state's file system, checked (e2fsck -p) before; made first when `make`. Makes data/ and machine/ in it. */
struct fault mounts_state(struct op *op, const char *device, bool make);
/* A medium, read-only unless `writable`, nosuid, nodev, noexec, at `target`, which is made. */
struct fault mounts_medium(struct op *op, const char *device, const char *fs, const char *target, bool writable);
/* Power-off: everything below the root that is on a device or could be, newest first; what is busy becomes read-only.
 */
void mounts_leave_all(void);

#endif
