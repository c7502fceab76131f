#include "appliance/machine/mounts.h"

#include "appliance/base/file.h"
#include "appliance/machine/status.h"
#include "appliance/stores/process.h"

#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALED          (MS_NOSUID | MS_NODEV | MS_NOEXEC)
#define CHECK_TIMEOUT_S 600
#define TABLE_MAX       ((size_t)64 << 10)
#define LEAVE_MAX       64
#define FSCK_FIXED      1 /* e2fsck: errors were corrected; 2 and above: not without help */

struct mount_row {
    const char *source, *target, *fs;
    unsigned long flags;
    const char *options;
    bool optional; /* a kernel or machine without it is fine */
};

static const struct mount_row EARLY[] = {
    { "proc", "/proc", "proc", SEALED, "hidepid=invisible", false },
    { "sysfs", "/sys", "sysfs", SEALED, NULL, false },
    { "devtmpfs", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755", false },
    { "devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0000", true },
    { "tmpfs", "/dev/shm", "tmpfs", SEALED, "mode=1777,size=128m", false },
    { "tmpfs", "/run", "tmpfs", SEALED, "mode=0755,size=64m", false },
    { "tmpfs", "/run/log", "tmpfs", SEALED, "mode=0700,size=24m", false },
    { "tmpfs", "/tmp", "tmpfs", SEALED, "mode=1777,size=64m", false },
    { "cgroup2", "/sys/fs/cgroup", "cgroup2", SEALED, NULL, true },
    { "efivarfs", "/sys/firmware/efi/efivars", "efivarfs", SEALED, NULL, true },
};

/* A mount point lies on another device than the folder that holds it. */
static bool is_mounted(const char *target)
{
    struct stat here, above;
    char parent[64];
    size_t len = strlen(target);
    while (len > 1 && target[len - 1] != '/') {
        len--;
    }
    if (len >= sizeof(parent)) {
        return false;
    }
    memcpy(parent, target, len);
    parent[len] = '\0';
    return stat(target, &here) == 0 && stat(parent, &above) == 0 && here.st_dev != above.st_dev;
}

static struct fault mount_one(struct op *op, const struct mount_row *row)
{
    if (mkdir(row->target, 0755) != 0 && errno != EEXIST && !row->optional) {
        return op_fail(op, FAULT(IO), "cannot make %s: %s", row->target, strerrordesc_np(errno));
    }
    unsigned long flags = row->flags | (is_mounted(row->target) ? MS_REMOUNT : 0);
    if (mount(row->source, row->target, row->fs, flags, row->options) == 0 || row->optional) {
        return OK;
    }
    return op_fail(op, FAULT(IO), "cannot mount %s: %s", row->target, strerrordesc_np(errno));
}

struct fault mounts_early(struct op *op)
{
    for (size_t i = 0; i < COUNT_OF(EARLY); i++) {
        TRY(mount_one(op, &EARLY[i]));
    }
    return OK;
}

/* ---- the state ---- */

static struct fault state_make(struct op *op, const char *device)
{
    const char *const argv[] = { "/usr/sbin/mke2fs",
                                 "-q",
                                 "-F",
                                 "-t",
                                 "ext4",
                                 "-L",
                                 "state",
                                 "-m",
                                 "1",
                                 "-E",
                                 "lazy_itable_init=1,nodiscard",
                                 device,
                                 NULL };
    CLEANUP(buf_free) struct buf said = BUF_INIT(8192);
    return process_check(op, &(struct process_spec){ .argv = argv }, (struct span){ 0 }, &said);
}

static struct fault state_check(struct op *op, const char *device)
{
    const char *const argv[] = { "/usr/sbin/e2fsck", "-p", device, NULL };
    CLEANUP(buf_free) struct buf said = BUF_INIT(8192);
    int code = 0;
    TRY(process_run(op, &(struct process_spec){ .argv = argv }, (struct span){ 0 }, &said, &code));
    if (code > FSCK_FIXED) {
        op_note_log(op, "e2fsck: %.*s", (int)said.len, (const char *)said.at);
        return op_fail(op, FAULT(IO), "the file system of the state is damaged and was not repaired (e2fsck says %d)",
                       code);
    }
    return OK;
}

static struct fault state_folder(struct op *op, const char *path, mode_t mode)
{
    if ((mkdir(path, mode) != 0 && errno != EEXIST) || chmod(path, mode) != 0) {
        return op_fail(op, FAULT(IO), "cannot make %s: %s", path, strerrordesc_np(errno));
    }
    return OK;
}

struct fault mounts_state(struct op *op, const char *device, bool make)
{
    mono_ns before = op->deadline;
    op->deadline = clock_mono() + CHECK_TIMEOUT_S * NS_PER_S;
    struct fault ready = make ? state_make(op, device) : state_check(op, device);
    op->deadline = before;
    TRY(ready);
    if (mount(device, STATE_DIR, "ext4", SEALED | MS_NOATIME, "errors=remount-ro") != 0) {
        return op_fail(op, FAULT(IO), "cannot mount the state: %s", strerrordesc_np(errno));
    }
    TRY(state_folder(op, PRODUCT_DATA_DIR, 0755));
    return state_folder(op, MACHINE_DIR, 0700);
}

struct fault mounts_medium(struct op *op, const char *device, const char *fs, const char *target, bool writable)
{
    TRY(file_make_dirs(target, 0700));
    unsigned long flags = SEALED | MS_NOATIME | MS_NOSYMFOLLOW | (writable ? MS_SYNCHRONOUS : MS_RDONLY);
    /* What its own super block says about errors does not count, and reading it does not write its journal back. */
    const char *ext4 = writable ? "errors=remount-ro" : "errors=continue,noload";
    if (mount(device, target, fs, flags, strcmp(fs, "ext4") == 0 ? ext4 : NULL) != 0) {
        return op_fail(op, FAULT(IO), "cannot mount %s (%s): %s", device, fs, strerrordesc_np(errno));
    }
    return OK;
}

/* ---- leaving ---- */

static bool leaves(const char *target)
{
    return strcmp(target, "/") != 0 && strcmp(target, "/proc") != 0 && strcmp(target, "/sys") != 0 &&
           strcmp(target, "/dev") != 0;
}

/* The second word of a line of /proc/self/mounts, ended in place. */
static char *mount_target(char *line)
{
    char *from = strchr(line, ' ');
    char *to = from != NULL ? strchr(from + 1, ' ') : NULL;
    if (to == NULL) {
        return NULL;
    }
    *to = '\0';
    return from + 1;
}

void mounts_leave_all(void)
{
    CLEANUP(buf_free) struct buf table = BUF_INIT(TABLE_MAX);
    const char *text = NULL;
    if (FAULTED(file_read("/proc/self/mounts", &table)) || FAULTED(buf_cstr(&table, &text))) {
        return;
    }
    char *targets[LEAVE_MAX], *save = NULL;
    size_t count = 0;
    for (char *line = strtok_r((char *)table.at, "\n", &save); line != NULL && count < LEAVE_MAX;
         line = strtok_r(NULL, "\n", &save)) {
        char *target = mount_target(line);
        if (target != NULL && leaves(target)) {
            targets[count++] = target;
        }
    }
    while (count > 0) {
        const char *target = targets[--count];
        if (umount2(target, UMOUNT_NOFOLLOW) != 0) {
            (void)mount(NULL, target, NULL, MS_REMOUNT | MS_RDONLY | SEALED, NULL);
        }
    }
}
