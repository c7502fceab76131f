#include "appliance/base/file.h"
#include "appliance/supervisor/hardening_facts.h"

#include <ftw.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define MOUNTS_MAX_BYTES ((size_t)1 << 20)
#define FOLDERS_OPEN     32

/* nftw takes no argument of ours; this command has one thread. */
static struct walk {
    struct op *op;
    const char *root, *mounts; /* mountinfo of this process */
    struct texts *files;
    struct fault first;
} walk;

static bool is_mount_point(const char *path)
{
    char wanted[4200];
    (void)snprintf(wanted, sizeof(wanted), " %s ", path);
    const char *at = strstr(walk.mounts, wanted);
    return at != NULL && strcmp(path, "/") != 0;
}

static const char *lends(const char *path, mode_t mode)
{
    if ((mode & S_ISUID) != 0) {
        return "set-user-ID";
    }
    if ((mode & S_ISGID) != 0) {
        return "set-group-ID";
    }
    return lgetxattr(path, "security.capability", NULL, 0) > 0 ? "capabilities" : NULL;
}

static int visit(const char *path, const struct stat *about, int type, struct FTW *place)
{
    (void)place;
    if (type == FTW_D && strcmp(path, walk.root) != 0 && is_mount_point(path)) {
        return FTW_SKIP_SUBTREE;
    }
    const char *how = type == FTW_F && S_ISREG(about->st_mode) ? lends(path, about->st_mode) : NULL;
    if (how == NULL || FAULTED(walk.first)) {
        return FTW_CONTINUE;
    }
    const char *text = NULL;
    walk.first = arena_printf(walk.op->arena, &text, "%s (%s)", path, how);
    if (!FAULTED(walk.first)) {
        walk.first = texts_add(walk.op, walk.files, text);
    }
    return FTW_CONTINUE;
}

struct fault privileged_files(struct op *op, const char *root, struct texts *files)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MOUNTS_MAX_BYTES);
    TRY(file_read("/proc/self/mountinfo", &text));
    walk = (struct walk){ .op = op, .root = root, .files = files };
    TRY(buf_cstr(&text, &walk.mounts));
    int rc = nftw(root, visit, FOLDERS_OPEN, FTW_PHYS | FTW_MOUNT | FTW_ACTIONRETVAL);
    TRY(walk.first);
    return rc == 0 ? OK : op_fail(op, FAULT(IO), "cannot look through %s", root);
}

struct fault capability_text(struct op *op, unsigned capability, const char **ret_text)
{
    static const char *const names[] = {
        "chown",
        "dac_override",
        "dac_read_search",
        "fowner",
        "fsetid",
        "kill",
        "setgid",
        "setuid",
        "setpcap",
        "linux_immutable",
        "net_bind_service",
        "net_broadcast",
        "net_admin",
        "net_raw",
        "ipc_lock",
        "ipc_owner",
        "sys_module",
        "sys_rawio",
        "sys_chroot",
        "sys_ptrace",
        "sys_pacct",
        "sys_admin",
        "sys_boot",
        "sys_nice",
        "sys_resource",
        "sys_time",
        "sys_tty_config",
        "mknod",
        "lease",
        "audit_write",
        "audit_control",
        "setfcap",
        "mac_override",
        "mac_admin",
        "syslog",
        "wake_alarm",
        "block_suspend",
        "audit_read",
        "perfmon",
        "bpf",
        "checkpoint_restore",
    };
    static_assert(COUNT_OF(names) == CAP_CHECKPOINT_RESTORE + 1);
    return capability < COUNT_OF(names) ? arena_printf(op->arena, ret_text, "cap_%s", names[capability])
                                        : arena_printf(op->arena, ret_text, "cap_%u", capability);
}
