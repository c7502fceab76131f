/* The calls of extension.h on the machine itself. */
#include "appliance/machine/extension.h"

#include "appliance/base/file.h"
#include "appliance/machine/extension_modules.h"
#include "appliance/machine/extension_store.h"
#include "appliance/machine/modules.h"
#include "appliance/machine/status.h"
#include "appliance/machine/update_machine.h"
#include "appliance/machine/verity.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define STORE_FOLDER MACHINE_DIR "/extensions"

/* A store and what it borrows. */
struct place {
    struct extension_store store;
    struct release_keys *keys;
    char profile[RELEASE_PROFILE_MAX + 1];
};

static void place_close(struct place *place)
{
    release_keys_free(TAKE(place->keys));
}

static struct fault place_open(struct op *op, const struct extension_trust *trust, struct place *place)
{
    place->store = (struct extension_store){ .folder = STORE_FOLDER, .versions = MACHINE_DIR "/versions.json" };
    TRY(image_facts(op, IMAGE_FACTS, &place->store.running, place->profile));
    TRY(release_keys_of_machine(op, RELEASE_KEYS, &place->keys));
    for (size_t i = 0; trust != NULL && i < trust->count; i++) {
        TRY(release_keys_add(op, place->keys, "an extension key of the provisioning", span_text(trust->keys[i])));
    }
    place->store.profile = place->profile;
    place->store.keys = place->keys;
    return OK;
}

/* The file as a block device that cannot be changed unseen, mounted at `target`. */
static struct fault mount_file(struct op *op, const struct release_file *file, const char *target)
{
    const struct release_manifest *manifest = release_manifest(file);
    const struct release_part *part = &manifest->parts[RELEASE_PART_TREE];
    const char *loop = NULL, *device = NULL;
    char name[VERITY_NAME_MAX];
    (void)snprintf(name, sizeof(name), "svc-ext-%s", manifest->name);
    IGNORE(module_load(op, "loop")); /* built in, or there already: what follows tells */
    TRY(loop_open_part(op, release_fd(file), release_part_offset(file, RELEASE_PART_TREE), part->size, &loop));
    struct fault done = verity_open(op, name,
                                    &(struct verity_spec){ .device = loop,
                                                           .blocks = manifest->tree.blocks,
                                                           .hash_start = manifest->tree.blocks + 1,
                                                           .root_hash = manifest->tree.roothash,
                                                           .salt = manifest->tree.salt },
                                    &device);
    IGNORE(loop_close(op, loop)); /* goes away with the verity device that has it now, or at once */
    TRY(done);
    if (mount(device, target, "squashfs", MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) != 0) {
        done = op_fail(op, FAULT(IO), "the extension does not mount: %s", strerrordesc_np(errno));
    }
    IGNORE(verity_close(op, name)); /* goes away with the mount, or at once */
    return done;
}

static struct fault mount_one(struct op *op, const struct place *place, const char *name)
{
    CLEANUP(release_closep) struct release_file *file = NULL;
    char target[128], modules[160];
    (void)snprintf(target, sizeof(target), EXTENSION_MOUNTS "/%s", name);
    (void)snprintf(modules, sizeof(modules), "%s/modules", target);
    TRY(extension_store_open(op, &place->store, name, &file));
    TRY(file_make_dirs(target, 0755));
    TRY(mount_file(op, file, target));
    struct fault done = OK;
    if (strcmp(release_manifest(file)->profile, RELEASE_ANY_PROFILE) != 0) {
        done = extension_modules_load(op, modules);
    } else if (extension_modules_any(modules)) {
        done = op_fail(op, FAULT(RELEASE_OTHER), "kernel modules belong to one profile: the extension names none");
    }
    if (FAULTED(done)) {
        (void)umount2(target, MNT_DETACH | UMOUNT_NOFOLLOW);
    }
    return done;
}

struct fault extensions_mount_all(struct op *op, const struct extension_trust *trust, struct extension *ret_extensions,
                                  size_t *ret_count)
{
    CLEANUP(place_close) struct place place = { 0 };
    size_t count = 0;
    if (!extension_store_any(STORE_FOLDER)) { /* and an image without release keys is fine */
        *ret_count = 0;
        return OK;
    }
    TRY(place_open(op, trust, &place));
    TRY(extension_store_list(op, &place.store, ret_extensions, &count));
    for (size_t i = 0; i < count; i++) {
        struct extension *extension = &ret_extensions[i];
        if (extension->refusal[0] != '\0') {
            continue;
        }
        struct fault done = mount_one(op, &place, extension->name);
        extension->mounted = !FAULTED(done);
        if (FAULTED(done)) {
            (void)snprintf(extension->refusal, sizeof(extension->refusal), "%s",
                           op->note.set ? op->note.detail : fault_row(done.code)->title);
        }
        op->note = (struct fault_note){ 0 };
    }
    *ret_count = count;
    return OK;
}

void extensions_unmount_all(void)
{
    DIR *folder = opendir(EXTENSION_MOUNTS);
    const struct dirent *entry = NULL;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char target[sizeof(EXTENSION_MOUNTS) + 256];
        (void)snprintf(target, sizeof(target), EXTENSION_MOUNTS "/%s", entry->d_name);
        if (entry->d_name[0] != '.') {
            (void)umount2(target, UMOUNT_NOFOLLOW);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

struct fault extension_add(struct op *op, const struct extension_trust *trust, const char *path,
                           struct extension *ret_extension)
{
    CLEANUP(fd_closep) int lock = -1; /* versions.json is an update's, too */
    CLEANUP(place_close) struct place place = { 0 };
    TRY(update_lock(op, UPDATE_LOCK, &lock));
    TRY(place_open(op, trust, &place));
    return extension_store_add(op, &place.store, path, ret_extension);
}

struct fault extension_remove(struct op *op, const char *name)
{
    return extension_store_remove(op, &(struct extension_store){ .folder = STORE_FOLDER }, name);
}

/* A mount point is another file system than the folder it is in. */
static bool is_mounted(const char *name)
{
    struct stat above, here;
    char target[128];
    (void)snprintf(target, sizeof(target), EXTENSION_MOUNTS "/%s", name);
    return stat(EXTENSION_MOUNTS, &above) == 0 && stat(target, &here) == 0 && above.st_dev != here.st_dev;
}

struct fault extension_list(struct op *op, const struct extension_trust *trust, struct extension *ret_extensions,
                            size_t *ret_count)
{
    CLEANUP(place_close) struct place place = { 0 };
    if (!extension_store_any(STORE_FOLDER)) {
        *ret_count = 0;
        return OK;
    }
    TRY(place_open(op, trust, &place));
    TRY(extension_store_list(op, &place.store, ret_extensions, ret_count));
    for (size_t i = 0; i < *ret_count; i++) {
        ret_extensions[i].mounted = is_mounted(ret_extensions[i].name);
    }
    return OK;
}
