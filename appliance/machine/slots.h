/*
 * The two root slots, svc-root-a and svc-root-b: each squashfs, dm-verity super block and tree, and in its last 4096
 * bytes a footer (appliance/release/footer.h). One runs; only the other one is ever written, and the kernel refuses
 * that for a slot that is in use.
 */
#ifndef APPLIANCE_MACHINE_SLOTS_H
#define APPLIANCE_MACHINE_SLOTS_H

#include "appliance/release/container.h"
#include "appliance/release/footer.h"

#include <sys/types.h>

enum { SLOT_A, SLOT_B, SLOT_COUNT };
#define SLOT_LETTER(index) ((char)('a' + (index)))

/* The slot whose partition lies under the device that "/" is mounted from. NOT_FOUND: it is none of them (then nothing
 * may be written). `sysfs`: "/sys". */
struct fault slot_running(struct op *op, const char *sysfs, dev_t root, unsigned *ret_slot);

struct slot_writer {
    int fd;
    uint64_t size; /* of the partition, its footer included */
};
/* Opens the slot for itself alone: CONFLICT when somebody uses it. */
struct fault slot_open(struct op *op, const char *device, struct slot_writer *ret_writer);
void slot_close(struct slot_writer *writer); /* idempotent; the form that CLEANUP wants */
/* From now on it holds nothing; on disk when this returns. */
struct fault slot_erase_footer(struct op *op, const struct slot_writer *writer);
/* The file's root into the slot; on disk when this returns. `said` gets the bytes that were written so far. */
typedef void (*slot_said_fn)(void *arg, uint64_t done, uint64_t size);
struct fault slot_write_root(struct op *op, const struct slot_writer *writer, const struct release_file *file,
                             slot_said_fn said, void *arg);
/* Reads back from the disk, not from memory: RELEASE_FILE when it is not the root that was signed. */
struct fault slot_verify_root(struct op *op, const struct slot_writer *writer, const struct release_manifest *manifest);
struct fault slot_write_footer(struct op *op, const struct slot_writer *writer, const struct release_footer *footer);
/* NOT_FOUND: it holds nothing. */
struct fault slot_read_footer(struct op *op, const char *device, struct release_footer *ret_footer);

#endif
