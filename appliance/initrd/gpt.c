#include "appliance/initrd/gpt.h"

#include <string.h>

#define ENTRY_SIZE    128
#define ENTRY_COUNT   (GPT_ENTRIES / ENTRY_SIZE)
#define ENTRY_SECTORS (GPT_ENTRIES / GPT_SECTOR)
#define HEADER_SIZE   92
#define ALIGN         2048 /* sectors: partitions end where a MiB ends */

/* Where things stand in a header and in an entry. */
enum {
    AT_SIZE = 12,
    AT_CRC = 16,
    AT_MINE = 24,
    AT_OTHER = 32,
    AT_LAST = 48,
    AT_ENTRIES = 72,
    AT_COUNT = 80,
    AT_ENTRY_SIZE = 84,
    AT_ENTRIES_CRC = 88
};
enum { ENTRY_FIRST = 32, ENTRY_LAST = 40, ENTRY_NAME = 56, ENTRY_NAME_LEN = 72 };

static uint64_t get(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    while (bytes > 0) {
        value = value << 8 | at[--bytes];
    }
    return value;
}

static void put(uint8_t *at, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i++, value >>= 8) {
        at[i] = (uint8_t)value;
    }
}

static uint32_t crc32(const uint8_t *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
    }
    return ~crc;
}

static uint32_t header_crc(const uint8_t *header)
{
    uint8_t copy[HEADER_SIZE];
    memcpy(copy, header, sizeof(copy));
    put(copy + AT_CRC, 4, 0);
    return crc32(copy, sizeof(copy));
}

static bool is_whole(const struct gpt *gpt)
{
    const uint8_t *header = gpt->header;
    return memcmp(header, "EFI PART", 8) == 0 && get(header + AT_SIZE, 4) == HEADER_SIZE &&
           get(header + AT_CRC, 4) == header_crc(header) && get(header + AT_MINE, 8) == 1 &&
           get(header + AT_ENTRIES, 8) == 2 && get(header + AT_COUNT, 4) == ENTRY_COUNT &&
           get(header + AT_ENTRY_SIZE, 4) == ENTRY_SIZE &&
           get(header + AT_ENTRIES_CRC, 4) == crc32(gpt->entries, sizeof(gpt->entries));
}

static bool is_named(const uint8_t *entry, const char *label)
{
    uint8_t name[ENTRY_NAME_LEN] = { 0 }; /* UTF-16, little-endian */
    for (size_t i = 0; label[i] != '\0' && 2 * i < sizeof(name); i++) {
        name[2 * i] = (uint8_t)label[i];
    }
    return memcmp(entry + ENTRY_NAME, name, sizeof(name)) == 0;
}

/* The partition that ends last; NULL: there is none. */
static uint8_t *last_entry(struct gpt *gpt)
{
    uint8_t *last = NULL;
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        uint8_t *entry = gpt->entries + i * ENTRY_SIZE;
        static const uint8_t unused[16];
        if (memcmp(entry, unused, sizeof(unused)) != 0 &&
            (last == NULL || get(entry + ENTRY_LAST, 8) > get(last + ENTRY_LAST, 8))) {
            last = entry;
        }
    }
    return last;
}

static void header_finish(struct gpt *gpt, uint64_t mine, uint64_t other, uint64_t entries)
{
    put(gpt->header + AT_MINE, 8, mine);
    put(gpt->header + AT_OTHER, 8, other);
    put(gpt->header + AT_ENTRIES, 8, entries);
    put(gpt->header + AT_ENTRIES_CRC, 4, crc32(gpt->entries, sizeof(gpt->entries)));
    put(gpt->header + AT_CRC, 4, header_crc(gpt->header));
}

bool gpt_grow(const struct gpt *gpt, uint64_t disk_sectors, const char *label, struct gpt_grown *ret_grown)
{
    if (disk_sectors < 4 * (uint64_t)ALIGN || disk_sectors > (uint64_t)1 << 48 || !is_whole(gpt)) {
        return false;
    }
    struct gpt_grown grown = { .first = *gpt, .last_header = disk_sectors - 1 };
    uint8_t *entry = last_entry(&grown.first);
    if (entry == NULL || !is_named(entry, label)) {
        return false;
    }
    uint64_t usable = grown.last_header - ENTRY_SECTORS - 1;
    uint64_t end = (usable + 1) / ALIGN * ALIGN; /* the first sector that is not ours any more */
    grown.start = get(entry + ENTRY_FIRST, 8);
    if (grown.start >= end || end - 1 <= get(entry + ENTRY_LAST, 8)) {
        return false;
    }
    grown.number = (unsigned)((size_t)(entry - grown.first.entries) / ENTRY_SIZE) + 1;
    grown.sectors = end - grown.start;
    put(entry + ENTRY_LAST, 8, end - 1);
    put(grown.first.header + AT_LAST, 8, usable);
    grown.last = grown.first;
    header_finish(&grown.first, 1, grown.last_header, 2);
    header_finish(&grown.last, grown.last_header, 1, grown.last_header - ENTRY_SECTORS);
    *ret_grown = grown;
    return true;
}
