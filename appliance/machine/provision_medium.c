#include "appliance/machine/provision_medium.h"

#include "appliance/base/file.h"
#include "appliance/machine/disks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a medium's own super block says about errors does not count (it could ask for a panic), and reading one does not
 * write its journal back. */
static const char *mount_options(enum disk_fs fs, enum medium_access access)
{
    switch (fs) {
    case DISK_FS_VFAT:
        return "umask=0077,shortname=mixed,utf8";
    case DISK_FS_ISO9660:
        return "mode=0400,dmode=0500";
    case DISK_FS_EXT4:
        return access == MEDIUM_READ ? "errors=continue,noload" : "errors=remount-ro";
    case DISK_FS_NONE:
        break;
    }
    return "";
}

struct fault medium_open(struct op *op, const char *label, enum medium_access access, struct medium *ret_medium)
{
    struct disk_found found = { 0 };
    TRY(disk_by_fs_label(op, label, &found));
    CLEANUP(medium_close) struct medium medium = MEDIUM_NONE;
    (void)snprintf(medium.device, sizeof(medium.device), "%s", found.device);
    if (mkdir(MEDIUM_MOUNT, 0700) != 0 && errno != EEXIST) {
        return op_fail(op, FAULT(IO), "cannot make %s: %s", MEDIUM_MOUNT, strerrordesc_np(errno));
    }
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOSYMFOLLOW | (access == MEDIUM_READ ? MS_RDONLY : 0);
    if (access == MEDIUM_WRITE && (found.read_only || found.fs == DISK_FS_ISO9660)) {
        return op_fail(op, FAULT(IO), "%s cannot be written to", found.device);
    }
    if (mount(found.device, MEDIUM_MOUNT, disk_fs_text(found.fs), flags, mount_options(found.fs, access)) != 0) {
        return op_fail(op, FAULT(IO), "cannot mount %s (%s): %s", found.device, disk_fs_text(found.fs),
                       strerrordesc_np(errno));
    }
    medium.mounted = true;
    medium.dir = open(MEDIUM_MOUNT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (medium.dir < 0) {
        return op_fail(op, FAULT(IO), "cannot open %s: %s", MEDIUM_MOUNT, strerrordesc_np(errno));
    }
    *ret_medium = medium;
    medium = (struct medium)MEDIUM_NONE;
    return OK;
}

void medium_close(struct medium *medium)
{
    if (medium->mounted && medium->dir >= 0) {
        (void)syncfs(medium->dir);
    }
    fd_close(medium->dir);
    medium->dir = -1;
    if (medium->mounted) {
        (void)umount2(MEDIUM_MOUNT, MNT_DETACH);
        medium->mounted = false;
    }
}

struct fault medium_read(struct op *op, int dir, const char *name, struct buf *out)
{
    struct stat about;
    BUG_IF(strchr(name, '/') != NULL);
    /* O_NONBLOCK: a pipe or a device in its place must not hold us. */
    CLEANUP(fd_closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? FAULT(NOT_FOUND)
                               : op_fail(op, FAULT(CONFIG), "%s cannot be opened: %s", name, strerrordesc_np(errno));
    }
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        return op_fail(op, FAULT(CONFIG), "%s must be a regular file", name);
    }
    while (true) {
        uint8_t chunk[4096];
        ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return op_fail(op, FAULT(IO), "cannot read %s: %s", name, strerrordesc_np(errno));
        }
        struct fault put = buf_put(out, span_of(chunk, (size_t)got));
        explicit_bzero(chunk, sizeof(chunk));
        if (FAULTED(put)) {
            return op_fail(op, put, "%s has more than %zu bytes", name, out->max);
        }
        if (got == 0) {
            return OK;
        }
    }
}

static struct fault write_all(struct op *op, int fd, const char *name, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(fd, bytes.at, bytes.len);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return op_fail(op, FAULT(IO), "cannot write %s: %s", name, strerrordesc_np(errno));
        }
        bytes = span_of(bytes.at + put, bytes.len - (size_t)put);
    }
    return OK;
}

struct fault medium_write(struct op *op, int dir, const char *folder, const char *name, struct span bytes)
{
    char part[80];
    if (mkdirat(dir, folder, 0700) != 0 && errno != EEXIST) {
        return op_fail(op, FAULT(IO), "cannot make the folder %s: %s", folder, strerrordesc_np(errno));
    }
    CLEANUP(fd_closep) int into = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    (void)snprintf(part, sizeof(part), "%s.part", name);
    if (into >= 0) {
        (void)unlinkat(into, part, 0); /* of an interrupted write, or somebody's trap: it is opened by nobody */
    }
    CLEANUP(fd_closep)
    int fd =
        into < 0 ? -1 : openat(into, part, O_WRONLY | O_CREAT | O_EXCL | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0) {
        return op_fail(op, FAULT(IO), "cannot write %s/%s: %s", folder, name, strerrordesc_np(errno));
    }
    TRY(write_all(op, fd, name, bytes));
    if (fsync(fd) != 0 || renameat(into, part, into, name) != 0 || fsync(into) != 0) {
        return op_fail(op, FAULT(IO), "cannot write %s/%s: %s", folder, name, strerrordesc_np(errno));
    }
    return OK;
}
