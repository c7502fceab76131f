/*
 * The two partitions that can hold a root, svc-root-a and svc-root-b. The last 4096 bytes of a slot are its footer:
 * "SVCROOT1\nversion=...\nroothash=...\nblocks=...\nsalt=...\n", padded with NUL, written last. The footer only says
 * which slot to try; what is in it is proven by dm-verity, block by block.
 */
#ifndef APPLIANCE_INITRD_SLOT_H
#define APPLIANCE_INITRD_SLOT_H

#include "appliance/initrd/release.h"

#include <stddef.h>

#define SLOT_FOOTER 4096
#define SLOT_MAGIC  "SVCROOT1\n"

struct slot {
    char letter;      /* 'a' or 'b' */
    char device[64];  /* "/dev/vda2" */
    uint64_t sectors; /* of 512 bytes, footer included */
};

/* Does this footer (SLOT_FOOTER bytes) name the release, and does the slot hold that many blocks and a tree? */
bool slot_footer_names(const char *footer, uint64_t sectors, const struct release *release);

/* Looks at every partition that is there now. False: none holds the release (yet). */
bool slot_find(const struct release *release, struct slot *ret_slot);

#endif
