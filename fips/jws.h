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
    utc_us not_before, not_after; /* our own members svc_not_before and svc_not_after; 0 = not stated */
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
/* The same with the time in which it was the one that signs: members "svc_not_before" and "svc_not_after" (RFC 3339 as
 * clock.h prints it), which RFC 7517 4 lets others pass over. 0 = leave it out: not_after while no other key took over.
 */
struct fault jwk_print_window(struct span spki, utc_us not_before, utc_us not_after, struct buf *out);
/* {"keys":[...]} of outside bytes: private members, unknown kty and more than 64 keys are refused, and a window that
 * ends before it begins. JWS_FORMAT. */
struct fault jwk_set_parse(struct op *op, struct span json, struct jwk_set *ret_set);

/* compact = b64url(header {"alg","kid","typ"}) "." b64url(payload) "." b64url(signature). For the token's keys bind the
 * operation first (provider.h). */
struct fault jws_sign(struct op *op, EVP_PKEY *key, struct span spki, const char *typ, struct span payload,
                      struct buf *compact);
/*
 * The same for a payload that is too large to be in memory at once: `out` gets the compact JWS piece by piece, to be
 * sent on and cleared. Only the end calls upon the key.
 *
 *     CLEANUP(jws_writer_freep) struct jws_writer *writer = NULL;
 *     TRY(jws_writer_new(op, key, spki, AUDIT_EXPORT_TYP, &writer, &out));
 *     TRY(jws_writer_payload(writer, some, &out));                        -- as often as there is some
 *     TRY(jws_writer_end(op, writer, &out));                              -- once
 */
struct jws_writer;
struct fault jws_writer_new(struct op *op, EVP_PKEY *key, struct span spki, const char *typ,
                            struct jws_writer **ret_writer, struct buf *out);
void jws_writer_free(struct jws_writer *writer);
DEFINE_FREEP(struct jws_writer, jws_writer_free)
struct fault jws_writer_payload(struct jws_writer *writer, struct span payload, struct buf *out);
struct fault jws_writer_end(struct op *op, struct jws_writer *writer, struct buf *out);
/* Checks structure, typ (NULL = any) and signature; *ret_payload (in op's arena) is set only when all is well.
 * JWS_FORMAT, JWS_KEY, JWS_SIGNATURE. */
struct fault jws_verify(struct op *op, struct span compact, const char *typ, const struct jwk_set *keys,
                        struct span *ret_payload, const char **ret_kid);

/*
 * The same for a JWS that is too large to be in memory at once: its parts come one after another, still encoded.
 *
 *     CLEANUP(jws_stream_freep) struct jws_stream *stream = NULL;
 *     TRY(jws_stream_new(op, header, AUDIT_EXPORT_TYP, keys, &stream));   -- up to the first dot
 *     TRY(jws_stream_payload(stream, some));                              -- as often as there is some
 *     TRY(jws_stream_end(op, stream, signature, &key));                   -- behind the second dot
 */
struct jws_stream;
/* JWS_FORMAT, JWS_KEY, JWS_ALGORITHM (the header's alg is not the pinned key's). `keys` must outlive the stream. */
struct fault jws_stream_new(struct op *op, struct span header, const char *typ, const struct jwk_set *keys,
                            struct jws_stream **ret_stream);
void jws_stream_free(struct jws_stream *stream);
DEFINE_FREEP(struct jws_stream, jws_stream_free)
struct fault jws_stream_payload(struct jws_stream *stream, struct span encoded);
/* JWS_FORMAT, JWS_SIGNATURE. Once. */
struct fault jws_stream_end(struct op *op, struct jws_stream *stream, struct span signature,
                            const struct jwk **ret_key);

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
