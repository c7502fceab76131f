#include "appliance/machine/extension_store.h"

#include "appliance/base/file.h"
#include "appliance/machine/update_versions.h"
#include "appliance/release/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SUFFIX   ".svcext"
#define NEW_FILE ".add.new"
#define SPARE    ((uint64_t)64 << 20) /* of the state, that extensions leave to the product */

static struct fault path_of(const struct extension_store *store, const char *name, const char *suffix, char out[512])
{
    int len = snprintf(out, 512, "%s/%s%s", store->folder, name, suffix);
    REQUIRE(len > 0 && len < 512, TOO_LARGE);
    return OK;
}

static struct fault judge(struct op *op, const struct extension_store *store, const struct release_manifest *manifest)
{
    struct versions versions;
    char text[VERSION_TEXT_MAX], newest[VERSION_TEXT_MAX];
    if (manifest->kind != RELEASE_EXTENSION) {
        return op_fail(op, FAULT(RELEASE_OTHER), "this is an update, not an extension: update apply takes it");
    }
    if (strcmp(manifest->profile, RELEASE_ANY_PROFILE) != 0 && strcmp(manifest->profile, store->profile) != 0) {
        return op_fail(op, FAULT(RELEASE_OTHER), "the extension is for the profile %s, and this machine has %s",
                       manifest->profile, store->profile);
    }
    if (version_compare(manifest->min_version, store->running) > 0) {
        version_print(manifest->min_version, text);
        return op_fail(op, FAULT(RELEASE_VERSION), "the extension needs version %s of the machine", text);
    }
    TRY(versions_load(op, store->versions, &versions));
    const struct version *had = versions_of_extension(&versions, manifest->name);
    if (had != NULL && version_compare(manifest->version, *had) < 0) {
        version_print(manifest->version, text);
        version_print(*had, newest);
        return op_fail(op, FAULT(RELEASE_VERSION), "version %s of %s is older than %s, which this machine had", text,
                       manifest->name, newest);
    }
    return OK;
}

struct fault extension_store_open(struct op *op, const struct extension_store *store, const char *name,
                                  struct release_file **ret_file)
{
    CLEANUP(release_closep) struct release_file *file = NULL;
    char path[512];
    TRY(path_of(store, name, SUFFIX, path));
    TRY(release_open(op, path, store->keys, &file));
    if (strcmp(release_manifest(file)->name, name) != 0) {
        return op_fail(op, FAULT(RELEASE_OTHER), "the file %s" SUFFIX " is the extension %s", name,
                       release_manifest(file)->name);
    }
    TRY(judge(op, store, release_manifest(file)));
    *ret_file = TAKE(file);
    return OK;
}

static int is_extension(const struct dirent *entry)
{
    char name[EXTENSION_NAME_MAX + 1];
    size_t len = strlen(entry->d_name), tail = strlen(SUFFIX);
    if (len <= tail || len - tail > EXTENSION_NAME_MAX || strcmp(entry->d_name + len - tail, SUFFIX) != 0) {
        return 0;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)(len - tail), entry->d_name);
    return release_name_valid(name);
}

bool extension_store_any(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_extension, alphasort);
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
    return count > 0;
}

struct fault extension_store_list(struct op *op, const struct extension_store *store, struct extension *ret_extensions,
                                  size_t *ret_count)
{
    struct dirent **entries = NULL;
    int count = scandir(store->folder, &entries, is_extension, alphasort);
    if (count < 0 && errno != ENOENT) {
        return op_fail(op, FAULT(IO), "%s cannot be read: %s", store->folder, strerrordesc_np(errno));
    }
    size_t kept = 0;
    for (int i = 0; i < count; i++) {
        if (kept < EXTENSIONS_MAX) {
            CLEANUP(release_closep) struct release_file *file = NULL;
            struct extension made = { 0 };
            (void)snprintf(made.name, sizeof(made.name), "%.*s", (int)(strlen(entries[i]->d_name) - strlen(SUFFIX)),
                           entries[i]->d_name);
            op->note = (struct fault_note){ 0 }; /* each refusal is its own */
            struct fault fault = extension_store_open(op, store, made.name, &file);
            if (FAULTED(fault)) {
                (void)snprintf(made.refusal, sizeof(made.refusal), "%s",
                               op->note.set ? op->note.detail : fault_row(fault.code)->title);
                op->note = (struct fault_note){ 0 };
            } else {
                made.version = release_manifest(file)->version;
            }
            ret_extensions[kept++] = made;
        }
        free(entries[i]);
    }
    free(entries);
    *ret_count = kept;
    return OK;
}

static struct fault check_room(struct op *op, const struct extension_store *store, const char *name, uint64_t size)
{
    struct extension present[EXTENSIONS_MAX];
    struct statvfs room;
    size_t count = 0;
    bool there = false;
    TRY(extension_store_list(op, store, present, &count));
    for (size_t i = 0; i < count; i++) {
        there = there || strcmp(present[i].name, name) == 0;
    }
    if (!there && count == EXTENSIONS_MAX) {
        return op_fail(op, FAULT(RELEASE_SPACE), "there are %d extensions already: remove one first", EXTENSIONS_MAX);
    }
    REQUIRE(statvfs(store->folder, &room) == 0, IO);
    if ((uint64_t)room.f_bavail * room.f_frsize < size + SPARE) {
        return op_fail(op, FAULT(RELEASE_SPACE), "the state has no room for %llu bytes more", (unsigned long long)size);
    }
    return OK;
}

static struct fault sync_folder(const char *folder)
{
    CLEANUP(fd_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fd >= 0 && fsync(fd) == 0, IO);
    return OK;
}

/* Copied, judged once more as what was copied, and only then given its name. */
static struct fault put_file(struct op *op, const struct extension_store *store, const struct release_file *file)
{
    const struct release_manifest *manifest = release_manifest(file);
    char temporary[512], path[512];
    TRY(path_of(store, NEW_FILE, "", temporary));
    TRY(path_of(store, manifest->name, SUFFIX, path));
    (void)unlink(temporary);
    CLEANUP(fd_closep) int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return op_fail(op, FAULT(IO), "%s cannot be written: %s", temporary, strerrordesc_np(errno));
    }
    struct fault done = release_copy(op, file, fd);
    if (!FAULTED(done)) {
        done = release_tree_check(op, fd, release_part_offset(file, RELEASE_PART_TREE),
                                  manifest->parts[RELEASE_PART_TREE].size, &manifest->tree);
    }
    if (!FAULTED(done) && rename(temporary, path) != 0) {
        done = op_fail(op, FAULT(IO), "%s cannot be made: %s", path, strerrordesc_np(errno));
    }
    if (FAULTED(done)) {
        (void)unlink(temporary);
        return done;
    }
    return sync_folder(store->folder);
}

struct fault extension_store_add(struct op *op, const struct extension_store *store, const char *path,
                                 struct extension *ret_extension)
{
    CLEANUP(release_closep) struct release_file *file = NULL;
    struct versions versions;
    struct extension made = { 0 };
    TRY(release_open(op, path, store->keys, &file));
    const struct release_manifest *manifest = release_manifest(file);
    TRY(judge(op, store, manifest));
    TRY(file_make_dirs(store->folder, 0700));
    TRY(check_room(op, store, manifest->name, manifest->parts[RELEASE_PART_TREE].size));
    TRY(put_file(op, store, file));
    /* After the file: a floor above the one that is there would refuse it at the next boot. */
    TRY(versions_load(op, store->versions, &versions));
    TRY(versions_note_extension(op, &versions, manifest->name, manifest->version));
    TRY(versions_save(op, store->versions, &versions));
    (void)snprintf(made.name, sizeof(made.name), "%s", manifest->name);
    made.version = manifest->version;
    *ret_extension = made;
    return OK;
}

struct fault extension_store_remove(struct op *op, const struct extension_store *store, const char *name)
{
    char path[512];
    if (!release_name_valid(name)) {
        return op_fail(op, FAULT(NOT_FOUND), "that is no name of an extension");
    }
    TRY(path_of(store, name, SUFFIX, path));
    if (unlink(path) != 0) {
        return errno == ENOENT ? op_fail(op, FAULT(NOT_FOUND), "there is no extension %s", name)
                               : op_fail(op, FAULT(IO), "%s cannot be removed: %s", path, strerrordesc_np(errno));
    }
    return sync_folder(store->folder);
}
