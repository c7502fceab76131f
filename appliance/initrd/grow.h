/* The last partition, svc-state, becomes as big as the disk that the image was copied onto. */
#ifndef APPLIANCE_INITRD_GROW_H
#define APPLIANCE_INITRD_GROW_H

#include "appliance/initrd/slot.h"

/* On the disk of this slot, and on no other. What is in the partition stays; a disk that is as big as its table says is
 * not written. A failure is said, and not fatal: the state is as big as before. */
void grow_state(const struct slot *slot);

#endif
