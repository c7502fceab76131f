#include "appliance/initrd/slot.h"

#include "appliance/initrd/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PARTITIONS "/sys/class/block"

bool slot_footer_names(const char *footer, uint64_t sectors, const struct release *release)
{
    char text[SLOT_FOOTER + 1];
    memcpy(text, footer, SLOT_FOOTER);
    text[SLOT_FOOTER] = '\0';
    if (strncmp(text, SLOT_MAGIC, strlen(SLOT_MAGIC)) != 0) {
        return false;
    }
    char roothash[sizeof(release->roothash)];
    return text_value(text, "\n", "roothash", roothash, sizeof(roothash)) && strcmp(roothash, release->roothash) == 0 &&
           sectors / 8 > release->blocks;
}

static bool footer_read(const char *device, uint64_t *ret_sectors, char footer[SLOT_FOOTER])
{
    int disk = open(device, O_RDONLY | O_CLOEXEC);
    if (disk < 0) {
        return false;
    }
    uint64_t bytes = 0;
    bool got = ioctl(disk, BLKGETSIZE64, &bytes) == 0 && bytes > SLOT_FOOTER;
    got = got && pread(disk, footer, SLOT_FOOTER, (off_t)(bytes - SLOT_FOOTER)) == SLOT_FOOTER;
    *ret_sectors = bytes / 512;
    (void)close(disk);
    return got;
}

/* Is the partition NAME a slot with the release in it? */
static bool slot_look(const char *name, const struct release *release, struct slot *ret_slot)
{
    char path[512];
    char event[4096];
    char label[128];
    struct slot slot = { 0 };
    int len = snprintf(path, sizeof(path), PARTITIONS "/%s/uevent", name);
    if (len < 0 || (size_t)len >= sizeof(path) || !file_text(path, event, sizeof(event)) ||
        !text_value(event, "\n", "PARTNAME", label, sizeof(label)) ||
        (strcmp(label, "svc-root-a") != 0 && strcmp(label, "svc-root-b") != 0)) {
        return false;
    }
    slot.letter = label[strlen(label) - 1];
    len = snprintf(slot.device, sizeof(slot.device), "/dev/%s", name);
    char footer[SLOT_FOOTER];
    if (len < 0 || (size_t)len >= sizeof(slot.device) || !footer_read(slot.device, &slot.sectors, footer) ||
        !slot_footer_names(footer, slot.sectors, release)) {
        return false;
    }
    *ret_slot = slot;
    return true;
}

bool slot_find(const struct release *release, struct slot *ret_slot)
{
    DIR *folder = opendir(PARTITIONS);
    if (folder == NULL) {
        return false;
    }
    bool found = false;
    const struct dirent *entry = NULL;
    while (!found && (entry = readdir(folder)) != NULL) {
        found = entry->d_name[0] != '.' && slot_look(entry->d_name, release, ret_slot);
    }
    (void)closedir(folder);
    return found;
}
