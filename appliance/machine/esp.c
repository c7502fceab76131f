#include "appliance/machine/esp.h"

#include "appliance/base/file.h"
#include "appliance/base/hashed_file.h"
#include "appliance/machine/disks.h"
#include "appliance/machine/modules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NEW_UKI   "svc-update.new"
#define TRIES_MAX 99u
#define SLACK     ((uint64_t)1 << 20) /* for the folder itself, and blocks that are not full */

static bool take_tries(const char **at, unsigned *ret_tries)
{
    size_t digits = strspn(*at, "0123456789");
    *ret_tries = 0;
    for (size_t i = 0; i < digits && *ret_tries <= TRIES_MAX; i++) {
        *ret_tries = 10 * *ret_tries + (unsigned)((*at)[i] - '0');
    }
    *at += digits;
    return digits > 0 && *ret_tries <= TRIES_MAX;
}

bool esp_entry_parse(const char *name, struct esp_entry *ret_entry)
{
    struct esp_entry entry = { 0 };
    size_t len = strlen(name);
    if (len > ESP_NAME_MAX || strncmp(name, "svc-", 4) != 0) {
        return false;
    }
    const char *at = name + 4 + strspn(name + 4, "0123456789.");
    /* The dot before "efi" is no part of the version. */
    const char *end = strcmp(at, "efi") == 0 && at[-1] == '.' ? at - 1 : at;
    if (FAULTED(version_parse(span_of(name + 4, (size_t)(end - name) - 4), &entry.version))) {
        return false;
    }
    at = end;
    if (*at == '+') {
        at++;
        entry.counted = true;
        if (!take_tries(&at, &entry.left) || (*at == '-' && (at++, !take_tries(&at, &entry.done)))) {
            return false;
        }
    }
    if (strcmp(at, ".efi") != 0) {
        return false;
    }
    memcpy(entry.name, name, len + 1);
    *ret_entry = entry;
    return true;
}

static struct fault path_of(const char *folder, const char *name, char out[512])
{
    int len = snprintf(out, 512, "%s/%s", folder, name);
    REQUIRE(len > 0 && len < 512, TOO_LARGE);
    return OK;
}

struct fault esp_list(struct op *op, const char *folder, struct esp_entries *ret_entries)
{
    struct esp_entries made = { 0 };
    DIR *at = opendir(folder);
    const struct dirent *entry = NULL;
    struct fault fault = OK;
    if (at == NULL) {
        return op_fail(op, FAULT(IO), "the boot entries (%s) cannot be read: %s", folder, strerrordesc_np(errno));
    }
    while (!FAULTED(fault) && (entry = readdir(at)) != NULL) {
        struct esp_entry found;
        if (!esp_entry_parse(entry->d_name, &found)) {
            continue;
        }
        if (made.count == ESP_ENTRIES_MAX) {
            fault = op_fail(op, FAULT(RELEASE_SPACE), "there are more than %d boot entries", ESP_ENTRIES_MAX);
        } else {
            made.at[made.count++] = found;
        }
    }
    (void)closedir(at);
    TRY(fault);
    *ret_entries = made;
    return OK;
}

static struct fault settle(struct op *op, const char *folder)
{
    CLEANUP(fd_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0 || syncfs(fd) != 0) {
        return op_fail(op, FAULT(IO), "the boot entries are not written through: %s", strerrordesc_np(errno));
    }
    return OK;
}

/* The first block of a file on the disk; 0: the file system does not tell, or it has none. */
static int first_block(const char *path)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int block = 0;
    return fd >= 0 && ioctl(fd, FIBMAP, &block) == 0 ? block : 0;
}

/* Does another name of the folder lead to the same blocks? */
static bool goes_by_two_names(const char *folder, const char *name)
{
    char path[512];
    int block = FAULTED(path_of(folder, name, path)) ? 0 : first_block(path);
    DIR *at = block > 0 ? opendir(folder) : NULL;
    const struct dirent *entry = NULL;
    bool shared = false;
    while (at != NULL && (entry = readdir(at)) != NULL) {
        shared = shared || (entry->d_name[0] != '.' && strcmp(entry->d_name, name) != 0 &&
                            !FAULTED(path_of(folder, entry->d_name, path)) && first_block(path) == block);
    }
    if (at != NULL) {
        (void)closedir(at);
    }
    return shared;
}

struct fault esp_remove(struct op *op, const char *folder, const char *name)
{
    char path[512];
    TRY(path_of(folder, name, path));
    if (goes_by_two_names(folder, name)) {
        return OK;
    }
    if (unlink(path) != 0 && errno != ENOENT) {
        return op_fail(op, FAULT(IO), "the boot entry %s cannot be removed: %s", name, strerrordesc_np(errno));
    }
    return settle(op, folder);
}

struct fault esp_tidy(struct op *op, const char *folder)
{
    char path[512];
    TRY(path_of(folder, NEW_UKI, path));
    return access(path, F_OK) == 0 ? esp_remove(op, folder, NEW_UKI) : OK;
}

struct fault esp_check_room(struct op *op, const char *folder, const struct esp_entries *entries, struct version kept,
                            uint64_t size)
{
    struct statvfs room;
    REQUIRE(statvfs(folder, &room) == 0, IO);
    uint64_t free_bytes = (uint64_t)room.f_bavail * room.f_frsize;
    for (size_t i = 0; i < entries->count; i++) {
        struct stat status;
        char path[512];
        TRY(path_of(folder, entries->at[i].name, path));
        if (version_compare(entries->at[i].version, kept) != 0 && stat(path, &status) == 0) {
            free_bytes += (uint64_t)status.st_size;
        }
    }
    if (free_bytes < size + SLACK) {
        return op_fail(op, FAULT(RELEASE_SPACE), "the EFI partition has no room for %llu bytes more",
                       (unsigned long long)size);
    }
    return OK;
}

static struct fault take_bytes(void *arg, struct op *op, struct span bytes)
{
    const int *fd = arg;
    while (bytes.len > 0) {
        ssize_t done = write(*fd, bytes.at, bytes.len);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return op_fail(op, FAULT(IO), "the EFI partition cannot be written: %s", strerrordesc_np(errno));
        }
        bytes = span_of(bytes.at + done, bytes.len - (size_t)done);
    }
    return OK;
}

static struct fault compare(struct op *op, int fd, const struct release_part *part)
{
    CLEANUP(hashed_reader_close) struct hashed_reader reader = { 0 };
    uint8_t bytes[RELEASE_BLOCK];
    struct sha256 got;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    REQUIRE(lseek(fd, 0, SEEK_SET) == 0, IO);
    TRY(hashed_reader_open(fd, FAULT_IO, "boot entry", &reader));
    for (uint64_t left = part->size; left > 0;) {
        size_t len = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
        TRY(hashed_take(op, &reader, bytes, len));
        left -= len;
    }
    TRY(hashed_reader_end(op, &reader));
    TRY(hashed_reader_digest(&reader, &got));
    return span_equal(SPAN_ARRAY(got.at), SPAN_ARRAY(part->sha256.at))
               ? OK
               : op_fail(op, FAULT(IO), "what the EFI partition gives back is not what was written to it");
}

static struct fault write_uki(struct op *op, const char *path, const struct release_file *file)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return op_fail(op, FAULT(IO), "the EFI partition cannot be written: %s", strerrordesc_np(errno));
    }
    TRY(release_read_part(op, file, RELEASE_PART_UKI, take_bytes, &fd));
    if (fsync(fd) != 0) {
        return op_fail(op, FAULT(IO), "the boot entry is not written through: %s", strerrordesc_np(errno));
    }
    return compare(op, fd, &release_manifest(file)->parts[RELEASE_PART_UKI]);
}

struct fault esp_write_uki(struct op *op, const char *folder, const struct release_file *file)
{
    char path[512];
    TRY(path_of(folder, NEW_UKI, path));
    TRY(esp_tidy(op, folder));
    struct fault done = write_uki(op, path, file);
    if (FAULTED(done)) {
        (void)unlink(path);
        return done;
    }
    return settle(op, folder);
}

static struct fault change_name(struct op *op, const char *folder, const char *from, const char *to)
{
    char old[512], new[512];
    TRY(path_of(folder, from, old));
    TRY(path_of(folder, to, new));
    if (access(new, F_OK) == 0) { /* FAT would give away the blocks of what stands there */
        return op_fail(op, FAULT(CONFLICT), "there is a boot entry %s already", to);
    }
    if (rename(old, new) != 0) {
        return op_fail(op, FAULT(IO), "the boot entry %s cannot be made: %s", to, strerrordesc_np(errno));
    }
    return settle(op, folder);
}

struct fault esp_try_uki(struct op *op, const char *folder, struct version version)
{
    char text[VERSION_TEXT_MAX], name[ESP_NAME_MAX + 1];
    version_print(version, text);
    (void)snprintf(name, sizeof(name), "svc-%s+1.efi", text);
    return change_name(op, folder, NEW_UKI, name);
}

struct fault esp_keep(struct op *op, const char *folder, const struct esp_entry *entry)
{
    char text[VERSION_TEXT_MAX], name[ESP_NAME_MAX + 1];
    version_print(entry->version, text);
    (void)snprintf(name, sizeof(name), "svc-%s.efi", text);
    return change_name(op, folder, entry->name, name);
}

struct fault esp_mount(struct op *op, const char *target)
{
    const char *device = NULL;
    TRY(disk_by_partlabel(op, ESP_LABEL, &device));
    IGNORE(module_load(op, "vfat")); /* built in, or there already: mount tells */
    TRY(file_make_dirs(target, 0755));
    (void)umount2(target, MNT_DETACH | UMOUNT_NOFOLLOW); /* of somebody who was killed */
    if (mount(device, target, "vfat", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME, "umask=0077") != 0) {
        return op_fail(op, FAULT(IO), "the EFI partition %s cannot be mounted: %s", device, strerrordesc_np(errno));
    }
    return OK;
}

struct fault esp_unmount(struct op *op, const char *target)
{
    return umount2(target, UMOUNT_NOFOLLOW) == 0
               ? OK
               : op_fail(op, FAULT(IO), "the EFI partition cannot be left: %s", strerrordesc_np(errno));
}
