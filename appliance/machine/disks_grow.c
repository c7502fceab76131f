#include "appliance/machine/disks_grow.h"

#include "appliance/base/file.h"
#include "appliance/machine/disks.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SECTOR         512
#define ENTRY_BYTES    128
#define ENTRIES        128
#define TABLE_BYTES    (ENTRIES * ENTRY_BYTES)
#define TABLE_SECTORS  (TABLE_BYTES / SECTOR)
#define HEADER_BYTES   92
#define GRAIN          2048 /* partitions end at whole MiB */
#define TABLE_FIRST    2    /* where the entries may stand: the one place or the other */
#define TABLE_SECOND   (TABLE_FIRST + TABLE_SECTORS)
#define CRC_POLYNOMIAL 0xedb88320U

/* Offsets within a header, and within an entry (UEFI 5.3). */
enum {
    AT_SIGNATURE = 0,
    AT_SIZE = 12,
    AT_CRC = 16,
    AT_OWN = 24,
    AT_OTHER = 32,
    AT_FIRST = 40,
    AT_LAST = 48,
    AT_TABLE = 72,
    AT_COUNT = 80,
    AT_ENTRY_SIZE = 84,
    AT_TABLE_CRC = 88,
    ENTRY_START = 32,
    ENTRY_END = 40,
};

struct gpt {
    uint8_t header[SECTOR], table[TABLE_BYTES];
};

static uint64_t get(const uint8_t *at, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i > 0; i--) {
        value = value << 8 | at[i - 1];
    }
    return value;
}

static void put(uint8_t *at, size_t bytes, uint64_t value)
{
    for (size_t i = 0; i < bytes; i++, value >>= 8) {
        at[i] = (uint8_t)value;
    }
}

static uint32_t crc32(const uint8_t *at, size_t len)
{
    uint32_t crc = ~0U;
    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (CRC_POLYNOMIAL & -(crc & 1));
        }
    }
    return ~crc;
}

static uint32_t header_crc(const uint8_t *header)
{
    uint8_t copy[HEADER_BYTES];
    memcpy(copy, header, sizeof(copy));
    put(copy + AT_CRC, 4, 0);
    return crc32(copy, sizeof(copy));
}

static struct fault read_at(struct op *op, int fd, uint64_t sector, uint8_t *at, size_t len)
{
    if (pread(fd, at, len, (off_t)(sector * SECTOR)) != (ssize_t)len) {
        return op_fail(op, FAULT(IO), "the partition table cannot be read");
    }
    return OK;
}

static struct fault write_at(struct op *op, int fd, uint64_t sector, const uint8_t *at, size_t len)
{
    if (pwrite(fd, at, len, (off_t)(sector * SECTOR)) != (ssize_t)len || fsync(fd) != 0) {
        return op_fail(op, FAULT(IO), "the partition table cannot be written: %s", strerrordesc_np(errno));
    }
    return OK;
}

static struct fault gpt_read(struct op *op, int fd, struct gpt *gpt)
{
    TRY(read_at(op, fd, 1, gpt->header, SECTOR));
    const uint8_t *header = gpt->header;
    uint64_t table = get(header + AT_TABLE, 8);
    bool ours = memcmp(header + AT_SIGNATURE, "EFI PART", 8) == 0 && get(header + AT_SIZE, 4) == HEADER_BYTES &&
                get(header + AT_CRC, 4) == header_crc(header) && get(header + AT_OWN, 8) == 1 &&
                get(header + AT_COUNT, 4) == ENTRIES && get(header + AT_ENTRY_SIZE, 4) == ENTRY_BYTES &&
                (table == TABLE_FIRST || table == TABLE_SECOND);
    if (ours) {
        TRY(read_at(op, fd, table, gpt->table, TABLE_BYTES));
    }
    if (!ours || get(header + AT_TABLE_CRC, 4) != crc32(gpt->table, TABLE_BYTES)) {
        return op_fail(op, FAULT(UNSUPPORTED), "the partition table is none that can be made larger");
    }
    return OK;
}

/* No partition but this may begin behind it, and none before the second place of the entries ends. */
static struct fault check_others(struct op *op, const struct gpt *gpt, uint64_t start)
{
    static const uint8_t unused[16];
    for (size_t i = 0; i < ENTRIES; i++) {
        const uint8_t *entry = gpt->table + i * ENTRY_BYTES;
        uint64_t other = get(entry + ENTRY_START, 8);
        if (memcmp(entry, unused, sizeof(unused)) == 0) {
            continue;
        }
        if (other > start || other < TABLE_SECOND + TABLE_SECTORS) {
            return op_fail(op, FAULT(CONFLICT), "another partition stands in the way of growing the state's");
        }
    }
    return OK;
}

/* The backup at the disk's end, then the entries where none are, then the header that points there. */
static struct fault gpt_write(struct op *op, int fd, uint64_t sectors, struct gpt *gpt)
{
    uint64_t before = get(gpt->header + AT_TABLE, 8);
    uint64_t table = before == TABLE_FIRST ? TABLE_SECOND : TABLE_FIRST;
    uint8_t *header = gpt->header, backup[SECTOR];
    put(header + AT_OTHER, 8, sectors - 1);
    put(header + AT_FIRST, 8, TABLE_SECOND + TABLE_SECTORS);
    put(header + AT_LAST, 8, sectors - TABLE_SECTORS - 2);
    put(header + AT_TABLE, 8, table);
    put(header + AT_TABLE_CRC, 4, crc32(gpt->table, TABLE_BYTES));
    memcpy(backup, header, SECTOR);
    put(backup + AT_OWN, 8, sectors - 1);
    put(backup + AT_OTHER, 8, 1);
    put(backup + AT_TABLE, 8, sectors - 1 - TABLE_SECTORS);
    put(backup + AT_CRC, 4, header_crc(backup));
    put(header + AT_CRC, 4, header_crc(header));
    TRY(write_at(op, fd, sectors - 1 - TABLE_SECTORS, gpt->table, TABLE_BYTES));
    TRY(write_at(op, fd, sectors - 1, backup, SECTOR));
    TRY(write_at(op, fd, table, gpt->table, TABLE_BYTES));
    return write_at(op, fd, 1, header, SECTOR);
}

struct fault gpt_grow(struct op *op, int fd, uint64_t sectors, unsigned number, uint64_t *ret_start,
                      uint64_t *ret_count)
{
    struct gpt gpt;
    REQUIRE(number >= 1 && number <= ENTRIES && sectors > 4 * GRAIN, BAD_ARGUMENT);
    TRY(gpt_read(op, fd, &gpt));
    uint8_t *entry = gpt.table + (number - 1) * ENTRY_BYTES;
    uint64_t start = get(entry + ENTRY_START, 8), end = get(entry + ENTRY_END, 8);
    uint64_t most = (sectors - TABLE_SECTORS - 1) / GRAIN * GRAIN - 1;
    if (start == 0 || end < start) {
        return op_fail(op, FAULT(UNSUPPORTED), "the partition table has no partition %u", number);
    }
    if (most > end) {
        TRY(check_others(op, &gpt, start));
        put(entry + ENTRY_END, 8, most);
        TRY(gpt_write(op, fd, sectors, &gpt));
        end = most;
    }
    *ret_start = start;
    *ret_count = end - start + 1;
    return OK;
}

/* ---- the kernel's view ---- */

/* The disk of "/dev/vda4": the folder that its folder in /sys lies in. */
static struct fault whole_disk(struct op *op, const char *partition, const char **ret_disk, unsigned *ret_number)
{
    char link[PATH_MAX], real[PATH_MAX];
    CLEANUP(buf_free) struct buf text = BUF_INIT(32);
    const char *digits = NULL;
    (void)snprintf(link, sizeof(link), "/sys/class/block/%s", strrchr(partition, '/') + 1);
    if (realpath(link, real) == NULL) {
        return op_fail(op, FAULT(IO), "%s is no block device", partition);
    }
    size_t len = strlen(link);
    (void)snprintf(link + len, sizeof(link) - len, "/partition");
    TRY(file_read(link, &text));
    TRY(buf_cstr(&text, &digits));
    *ret_number = (unsigned)strtoul(digits, NULL, 10);
    *strrchr(real, '/') = '\0';
    return arena_printf(op->arena, ret_disk, "/dev/%s", strrchr(real, '/') + 1);
}

struct fault disk_grow(struct op *op, const char *partition)
{
    const char *disk = NULL;
    unsigned number = 0;
    uint64_t bytes = 0, start = 0, count = 0, was = 0;
    int sector = 0;
    TRY(whole_disk(op, partition, &disk, &number));
    TRY(disk_size(op, disk, &bytes));
    TRY(disk_size(op, partition, &was));
    CLEANUP(fd_closep) int fd = open(disk, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, BLKSSZGET, &sector) != 0 || sector != SECTOR) {
        return op_fail(op, FAULT(UNSUPPORTED), "%s is no disk with sectors of 512 bytes", disk);
    }
    TRY(gpt_grow(op, fd, bytes / SECTOR, number, &start, &count));
    if (count * SECTOR == was) {
        return OK;
    }
    struct blkpg_partition resized = { .start = (long long)(start * SECTOR),
                                       .length = (long long)(count * SECTOR),
                                       .pno = (int)number };
    struct blkpg_ioctl_arg arg = { .op = BLKPG_RESIZE_PARTITION, .datalen = sizeof(resized), .data = &resized };
    if (ioctl(fd, BLKPG, &arg) != 0) {
        return op_fail(op, FAULT(IO), "the kernel does not take the larger partition: %s", strerrordesc_np(errno));
    }
    return OK;
}
