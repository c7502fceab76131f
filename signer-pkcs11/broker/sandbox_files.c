#include "signer-pkcs11/broker/sandbox.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define CHANGING                                                                                      \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_TRUNCATE)
/* Nobody gets these, anywhere. */
#define NEVER                                                                                    \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define SOCKETS   (LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define FILE_ONLY (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)

static const char *const system_folders[] = { "/usr", "/etc", "/lib", "/lib64", "/dev", "/proc" };
static const char *const module_folders[] = { "/dev", "/run", "/tmp", "/var" };

struct ruleset {
    int fd;
    uint64_t handled;
    struct buf *why;
};

static struct fault refuse(struct buf *why, const char *what, const char *where)
{
    char reason[64];
    if (why != NULL) {
        IGNORE(buf_printf(why, "%s%s: %s", what, where, strerror_r(errno, reason, sizeof(reason))));
    }
    return FAULT(INTERNAL);
}

/* A path that does not exist needs no rule: nothing below it can be opened then either. */
static struct fault allow(const struct ruleset *rules, const char *path, uint64_t access)
{
    CLEANUP(fd_closep) int fd = open(path, O_PATH | O_CLOEXEC);
    struct stat status;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) {
        return OK;
    }
    if (fd < 0 || fstat(fd, &status) != 0) {
        return refuse(rules->why, "cannot look at ", path);
    }
    struct landlock_path_beneath_attr attr = { .allowed_access = access & rules->handled, .parent_fd = fd };
    if (!S_ISDIR(status.st_mode)) {
        attr.allowed_access &= FILE_ONLY;
    }
    if (attr.allowed_access != 0 &&
        syscall(SYS_landlock_add_rule, rules->fd, LANDLOCK_RULE_PATH_BENEATH, &attr, 0) != 0) {
        return refuse(rules->why, "cannot add a Landlock rule for ", path);
    }
    return OK;
}

static struct fault allow_list(const struct ruleset *rules, const char *const *paths, uint64_t access)
{
    for (; paths != NULL && *paths != NULL; paths++) {
        TRY(allow(rules, *paths, access));
    }
    return OK;
}

static struct fault allow_all(const struct ruleset *rules, const struct sandbox_files *files)
{
    const uint64_t both = READING | CHANGING;
    for (size_t i = 0; i < COUNT_OF(system_folders); i++) {
        TRY(allow(rules, system_folders[i], READING));
    }
    for (size_t i = 0; i < SANDBOX_READ_MAX && files->read[i] != NULL; i++) {
        TRY(allow(rules, files->read[i], READING));
    }
    for (size_t i = 0; files->profile == SANDBOX_MODULE && i < COUNT_OF(module_folders); i++) {
        TRY(allow(rules, module_folders[i], both));
    }
    TRY(allow_list(rules, files->more_read, READING));
    TRY(allow_list(rules, files->more_write, both));
    TRY(allow(rules, files->journal, both));
    if (files->token != NULL) {
        TRY(allow(rules, files->token, both));
    }
    return files->socket != NULL ? allow(rules, files->socket, SOCKETS) : OK;
}

/* What a kernel of this ABI does not know must not be asked for. */
static struct landlock_ruleset_attr handled_by(int abi, enum sandbox_profile profile)
{
    struct landlock_ruleset_attr attr = { .handled_access_fs = CHANGING | SOCKETS | NEVER };
    if (profile == SANDBOX_SOFTHSM) {
        attr.handled_access_fs |= READING;
        attr.handled_access_fs |= abi >= 5 ? LANDLOCK_ACCESS_FS_IOCTL_DEV : 0;
        attr.handled_access_net = abi >= 4 ? LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP : 0;
        attr.scoped = abi >= 6 ? LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | LANDLOCK_SCOPE_SIGNAL : 0;
    }
    if (abi < 3) {
        attr.handled_access_fs &= ~(uint64_t)LANDLOCK_ACCESS_FS_TRUNCATE;
    }
    if (abi < 2) {
        attr.handled_access_fs &= ~(uint64_t)LANDLOCK_ACCESS_FS_REFER;
    }
    return attr;
}

struct fault sandbox_files(const struct sandbox_files *files, struct buf *why, int *ret_abi)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return refuse(why, "cannot give up new privileges", "");
    }
    int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (abi < 1) {
        *ret_abi = 0;
        return OK;
    }
    struct landlock_ruleset_attr attr = handled_by(abi, files->profile);
    CLEANUP(fd_closep) int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (fd < 0) {
        return refuse(why, "cannot make a Landlock ruleset", "");
    }
    struct ruleset rules = { .fd = fd, .handled = attr.handled_access_fs, .why = why };
    TRY(allow_all(&rules, files));
    if (syscall(SYS_landlock_restrict_self, fd, 0) != 0) {
        return refuse(why, "cannot enter the Landlock ruleset", "");
    }
    *ret_abi = abi;
    return OK;
}
