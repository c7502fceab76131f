#include "appliance/stores/confine_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#define SHM "/dev/shm"

static const unsigned long plain = MS_NOSUID | MS_NODEV | MS_NOEXEC;

static bool is_missing(void)
{
    return errno == ENOENT || errno == ENOTDIR;
}

/* An empty folder, which cannot even be listed, in the place of each. */
static bool hide(const char *const *paths)
{
    for (; paths != NULL && *paths != NULL; paths++) {
        if (mount("none", *paths, "tmpfs", plain | MS_RDONLY, "mode=000,size=4k") != 0 && !is_missing()) {
            return false;
        }
    }
    return true;
}

/* Mount points of their own, so that they can differ from what they lie in. */
static bool set_apart(const char *const *paths)
{
    for (; paths != NULL && *paths != NULL; paths++) {
        if (mount(*paths, *paths, NULL, MS_BIND | MS_REC, NULL) != 0 && !is_missing()) {
            return false;
        }
    }
    return true;
}

static bool make_writable(const char *path)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
        .attr_clr = MOUNT_ATTR_RDONLY,
    };
    return mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof(attr)) == 0 || is_missing();
}

static bool make_all_writable(const char *const *paths)
{
    for (; paths != NULL && *paths != NULL; paths++) {
        if (!make_writable(*paths)) {
            return false;
        }
    }
    return true;
}

static bool own_view(const struct confine *confine)
{
    struct mount_attr closed = { .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID };
    bool shm = (confine->flags & CONFINE_OWN_SHM) != 0 && access(SHM, F_OK) == 0;
    /* What the machine mounts and unmounts later still comes through; what is done here does not leave. */
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 && hide(confine->hide) &&
           set_apart(confine->write) && (!shm || mount("none", SHM, "tmpfs", plain, "mode=1777") == 0) &&
           mount("proc", "/proc", "proc", plain, "hidepid=invisible") == 0 &&
           mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &closed, sizeof(closed)) == 0 &&
           make_all_writable(confine->write) && (!shm || make_writable(SHM));
}

bool view_enter(const struct confine *confine, unsigned parts)
{
    int spaces = 0;
    spaces |= (parts & CONFINE_NETWORK) != 0 && (confine->flags & CONFINE_NO_NETWORK) != 0 ? CLONE_NEWNET : 0;
    spaces |= (parts & CONFINE_IPC) != 0 && (confine->flags & CONFINE_OWN_IPC) != 0 ? CLONE_NEWIPC : 0;
    return ((parts & CONFINE_VIEW) == 0 || own_view(confine)) && (spaces == 0 || unshare(spaces) == 0);
}
