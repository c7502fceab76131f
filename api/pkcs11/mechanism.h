/* The mechanisms of the token, as a table; and what their parameters may say. */
#ifndef API_PKCS11_MECHANISM_H
#define API_PKCS11_MECHANISM_H

#include "api/pkcs11/hash.h"

enum scheme { SCHEME_DIGEST, SCHEME_ECDSA, SCHEME_PKCS1, SCHEME_PSS };

struct mechanism {
    CK_MECHANISM_TYPE type;
    enum scheme scheme;
    CK_MECHANISM_TYPE hash; /* what the module hashes with; 0 = the caller hashed */
};

const struct mechanism *mechanism_find(CK_MECHANISM_TYPE type); /* NULL = not one of ours */
const struct mechanism *mechanism_all(size_t *ret_count);
/* As the appliance calls it; NULL for SCHEME_DIGEST. */
const char *scheme_text(enum scheme scheme);
static inline CK_KEY_TYPE scheme_key_type(enum scheme scheme)
{
    return scheme == SCHEME_ECDSA ? CKK_EC : CKK_RSA;
}
/*
 * The mechanism that a caller asks for and the hash that is settled by it: NULL when the data will tell (CKM_ECDSA by
 * its length, CKM_RSA_PKCS by its DigestInfo). PSS must be as the appliance does it: MGF1 with the same hash, and a
 * salt of the hash's length. CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID, CKR_ARGUMENTS_BAD.
 */
CK_RV mechanism_read(const CK_MECHANISM *asked, const struct mechanism **ret_mechanism, const struct hash **ret_hash);

#endif
