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
    utc_us svc_not_before, svc_not_after;
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
/* A decoded header. Whatever is not named here is refused. */
struct jws_header {
    const char *alg, *kid, *typ; /* kid and typ: NULL = not there */
};
struct fault jws_header_decode(struct op *op, struct span text, struct jws_header *ret_header); /* JWS_FORMAT */
/* The pinned key that a header means. JWS_KEY, also when its alg is another one. */
struct fault jws_pick_key(struct op *op, const struct jws_header *header, const struct jwk_set *keys,
                          const struct jwk **ret_key);
/* r and s of fixed width as the DER that OpenSSL takes, in `room`. JWS_SIGNATURE when the length is another. */
struct fault jws_ecdsa_der(struct span raw, size_t width, uint8_t *room, size_t size, struct span *ret_der);
bool jws_padding(const struct jws_algorithm *algorithm, EVP_PKEY_CTX *options);
/* jws.c, for the writer: what is signed with, the encoded header and its dot, and a signature as it stands in a JWS. */
struct fault jws_header_begin(EVP_PKEY *key, struct span spki, const char *typ, struct buf *out,
                              const struct jws_algorithm **ret_algorithm);
struct fault jws_signature_put(const struct jws_algorithm *algorithm, struct span signature, struct buf *out);
/* The signature, as bytes of the wire. JWS_SIGNATURE. The algorithm must fit the key: a caller's business. */
struct fault jws_check(struct op *op, const struct jws_algorithm *algorithm, const struct jwk *jwk, struct span message,
                       struct span signature);

#endif
