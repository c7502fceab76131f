#include "appliance/machine/update_keep.h"

#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define DATABASE  "postgres"
#define UNDER_WAY "postgres.copy"
#define GIVEN_UP  "postgres.given-up"
#define BEFORE    "postgres.before-"
#define DEPTH_MAX 16
#define CHUNK     ((size_t)1 << 20)

static struct fault bad(struct op *op, const char *what, const char *name)
{
    IGNORE(op_fail(op, FAULT(IO), "the database's files cannot be %s (%s: %s)", what, name, strerrordesc_np(errno)));
    return FAULT(IO);
}

static int fd_of(DIR *folder)
{
    int fd = dirfd(folder);
    BUG_IF(fd < 0);
    return fd;
}

static DIR *open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        fd_close(fd);
    }
    return folder;
}

static void close_folder(DIR **folder)
{
    if (*folder != NULL) {
        (void)closedir(*folder);
    }
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* ---- removing ---- */

static struct fault remove_tree(struct op *op, int at, const char *name, unsigned depth)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT) {
        return OK;
    }
    REQUIRE(depth < DEPTH_MAX, TOO_LARGE);
    CLEANUP(close_folder) DIR *folder = open_folder(at, name);
    const struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (!is_dots(entry->d_name)) {
            TRY(remove_tree(op, fd_of(folder), entry->d_name, depth + 1));
        }
    }
    return unlinkat(at, name, AT_REMOVEDIR) == 0 ? OK : bad(op, "removed", name);
}

/* ---- copying: nothing is followed out of the folder, whose owner is not root ---- */

static struct fault copy_bytes(struct op *op, int from, int to, const char *name)
{
    CLEANUP(buf_free) struct buf chunk = BUF_INIT(CHUNK);
    uint8_t *at = NULL;
    TRY(buf_reserve(&chunk, CHUNK, &at));
    for (;;) {
        ssize_t got = read(from, at, CHUNK), put = 0;
        if (got == 0) {
            return OK;
        }
        for (ssize_t done = 0; done < got; done += put) {
            put = write(to, at + done, (size_t)(got - done));
            if (put <= 0) {
                return bad(op, "copied", name);
            }
        }
        if (got < 0) {
            return bad(op, "copied", name);
        }
        if (op_expired(op)) {
            return op_fail(op, FAULT(DEADLINE), "the database is too large to be copied in time");
        }
    }
}

static struct fault copy_file(struct op *op, int from_at, int to_at, const char *name)
{
    struct stat status;
    CLEANUP(fd_closep) int from = openat(from_at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (from < 0 || fstat(from, &status) != 0) {
        return bad(op, "copied", name);
    }
    if (!S_ISREG(status.st_mode)) {
        return OK; /* a socket, at most: of no use to anybody */
    }
    CLEANUP(fd_closep) int to = openat(to_at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0 || fchown(to, status.st_uid, status.st_gid) != 0 || fchmod(to, status.st_mode & 0777) != 0) {
        return bad(op, "copied", name);
    }
    TRY(copy_bytes(op, from, to, name));
    return fsync(to) == 0 ? OK : bad(op, "written through", name);
}

static struct fault copy_tree(struct op *op, int from_at, const char *from_name, int to_at, const char *to_name,
                              unsigned depth)
{
    struct stat status;
    const struct dirent *entry = NULL;
    REQUIRE(depth < DEPTH_MAX, TOO_LARGE);
    CLEANUP(close_folder) DIR *from = open_folder(from_at, from_name);
    if (from == NULL || fstat(fd_of(from), &status) != 0 || mkdirat(to_at, to_name, 0700) != 0) {
        return bad(op, "copied", from_name);
    }
    CLEANUP(fd_closep) int to = openat(to_at, to_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0 || fchown(to, status.st_uid, status.st_gid) != 0 || fchmod(to, status.st_mode & 0777) != 0) {
        return bad(op, "copied", to_name);
    }
    while ((entry = readdir(from)) != NULL) {
        struct stat of;
        if (is_dots(entry->d_name)) {
            continue;
        }
        if (fstatat(fd_of(from), entry->d_name, &of, AT_SYMLINK_NOFOLLOW) != 0) {
            return bad(op, "copied", entry->d_name);
        }
        if (S_ISDIR(of.st_mode)) {
            TRY(copy_tree(op, fd_of(from), entry->d_name, to, entry->d_name, depth + 1));
        } else if (S_ISREG(of.st_mode)) {
            TRY(copy_file(op, fd_of(from), to, entry->d_name));
        }
    }
    return fsync(to) == 0 ? OK : bad(op, "written through", to_name);
}

/* ---- what PID 1 asks for ---- */

static struct fault open_data(struct op *op, const char *data, int *ret_fd)
{
    int fd = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return bad(op, "found", data);
    }
    *ret_fd = fd;
    return OK;
}

static bool is_there(int at, const char *name)
{
    struct stat status;
    return fstatat(at, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

static struct fault change_name(struct op *op, int at, const char *from, const char *to)
{
    return renameat(at, from, at, to) == 0 && fsync(at) == 0 ? OK : bad(op, "put in their place", to);
}

static void name_of(struct version version, char out[64])
{
    char text[VERSION_TEXT_MAX];
    version_print(version, text);
    (void)snprintf(out, 64, BEFORE "%s", text);
}

struct fault update_keep_database(struct op *op, const char *data, struct version before)
{
    CLEANUP(fd_closep) int at = -1;
    char name[64];
    name_of(before, name);
    TRY(open_data(op, data, &at));
    TRY(remove_tree(op, at, UNDER_WAY, 0));
    if (is_there(at, name) || !is_there(at, DATABASE)) {
        return OK;
    }
    TRY(copy_tree(op, at, DATABASE, at, UNDER_WAY, 0));
    return change_name(op, at, UNDER_WAY, name);
}

static struct fault put_back(struct op *op, int at, const char *name)
{
    TRY(remove_tree(op, at, GIVEN_UP, 0));
    if (is_there(at, DATABASE)) { /* not after a cut between the two */
        TRY(change_name(op, at, DATABASE, GIVEN_UP));
    }
    return change_name(op, at, name, DATABASE);
}

struct fault update_keep_settle(struct op *op, const char *data, struct version running)
{
    CLEANUP(fd_closep) int at = -1;
    char mine[64];
    name_of(running, mine);
    TRY(open_data(op, data, &at));
    if (is_there(at, mine)) {
        TRY(put_back(op, at, mine));
    }
    return update_keep_drop(op, data, running);
}

struct fault update_keep_drop(struct op *op, const char *data, struct version running)
{
    CLEANUP(fd_closep) int at = -1;
    char mine[64];
    name_of(running, mine);
    TRY(open_data(op, data, &at));
    CLEANUP(close_folder) DIR *folder = open_folder(AT_FDCWD, data);
    const struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (strcmp(entry->d_name, UNDER_WAY) == 0 || strcmp(entry->d_name, GIVEN_UP) == 0 ||
            (strncmp(entry->d_name, BEFORE, strlen(BEFORE)) == 0 && strcmp(entry->d_name, mine) != 0)) {
            TRY(remove_tree(op, at, entry->d_name, 0));
        }
    }
    return OK;
}

static uint64_t size_of(int at, const char *name, unsigned depth)
{
    CLEANUP(close_folder) DIR *folder = depth < DEPTH_MAX ? open_folder(at, name) : NULL;
    const struct dirent *entry = NULL;
    uint64_t sum = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        struct stat status;
        if (is_dots(entry->d_name) || fstatat(fd_of(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
            continue;
        }
        sum += (uint64_t)status.st_blocks * 512;
        sum += S_ISDIR(status.st_mode) ? size_of(fd_of(folder), entry->d_name, depth + 1) : 0;
    }
    return sum;
}

struct fault update_keep_size(struct op *op, const char *data, uint64_t *ret_bytes)
{
    CLEANUP(fd_closep) int at = -1;
    TRY(open_data(op, data, &at));
    *ret_bytes = size_of(at, DATABASE, 0);
    return OK;
}
