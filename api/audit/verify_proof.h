/*
 * Proofs about single records, made by the server and checked offline with pinned keys alone. Three artifacts:
 *
 *   signed head     compact JWS of typ AUDIT_HEAD_TYP by the tenant's audit-export key: "the tenant's first tree_size
 *                   records have this Merkle root (api/projection/tree.h) and this chain head". Its payload:
 *                     chain_head, format, generation, sequence (= tree_size), tenant_id, time,
 *                     timestamp (as in statement.h; only where the authority is enabled), tree_root, tree_size
 *   inclusion       one record with what shows that it is among those of a signed head, and at which place:
 *                     chain, chain_seed (the chain behind and before it), format, head (compact JWS), index
 *                     (= sequence - 1), proof [hex, ...], record, sequence, tree_size
 *   consistency     what shows that the first `first` records of a signed head are those of an older tree, unaltered:
 *                     first, first_root, format, head (of `second` records), proof [hex, ...], second
 *
 * Each is canonical JSON (RFC 8785) with exactly these members: the verifier prints again what it read and compares.
 * Everything lives in op's arena (audit_verify_op makes one of the right size). Not thread-bound; no clock, no network.
 */
#ifndef API_AUDIT_VERIFY_PROOF_H
#define API_AUDIT_VERIFY_PROOF_H

#include "api/audit/verify.h"
#include "api/projection/tree.h"

#define AUDIT_HEAD_TYP           "svc-audit-head+jws"
#define AUDIT_HEAD_FORMAT        "svc.audit.head.v1"
#define AUDIT_INCLUSION_FORMAT   "svc.audit.inclusion.v1"
#define AUDIT_CONSISTENCY_FORMAT "svc.audit.consistency.v1"
#define AUDIT_HEAD_MAX           ((size_t)256 << 10) /* compact; a time stamp is the most of it */
#define AUDIT_PROOF_FILE_MAX     (AUDIT_RECORD_MAX + ((size_t)1 << 20))

/* ---- verify_proof_form.c: what they look like ---- */

struct audit_head {
    struct tenant_id tenant;
    int64_t generation; /* of the history, as in statement.h */
    int64_t tree_size;  /* also the sequence of its newest record; 0 = there was none */
    struct sha256 chain_head, tree_root;
    char time[RFC3339_MAX];
    struct span timestamp; /* DER; empty = none */
};
struct audit_nodes {
    struct sha256 at[AUDIT_PROOF_MAX];
    size_t count;
};
struct audit_inclusion {
    int64_t sequence, tree_size;
    struct sha256 seed, chain;
    struct span record, head;
    struct audit_nodes proof;
};
struct audit_consistency {
    int64_t first, second;
    struct sha256 first_root;
    struct span head;
    struct audit_nodes proof;
};
/* Append the canonical form. */
struct fault audit_head_print(const struct audit_head *head, struct buf *out);
struct fault audit_inclusion_print(const struct audit_inclusion *inclusion, struct buf *out);
struct fault audit_consistency_print(const struct audit_consistency *consistency, struct buf *out);

/* Outside bytes. AUDIT_STATEMENT (a head's payload) or AUDIT_PROOF, with a note that says what is wrong. */
struct fault audit_head_read(struct op *op, struct span payload, struct audit_head *ret_head);
struct fault audit_inclusion_read(struct op *op, struct span bytes, struct audit_inclusion *ret_inclusion);
struct fault audit_consistency_read(struct op *op, struct span bytes, struct audit_consistency *ret_consistency);

/* ---- verify_proof.c: what they prove ---- */

enum audit_proof_kind { AUDIT_PROOF_HEAD, AUDIT_PROOF_INCLUSION, AUDIT_PROOF_CONSISTENCY };

struct audit_proof_verdict {
    enum audit_proof_kind kind;
    bool signature_good; /* the head's, by a pinned key */
    bool proof_good;     /* the nodes lead from record or older tree to the head's root; true for a head alone */
    bool anchor_good;    /* the time stamp over the chain head is believed */
    bool kept_good;      /* the kept head agrees */
    const char *kid;
    struct audit_head head;
    utc_us anchor_at;    /* genTime; 0 = no time stamp, or none that was believed */
    int64_t sequence;    /* inclusion */
    struct span record;  /* inclusion; exactly the bytes that are proven */
    utc_us record_at;    /* inclusion: its time */
    struct sha256 chain; /* inclusion: of the record */
    int64_t first;       /* consistency: size of the older tree */
    struct sha256 first_root;
    int64_t kept_size; /* of the kept head, once it is believed */
    char reason[320];  /* why not, in words; "" when all is good */
};

/* Any of the three (a head starts with no "{"). `kept`: a signed head that the verifier has had all along, or empty. It
 * must be of the same tenant and be one of the trees that the artifact names: for a consistency proof, the older or the
 * newer one. pins->max_anchor_delay_us counts between the head's own time and genTime, and no record may be newer than
 * its time stamp. *ret_verdict is filled as far as it came; OK only when everything holds. Faults: those of fips/jws.h,
 * AUDIT_STATEMENT, AUDIT_PROOF, AUDIT_TENANT, CHAIN_BROKEN, CHAIN_HEAD, AUDIT_KEY_WINDOW, and those of pins and anchors
 * that verify.h names. */
struct fault audit_proof_verify(struct op *op, struct span artifact, const struct audit_pins *pins, struct span kept,
                                struct audit_proof_verdict *ret_verdict);

#endif
