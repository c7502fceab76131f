/*
 * What may not go backwards: the version floor of the machine, and the newest version that each extension ever had. One
 * JSON file in the state (MACHINE_DIR/versions.json), replaced whole. A file that cannot be read refuses everything:
 * without it an old release could come back unseen.
 */
#ifndef APPLIANCE_MACHINE_UPDATE_VERSIONS_H
#define APPLIANCE_MACHINE_UPDATE_VERSIONS_H

#include "appliance/release/manifest.h"

#define VERSIONS_EXTENSIONS_MAX 64

struct versions {
    bool has_floor;
    struct version floor;
    struct {
        char name[RELEASE_NAME_MAX + 1];
        struct version newest;
    } extensions[VERSIONS_EXTENSIONS_MAX];
    size_t extension_count;
};

/* No file is { 0 }. CONFIG: it is damaged. */
struct fault versions_load(struct op *op, const char *path, struct versions *ret_versions);
struct fault versions_save(struct op *op, const char *path, const struct versions *versions);
/* NULL: that extension was never here. */
const struct version *versions_of_extension(const struct versions *versions, const char *name);
/* RELEASE_SPACE when there have been VERSIONS_EXTENSIONS_MAX others. */
struct fault versions_note_extension(struct op *op, struct versions *versions, const char *name,
                                     struct version version);

#endif
