/*
 * The objects of the token at one moment: for each active code-signing key a private key, a public key, and a
 * certificate for each one of its chain (one that stands in several chains once). Made from the appliance's answers,
 * immutable and counted afterwards: a signing keeps the one that it began with.
 *
 * Handles are the same in every keyring of a process for the same object (struct handles), and are given to no other.
 */
#ifndef API_PKCS11_KEYRING_H
#define API_PKCS11_KEYRING_H

#include "api/pkcs11/attributes.h"
#include "appliance/base/id.h"
#include "appliance/base/json_view.h"

#define KEYRING_OBJECTS_MAX 20000

struct token_key {
    struct uuid id;
    const char *name;
    CK_KEY_TYPE type; /* CKK_EC or CKK_RSA */
    size_t signature_len;
    struct span spki;
};

struct object {
    CK_OBJECT_HANDLE handle;
    CK_OBJECT_CLASS class;
    const struct token_key *key; /* NULL for a certificate */
    struct sha256 identity;
    struct attributes attributes;
};

struct keyring; /* opaque */

struct fault keyring_new(struct keyring **ret_keyring);
struct keyring *keyring_ref(struct keyring *keyring);
void keyring_unref(struct keyring *keyring); /* NULL is fine */
static inline void keyring_unrefp(struct keyring **keyring)
{
    keyring_unref(TAKE(*keyring));
}

/* Adds the objects of one key as the appliance describes it; `op` holds what is read meanwhile. A certificate that
 * cannot be read is left out. JSON_FIELD: the description is not one; BAD_ARGUMENT: a key of a kind that is not known
 * here. Nothing was added then. */
struct fault keyring_add(struct keyring *keyring, struct op *op, struct view key);

size_t keyring_count(const struct keyring *keyring);
const struct object *keyring_at(const struct keyring *keyring, size_t index);
/* NULL: no object of this handle (any more). */
const struct object *keyring_find(const struct keyring *keyring, CK_OBJECT_HANDLE handle);

/* Which object has which handle, for the life of the process. Not thread-safe. */
struct handles {
    struct handle_entry *at; /* sorted by identity */
    size_t count, cap;
};
void handles_clear(struct handles *handles);
/* Numbers the objects of a keyring, before anybody else sees it. */
struct fault handles_give(struct handles *handles, struct keyring *keyring);

#endif
