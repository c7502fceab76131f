/* dm-verity over a slot, through the device mapper's own calls: no library is small enough for an initrd. */
#ifndef APPLIANCE_INITRD_VERITY_H
#define APPLIANCE_INITRD_VERITY_H

#include "appliance/initrd/slot.h"

#define VERITY_DEVICE "/dev/dm-0" /* the first device mapper device, and in the initrd the only one */

/* Opens the slot, read-only, as VERITY_DEVICE. A block that does not fit the root hash makes the kernel panic. */
void verity_open(const struct slot *slot, const struct release *release);

/* Reads all of it once, so that a root of which one byte was changed does not even start; without this it would run
 * until somebody needs that block. */
void verity_read_all(const struct release *release);

#endif
