/*
 * svc-initrd: /init of the appliance image. Finds the slot that holds the release of the signed command line, opens it
 * through dm-verity and hands over to svc-machine in it, which is process 1 from there on. A slot that does not verify
 * is never run: the machine boots again, and after its tries the boot loader takes the release before this one.
 *
 * It reads nothing but the kernel's own files, its lists of modules and the slots' footers, and takes no orders from
 * any of them but the command line.
 */
#include "appliance/initrd/files.h"
#include "appliance/initrd/grow.h"
#include "appliance/initrd/modules.h"
#include "appliance/initrd/release.h"
#include "appliance/initrd/slot.h"
#include "appliance/initrd/stop.h"
#include "appliance/initrd/verity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NEW_ROOT    "/root"
#define FIRST       "/usr/bin/svc-machine"
#define DISK_WAIT_S 60 /* a disk shelf takes its time to spin up */

static void mount_or_stop(const char *what, const char *where, const char *kind, unsigned long flags, const char *data)
{
    if (mount(what, where, kind, flags, data) != 0) {
        stop(errno, "%s could not be mounted on %s", what, where);
    }
}

static void kernel_folders(void)
{
    mount_or_stop("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_or_stop("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC, "mode=0755") != 0 && errno != EBUSY) {
        stop(errno, "/dev could not be mounted");
    }
}

static struct release read_release(void)
{
    char text[4096];
    if (!file_text("/proc/cmdline", text, sizeof(text))) {
        stop(errno, "/proc/cmdline");
    }
    struct release release = { 0 };
    const char *what = NULL;
    if (!release_parse(text, &release, &what)) {
        stop(0, "%s is missing from the kernel's command line, or malformed", what);
    }
    return release;
}

/* The kernel tells of every device that comes; a partition is seen a moment after its disk. */
static int events_open(void)
{
    int events = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = 1 };
    if (events < 0 || bind(events, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        stop(errno, "the kernel's device events cannot be heard");
    }
    return events;
}

static void events_drain(int events)
{
    char event[8192];
    while (recv(events, event, sizeof(event), 0) >= 0 || errno == EINTR || errno == ENOBUFS) {
    }
}

static int64_t now_ms(void)
{
    struct timespec now = { 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static struct slot wait_for_slot(const struct release *release)
{
    struct slot slot = { 0 };
    int events = events_open(); /* before the first look, so that nothing comes in between */
    modules_start();
    int64_t end = now_ms() + (int64_t)DISK_WAIT_S * 1000;
    for (;;) {
        bool loaded = modules_for_devices();
        if (slot_find(release, &slot)) {
            (void)close(events);
            return slot;
        }
        int64_t left = end - now_ms();
        if (left <= 0) {
            stop(0, "no slot (svc-root-a, svc-root-b) of any disk holds release %s with root hash %s", release->version,
                 release->roothash);
        }
        if (!loaded) {
            struct pollfd waiting = { .fd = events, .events = POLLIN };
            (void)poll(&waiting, 1, (int)left);
        }
        events_drain(events);
    }
}

/* The initrd's files are memory that nobody would ever give back. Its root is left without them, and nothing else is
 * there: no folder is followed into another file system. */
static void forget_files(void)
{
    DIR *folder = opendir("/modules");
    if (folder == NULL) {
        return;
    }
    int modules = dirfd(folder);
    const struct dirent *entry = NULL;
    while (modules >= 0 && (entry = readdir(folder)) != NULL) {
        (void)unlinkat(modules, entry->d_name, 0);
    }
    (void)closedir(folder);
    (void)unlink("/init");
}

static void switch_root(void)
{
    static const char *const moved[] = { "/dev", "/proc", "/sys" };
    for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
        char to[64];
        (void)snprintf(to, sizeof(to), NEW_ROOT "%s", moved[i]);
        if (mount(moved[i], to, NULL, MS_MOVE, NULL) != 0) {
            stop(errno, "%s could not be moved to the root", moved[i]);
        }
    }
    if (chdir(NEW_ROOT) != 0 || mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 || chdir("/") != 0) {
        stop(errno, "the root could not be changed");
    }
}

int main(void)
{
    (void)umask(022);
    kernel_folders();
    console_open();
    struct release release = read_release();
    struct slot slot = wait_for_slot(&release);
    say("release %s, slot %c (%s)", release.version, slot.letter, slot.device);
    verity_open(&slot, &release);
    verity_read_all(&release);
    mount_or_stop(VERITY_DEVICE, NEW_ROOT, "squashfs", MS_RDONLY | MS_NOSUID | MS_NODEV, NULL);
    say("the root is verified");
    grow_state(&slot);
    forget_files();
    switch_root();

    char letter[] = "SVC_SLOT=?";
    letter[sizeof(letter) - 2] = slot.letter;
    char device[sizeof("SVC_ROOT_DEVICE=") + sizeof(slot.device)];
    (void)snprintf(device, sizeof(device), "SVC_ROOT_DEVICE=%s", slot.device);
    char path[] = "PATH=/usr/bin:/usr/sbin", language[] = "LANG=C.UTF-8";
    char *const environment[] = { path, language, letter, device, NULL };
    char first[] = FIRST, boot[] = "boot";
    char *const arguments[] = { first, boot, NULL };
    (void)execve(FIRST, arguments, environment);
    stop(errno, "%s could not be started", FIRST);
}
