#include "api/snapshot/internal.h"

#include "appliance/base/failpoint.h"
#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY ".read-model.new" /* one writer at a time: it has the lock */
#define PREFIX    "read-model-"
#define SUFFIX    ".snapshot"
#define DIGITS    20
#define FILES_MAX 4096

static struct fault unusable(struct op *op, const char *what, int error)
{
    op_note_log(op, "%s: errno %d", what, error);
    return op_fail(op, FAULT(SNAPSHOT_DIR), "snapshots.dir: %s%s", what,
                   error == ENOSPC || error == EDQUOT ? ": no space is left" : "");
}

struct fault snapshot_folder_open(struct op *op, const struct config *config, int *ret_fd)
{
    struct stat status;
    if (config->snapshots_dir == NULL || config->snapshots_dir[0] != '/') {
        return unusable(op, "it is not set to an absolute path", 0);
    }
    CLEANUP(fd_closep) int fd = open(config->snapshots_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return unusable(op,
                        errno == ENOENT ? "there is none; make it, owned by the user that svc-api runs as"
                                        : "it cannot be opened",
                        errno);
    }
    if (fstat(fd, &status) != 0 || status.st_uid != geteuid()) {
        return unusable(op, "it must belong to the user that svc-api runs as", 0);
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return unusable(op, "group or others may write to it; chmod go-w", 0);
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}

struct fault snapshot_folder_lock(struct op *op, const struct config *config, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = -1;
    TRY(snapshot_folder_open(op, config, &fd));
    BUG_IF(fd < 0);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return op_fail(op, FAULT(CONFLICT), "a snapshot is being written at this moment");
    }
    snapshot_drop(fd);
    *ret_fd = fd;
    fd = -1;
    return OK;
}

void snapshot_name(uint64_t checkpoint, char out[SNAPSHOT_FILE_NAME_MAX])
{
    (void)snprintf(out, SNAPSHOT_FILE_NAME_MAX, PREFIX "%020llu" SUFFIX, (unsigned long long)checkpoint);
}

static bool name_read(const char *name, uint64_t *ret_checkpoint)
{
    char again[SNAPSHOT_FILE_NAME_MAX];
    uint64_t number = 0;
    if (strlen(name) != strlen(PREFIX) + DIGITS + strlen(SUFFIX)) {
        return false;
    }
    for (size_t i = 0; i < DIGITS; i++) {
        char c = name[strlen(PREFIX) + i];
        if (c < '0' || c > '9' || number > UINT64_MAX / 10) {
            return false;
        }
        number = number * 10 + (uint64_t)(c - '0');
    }
    snapshot_name(number, again);
    *ret_checkpoint = number;
    return strcmp(again, name) == 0;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first < second) - (first > second);
}

struct fault snapshot_folder_list(struct op *op, int folder, uint64_t **ret_checkpoints, size_t *ret_count)
{
    uint64_t *found = NULL;
    size_t count = 0;
    TRY(arena_take(op->arena, FILES_MAX, sizeof(*found), &found));
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        fd_close(fd);
        return unusable(op, "it cannot be listed", errno);
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL && count < FILES_MAX; entry = readdir(dir)) {
        count += name_read(entry->d_name, &found[count]);
    }
    (void)closedir(dir);
    qsort(found, count, sizeof(*found), newest_first);
    *ret_checkpoints = found;
    *ret_count = count;
    return OK;
}

struct fault snapshot_temporary(struct op *op, int folder, int *ret_fd)
{
    int fd = openat(folder, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return unusable(op, "no file can be made in it", errno);
    }
    *ret_fd = fd;
    return OK;
}

void snapshot_drop(int folder)
{
    (void)unlinkat(folder, TEMPORARY, 0);
}

struct fault snapshot_keep(struct op *op, int folder, int fd, uint64_t checkpoint)
{
    char name[SNAPSHOT_FILE_NAME_MAX];
    snapshot_name(checkpoint, name);
    FAILPOINT("snapshot.before_sync");
    if (fchmod(fd, 0600) != 0 || fsync(fd) != 0) {
        return unusable(op, "the snapshot cannot be written", errno);
    }
    FAILPOINT("snapshot.before_rename");
    if (renameat(folder, TEMPORARY, folder, name) != 0 || fsync(folder) != 0) {
        return unusable(op, "the snapshot cannot be written", errno);
    }
    FAILPOINT("snapshot.after_rename");
    return OK;
}

/* As far as the file system writes in place; it is not held up by one that does not. */
static void overwrite(int folder, const char *name)
{
    static const uint8_t zeros[1 << 16];
    struct stat status;
    CLEANUP(fd_closep) int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return;
    }
    for (off_t left = status.st_size; left > 0;) {
        ssize_t put = write(fd, zeros, left < (off_t)sizeof(zeros) ? (size_t)left : sizeof(zeros));
        if (put <= 0) {
            break;
        }
        left -= put;
    }
    (void)fsync(fd);
}

struct fault snapshot_remove(struct op *op, int folder, uint64_t checkpoint)
{
    char name[SNAPSHOT_FILE_NAME_MAX];
    snapshot_name(checkpoint, name);
    overwrite(folder, name);
    if ((unlinkat(folder, name, 0) != 0 && errno != ENOENT) || fsync(folder) != 0) {
        return unusable(op, "a snapshot cannot be removed", errno);
    }
    return OK;
}

utc_us snapshot_time(int folder, uint64_t checkpoint)
{
    struct stat status;
    char name[SNAPSHOT_FILE_NAME_MAX];
    snapshot_name(checkpoint, name);
    return fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0
               ? (utc_us)status.st_mtim.tv_sec * 1000000 + status.st_mtim.tv_nsec / 1000
               : 0;
}
