/*
 * The public keys that releases are signed with, and the check. ECDSA on P-256 with SHA-256, or on P-384 with SHA-384,
 * the signature in DER: a detached signature as `svc-cli code-signing sign` writes it. Keys are SubjectPublicKeyInfo in
 * PEM, one a file. Not thread-safe.
 */
#ifndef APPLIANCE_RELEASE_KEYS_H
#define APPLIANCE_RELEASE_KEYS_H

#include "appliance/base/op.h"

#define RELEASE_KEYS_MAX      32 /* the image's and 16 of the site's */
#define RELEASE_KEY_FILE_MAX  ((size_t)8 << 10)
#define RELEASE_SIGNATURE_MAX ((size_t)512)

struct release_keys; /* opaque */

struct fault release_keys_new(struct release_keys **ret_keys);
void release_keys_free(struct release_keys *keys);
DEFINE_FREEP(struct release_keys, release_keys_free)

/* `name` says where the key came from, for whoever asks who signed. CONFIG: not one public key of those kinds, or one
 * too many. */
struct fault release_keys_add(struct op *op, struct release_keys *keys, const char *name, struct span pem);
/* A file, or every *.pem of a folder; a folder without any is CONFIG, and so is one bad file: a key that was meant to
 * count must not be lost silently. */
struct fault release_keys_load(struct op *op, struct release_keys *keys, const char *path);

/* RELEASE_SIGNATURE when none of the keys made it. *ret_signer: the key's name, valid as long as `keys`. */
struct fault release_keys_verify(struct op *op, const struct release_keys *keys, struct span message,
                                 struct span signature, const char **ret_signer);

#endif
