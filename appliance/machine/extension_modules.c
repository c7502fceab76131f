#include "appliance/machine/extension_modules.h"

#include <dirent.h>
#include <errno.h>
#include <libkmod.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_module(const struct dirent *entry)
{
    static const char *const suffixes[] = { ".ko", ".ko.xz", ".ko.zst" };
    size_t len = strlen(entry->d_name);
    for (size_t i = 0; i < COUNT_OF(suffixes); i++) {
        size_t tail = strlen(suffixes[i]);
        if (entry->d_name[0] != '.' && len > tail && strcmp(entry->d_name + len - tail, suffixes[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

static void entries_free(struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(entries);
}

bool extension_modules_any(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_module, alphasort);
    entries_free(entries, count);
    return count > 0;
}

static struct fault load(struct op *op, struct kmod_ctx *kmod, const char *folder, const char *name)
{
    struct kmod_module *module = NULL;
    char path[512];
    int len = snprintf(path, sizeof(path), "%s/%s", folder, name);
    REQUIRE(len > 0 && (size_t)len < sizeof(path), TOO_LARGE);
    int code = kmod_module_new_from_path(kmod, path, &module);
    if (code >= 0) {
        code = kmod_module_insert_module(module, 0, NULL);
        kmod_module_unref(module);
    }
    return code >= 0 || code == -EEXIST
               ? OK
               : op_fail(op, FAULT(IO), "the kernel refuses the module %s: %s", name, strerrordesc_np(-code));
}

struct fault extension_modules_load(struct op *op, const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_module, alphasort);
    struct kmod_ctx *kmod = count > 0 ? kmod_new(NULL, NULL) : NULL;
    struct fault done = count > 0 && kmod == NULL ? FAULT(NO_MEMORY) : OK;
    for (int i = 0; i < count && !FAULTED(done); i++) {
        done = load(op, kmod, folder, entries[i]->d_name);
    }
    if (kmod != NULL) {
        kmod_unref(kmod);
    }
    entries_free(entries, count);
    return done;
}
