/*
 * Block devices as the kernel names them (/sys/class/block, no udev): found by the GPT label of a partition, or by the
 * label in the super block of a file system. Nothing here writes.
 *
 *     const char *device = NULL;
 *     TRY(disk_by_partlabel(op, "svc-state", &device));      "/dev/vda4", in op's arena
 */
#ifndef APPLIANCE_MACHINE_DISKS_H
#define APPLIANCE_MACHINE_DISKS_H

#include "appliance/base/op.h"

#define DISK_FS_LABEL_MAX 32

/* NOT_FOUND when there is none; CONFLICT when more than one partition has the label (a second disk was plugged in:
 * which of them is ours cannot be told, so neither is). */
struct fault disk_by_partlabel(struct op *op, const char *label, const char **ret_device);

enum disk_fs { DISK_FS_NONE, DISK_FS_VFAT, DISK_FS_EXT4, DISK_FS_ISO9660 };
/* What mount(2) calls it. */
const char *disk_fs_text(enum disk_fs fs);

struct disk_found {
    const char *device; /* in op's arena */
    enum disk_fs fs;
    bool read_only; /* the device itself */
};
/* The first block device, in the order of their names, whose file system has this label. A vfat label ends after 11
 * characters: there the first 11 of `label` are what counts, in either case. NOT_FOUND. */
struct fault disk_by_fs_label(struct op *op, const char *label, struct disk_found *ret_found);

/* Kind and label of the file system in the first bytes of a device, of which DISK_PROBE_BYTES are wanted; fewer are
 * fine. NONE when it is no kind of ours. */
#define DISK_PROBE_BYTES 36864
enum disk_fs disk_probe(struct span head, char ret_label[DISK_FS_LABEL_MAX + 1]);

#endif
