/*
 * The signed manifest of an update or an extension: what the file is, for whom, and the size and SHA-256 of each part.
 * One canonical JSON object (RFC 8785), closed schema:
 *
 *   format       "svc.update.v1" or "svc.extension.v1"; so what is signed for one purpose never passes for another
 *   name         "svc" for an update; the extension's name otherwise
 *   version, min_version   the oldest version of the machine that may take it
 *   profile      kernel profile; an extension without kernel modules may say "any"
 *   created      RFC 3339
 *   parts        [{name, sha256, size}]: root and uki, in this order; tree for an extension
 *   roothash, salt, blocks   of the dm-verity tree in root (or tree): data blocks of 4096 bytes, the super block, the
 * tree sbom_sha256  of the bill of materials (optional)
 *
 * The JSON is outside bytes: every length and character set is checked here, so that users of the struct may build file
 * names and kernel tables from it.
 */
#ifndef APPLIANCE_RELEASE_MANIFEST_H
#define APPLIANCE_RELEASE_MANIFEST_H

#include "appliance/base/op.h"
#include "appliance/release/version.h"

#define RELEASE_PRODUCT      "svc"
#define RELEASE_ANY_PROFILE  "any"
#define RELEASE_NAME_MAX     32 /* [a-z0-9] then [a-z0-9-] */
#define RELEASE_PROFILE_MAX  15
#define RELEASE_HEX_MAX      64
#define RELEASE_BLOCK        4096
#define RELEASE_PARTS_MAX    2
#define RELEASE_PART_MAX     ((uint64_t)4 << 30) /* of root and tree */
#define RELEASE_UKI_MAX      ((uint64_t)256 << 20)
#define RELEASE_MANIFEST_MAX ((size_t)16 << 10)

enum release_kind { RELEASE_UPDATE, RELEASE_EXTENSION };

enum { RELEASE_PART_ROOT = 0, RELEASE_PART_UKI = 1, RELEASE_PART_TREE = 0 }; /* by index in `parts` */

struct release_part {
    const char *name; /* a constant */
    uint64_t size;
    struct sha256 sha256;
};

/* A dm-verity tree: lower-case hex of 32 bytes each. */
struct release_tree {
    char roothash[RELEASE_HEX_MAX + 1], salt[RELEASE_HEX_MAX + 1];
    uint64_t blocks;
};

struct release_manifest {
    enum release_kind kind;
    char name[RELEASE_NAME_MAX + 1], profile[RELEASE_PROFILE_MAX + 1];
    struct version version, min_version;
    utc_us created;
    struct release_part parts[RELEASE_PARTS_MAX];
    size_t part_count;
    struct release_tree tree;
    char sbom_sha256[RELEASE_HEX_MAX + 1]; /* "" = none */
};

bool release_name_valid(const char *text); /* a name, as `name` may be */
bool release_hex_valid(const char *text);  /* 64 lower-case hex digits */
/* The parts that a kind has, in their order. */
const char *release_part_name(enum release_kind kind, size_t index); /* NULL beyond the last */

/* RELEASE_FILE, with what is wrong. Only for bytes whose signature was verified, or to show what stands there. */
struct fault release_manifest_parse(struct op *op, struct span json, struct release_manifest *ret_manifest);
/* In canonical form; what release_manifest_parse refuses is refused here too. */
struct fault release_manifest_print(struct op *op, const struct release_manifest *manifest, struct buf *out);

#endif
