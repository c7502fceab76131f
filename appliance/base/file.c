#include "appliance/base/file.h"

#include "appliance/base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_CHUNK ((size_t)16384)

void fd_close(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* Straight into `out`: no copy of what may be a secret stays on the stack. */
static struct fault read_all(int fd, struct buf *out)
{
    for (;;) {
        size_t room = out->max - out->len;
        uint8_t *at = NULL, beyond;
        size_t want = room < READ_CHUNK ? room : READ_CHUNK, before = out->len;
        TRY(buf_reserve(out, want, &at));
        ssize_t got = read(fd, want > 0 ? at : &beyond, want > 0 ? want : 1);
        out->len = before + (got > 0 && want > 0 ? (size_t)got : 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        REQUIRE(got >= 0, IO);
        if (got == 0) {
            return OK;
        }
        REQUIRE(want > 0, TOO_LARGE);
    }
}

struct fault file_read(const char *path, struct buf *out)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR ? FAULT(NOT_FOUND) : FAULT(IO);
    }
    size_t before = out->len;
    struct fault fault = read_all(fd, out);
    if (FAULTED(fault) && out->at != NULL) {
        secret_wipe(out->at + before, out->len - before);
        out->len = before;
    }
    return fault;
}

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

static struct fault sync_parent(const char *path)
{
    char folder[4096];
    int len = snprintf(folder, sizeof(folder), "%s", path);
    REQUIRE(len > 0 && (size_t)len < sizeof(folder), TOO_LARGE);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        (void)snprintf(folder, sizeof(folder), ".");
    } else {
        slash[slash == folder ? 1 : 0] = 0;
    }
    CLEANUP(fd_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fd >= 0 && fsync(fd) == 0, IO);
    return OK;
}

static struct fault write_temporary(const char *temporary, struct span bytes, mode_t mode)
{
    CLEANUP(fd_closep) int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    REQUIRE(fd >= 0, IO);
    REQUIRE(fchmod(fd, mode) == 0, IO); /* not what the umask left of it */
    TRY(write_all(fd, bytes));
    REQUIRE(fsync(fd) == 0, IO);
    return OK;
}

struct fault file_write(const char *path, struct span bytes, mode_t mode)
{
    static atomic_uint writes; /* two threads may write the same path; the later rename wins, whole */
    char temporary[4096];
    int len =
        snprintf(temporary, sizeof(temporary), "%s.new.%ld.%u", path, (long)getpid(), atomic_fetch_add(&writes, 1));
    REQUIRE(len > 0 && (size_t)len < sizeof(temporary), TOO_LARGE);
    struct stat status;
    if (lstat(path, &status) == 0) {
        /* never a device or folder in its place */
        REQUIRE(S_ISREG(status.st_mode) || S_ISLNK(status.st_mode), IO);
    }
    (void)unlink(temporary);
    struct fault fault = write_temporary(temporary, bytes, mode);
    if (!FAULTED(fault) && rename(temporary, path) != 0) {
        fault = FAULT(IO);
    }
    if (FAULTED(fault)) {
        (void)unlink(temporary);
        return fault;
    }
    return sync_parent(path);
}

struct fault file_make_dirs(const char *path, mode_t mode)
{
    char partial[4096];
    int len = snprintf(partial, sizeof(partial), "%s", path);
    REQUIRE(len > 0, BAD_ARGUMENT);
    REQUIRE((size_t)len < sizeof(partial), TOO_LARGE);
    for (char *at = partial + 1;; at++) {
        if (*at != '/' && *at != 0) {
            continue;
        }
        char kept = *at;
        *at = 0;
        if (mkdir(partial, 0700) == 0) {
            REQUIRE(chmod(partial, mode) == 0, IO); /* the umask, and mkdir's own silence about setgid */
        } else {
            struct stat status;
            REQUIRE(errno == EEXIST && stat(partial, &status) == 0 && S_ISDIR(status.st_mode), IO);
        }
        *at = kept;
        if (kept == 0) {
            return OK;
        }
    }
}
