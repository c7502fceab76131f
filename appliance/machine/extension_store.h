/*
 * The folder of extension files, wherever it is. For siblings in this folder only; the rest of the machine uses
 * extension.h.
 */
#ifndef APPLIANCE_MACHINE_EXTENSION_STORE_H
#define APPLIANCE_MACHINE_EXTENSION_STORE_H

#include "appliance/machine/extension.h"
#include "appliance/release/container.h"

struct extension_store {
    const char *folder, *versions; /* of *.svcext; versions.json */
    struct version running;
    const char *profile;
    const struct release_keys *keys; /* release keys, and those of the site */
};

/* Is there any file of an extension? */
bool extension_store_any(const char *folder);
/* NAME.svcext, verified as far as its header goes: its signature, that it is the extension of this name, and that this
 * machine may take it. The hash tree is judged by the kernel at every read. */
struct fault extension_store_open(struct op *op, const struct extension_store *store, const char *name,
                                  struct release_file **ret_file);
struct fault extension_store_add(struct op *op, const struct extension_store *store, const char *path,
                                 struct extension *ret_extension);
struct fault extension_store_remove(struct op *op, const struct extension_store *store, const char *name);
/* By name, in their order. A file that does not verify has its refusal. */
struct fault extension_store_list(struct op *op, const struct extension_store *store, struct extension *ret_extensions,
                                  size_t *ret_count);

#endif
