#include "appliance/base/file.h"
#include "appliance/stores/confine_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ABI_OF_USE 3 /* before, files could not be moved between folders, or were truncated by anybody */

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define CHANGING                                                                                      \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |       \
     LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE)
/* Nobody gets these, anywhere. */
#define NEVER                                                                                      \
    (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | \
     LANDLOCK_ACCESS_FS_MAKE_SYM)
#define RUNNING (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE)
#define OF_FILES                                                                                  \
    (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE | \
     LANDLOCK_ACCESS_FS_EXECUTE)

int files_abi(void)
{
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    return abi >= ABI_OF_USE ? abi : 0;
}

/* What a kernel of this ABI does not know must not be asked for. */
static struct landlock_ruleset_attr handled_by(const struct confine *confine, int abi)
{
    struct landlock_ruleset_attr attr = { .handled_access_fs = CHANGING | NEVER };
    attr.handled_access_fs |= confine->read != NULL ? READING : 0;
    attr.handled_access_fs |= confine->run != NULL ? LANDLOCK_ACCESS_FS_EXECUTE : 0;
    attr.handled_access_fs |= abi >= 5 ? LANDLOCK_ACCESS_FS_IOCTL_DEV : 0;
    if (abi >= 4) {
        bool closed = (confine->flags & (CONFINE_NO_CONNECT | CONFINE_NO_NETWORK)) != 0;
        attr.handled_access_net = closed ? LANDLOCK_ACCESS_NET_CONNECT_TCP : 0;
        attr.handled_access_net |= closed || confine->port_count > 0 ? LANDLOCK_ACCESS_NET_BIND_TCP : 0;
    }
    attr.scoped = abi >= 6 ? LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL : 0;
    return attr;
}

/* A path that does not exist needs no rule. */
static bool allow(int rules, uint64_t handled, const char *path, uint64_t access)
{
    CLEANUP(fd_closep) int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat status;
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR;
    }
    if (fstat(fd, &status) != 0) {
        return false;
    }
    struct landlock_path_beneath_attr attr = { .allowed_access = access & handled, .parent_fd = fd };
    attr.allowed_access &= S_ISDIR(status.st_mode) ? UINT64_MAX : (uint64_t)OF_FILES;
    return attr.allowed_access == 0 || syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) == 0;
}

static bool allow_each(int rules, uint64_t handled, const char *const *paths, uint64_t access)
{
    for (; paths != NULL && *paths != NULL; paths++) {
        if (!allow(rules, handled, *paths, access)) {
            return false;
        }
    }
    return true;
}

static bool allow_ports(int rules, uint64_t handled, const struct confine *confine)
{
    for (size_t i = 0; (handled & LANDLOCK_ACCESS_NET_BIND_TCP) != 0 && i < confine->port_count; i++) {
        struct landlock_net_port_attr attr = { .allowed_access = LANDLOCK_ACCESS_NET_BIND_TCP,
                                               .port = confine->ports[i] };
        if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_NET_PORT, &attr, 0) != 0) {
            return false;
        }
    }
    return true;
}

bool files_enter(const struct confine *confine)
{
    const struct landlock_ruleset_attr attr = handled_by(confine, files_abi());
    CLEANUP(fd_closep) int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    uint64_t files = attr.handled_access_fs;
    bool shm = (confine->flags & CONFINE_OWN_SHM) != 0;
    return rules >= 0 && allow_each(rules, files, confine->read, READING) &&
           allow_each(rules, files, confine->write, READING | CHANGING) &&
           allow_each(rules, files, confine->run, RUNNING) &&
           (!shm || allow(rules, files, "/dev/shm", READING | CHANGING)) &&
           allow(rules, files, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE) &&
           allow_ports(rules, attr.handled_access_net, confine) && syscall(SYS_landlock_restrict_self, rules, 0) == 0;
}
