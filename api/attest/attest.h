/*
 * Keyless identities: what an identity proof (an OIDC ID token of a CI system) says, believed only after its issuer's
 * signature, audience, times and required claims hold. The identity methods of a tenant stand in a YAML file
 * (code_signing.keyless.attestors_file), read at start; an issuer's keys are pinned by a JWKS file, or fetched from a
 * pinned JWKS URL, cached, and fetched again (at most once in a while) when a proof names an unknown `kid`.
 *
 *     attestors:
 *       - method: github-actions           # what a request names as identity_method: 1 to 63 of a-z, 0-9, -
 *         tenant: default
 *         kind: github-actions             # or gitlab-ci, generic: which claims make the SAN and Fulcio's extensions
 *         issuer: https://token.actions.githubusercontent.com
 *         audience: [svc]                  # one of these must be in aud
 *         jwks_url: https://token.actions.githubusercontent.com/.well-known/jwks
 *         jwks_ca_file: /path              # optional: who may have issued the URL's HTTPS certificate
 *         jwks_file: /path                 # instead of the two: the keys are pinned
 *         algorithms: [RS256, ES256]       # optional; RS, PS 256 to 512, ES256, ES384. These two are the default
 *         required_claims: {repository_owner: acme, ref_protected: "true"}
 *         url: https://github.com          # optional, not for generic: the forge, if it is not the public one
 *         san: "{sub}"                     # {claim} template; due for generic, else "URL/{job_workflow_ref}" or
 *                                          # "https://{ci_config_ref_uri}"
 *         san_kind: uri                    # optional: uri, email or dns; a SAN of another form is then refused
 *         leeway: 30s                      # up to 5m
 *         max_lifetime: 1h                 # exp - iat at most; up to 24h
 *
 * Keys by URL: a set counts as fresh for 10 minutes. After that, and for a kid that it does not have (at most once in
 * 30 seconds), it is fetched again: once, whoever waits for it. While that fails the old set goes on to verify what it
 * can, until 24 hours after it was fetched; then nothing of that issuer verifies (JWKS_UNAVAILABLE).
 *
 * Thread-safe. Nothing of a proof is logged or kept but the claims that name the identity.
 */
#ifndef API_ATTEST_ATTEST_H
#define API_ATTEST_ATTEST_H

#include "api/feature.h"
#include "api/services.h"

extern const struct feature attest_feature;

#define PROOF_MAX        ((size_t)16 << 10) /* bytes of an identity_payload */
#define ATTEST_CLAIM_MAX 24
#define ATTEST_TEXT_MAX  1024 /* bytes of a SAN, a subject, a claim */

/* One of Fulcio's claims: 1.3.6.1.4.1.57264.1.<arc>, value as DER UTF8String from arc 8 on, raw bytes before. */
struct attest_claim {
    unsigned arc;
    const char *value;
};
enum san_kind { SAN_URI, SAN_EMAIL, SAN_DNS };
struct attested {
    const char *method, *issuer, *subject; /* subject: claim sub */
    const char *san;                       /* by the method's template; becomes the certificate's SAN and fulcio_san */
    enum san_kind san_kind;
    const struct attest_claim *claims; /* for the certificate, arcs rising; includes arcs 1 and 8, the issuer */
    size_t claim_count;
    const char *key_id; /* kid of the issuer's key that signed */
    utc_us issued, expires;
};

/* For preview: is there such a method for op's tenant, and is the proof of its form (compact JWS of three parts, header
 * with an acceptable alg and a kid, claims a JSON object, size)? No signature, no clock, no network, and nothing that
 * it says is believed. IDENTITY_METHOD, PROOF_MALFORMED, PROOF_ALGORITHM, TOO_LARGE; KEYLESS_DISABLED for all three. */
struct fault attest_inspect(struct op *op, struct services *services, const char *method, struct span proof);

/* Verifies the proof as of `at` (when the command was accepted). May fetch keys (bounded by op's deadline). Results
 * live in op's arena. PROOF_*, IDENTITY_METHOD; JWKS_UNAVAILABLE (worth repeating). */
struct fault attest_verify(struct op *op, struct services *services, const char *method, struct span proof, utc_us at,
                           struct attested *ret_attested);

/* 64 hex digits over the tenant's methods as configured, pinned files' contents included (what a URL gives is not):
 * part of a preview's configuration. */
struct fault attest_digest(struct op *op, struct services *services, char ret_text[65]);

#endif
