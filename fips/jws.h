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
    const char *alg; /* "ES256" ...; NULL only from jwk_set_parse_foreign */
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

/*
 * Tokens of others: an OIDC issuer's ID token, and the key set that it publishes. The rules stay: the key decides,
 * `none` and HMAC do not exist. But members that nobody here knows are passed over, RS384, RS512, PS384 and PS512 exist
 * too, and opening comes before verifying, since it is the header that says which key is wanted.
 *
 *     struct jws_opened jws = { 0 };
 *     TRY(jws_open(op, token, &jws));               -- nothing of it is believed yet
 *     key = ... whose kid is jws.kid, by the issuer's set ...
 *     TRY(jws_opened_verify(op, &jws, key));        -- now jws.payload is the issuer's
 */
struct jws_opened {
    const char *alg;     /* as the header says: any text of up to 16 bytes */
    const char *kid;     /* NULL = the header names none */
    const char *typ;     /* NULL = likewise */
    struct span payload; /* decoded */
    struct span signature, signing_input;
};
/* Form alone. Refused in a header: crit and b64 (RFC 7515 4.1.11), jwk, jku, x5c, x5u (a key that comes with the token
 * proves nothing), enc and zip (no JWS has them), doubled members. Results live in op's arena. JWS_FORMAT. */
struct fault jws_open(struct op *op, struct span compact, struct jws_opened *ret_opened);
/* JWS_KEY when alg does not fit the key and the key's own alg, JWS_SIGNATURE. */
struct fault jws_opened_verify(struct op *op, const struct jws_opened *opened, const struct jwk *key);
/* Whether a signature of this alg could be this key's. */
bool jwk_takes(const struct jwk *key, const char *alg);
/* Whether others' tokens may be signed so: RS256 to RS512, PS256 to PS512, ES256, ES384. */
bool jws_alg_known(const char *alg);
/* {"keys":[...]}. Left out and counted: keys that cannot verify here (another kty, curve or alg; use or key_ops of
 * another purpose; RSA below 2048 or above 4096 bits; private or symmetric members). An alg of NULL in the result: the
 * key names none and verifies whatever fits its type. Refused whole: no key left, more than 64, two left keys of one
 * kid and type. JWS_FORMAT. */
struct fault jwk_set_parse_foreign(struct op *op, struct span json, struct jwk_set *ret_set, size_t *ret_left_out);

#endif
