/*
 * dm-verity and loop devices by ioctl (no device-mapper library): a read-only block device every read of which is
 * checked against a tree of SHA-256 hashes that leads to a root hash. Tree and data lie on the same device, version 1
 * of the format, blocks of 4096 bytes. A super block is not read: hash_start is the block behind it.
 */
#ifndef APPLIANCE_MACHINE_VERITY_H
#define APPLIANCE_MACHINE_VERITY_H

#include "appliance/base/op.h"

#define VERITY_BLOCK    4096
#define VERITY_NAME_MAX 100

struct verity_spec {
    const char *device;    /* "/dev/loop0" */
    uint64_t blocks;       /* of data */
    uint64_t hash_start;   /* block at which the tree begins, at least `blocks` */
    const char *root_hash; /* 64 hex digits */
    const char *salt;      /* hex digits, or "-" for none */
};
/* `name` shows in /sys/block/dm-N/dm/name: letters, digits, '-', '_'. Gives "/dev/dm-N" in op's arena. A changed root
 * block of the tree is found at the first read, not here. */
struct fault verity_open(struct op *op, const char *name, const struct verity_spec *spec, const char **ret_device);
struct fault verity_close(struct op *op, const char *name); /* nothing open by that name is fine */

/* Any mapped device by name: removed. For power-off, where nothing may keep the state open. */
struct fault mapped_remove(struct op *op, const char *name, bool deferred);

/* `size` bytes from `offset` (a multiple of VERITY_BLOCK) of an open file, 0 = up to its end, as a read-only block
 * device. Gives "/dev/loopN" in op's arena. The file may be closed afterwards. */
struct fault loop_open_part(struct op *op, int file, uint64_t offset, uint64_t size, const char **ret_device);
/* At once, or with its last user: it may be called while a verity device or a mount still holds it. */
struct fault loop_close(struct op *op, const char *device);

#endif
