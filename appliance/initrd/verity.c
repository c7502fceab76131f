#include "appliance/initrd/verity.h"

#include "appliance/initrd/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/dm-ioctl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#define CONTROL     "/dev/mapper/control"
#define DEVICE_NAME "svc-root"

/* One call's memory: the header, and for a table the target and its parameters behind it. */
struct call {
    struct dm_ioctl header;
    struct dm_target_spec target;
    char parameters[1024];
};

static struct call call_new(uint32_t flags)
{
    struct call call = { .header = { .version = { DM_VERSION_MAJOR, 0, 0 },
                                     .data_size = sizeof(call),
                                     .data_start = offsetof(struct call, target),
                                     .flags = flags } };
    (void)snprintf(call.header.name, sizeof(call.header.name), "%s", DEVICE_NAME);
    return call;
}

static void table_fill(struct call *call, const struct slot *slot, const struct release *release)
{
    call->header.target_count = 1;
    call->target.length = release->blocks * (RELEASE_BLOCK / 512);
    (void)snprintf(call->target.target_type, sizeof(call->target.target_type), "verity");
    /* The tree's own first block (its superblock) stands after the data; the command line says what is in it. */
    int len =
        snprintf(call->parameters, sizeof(call->parameters),
                 "1 %s %s %d %d %" PRIu64 " %" PRIu64 " sha256 %s %s 1 panic_on_corruption", slot->device, slot->device,
                 RELEASE_BLOCK, RELEASE_BLOCK, release->blocks, release->blocks + 1, release->roothash, release->salt);
    if (len < 0 || (size_t)len >= sizeof(call->parameters)) {
        stop(0, "the dm-verity table of slot %c is too long", slot->letter);
    }
}

void verity_open(const struct slot *slot, const struct release *release)
{
    int control = open(CONTROL, O_RDWR | O_CLOEXEC);
    if (control < 0) {
        stop(errno, "%s", CONTROL);
    }
    struct call call = call_new(DM_READONLY_FLAG);
    if (ioctl(control, DM_DEV_CREATE, &call) != 0) {
        stop(errno, "a device for the root could not be made");
    }
    if (minor((dev_t)call.header.dev) != 0) {
        stop(0, "another device mapper device is there already");
    }
    call = call_new(DM_READONLY_FLAG);
    table_fill(&call, slot, release);
    if (ioctl(control, DM_TABLE_LOAD, &call) != 0) {
        stop(errno, "dm-verity refused slot %c (%s)", slot->letter, slot->device);
    }
    call = call_new(0);
    if (ioctl(control, DM_DEV_SUSPEND, &call) != 0) { /* without the suspend flag: resume */
        stop(errno, "dm-verity could not start on slot %c (%s)", slot->letter, slot->device);
    }
    (void)close(control);
}

void verity_read_all(const struct release *release)
{
    static char piece[1 << 20];
    int device = open(VERITY_DEVICE, O_RDONLY | O_CLOEXEC);
    if (device < 0) {
        stop(errno, "%s", VERITY_DEVICE);
    }
    uint64_t left = release->blocks * RELEASE_BLOCK;
    while (left > 0) {
        ssize_t got = read(device, piece, left < sizeof(piece) ? (size_t)left : sizeof(piece));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) { /* a changed block is the kernel's panic; this is a disk that cannot read */
            stop(got < 0 ? errno : EIO, "the root cannot be read to its end");
        }
        left -= (uint64_t)got;
    }
    (void)close(device);
}
