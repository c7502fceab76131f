#include "appliance/machine/modules.h"

#include "appliance/base/file.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <fts.h>
#include <libkmod.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ALIAS_MAX     1024
#define EVENT_MAX     8192
#define EVENTS_AT     64 /* taken at once, so that a flood of them leaves time for the rest */
#define RECEIVE_SPACE (1 << 20)
#define UDEV_GROUP    1 /* what the kernel says itself */

static inline void kmod_listp(struct kmod_list **list)
{
    (void)kmod_module_unref_list(*list);
    *list = NULL;
}

/* One for the life of the process: its index is read once. */
static struct kmod_ctx *context(void)
{
    static struct kmod_ctx *kept;
    if (kept == NULL) {
        kept = kmod_new(NULL, NULL);
        if (kept != NULL) {
            (void)kmod_load_resources(kept);
        }
    }
    return kept;
}

static int load_all(const char *alias, unsigned *ret_found)
{
    CLEANUP(kmod_listp) struct kmod_list *list = NULL;
    struct kmod_ctx *ctx = context();
    int error = ctx == NULL ? -ENOMEM : kmod_module_new_from_lookup(ctx, alias, &list);
    *ret_found = 0;
    if (error < 0) {
        return error;
    }
    struct kmod_list *item;
    kmod_list_foreach(item, list)
    {
        struct kmod_module *module = kmod_module_get_module(item);
        int loaded = kmod_module_probe_insert_module(module, KMOD_PROBE_APPLY_BLACKLIST, NULL, NULL, NULL, NULL);
        if (loaded < 0 && loaded != -EEXIST) {
            log_write(WARN, "module_not_loaded", LOG_TEXT("module", kmod_module_get_name(module)),
                      LOG_TEXT("error", strerrordesc_np(-loaded)));
            error = loaded;
        }
        *ret_found += 1;
        (void)kmod_module_unref(module);
    }
    return error;
}

struct fault module_load(struct op *op, const char *name)
{
    unsigned found = 0;
    int error = load_all(name, &found);
    if (found == 0) {
        return op_fail(op, FAULT(NOT_FOUND), "this kernel has no module %s", name);
    }
    if (error < 0) {
        return op_fail(op, FAULT(IO), "the module %s does not load: %s", name, strerrordesc_np(-error));
    }
    return OK;
}

static void load_for_file(const char *path)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(ALIAS_MAX);
    const char *alias = NULL;
    if (FAULTED(file_read(path, &text))) {
        return;
    }
    while (text.len > 0 && text.at[text.len - 1] == '\n') {
        text.len--;
    }
    unsigned found = 0;
    if (text.len > 0 && !FAULTED(buf_cstr(&text, &alias))) {
        (void)load_all(alias, &found);
    }
}

struct fault modules_settle(struct op *op)
{
    if (context() == NULL) {
        return op_fail(op, FAULT(IO), "the kernel's modules cannot be read");
    }
    char devices[] = "/sys/devices";
    char *const roots[] = { devices, NULL };
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    if (walk == NULL) {
        return op_fail(op, FAULT(IO), "cannot read /sys/devices: %s", strerrordesc_np(errno));
    }
    for (FTSENT *entry = fts_read(walk); entry != NULL; entry = fts_read(walk)) {
        if (strcmp(entry->fts_name, "modalias") == 0) {
            load_for_file(entry->fts_accpath);
        }
    }
    (void)fts_close(walk);
    return OK;
}

/* ---- devices that come later ---- */

struct fault modules_listen(struct op *op, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
    struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = UDEV_GROUP };
    int space = RECEIVE_SPACE;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &space, sizeof(space)) != 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        return op_fail(op, FAULT(IO), "cannot listen for devices: %s", strerrordesc_np(errno));
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}

/* "add@/devices/...", NUL, "KEY=value", NUL, ... ; the last byte is a NUL, or made one. */
static bool take_event(char *event, size_t len)
{
    event[len] = '\0';
    bool added = false;
    for (const char *at = event; at < event + len; at += strlen(at) + 1) {
        added |= strcmp(at, "ACTION=add") == 0;
        unsigned found = 0;
        if (added && strncmp(at, "MODALIAS=", 9) == 0) {
            (void)load_all(at + 9, &found);
        }
    }
    return added;
}

bool modules_take_events(int fd)
{
    bool came = false;
    char event[EVENT_MAX];
    for (unsigned i = 0; i < EVENTS_AT; i++) {
        struct sockaddr_nl sender = { 0 };
        socklen_t sender_len = sizeof(sender);
        ssize_t got = recvfrom(fd, event, sizeof(event) - 1, 0, (struct sockaddr *)&sender, &sender_len);
        if (got <= 0) {
            return came;
        }
        if (sender.nl_pid == 0) { /* the kernel's, nobody else's */
            came |= take_event(event, (size_t)got);
        }
    }
    return came;
}
