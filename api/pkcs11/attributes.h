/* An object's attributes: set once when the keyring is made, then matched and copied out by the rules of PKCS#11 2.40
 * 5.7. All of it lives in the keyring's arena. */
#ifndef API_PKCS11_ATTRIBUTES_H
#define API_PKCS11_ATTRIBUTES_H

#include "appliance/base/arena.h"

#include <p11-kit/pkcs11.h>

#define ATTRIBUTES_MAX 48

struct attribute {
    CK_ATTRIBUTE_TYPE type;
    struct span value;
    bool sensitive; /* exists, and is never told */
};
struct attributes {
    struct arena *arena;
    struct attribute *at;
    size_t count;
    struct fault first; /* sticky: the calls below return void, this tells */
};

struct fault attributes_init(struct arena *arena, struct attributes *ret_attributes);
void attributes_bytes(struct attributes *attributes, CK_ATTRIBUTE_TYPE type, struct span value); /* copies */
void attributes_ulong(struct attributes *attributes, CK_ATTRIBUTE_TYPE type, CK_ULONG value);
void attributes_bool(struct attributes *attributes, CK_ATTRIBUTE_TYPE type, CK_BBOOL value);
void attributes_sensitive(struct attributes *attributes, CK_ATTRIBUTE_TYPE type);

/* Does the object have every one of these values? */
bool attributes_match(const struct attributes *attributes, const CK_ATTRIBUTE *wanted, CK_ULONG count);
/* Fills each element of `wanted`, whatever becomes of the others. CKR_ATTRIBUTE_SENSITIVE, CKR_ATTRIBUTE_TYPE_INVALID,
 * CKR_BUFFER_TOO_SMALL: at least one has this; its length is CK_UNAVAILABLE_INFORMATION. */
CK_RV attributes_get(const struct attributes *attributes, CK_ATTRIBUTE *wanted, CK_ULONG count);

#endif
