#include "appliance/stores/folder.h"

#include "appliance/base/file.h"
#include "appliance/stores/process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WALK_DEPTH 16 /* descriptors that nftw may hold */

struct fault folder_path(struct op *op, const char *parent, const char *name, const char **ret_path)
{
    return arena_printf(op->arena, ret_path, "%s/%s", parent, name);
}

struct fault folder_own(struct op *op, const char *path, const char *user, const char *group, mode_t mode)
{
    uid_t uid = 0, ignored_uid = 0;
    gid_t gid = 0;
    if (user != NULL) {
        TRY(process_user(op, user, &uid, &gid));
    }
    if (group != NULL) {
        TRY(process_user(op, group, &ignored_uid, &gid)); /* every user of ours has a group of its name */
    }
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return op_fail(op, FAULT(IO), "cannot make the folder %s: %s", path, strerrordesc_np(errno));
    }
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return op_fail(op, FAULT(CONFIG), "%s is not a folder of its own: %s", path, strerrordesc_np(errno));
    }
    /* Owner first: changing it clears the set-group-id bit. */
    if (fchown(fd, uid, gid) != 0 || fchmod(fd, mode) != 0) {
        return op_fail(op, FAULT(IO), "cannot hand %s to its user: %s", path, strerrordesc_np(errno));
    }
    return OK;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    return where->level == 0 ? 0 : remove(path);
}

static struct fault remove_inside(struct op *op, void *arg, int output)
{
    (void)output;
    const char *path = arg;
    if (nftw(path, remove_one, WALK_DEPTH, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) != 0) {
        return op_fail(op, FAULT(IO), "cannot empty %s: %s", path, strerrordesc_np(errno));
    }
    return OK;
}

bool path_exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

struct fault folder_remove(struct op *op, const char *path, const char *user)
{
    struct stat about;
    if (lstat(path, &about) != 0 && errno == ENOENT) {
        return OK;
    }
    if (S_ISDIR(about.st_mode)) {
        /* It may have been left between its making and its change of owner. */
        TRY(folder_own(op, path, user, NULL, 0700));
        TRY(process_as(op, user, remove_inside, (void *)path, NULL));
    }
    if (remove(path) != 0) {
        return op_fail(op, FAULT(IO), "cannot remove %s: %s", path, strerrordesc_np(errno));
    }
    return OK;
}

/* A rename is durable once the folder that holds the name is. */
static struct fault sync_parent(struct op *op, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *parent = NULL;
    TRY(arena_printf(op->arena, &parent, "%.*s", slash != NULL ? (int)(slash - path) : 1, slash != NULL ? path : "."));
    CLEANUP(fd_closep) int fd = open(parent[0] != '\0' ? parent : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) != 0) {
        return op_fail(op, FAULT(IO), "cannot make %s durable: %s", path, strerrordesc_np(errno));
    }
    return OK;
}

struct fault folder_rename(struct op *op, const char *from, const char *to)
{
    if (rename(from, to) != 0) {
        return op_fail(op, FAULT(IO), "cannot rename %s to %s: %s", from, to, strerrordesc_np(errno));
    }
    return sync_parent(op, to);
}
