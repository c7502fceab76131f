/*
 * The image is as small as it can be; the disk that it was copied to is not. At first boot, before the state is made,
 * its partition (the last one) grows to the end of the disk: the GPT is written anew. A power cut leaves the old table
 * or the new one, whole: the backup is written first, the new entries go where none are, and one sector makes them
 * count.
 */
#ifndef APPLIANCE_MACHINE_DISKS_GROW_H
#define APPLIANCE_MACHINE_DISKS_GROW_H

#include "appliance/base/op.h"

/* "/dev/vda4". Nothing to gain is fine. CONFLICT when another partition stands behind it, UNSUPPORTED when the table is
 * not one that we can read; then it stays as it is, and so does the partition. */
struct fault disk_grow(struct op *op, const char *partition);

/* The same on a disk (or file) of `sectors` of 512 bytes: *ret_start and *ret_count of the partition with this number,
 * from 1, as it is now. */
struct fault gpt_grow(struct op *op, int fd, uint64_t sectors, unsigned number, uint64_t *ret_start,
                      uint64_t *ret_count);

#endif
