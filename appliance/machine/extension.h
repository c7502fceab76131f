/*
 * Extension images: what a site adds to the read-only root (PKCS#11 libraries of HSM vendors, and kernel modules), each
 * one signed file (appliance/release) with a squashfs and its dm-verity tree. Kept in the state, as
 * /var/lib/svc/machine/extensions/NAME.svcext; at every boot verified again (signature, name, versions), then mounted
 * through loop and dm-verity, read-only, nosuid and nodev, at /run/extensions/NAME. Added and removed by the console;
 * that takes effect at the next boot.
 *
 * Signed by a release key or by an extension key of the provisioning; the latter never signs an update. A version older
 * than the newest that ever was added under the name is refused. Not thread-safe.
 */
#ifndef APPLIANCE_MACHINE_EXTENSION_H
#define APPLIANCE_MACHINE_EXTENSION_H

#include "appliance/base/op.h"
#include "appliance/release/version.h"

#define EXTENSIONS_MAX     8
#define EXTENSION_NAME_MAX 32 /* [a-z0-9] then [a-z0-9-] */
#define EXTENSION_MOUNTS   "/run/extensions"

/* PEM texts (SubjectPublicKeyInfo) of the keys that may sign extensions beside the release keys; borrowed. */
struct extension_trust {
    const char *const *keys;
    size_t count;
};

struct extension {
    char name[EXTENSION_NAME_MAX + 1];
    struct version version;
    bool mounted;
    char refusal[256]; /* why it is not; "" when it is, or in extension_list when it verifies */
};

/* PID 1, after the state is open and before the appliance starts. What does not verify is not mounted and says why in
 * its row; that is no fault: the machine comes up without it, and the appliance refuses if its HSM module is missing.
 * `ret_extensions` has room for EXTENSIONS_MAX. */
struct fault extensions_mount_all(struct op *op, const struct extension_trust *trust, struct extension *ret_extensions,
                                  size_t *ret_count);
/* At shutdown, after the appliance has ended. */
void extensions_unmount_all(void);

struct fault extension_add(struct op *op, const struct extension_trust *trust, const char *path,
                           struct extension *ret_extension);
struct fault extension_remove(struct op *op, const char *name); /* NOT_FOUND */
/* What is kept, verified anew. */
struct fault extension_list(struct op *op, const struct extension_trust *trust, struct extension *ret_extensions,
                            size_t *ret_count);

/* `svc-machine extension add [FILE] | list [--json] | remove NAME`; argv[0] is "extension". Without FILE: the one
 * *.svcext on a medium with the label SVC-UPDATE. Exit code 0, 1 failed, 2 refused. */
int extension_command(int argc, char **argv, const struct extension_trust *trust);

#endif
