/*
 * JWS (RFC 7515), compact form, and the JWK sets (RFC 7517) that verify it. Signs with any EVP_PKEY, so also with a key
 * of the token through the provider. ES256, ES384, RS256, PS256. A verifier takes the algorithm from the pinned key,
 * never from the token's header alone: header and key must agree, `none` and HMAC do not exist here, `crit` is refused.
 */
#ifndef FIPS_JWS_H
#define FIPS_JWS_H

#include "appliance/base/op.h"

#include <openssl/types.h>

struct jwk {
    const char *kid; /* base64url SHA-256 of the PKIX DER */
    const char *alg; /* "ES256" ... */
    EVP_PKEY *key;
};
struct jwk_set {
    struct jwk *at;
    size_t count;
};
void jwk_set_free(struct jwk_set *set); /* idempotent; the form that CLEANUP wants */

/* kid of a public key: base64url(SHA-256(PKIX DER)), 43 chars. */
struct fault jwk_kid(struct span spki, char ret_kid[44]);
/* "ES256" for P-256, "ES384" for P-384, "PS256" for RSA. UNSUPPORTED otherwise. */
struct fault jwk_alg(EVP_PKEY *key, const char **ret_alg);
/* One JWK object as JSON: kty, crv/x/y or n/e, alg, use "sig", kid. */
struct fault jwk_print(struct span spki, struct buf *out);
/* {"keys":[...]} of outside bytes: private members, unknown kty and more than 64 keys are refused. JWS_FORMAT. */
struct fault jwk_set_parse(struct op *op, struct span json, struct jwk_set *ret_set);

/* compact = b64url(header {"alg","kid","typ"}) "." b64url(payload) "." b64url(signature). For the token's keys bind the
 * operation first (provider.h). */
struct fault jws_sign(struct op *op, EVP_PKEY *key, struct span spki, const char *typ, struct span payload,
                      struct buf *compact);
/* Checks structure, typ (NULL = any) and signature; *ret_payload (in op's arena) is set only when all is well.
 * JWS_FORMAT, JWS_KEY, JWS_SIGNATURE. */
struct fault jws_verify(struct op *op, struct span compact, const char *typ, const struct jwk_set *keys,
                        struct span *ret_payload, const char **ret_kid);

#endif
