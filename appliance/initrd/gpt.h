/*
 * A partition table (GPT, UEFI specification 2.10 chapter 5.3) that grows with its disk: the image is as big as it has
 * to be, the disk that it is copied onto is bigger, and its last partition is the state. Pure: bytes in, bytes out.
 */
#ifndef APPLIANCE_INITRD_GPT_H
#define APPLIANCE_INITRD_GPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPT_SECTOR  512
#define GPT_ENTRIES ((size_t)128 * 128) /* bytes; 32 sectors before or behind each header */

struct gpt {
    uint8_t header[GPT_SECTOR], entries[GPT_ENTRIES];
};

/* What there is to write, and which partition became bigger. */
struct gpt_grown {
    struct gpt first, last;  /* headers at sector 1 and at the end of the disk; the entries are the same */
    uint64_t last_header;    /* its sector; its entries stand in the 32 sectors before it */
    unsigned number;         /* of the partition, from 1 */
    uint64_t start, sectors; /* of it */
};

/* Is there room behind the last partition, is that one named `label`, and is the table whole? `gpt` is what stands at
 * sectors 1 to 33. False: nothing is to be done. */
bool gpt_grow(const struct gpt *gpt, uint64_t disk_sectors, const char *label, struct gpt_grown *ret_grown);

#endif
