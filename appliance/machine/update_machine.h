/*
 * Where an update reads and writes: the machine's own places, or those of a test. For siblings in this folder only; the
 * rest of the machine uses update.h.
 */
#ifndef APPLIANCE_MACHINE_UPDATE_MACHINE_H
#define APPLIANCE_MACHINE_UPDATE_MACHINE_H

#include "appliance/machine/slots.h"
#include "appliance/machine/update.h"

#define IMAGE_FACTS  "/usr/share/svc/image.json"   /* {"version", "profile", ...}: of the verified root */
#define RELEASE_KEYS "/usr/share/svc/release-keys" /* of the verified root, too */
#define ESP_MOUNT    "/run/svc-machine/esp"
#define UPDATE_LOCK  "/run/svc-machine/update.lock"
#define UPDATE_LABEL "SVC-UPDATE" /* of a medium with update and extension files */

struct update_machine {
    struct version running;
    char profile[RELEASE_PROFILE_MAX + 1];
    const char *slots[SLOT_COUNT]; /* devices */
    unsigned slot;                 /* that runs */
    const char *entries;           /* ESP_FOLDER of the mounted EFI partition */
    const char *versions, *keys;   /* versions.json; folder of release keys */
    const char *data;              /* of the product, where the embedded database is; NULL = there is none */
    /* Tests end the process in it: called behind each step that is on disk. NULL = nothing. */
    void (*step)(void *arg, const char *name);
    void *step_arg;
};

/* What the running root says of itself. UNSUPPORTED: this is not the image. */
struct fault image_facts(struct op *op, const char *path, struct version *ret_version, char *ret_profile);
/* Only one process at a time has the EFI partition and the slots: CONFLICT. The descriptor holds the lock. */
struct fault update_lock(struct op *op, const char *path, int *ret_fd);
/* All but the mount of the EFI partition. */
struct fault update_machine_find(struct op *op, struct update_machine *ret_machine);
struct fault release_keys_of_machine(struct op *op, const char *folder, struct release_keys **ret_keys);
/* Is the file one that this machine may take now? RELEASE_OTHER, RELEASE_VERSION. */
struct fault update_judge(struct op *op, const struct update_machine *machine, const struct release_manifest *manifest);

struct fault update_machine_state(struct op *op, const struct update_machine *machine, struct update_state *ret_state);
struct fault update_machine_before_service(struct op *op, const struct update_machine *machine);
struct fault update_machine_admit(struct op *op, const struct update_machine *machine);
struct fault update_machine_commit(struct op *op, const struct update_machine *machine);
struct fault update_machine_apply(struct op *op, const struct update_machine *machine, const char *path,
                                  update_say_fn say, void *arg, struct version *ret_version);

/* Finds the one file whose name ends with `suffix` on the medium UPDATE_LABEL, mounts the medium read-only in a mount
 * namespace of this process alone, and gives the path, in op's arena. For short-lived commands. */
struct fault update_medium_file(struct op *op, const char *suffix, const char **ret_path);
/* A mount namespace of this process alone: what it mounts goes away with it, however it ends. */
struct fault update_private_mounts(struct op *op);

#endif
