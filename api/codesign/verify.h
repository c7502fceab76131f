/*
 * Certificates of signers, judged offline: what a chain says, and whether it leads to a pinned root at a given time
 * (never "now": short-lived certificates have long expired when somebody looks). By OpenSSL alone, for svc-cli and for
 * the verifying routes; outside bytes.
 */
#ifndef API_CODESIGN_VERIFY_H
#define API_CODESIGN_VERIFY_H

#include "appliance/base/op.h"

#include <openssl/types.h>

#define CHAIN_MAX 16

/* DER, leaf first. Borrowed, or in an operation's arena. */
struct chain {
    struct span at[CHAIN_MAX];
    size_t count;
};

/* All CERTIFICATE blocks of a PEM text, in their order; at least one. `what` names it: BAD_ARGUMENT. */
struct fault chain_from_pem(struct op *op, struct span pem, const char *what, struct chain *ret_chain);
/* As PEM, onto `out`. */
struct fault chain_to_pem(const struct chain *chain, struct buf *out);

/* One certificate; nothing may follow it. BAD_ARGUMENT. The caller frees it. */
struct fault certificate_parse(struct op *op, struct span der, X509 **ret_certificate);
/* Its public key, PKIX DER, in the arena. */
struct fault certificate_spki(struct op *op, struct span der, struct span *ret_spki);
struct fault certificate_validity(struct op *op, struct span der, utc_us *ret_from, utc_us *ret_until);
bool certificate_is_authority(struct op *op, struct span der); /* basicConstraints CA:TRUE */

/* Who a leaf speaks for. */
#define IDENTITIES_MAX 16
struct identity {
    const char *names[IDENTITIES_MAX]; /* subject alternative names: URI, email, DNS, and Fulcio's otherName */
    size_t name_count;
    const char *issuer;                     /* of the identity: Fulcio's extension 57264.1.8 (or 1.1); NULL = none */
    const char *subject;                    /* RFC 2253; "" when empty */
    const char *common_name, *organization; /* of the subject; NULL = none */
};
struct fault certificate_identity(struct op *op, struct span der, struct identity *ret_identity);

enum signer_use {
    SIGNER_ANY_USE,     /* an extended key usage may be missing, but must allow code signing when it is there */
    SIGNER_CODE_SIGNING /* it must be there */
};
/* Is `signer` (leaf first) good for signing at `time`, with a path to the last certificate of `authority`? Others of
 * `authority` help to find the path. BUNDLE_INVALID; TIMESTAMP_VALIDITY when the leaf itself was not valid then. */
struct fault chain_verify(struct op *op, const struct chain *signer, const struct chain *authority, utc_us time,
                          enum signer_use use);

/* Is each certificate issued by the next one (by name and key identifier)? BUNDLE_INVALID tells which is not. */
struct fault chain_check_order(struct op *op, const struct chain *chain);
/* The chains that lie in a heap of authorities' certificates: from each that issued no other up to its self-signed
 * root, CHAIN_MAX at most. What leads to no root is left out. */
struct fault chains_of(struct op *op, const struct chain *heap, struct chain *ret_chains, size_t *ret_count);

#endif
