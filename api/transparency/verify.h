/*
 * Offline verification of transparency-log entries, for svc-cli and for the worker: needs base and OpenSSL only, no
 * network and no clock. Outside bytes throughout: fuzzed.
 */
#ifndef API_TRANSPARENCY_VERIFY_H
#define API_TRANSPARENCY_VERIFY_H

#include "appliance/base/json.h"
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
    utc_us at; /* of an entry without SET (v2), whose own time nobody signed: that of a verified time stamp, or now when
                  the log has just answered. 0 = unknown: then only keys that are valid for ever count */
};

/* All of it: the body is a hashedrekord of exactly this digest, signature and verifier; the SET verifies under a pinned
 * key that was valid at integrated_time (required when there is no inclusion proof, checked whenever present); the
 * inclusion proof (RFC 6962) leads to the root of a checkpoint that a pinned key signed, and that had not ended when
 * the entry was made. integrated_time is believed only with a SET. TLOG_UNVERIFIED with a detail that says which of
 * these failed. */
struct fault tlog_entry_verify(struct op *op, const struct tlog_entry *entry, const struct tlog_trust *trust,
                               const struct tlog_expect *expect);

/* A Sigstore TransparencyLogEntry (protobuf's JSON) as it stands in bundles and in the answers of Rekor v2; members
 * that it does not know are passed over. Results live in op's arena. TLOG_UNVERIFIED when it is not one. */
struct fault tlog_entry_read(struct op *op, struct span json, struct tlog_entry *ret_entry);
/* The same, written; what is empty is left out. */
void tlog_entry_print(struct jout *jout, const struct tlog_entry *entry);

/* RFC 6962: SHA-256(0x00, body). Rekor's entry ids end with it. */
struct fault tlog_leaf_hash(struct span body, struct sha256 *ret_hash);

/* The signing keys that logs may have: EC P-256, EC P-384 or Ed25519. BAD_ARGUMENT otherwise. ret_details is Sigstore's
 * PublicKeyDetails. */
struct fault tlog_key_check(struct span spki, const char **ret_details);
/* How the log calls a key: SHA-256 of its SPKI; for an Ed25519 key of checkpoints the signed note's key id under the
 * name `origin` (not cut to four bytes). */
struct fault tlog_key_id(struct span spki, struct sha256 *ret_id);
struct fault tlog_note_key_id(struct span spki, struct span origin, struct sha256 *ret_id);

#endif
