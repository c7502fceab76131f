/* The calls of update.h on the machine itself: its places found, the EFI partition mounted and left again. */
#include "appliance/machine/update.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/machine/disks.h"
#include "appliance/machine/esp.h"
#include "appliance/machine/mounts.h"
#include "appliance/machine/status.h"
#include "appliance/machine/update_machine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define FACTS_MAX    ((size_t)16 << 10)
#define FACTS_COUNT  64
#define MEDIUM_MOUNT MACHINE_RUN_DIR "/update-medium"

struct fault image_facts(struct op *op, const char *path, struct version *ret_version, char *ret_profile)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(FACTS_MAX);
    struct jin_member *members = NULL;
    size_t count = 0;
    bool version = false, profile = false;
    struct fault fault = file_read(path, &json);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(op, FAULT(UNSUPPORTED), "this is not the appliance image: its own tools update it");
    }
    fault = FAULTED(fault) ? fault : jin_members(op, buf_span(&json), FACTS_COUNT, &members, &count);
    for (size_t i = 0; !FAULTED(fault) && i < count; i++) {
        struct span value = members[i].value;
        if (strcmp(members[i].name, "version") == 0) {
            version = !FAULTED(version_parse(value, ret_version));
        } else if (strcmp(members[i].name, "profile") == 0 && value.len > 0 && value.len <= RELEASE_PROFILE_MAX) {
            (void)snprintf(ret_profile, RELEASE_PROFILE_MAX + 1, "%.*s", (int)value.len, (const char *)value.at);
            profile = true;
        }
    }
    return version && profile ? OK : op_fail(op, FAULT(CONFIG), "%s does not tell version and profile", path);
}

struct fault update_lock(struct op *op, const char *path, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return op_fail(op, FAULT(IO), "%s cannot be opened: %s", path, strerrordesc_np(errno));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        return op_fail(op, FAULT(CONFLICT), "another update is being written, or looked at: try again");
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}

struct fault release_keys_of_machine(struct op *op, const char *folder, struct release_keys **ret_keys)
{
    CLEANUP(release_keys_freep) struct release_keys *keys = NULL;
    TRY(release_keys_new(&keys));
    TRY(release_keys_load(op, keys, folder));
    *ret_keys = TAKE(keys);
    return OK;
}

/* What needs no disk: enough to say whether this version may run. */
static struct fault find_facts(struct op *op, struct update_machine *made)
{
    made->versions = MACHINE_DIR "/versions.json";
    made->keys = RELEASE_KEYS;
    made->data = PRODUCT_DATA_DIR;
    made->entries = ESP_MOUNT "/" ESP_FOLDER;
    return image_facts(op, IMAGE_FACTS, &made->running, made->profile);
}

struct fault update_machine_find(struct op *op, struct update_machine *ret_machine)
{
    struct update_machine made = { 0 };
    struct stat root;
    TRY(find_facts(op, &made));
    TRY(disk_by_partlabel(op, "svc-root-a", &made.slots[SLOT_A]));
    TRY(disk_by_partlabel(op, "svc-root-b", &made.slots[SLOT_B]));
    REQUIRE(stat("/", &root) == 0, IO);
    TRY(slot_running(op, "/sys", root.st_dev, &made.slot));
    *ret_machine = made;
    return OK;
}

/* Runs `work` while this process alone has the slots and the mounted EFI partition. */
typedef struct fault (*work_fn)(struct op *op, const struct update_machine *machine, void *arg);
static struct fault with_esp(struct op *op, work_fn work, void *arg)
{
    CLEANUP(fd_closep) int lock = -1;
    struct update_machine machine;
    TRY(update_machine_find(op, &machine));
    TRY(update_lock(op, UPDATE_LOCK, &lock));
    TRY(esp_mount(op, ESP_MOUNT));
    struct fault done = work(op, &machine, arg);
    struct fault left = esp_unmount(op, ESP_MOUNT);
    return FAULTED(done) ? done : left;
}

static struct fault read_state(struct op *op, const struct update_machine *machine, void *arg)
{
    return update_machine_state(op, machine, arg);
}

struct fault update_read_state(struct op *op, struct update_state *ret_state)
{
    return with_esp(op, read_state, ret_state);
}

struct fault update_admit(struct op *op)
{
    struct update_machine machine = { 0 };
    TRY(find_facts(op, &machine));
    return update_machine_admit(op, &machine);
}

static struct fault before_service(struct op *op, const struct update_machine *machine, void *arg)
{
    (void)arg;
    return update_machine_before_service(op, machine);
}

struct fault update_before_service(struct op *op)
{
    return with_esp(op, before_service, NULL);
}

static struct fault commit(struct op *op, const struct update_machine *machine, void *arg)
{
    (void)arg;
    return update_machine_commit(op, machine);
}

struct fault update_commit(struct op *op)
{
    return with_esp(op, commit, NULL);
}

struct apply_arg {
    const char *path;
    update_say_fn say;
    void *arg;
    struct version version;
};

static struct fault apply(struct op *op, const struct update_machine *machine, void *arg)
{
    struct apply_arg *wanted = arg;
    return update_machine_apply(op, machine, wanted->path, wanted->say, wanted->arg, &wanted->version);
}

struct fault update_apply(struct op *op, const char *path, update_say_fn say, void *arg, struct version *ret_version)
{
    struct apply_arg wanted = { .path = path, .say = say, .arg = arg };
    TRY(with_esp(op, apply, &wanted));
    *ret_version = wanted.version;
    return OK;
}

struct fault update_private_mounts(struct op *op)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0
               ? OK
               : op_fail(op, FAULT(IO), "a mount namespace cannot be had: %s", strerrordesc_np(errno));
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t len = strlen(name), tail = strlen(suffix);
    return name[0] != '.' && len > tail && strcmp(name + len - tail, suffix) == 0;
}

/* The one file of the folder that ends with `suffix`. */
static struct fault one_file(struct op *op, const char *folder, const char *suffix, const char **ret_path)
{
    DIR *at = opendir(folder);
    const struct dirent *entry = NULL;
    struct fault fault = OK;
    unsigned found = 0;
    while (at != NULL && !FAULTED(fault) && (entry = readdir(at)) != NULL) {
        if (ends_with(entry->d_name, suffix)) {
            found++;
            fault = arena_printf(op->arena, ret_path, "%s/%s", folder, entry->d_name);
        }
    }
    if (at != NULL) {
        (void)closedir(at);
    }
    TRY(fault);
    return found == 1 ? OK
                      : op_fail(op, found == 0 ? FAULT(NOT_FOUND) : FAULT(CONFLICT),
                                "the medium " UPDATE_LABEL " holds %u files *%s: one is wanted", found, suffix);
}

struct fault update_medium_file(struct op *op, const char *suffix, const char **ret_path)
{
    struct disk_found found;
    struct fault fault = disk_by_fs_label(op, UPDATE_LABEL, &found);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(op, fault, "there is no medium whose file system has the label " UPDATE_LABEL);
    }
    TRY(fault);
    TRY(mounts_medium(op, found.device, disk_fs_text(found.fs), MEDIUM_MOUNT, false));
    return one_file(op, MEDIUM_MOUNT, suffix, ret_path);
}
