/*
 * Offline verification of transparency-log entries, for svc-cli and for the worker: needs base and OpenSSL only, no
 * network and no clock. Outside bytes throughout: fuzzed.
 */
#ifndef API_TRANSPARENCY_VERIFY_H
#define API_TRANSPARENCY_VERIFY_H

#include "appliance/base/op.h"

/* A pinned key of a log. Times 0 = open. */
struct tlog_key {
    struct span spki; /* PKIX DER */
    utc_us valid_from, valid_until;
};
struct tlog_trust {
    const struct tlog_key *keys;
    size_t key_count;
    const char *origin; /* of checkpoints; NULL = any */
};

/* An entry and its proofs, as a Sigstore bundle's TransparencyLogEntry has them. Empty = not there. */
struct tlog_entry {
    const char *kind, *version; /* "hashedrekord", "0.0.1" or "0.0.2" */
    struct span log_id;         /* SHA-256 of the log key's PKIX DER (v1) or the checkpoint key id (v2) */
    int64_t log_index;          /* of the SET: global */
    int64_t integrated_time;    /* seconds; 0 = not stated (v2) */
    struct span set;            /* signed-entry timestamp (inclusion promise) */
    struct span body;           /* canonicalized body */
    int64_t proof_index, tree_size;
    struct span root_hash;
    struct span *hashes;
    size_t hash_count;
    const char *checkpoint;
};

/* What the entry must speak of. */
struct tlog_expect {
    const char *hash; /* "sha256" */
    struct span digest, signature;
    struct span spki;        /* PKIX DER of the key that signed */
    struct span certificate; /* DER; empty = a plain public key */
};

/* All of it: the body is a hashedrekord of exactly this digest, signature and verifier; the SET verifies under a pinned
 * key that was valid at integrated_time (required when there is no inclusion proof, checked whenever present); the
 * inclusion proof (RFC 6962) leads to the root of a checkpoint that a pinned key signed. TLOG_UNVERIFIED with a detail
 * that says which of these failed. */
struct fault tlog_entry_verify(struct op *op, const struct tlog_entry *entry, const struct tlog_trust *trust,
                               const struct tlog_expect *expect);

#endif
