/* Proofs about single records, made from the stored tree (api/projection/tree_store.h) and signed by the tenant's
 * audit-export key. What they look like and how they are judged: verify_proof.h. Each is checked here, too, before it
 * is handed out: a stored tree that does not fit its records gives no proof. */
#ifndef API_AUDIT_PROOF_H
#define API_AUDIT_PROOF_H

#include "api/audit/internal.h"

/* What an answer was made of, for the record of who was given it. */
struct proof_made {
    int64_t first, size; /* record or older tree; the tree of the head */
    int64_t generation;
    struct sha256 chain_head;
};
/* size 0 = the newest. QUERY when there are not that many records; the faults of tsa_anchor where the authority is
 * enabled, and of the signer. Append. BUG_IF(tx_open). */
struct fault proof_head(struct op *op, struct services *services, int64_t size, struct proof_made *ret_made,
                        struct buf *out);
/* AUDIT_ARCHIVED when the record is no longer served. */
struct fault proof_inclusion(struct op *op, struct services *services, int64_t sequence, int64_t size,
                             struct proof_made *ret_made, struct buf *out);
struct fault proof_consistency(struct op *op, struct services *services, int64_t first, int64_t second,
                               struct proof_made *ret_made, struct buf *out);

#define PROOF_ROUTES 3
extern const struct route proof_routes[PROOF_ROUTES];

#endif
