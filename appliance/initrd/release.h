/*
 * What the signed kernel command line says of the release: svc.version, svc.roothash (the root of the dm-verity tree),
 * svc.blocks (data blocks of 4096 bytes before the tree) and svc.salt. The command line is part of the signed boot
 * file, so with Secure Boot on nobody else can have written it.
 */
#ifndef APPLIANCE_INITRD_RELEASE_H
#define APPLIANCE_INITRD_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#define RELEASE_BLOCK 4096

struct release {
    char version[64];
    char roothash[65], salt[65]; /* lower-case hex of a SHA-256 */
    uint64_t blocks;
};

/* False with *ret_what naming the value that is missing, double or malformed. `text` is /proc/cmdline. */
bool release_parse(const char *text, struct release *ret_release, const char **ret_what);

#endif
