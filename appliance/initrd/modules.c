#include "appliance/initrd/modules.h"

#include "appliance/initrd/files.h"
#include "appliance/initrd/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LIST_MAX  ((size_t)64 << 10)
#define ALIAS_MAX ((size_t)512 << 10)

struct module {
    const char *name, *needs; /* in `list`; the needs are a line of names */
    bool loaded;
};

static char list[LIST_MAX], aliases[ALIAS_MAX];
static struct module modules[MODULES_MAX];
static size_t module_count;

static struct module *module_named(const char *name)
{
    for (size_t i = 0; i < module_count; i++) {
        if (strcmp(modules[i].name, name) == 0) {
            return &modules[i];
        }
    }
    return NULL;
}

/* A module once asked for is not asked for again, whether or not the kernel took it. */
static void module_load(struct module *module)
{
    if (module->loaded) {
        return;
    }
    module->loaded = true;
    char needs[1024];
    (void)snprintf(needs, sizeof(needs), "%s", module->needs);
    char *rest = needs;
    for (char *name = strsep(&rest, " "); name != NULL; name = strsep(&rest, " ")) {
        struct module *need = module_named(name);
        if (need != NULL && need < module) { /* the list is in order, so this ends */
            module_load(need);
        }
    }
    char path[256];
    (void)snprintf(path, sizeof(path), "/modules/%s.ko", module->name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        say("%s: %s", path, strerrordesc_np(errno));
        return;
    }
    if (syscall(SYS_finit_module, file, "", 0) != 0 && errno != EEXIST && errno != ENODEV) {
        say("the kernel did not take the module %s: %s", module->name, strerrordesc_np(errno));
    }
    (void)close(file);
}

void modules_start(void)
{
    if (!file_text("/modules/list", list, sizeof(list)) || !file_text("/modules/alias", aliases, sizeof(aliases))) {
        stop(errno, "the lists of kernel modules cannot be read");
    }
    char *rest = list;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        const char *name = strsep(&line, " ");
        const char *when = strsep(&line, " ");
        if (when == NULL) {
            continue; /* the end of the file */
        }
        if (module_count == MODULES_MAX) {
            stop(0, "more than %d kernel modules are listed", MODULES_MAX);
        }
        struct module *module = &modules[module_count++];
        *module = (struct module){ .name = name, .needs = line != NULL ? line : "" };
        if (strcmp(when, "always") == 0) {
            module_load(module);
        }
    }
    for (char *at = aliases; *at != '\0'; at++) { /* "PATTERN\0NAME\0", so that a pattern is a string of its own */
        *at = *at == ' ' || *at == '\n' ? '\0' : *at;
    }
}

static bool load_for(const char *device)
{
    bool loaded = false;
    for (const char *pattern = aliases; *pattern != '\0';) {
        const char *name = pattern + strlen(pattern) + 1;
        if (fnmatch(pattern, device, 0) == 0) {
            struct module *module = module_named(name);
            if (module != NULL && !module->loaded) {
                module_load(module);
                loaded = true;
            }
        }
        pattern = name + strlen(name) + 1;
    }
    return loaded;
}

static bool load_for_bus(const char *bus)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "/sys/bus/%s/devices", bus);
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return false;
    }
    bool loaded = false;
    const struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL) {
        char text[512];
        int len = snprintf(path, sizeof(path), "/sys/bus/%s/devices/%s/modalias", bus, entry->d_name);
        if (entry->d_name[0] == '.' || len < 0 || (size_t)len >= sizeof(path) || !file_text(path, text, sizeof(text))) {
            continue;
        }
        text[strcspn(text, "\n")] = '\0';
        loaded = load_for(text) || loaded;
    }
    (void)closedir(folder);
    return loaded;
}

bool modules_for_devices(void)
{
    DIR *folder = opendir("/sys/bus");
    if (folder == NULL) {
        stop(errno, "/sys/bus");
    }
    bool loaded = false;
    const struct dirent *entry = NULL;
    while ((entry = readdir(folder)) != NULL) {
        loaded = (entry->d_name[0] != '.' && load_for_bus(entry->d_name)) || loaded;
    }
    (void)closedir(folder);
    return loaded;
}
