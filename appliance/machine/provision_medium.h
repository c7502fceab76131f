/*
 * Removable media that a site brings: found by the label of their file system, mounted nosuid, nodev and noexec for as
 * long as they are needed. Everything on them is somebody else's: files are regular, of this folder, and bounded.
 *
 *     CLEANUP(medium_close) struct medium medium = MEDIUM_NONE;
 *     TRY(medium_open(op, PROVISION_LABEL, MEDIUM_READ, &medium));
 *     TRY(medium_read(op, medium.dir, "provision.yaml", &text));
 */
#ifndef APPLIANCE_MACHINE_PROVISION_MEDIUM_H
#define APPLIANCE_MACHINE_PROVISION_MEDIUM_H

#include "appliance/base/op.h"

#define MEDIUM_MOUNT "/run/svc-machine/medium"

enum medium_access { MEDIUM_READ, MEDIUM_WRITE };

struct medium {
    int dir; /* its root folder; -1 = not open */
    bool mounted;
    char device[64];
};
#define MEDIUM_NONE { .dir = -1 }

/* NOT_FOUND: no file system with this label. IO: it cannot be mounted (read-only media with MEDIUM_WRITE, too). */
struct fault medium_open(struct op *op, const char *label, enum medium_access access, struct medium *ret_medium);
void medium_close(struct medium *medium); /* writes back and unmounts; idempotent; the form that CLEANUP wants */

/* A regular file of the folder, whole; `name` has no '/'. NOT_FOUND, TOO_LARGE (out->max), CONFIG (no regular file). */
struct fault medium_read(struct op *op, int dir, const char *name, struct buf *out);
/* Makes or replaces `folder`/`name`, durably. */
struct fault medium_write(struct op *op, int dir, const char *folder, const char *name, struct span bytes);

#endif
