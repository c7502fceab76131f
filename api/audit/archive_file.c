#include "api/audit/archive.h"

#include "appliance/base/failpoint.h"
#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY  ".audit-archive.new" /* one writer at a time: it has the lock */
#define READ_CHUNK ((size_t)1 << 20)

static struct fault unusable(struct op *op, const char *what, int error)
{
    op_note_log(op, "%s: errno %d", what, error);
    return op_fail(op, FAULT(AUDIT_ARCHIVE_DIR), "the archive folder: %s%s", what,
                   error == ENOSPC || error == EDQUOT ? ": no space is left" : "");
}

/* ---- folders ---- */

static struct fault check_folder(struct op *op, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISDIR(status.st_mode)) {
        return unusable(op, "it is no folder", errno);
    }
    if (status.st_uid != geteuid()) {
        return unusable(op, "it must belong to the user that svc-api runs as", 0);
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        return unusable(op, "group or others may write to it; chmod go-w", 0);
    }
    return OK;
}

static struct fault open_folder(struct op *op, int above, const char *path, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = openat(above, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return unusable(op,
                        errno == ENOENT ? "there is none; make it, owned by the user that svc-api runs as"
                                        : "it cannot be opened",
                        errno);
    }
    TRY(check_folder(op, fd));
    *ret_fd = fd;
    fd = -1;
    return OK;
}

struct fault archive_folder_check(struct op *op, const char *dir)
{
    CLEANUP(fd_closep) int fd = -1;
    TRY(open_folder(op, AT_FDCWD, dir, &fd));
    return faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) == 0 ? OK : unusable(op, "it is not writable", errno);
}

struct fault archive_folder_open(struct op *op, const char *dir, int *ret_fd)
{
    CLEANUP(fd_closep) int above = -1;
    TRY(open_folder(op, AT_FDCWD, dir, &above));
    if (mkdirat(above, op->tenant.text, 0700) == 0) {
        if (fsync(above) != 0) {
            return unusable(op, "it cannot be synced", errno);
        }
    } else if (errno != EEXIST) {
        return unusable(op, "the tenant's folder cannot be made", errno);
    }
    return open_folder(op, above, op->tenant.text, ret_fd);
}

struct fault archive_folder_sweep(struct op *op, int folder)
{
    if (unlinkat(folder, TEMPORARY, 0) != 0 && errno != ENOENT) {
        return unusable(op, "what an earlier run left cannot be removed", errno);
    }
    return OK;
}

static struct fault find(DIR *dir, int64_t after, int64_t *ret_sequence)
{
    int64_t lowest = 0, sequence = 0;
    errno = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (archive_name_read(entry->d_name, &sequence) && sequence > after && (lowest == 0 || sequence < lowest)) {
            lowest = sequence;
        }
    }
    REQUIRE(errno == 0, IO);
    *ret_sequence = lowest;
    return OK;
}

struct fault archive_file_find(struct op *op, int folder, int64_t after, int64_t *ret_sequence)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        fd_close(fd);
        return unusable(op, "it cannot be listed", errno);
    }
    struct fault fault = find(dir, after, ret_sequence);
    (void)closedir(dir);
    return FAULTED(fault) ? unusable(op, "it cannot be listed", errno) : OK;
}

/* ---- files ---- */

static struct fault write_all(int fd, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(fd, bytes.at, bytes.len);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        REQUIRE(put > 0, IO);
        bytes = span_of(bytes.at + put, bytes.len - (size_t)put);
    }
    return OK;
}

static struct fault write_temporary(int folder, struct span bytes)
{
    CLEANUP(fd_closep) int fd = openat(folder, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && fchmod(fd, 0600) == 0, IO);
    TRY(write_all(fd, bytes));
    FAILPOINT("audit.archive.before_sync");
    REQUIRE(fsync(fd) == 0, IO);
    return OK;
}

struct fault archive_file_write(struct op *op, int folder, const char *name, struct span bytes)
{
    struct stat status;
    if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        return unusable(op, "a file of the new archive's name is there already", EEXIST);
    }
    struct fault fault = write_temporary(folder, bytes);
    if (!FAULTED(fault)) {
        FAILPOINT("audit.archive.after_write");
        fault = renameat(folder, TEMPORARY, folder, name) == 0 ? OK : FAULT(IO);
    }
    if (FAULTED(fault)) {
        int error = errno;
        (void)unlinkat(folder, TEMPORARY, 0);
        return unusable(op, "the archive file cannot be written", error);
    }
    if (fsync(folder) != 0) {
        return unusable(op, "it cannot be synced", errno);
    }
    return OK;
}

static struct fault invalid(struct op *op, const char *name, const char *what)
{
    return op_fail(op, FAULT(AUDIT_ARCHIVE_INVALID), "%s/%s: %s", op->tenant.text, name, what);
}

static struct fault read_into(int fd, size_t size, struct buf *out)
{
    while (out->len < size) {
        uint8_t *at = NULL;
        size_t want = size - out->len < READ_CHUNK ? size - out->len : READ_CHUNK, before = out->len;
        TRY(buf_reserve(out, want, &at));
        ssize_t got = read(fd, at, want);
        out->len = before + (got > 0 ? (size_t)got : 0);
        REQUIRE(got > 0 || (got < 0 && errno == EINTR), IO);
    }
    uint8_t beyond;
    REQUIRE(read(fd, &beyond, 1) == 0, IO);
    return OK;
}

struct fault archive_file_read(struct op *op, int folder, const char *name, struct buf *out)
{
    CLEANUP(fd_closep) int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status;
    if (fd < 0) {
        return invalid(op, name, errno == ENOENT ? "the file is not there" : "the file cannot be opened");
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_size < 0 ||
        (uint64_t)status.st_size > ARCHIVE_FILE_MAX) {
        return invalid(op, name, "this is no archive file that this service wrote");
    }
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* what was synced is read from the disk again */
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return invalid(op, name, "others than its owner may use it; chmod 0600");
    }
    struct fault fault = read_into(fd, (size_t)status.st_size, out);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    return FAULTED(fault) ? invalid(op, name, "the file cannot be read") : OK;
}

const char *archive_file_state(const char *dir, const char *locator, int64_t bytes)
{
    struct stat status;
    CLEANUP(fd_closep) int fd = dir[0] != '\0' ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return "unknown";
    }
    if (fstatat(fd, locator, &status, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT || errno == ENOTDIR ? "missing" : "unknown";
    }
    return S_ISREG(status.st_mode) && status.st_size == bytes ? "present" : "size_differs";
}
