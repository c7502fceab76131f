#include "appliance/machine/verity.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CONTROL       "/dev/mapper/control"
#define SPACE         4096 /* header, target and its parameters */
#define SECTORS_BLOCK (VERITY_BLOCK / 512)
#define LOOP_TRIES    16

/* dm-ioctl's one message: header, then what belongs to it. */
struct dm_message {
    alignas(struct dm_ioctl) uint8_t bytes[SPACE];
};

static struct dm_ioctl *message_begin(struct dm_message *message, const char *name, uint32_t flags)
{
    *message = (struct dm_message){ 0 };
    struct dm_ioctl *head = (struct dm_ioctl *)message->bytes;
    head->version[0] = DM_VERSION_MAJOR;
    head->data_size = SPACE;
    head->data_start = sizeof(*head);
    head->flags = flags;
    memcpy(head->name, name, strlen(name)); /* checked: name_ok */
    return head;
}

static bool name_ok(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t len = strlen(name);
    return len > 0 && len <= VERITY_NAME_MAX && strspn(name, allowed) == len;
}

static bool hex_ok(const char *text, size_t least, size_t most)
{
    size_t len = strlen(text);
    return len >= least && len <= most && strspn(text, "0123456789abcdef") == len;
}

static bool spec_ok(const struct verity_spec *spec)
{
    return spec->blocks > 0 && spec->blocks <= UINT64_MAX / VERITY_BLOCK && spec->hash_start >= spec->blocks &&
           hex_ok(spec->root_hash, 64, 64) && (strcmp(spec->salt, "-") == 0 || hex_ok(spec->salt, 2, 512)) &&
           strchr(spec->device, ' ') == NULL;
}

/* "1 DEV DEV 4096 4096 BLOCKS START sha256 ROOT SALT" */
static struct fault target_fill(struct dm_ioctl *head, const struct verity_spec *spec)
{
    struct dm_target_spec *target = (struct dm_target_spec *)((uint8_t *)head + head->data_start);
    char *params = (char *)(target + 1);
    size_t room = SPACE - head->data_start - sizeof(*target);
    head->target_count = 1;
    target->length = spec->blocks * SECTORS_BLOCK;
    memcpy(target->target_type, "verity", sizeof("verity"));
    int len = snprintf(params, room, "1 %s %s %d %d %llu %llu sha256 %s %s", spec->device, spec->device, VERITY_BLOCK,
                       VERITY_BLOCK, (unsigned long long)spec->blocks, (unsigned long long)spec->hash_start,
                       spec->root_hash, spec->salt);
    REQUIRE(len > 0 && (size_t)len < room, TOO_LARGE);
    return OK;
}

static struct fault map_ioctl(struct op *op, int control, unsigned long request, void *message, const char *what)
{
    if (ioctl(control, request, message) != 0) {
        return op_fail(op, FAULT(IO), "device-mapper refuses to %s: %s", what, strerrordesc_np(errno));
    }
    return OK;
}

static struct fault control_open(struct op *op, int *ret_fd)
{
    int fd = open(CONTROL, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return op_fail(op, FAULT(UNSUPPORTED), "this kernel has no device-mapper: %s", strerrordesc_np(errno));
    }
    *ret_fd = fd;
    return OK;
}

static struct fault map_load(struct op *op, int control, const char *name, const struct verity_spec *spec)
{
    struct dm_message message;
    struct dm_ioctl *head = message_begin(&message, name, DM_READONLY_FLAG);
    TRY(target_fill(head, spec));
    TRY(map_ioctl(op, control, DM_TABLE_LOAD, head, "load the verity table"));
    head = message_begin(&message, name, 0);
    return map_ioctl(op, control, DM_DEV_SUSPEND, head, "start the verity device");
}

struct fault verity_open(struct op *op, const char *name, const struct verity_spec *spec, const char **ret_device)
{
    if (!name_ok(name) || !spec_ok(spec)) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the parameters of the verity device are malformed");
    }
    CLEANUP(fd_closep) int control = -1;
    TRY(control_open(op, &control));
    struct dm_message message;
    struct dm_ioctl *head = message_begin(&message, name, DM_READONLY_FLAG);
    TRY(map_ioctl(op, control, DM_DEV_CREATE, head, "make the verity device"));
    unsigned number = minor(head->dev);
    struct fault loaded = map_load(op, control, name, spec);
    if (FAULTED(loaded)) {
        head = message_begin(&message, name, 0);
        (void)ioctl(control, DM_DEV_REMOVE, head);
        return loaded;
    }
    return arena_printf(op->arena, ret_device, "/dev/dm-%u", number);
}

struct fault mapped_remove(struct op *op, const char *name, bool deferred)
{
    REQUIRE(name_ok(name), BAD_ARGUMENT);
    CLEANUP(fd_closep) int control = -1;
    TRY(control_open(op, &control));
    struct dm_message message;
    struct dm_ioctl *head = message_begin(&message, name, deferred ? DM_DEFERRED_REMOVE : 0);
    if (ioctl(control, DM_DEV_REMOVE, head) != 0 && errno != ENXIO) {
        return op_fail(op, FAULT(IO), "device-mapper refuses to remove %s: %s", name, strerrordesc_np(errno));
    }
    return OK;
}

struct fault verity_close(struct op *op, const char *name)
{
    return mapped_remove(op, name, true);
}

/* ---- loop ---- */

static struct fault loop_take(struct op *op, int control, int file, uint64_t offset, uint64_t size,
                              unsigned *ret_number)
{
    for (unsigned i = 0; i < LOOP_TRIES; i++) { /* somebody else may take the free one first */
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0) {
            return op_fail(op, FAULT(IO), "no loop device is free: %s", strerrordesc_np(errno));
        }
        char path[32];
        (void)snprintf(path, sizeof(path), "/dev/loop%d", number);
        CLEANUP(fd_closep) int loop = open(path, O_RDWR | O_CLOEXEC);
        struct loop_config config = {
            .fd = (uint32_t)file,
            .block_size = VERITY_BLOCK,
            .info = { .lo_flags = LO_FLAGS_READ_ONLY, .lo_offset = offset, .lo_sizelimit = size },
        };
        if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config) == 0) {
            *ret_number = (unsigned)number;
            return OK;
        }
        if (loop < 0 || errno != EBUSY) {
            return op_fail(op, FAULT(IO), "%s does not take the file: %s", path, strerrordesc_np(errno));
        }
    }
    return op_fail(op, FAULT(SATURATED), "no loop device could be had");
}

struct fault loop_open_part(struct op *op, int file, uint64_t offset, uint64_t size, const char **ret_device)
{
    CLEANUP(fd_closep) int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) {
        return op_fail(op, FAULT(IO), "cannot open /dev/loop-control: %s", strerrordesc_np(errno));
    }
    unsigned number = 0;
    TRY(loop_take(op, control, file, offset, size, &number));
    return arena_printf(op->arena, ret_device, "/dev/loop%u", number);
}

struct fault loop_close(struct op *op, const char *device)
{
    CLEANUP(fd_closep) int loop = open(device, O_RDONLY | O_CLOEXEC);
    if (loop < 0 || (ioctl(loop, LOOP_CLR_FD, 0) != 0 && errno != ENXIO)) {
        return op_fail(op, FAULT(IO), "cannot give %s back: %s", device, strerrordesc_np(errno));
    }
    return OK;
}
