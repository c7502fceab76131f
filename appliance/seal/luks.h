/* A LUKS2 header by libcryptsetup, in the one form that seal.h wants. For siblings in this folder only. */
#ifndef APPLIANCE_SEAL_LUKS_H
#define APPLIANCE_SEAL_LUKS_H

#include "appliance/base/op.h"

#define LUKS_SLOT_MACHINE   0
#define LUKS_SLOT_RECOVERY  1
#define LUKS_TOKEN_SEAL     0
#define LUKS_TOKEN_COMPLETE 1
#define LUKS_TOKEN_MAX      8192

struct luks;

/* NOT_FOUND: no LUKS2 header. UNSEAL: one of another cipher than ours. */
struct fault luks_load(struct op *op, const char *device, struct luks **ret_luks);
/* A new header with a new volume key and no keyslot yet. */
struct fault luks_format(struct op *op, const char *device, struct luks **ret_luks);
void luks_free(struct luks *luks);
DEFINE_FREEP(struct luks, luks_free)

enum luks_kdf {
    LUKS_KDF_FULL, /* the passphrase has all the entropy it needs: PBKDF2, few rounds */
    LUKS_KDF_WEAK, /* a person remembers it: argon2id */
};
/* After luks_format, which still has the volume key. */
struct fault luks_add(struct op *op, struct luks *luks, int slot, struct span passphrase, enum luks_kdf kdf);
/* A keyslot anew, by the passphrase of another. */
struct fault luks_replace(struct op *op, struct luks *luks, int slot, struct span passphrase, enum luks_kdf kdf,
                          int by_slot, struct span by_passphrase);
/* name NULL: only tries. UNSEAL: the passphrase is not that of the slot. */
struct fault luks_open(struct op *op, struct luks *luks, int slot, struct span passphrase, const char *name);

/* The JSON of a token. NOT_FOUND. */
struct fault luks_token_get(struct op *op, struct luks *luks, int token, struct buf *out);
struct fault luks_token_put(struct op *op, struct luks *luks, int token, const char *json);

#endif
