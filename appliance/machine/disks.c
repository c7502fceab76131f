#include "appliance/machine/disks.h"

#include "appliance/base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_CLASS  "/sys/class/block"
#define UEVENT_MAX   4096
#define DEVICES_MAX  256
#define NAME_MAX_    64
#define VFAT_LABEL   11
#define EXT4_AT      1024
#define ISO_AT       32768
#define ISO_LABEL    32
#define SECTOR_BYTES 512

const char *disk_fs_text(enum disk_fs fs)
{
    switch (fs) {
    case DISK_FS_VFAT:
        return "vfat";
    case DISK_FS_EXT4:
        return "ext4";
    case DISK_FS_ISO9660:
        return "iso9660";
    case DISK_FS_NONE:
        break;
    }
    return "none";
}

/* ---- what a device holds ---- */

/* Copies without the blanks at the end; anything unprintable makes it no label. */
static bool label_take(const uint8_t *at, size_t len, char *ret_label)
{
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\0')) {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        if (at[i] < 0x20 || at[i] > 0x7e) {
            return false;
        }
    }
    memcpy(ret_label, at, len);
    ret_label[len] = '\0';
    return true;
}

static bool probe_ext4(struct span head, char *ret_label)
{
    return head.len >= EXT4_AT + 0x88 && head.at[EXT4_AT + 0x38] == 0x53 && head.at[EXT4_AT + 0x39] == 0xef &&
           label_take(head.at + EXT4_AT + 0x78, 16, ret_label);
}

static bool probe_iso(struct span head, char *ret_label)
{
    return head.len >= ISO_AT + 40 + ISO_LABEL && memcmp(head.at + ISO_AT + 1, "CD001", 5) == 0 &&
           label_take(head.at + ISO_AT + 40, ISO_LABEL, ret_label);
}

/* FAT12 and FAT16 have their label at 0x2b, FAT32 at 0x47; the text that says which stands behind it. */
static bool probe_vfat(struct span head, char *ret_label)
{
    if (head.len < SECTOR_BYTES || head.at[510] != 0x55 || head.at[511] != 0xaa) {
        return false;
    }
    if (memcmp(head.at + 0x52, "FAT32   ", 8) == 0) {
        return label_take(head.at + 0x47, VFAT_LABEL, ret_label);
    }
    return memcmp(head.at + 0x36, "FAT1", 4) == 0 && label_take(head.at + 0x2b, VFAT_LABEL, ret_label);
}

enum disk_fs disk_probe(struct span head, char ret_label[DISK_FS_LABEL_MAX + 1])
{
    if (probe_ext4(head, ret_label)) {
        return DISK_FS_EXT4;
    }
    if (probe_iso(head, ret_label)) { /* before vfat: a bootable image of a CD may have a boot sector, too */
        return DISK_FS_ISO9660;
    }
    return probe_vfat(head, ret_label) ? DISK_FS_VFAT : DISK_FS_NONE;
}

static bool label_fits(enum disk_fs fs, const char *has, const char *wanted)
{
    return fs == DISK_FS_VFAT ? strncasecmp(has, wanted, VFAT_LABEL) == 0 : strcmp(has, wanted) == 0;
}

/* ---- which devices there are ---- */

struct block_names {
    char at[DEVICES_MAX][NAME_MAX_];
    size_t count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static struct fault block_names(struct op *op, struct block_names **ret_names)
{
    struct block_names *names = NULL;
    TRY(arena_take(op->arena, 1, sizeof(*names), (void *)&names));
    REQUIRE(names != NULL, NO_MEMORY);
    DIR *dir = opendir(BLOCK_CLASS);
    if (dir == NULL) {
        return op_fail(op, FAULT(IO), "cannot read " BLOCK_CLASS ": %s", strerrordesc_np(errno));
    }
    for (struct dirent *entry = readdir(dir); entry != NULL && names->count < DEVICES_MAX; entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);
        if (entry->d_name[0] != '.' && len < NAME_MAX_) {
            memcpy(names->at[names->count++], entry->d_name, len + 1);
        }
    }
    (void)closedir(dir);
    qsort(names->at, names->count, NAME_MAX_, by_name);
    *ret_names = names;
    return OK;
}

/* Is one line of the device's uevent "PARTNAME=<label>"? */
static bool has_partlabel(const char *name, const char *label)
{
    char path[PATH_MAX], wanted[128];
    CLEANUP(buf_free) struct buf text = BUF_INIT(UEVENT_MAX);
    const char *lines = NULL;
    (void)snprintf(path, sizeof(path), BLOCK_CLASS "/%s/uevent", name);
    int len = snprintf(wanted, sizeof(wanted), "PARTNAME=%s", label);
    if (FAULTED(file_read(path, &text)) || FAULTED(buf_cstr(&text, &lines)) || len < 0 ||
        (size_t)len >= sizeof(wanted)) {
        return false;
    }
    while (lines != NULL) {
        size_t line = strcspn(lines, "\n");
        if (line == (size_t)len && memcmp(lines, wanted, line) == 0) {
            return true;
        }
        lines = lines[line] == '\n' ? lines + line + 1 : NULL;
    }
    return false;
}

struct fault disk_by_partlabel(struct op *op, const char *label, const char **ret_device)
{
    struct block_names *names = NULL;
    TRY(block_names(op, &names));
    REQUIRE(names != NULL, INTERNAL);
    const char *found = NULL;
    for (size_t i = 0; i < names->count; i++) {
        if (!has_partlabel(names->at[i], label)) {
            continue;
        }
        if (found != NULL) {
            return op_fail(op, FAULT(CONFLICT), "two partitions are labelled %s (%s and %s): take the other disk out",
                           label, found, names->at[i]);
        }
        found = names->at[i];
    }
    if (found == NULL) {
        return op_fail(op, FAULT(NOT_FOUND), "no partition is labelled %s", label);
    }
    return arena_printf(op->arena, ret_device, "/dev/%s", found);
}

static struct fault read_head(const char *device, struct buf *head)
{
    CLEANUP(fd_closep) int fd = open(device, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    REQUIRE(fd >= 0, IO);
    uint8_t *at = NULL;
    TRY(buf_reserve(head, DISK_PROBE_BYTES, &at));
    size_t len = 0;
    while (len < DISK_PROBE_BYTES) {
        ssize_t got = pread(fd, at + len, DISK_PROBE_BYTES - len, (off_t)len);
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
    }
    head->len = len;
    return OK;
}

static bool is_read_only(const char *name)
{
    char path[PATH_MAX];
    CLEANUP(buf_free) struct buf text = BUF_INIT(16);
    (void)snprintf(path, sizeof(path), BLOCK_CLASS "/%s/ro", name);
    return !FAULTED(file_read(path, &text)) && text.len > 0 && text.at[0] == '1';
}

struct fault disk_by_fs_label(struct op *op, const char *label, struct disk_found *ret_found)
{
    struct block_names *names = NULL;
    TRY(block_names(op, &names));
    REQUIRE(names != NULL, INTERNAL);
    for (size_t i = 0; i < names->count; i++) {
        char device[NAME_MAX_ + 8], has[DISK_FS_LABEL_MAX + 1];
        CLEANUP(buf_free) struct buf head = BUF_INIT(DISK_PROBE_BYTES);
        (void)snprintf(device, sizeof(device), "/dev/%s", names->at[i]);
        if (FAULTED(read_head(device, &head))) {
            continue; /* a drive without a medium */
        }
        enum disk_fs fs = disk_probe(buf_span(&head), has);
        if (fs != DISK_FS_NONE && label_fits(fs, has, label)) {
            ret_found->fs = fs;
            ret_found->read_only = is_read_only(names->at[i]);
            return arena_text(op->arena, span_text(device), &ret_found->device);
        }
    }
    return op_fail(op, FAULT(NOT_FOUND), "no file system is labelled %s", label);
}
