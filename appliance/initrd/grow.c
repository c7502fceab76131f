#include "appliance/initrd/grow.h"

#include "appliance/initrd/gpt.h"
#include "appliance/initrd/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define STATE_LABEL "svc-state"

/* "/dev/vda2" -> "/dev/vda": the folder that the partition's own lies in. */
static bool disk_of(const char *partition, char *disk, size_t size)
{
    char path[128];
    char target[512];
    (void)snprintf(path, sizeof(path), "/sys/class/block/%s", partition + strlen("/dev/"));
    ssize_t len = readlink(path, target, sizeof(target) - 1);
    if (len <= 0) {
        return false;
    }
    target[len] = '\0';
    char *last = strrchr(target, '/');
    if (last == NULL) {
        return false;
    }
    *last = '\0';
    const char *name = strrchr(target, '/');
    int put = name != NULL ? snprintf(disk, size, "/dev%s", name) : -1;
    return put > 0 && (size_t)put < size;
}

static bool put_at(int disk, const void *bytes, size_t len, uint64_t sector)
{
    return pwrite(disk, bytes, len, (off_t)(sector * GPT_SECTOR)) == (ssize_t)len;
}

/* The copy at the end first: whenever the power goes, one of the two tables is whole. */
static bool table_write(int disk, const struct gpt_grown *grown)
{
    uint64_t entries = sizeof(grown->last.entries) / GPT_SECTOR;
    return put_at(disk, grown->last.entries, sizeof(grown->last.entries), grown->last_header - entries) &&
           put_at(disk, grown->last.header, sizeof(grown->last.header), grown->last_header) && fsync(disk) == 0 &&
           put_at(disk, grown->first.entries, sizeof(grown->first.entries), 2) &&
           put_at(disk, grown->first.header, sizeof(grown->first.header), 1) && fsync(disk) == 0;
}

/* The kernel reads no table of a disk that is in use, so it is told. */
static bool kernel_told(int disk, const struct gpt_grown *grown)
{
    struct blkpg_partition partition = { .start = (long long)(grown->start * GPT_SECTOR),
                                         .length = (long long)(grown->sectors * GPT_SECTOR),
                                         .pno = (int)grown->number };
    struct blkpg_ioctl_arg call = { .op = BLKPG_RESIZE_PARTITION, .datalen = sizeof(partition), .data = &partition };
    return ioctl(disk, BLKPG, &call) == 0;
}

static void grow_disk(int disk, const char *name)
{
    static struct gpt gpt;
    static struct gpt_grown grown;
    uint64_t bytes = 0;
    int sector = 0;
    if (ioctl(disk, BLKGETSIZE64, &bytes) != 0 || ioctl(disk, BLKSSZGET, &sector) != 0 || sector != GPT_SECTOR ||
        pread(disk, &gpt, sizeof(gpt), GPT_SECTOR) != (ssize_t)sizeof(gpt) ||
        !gpt_grow(&gpt, bytes / GPT_SECTOR, STATE_LABEL, &grown)) {
        return;
    }
    if (!table_write(disk, &grown) || !kernel_told(disk, &grown)) {
        say("the partition %s could not be made as big as %s: %s", STATE_LABEL, name, strerrordesc_np(errno));
        return;
    }
    say("%s is now %llu MiB, as big as %s has room", STATE_LABEL, (unsigned long long)(grown.sectors / 2048), name);
}

void grow_state(const struct slot *slot)
{
    char name[64];
    if (!disk_of(slot->device, name, sizeof(name))) {
        return;
    }
    int disk = open(name, O_RDWR | O_CLOEXEC);
    if (disk >= 0) {
        grow_disk(disk, name);
        (void)close(disk);
    }
}
