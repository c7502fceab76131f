/* Shared by jws.c, jwk.c and their foreign halves. */
#ifndef FIPS_JWS_INTERNAL_H
#define FIPS_JWS_INTERNAL_H

#include "appliance/base/json.h"
#include "fips/jws.h"

struct jws_algorithm {
    const char *name;
    const char *curve; /* NULL: RSA */
    const char *digest;
    size_t coordinate; /* bytes of r and of s; 0 for RSA */
    bool pss;
    bool foreign; /* only in tokens of others: nothing of ours is signed so, or pinned so */
};

/* NULL when there is no such algorithm here: `none` and HMAC among them. */
const struct jws_algorithm *jws_algorithm_find(const char *name);
const struct jws_algorithm *jws_algorithm_find_foreign(const char *name); /* those of others too */
bool jws_algorithm_fits(const struct jws_algorithm *algorithm, EVP_PKEY *key);

/* Members of RFC 7517 4 and 7518 6 that a public signature key may have. */
struct jwk_members {
    const char *kty, *crv, *x, *y, *n, *e, *alg, *use, *kid;
    struct jin_texts key_ops;
    bool ext;
};
/* The public key that kty and its members say. JWS_FORMAT when there is none; no note. */
struct fault jwk_build(const struct jwk_members *members, EVP_PKEY **ret_key);
/* The kid of a key that names none: jwk_kid of its PKIX DER. */
struct fault jwk_own_kid(EVP_PKEY *key, char ret_kid[44]);

/* The three parts of a compact JWS, still encoded, and what the signature is over. All borrow. */
struct jws_parts {
    struct span header, payload, signature, signing_input;
};
struct fault jws_split(struct op *op, struct span compact, struct jws_parts *ret_parts);
/* The signature, as bytes of the wire. JWS_SIGNATURE. The algorithm must fit the key: a caller's business. */
struct fault jws_check(struct op *op, const struct jws_algorithm *algorithm, const struct jwk *jwk, struct span message,
                       struct span signature);

#endif
