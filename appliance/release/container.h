/*
 * The file of an update or an extension:
 *
 *   "SVCUPD1\n", u32 length, manifest (manifest.h), u16 length, signature over the manifest's bytes (keys.h), then the
 *   parts in the manifest's order, each at the next multiple of 4096 bytes (so that a loop device can start there); the
 *   bytes between are zero. Numbers are big-endian. The file ends with its last part.
 *
 * It comes from outside and may be changed while it is read. So: the header is read once, the signature is judged
 * before the manifest is parsed, the file must have the one size that the manifest gives it, and a part's bytes count
 * only when release_read_part came back with OK, which compares the SHA-256 of just the bytes that it handed out. Not
 * thread-safe.
 */
#ifndef APPLIANCE_RELEASE_CONTAINER_H
#define APPLIANCE_RELEASE_CONTAINER_H

#include "appliance/release/keys.h"
#include "appliance/release/manifest.h"

#define RELEASE_MAGIC "SVCUPD1\n"
#define RELEASE_CHUNK ((size_t)1 << 20)

struct release_file; /* opaque */

/* RELEASE_FILE, RELEASE_SIGNATURE, IO, NOT_FOUND. `keys` NULL: the signature is not judged, and nothing of the file may
 * be believed. A file that is no regular file is RELEASE_FILE. */
struct fault release_open(struct op *op, const char *path, const struct release_keys *keys,
                          struct release_file **ret_file);
/* The same for a descriptor of a regular file, which stays the caller's. */
struct fault release_open_fd(struct op *op, int fd, const struct release_keys *keys, struct release_file **ret_file);
void release_close(struct release_file *file);
DEFINE_FREEP(struct release_file, release_close)

const struct release_manifest *release_manifest(const struct release_file *file);
/* The name of the key that signed; NULL: not judged. */
const char *release_signer(const struct release_file *file);
struct span release_manifest_bytes(const struct release_file *file);
struct span release_signature_bytes(const struct release_file *file);
uint64_t release_part_offset(const struct release_file *file, size_t index); /* a multiple of RELEASE_BLOCK */
int release_fd(const struct release_file *file);

/* Gets the part's bytes in order, at most RELEASE_CHUNK at a time. */
typedef struct fault (*release_sink)(void *arg, struct op *op, struct span bytes);
/* RELEASE_FILE when the part is not the one that was signed: what the sink got is worthless then. */
struct fault release_read_part(struct op *op, const struct release_file *file, size_t index, release_sink sink,
                               void *arg);

/* Makes the file from its parts: `parts` are paths in the manifest's order. Judges the signature by `keys` unless NULL.
 * What is not as the manifest says is RELEASE_FILE, and `path` is as it was. */
struct fault release_pack(struct op *op, struct span manifest, struct span signature, const struct release_keys *keys,
                          const char *const *parts, const char *path);

/* The same file once more, into an empty file; what was written counts only when this is OK. Written through. */
struct fault release_copy(struct op *op, const struct release_file *file, int fd);

/* The first `len` bytes at `offset`; RELEASE_FILE when the file ends before. */
struct fault release_pread(struct op *op, int fd, void *out, size_t len, uint64_t offset);

#endif
