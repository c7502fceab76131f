/*
 * The stored tree of the transaction's tenant, for who reads it: roots and proofs at any size up to the tenant's newest
 * sequence. Few queries, whatever the size: a tile or the tail for each level and edge.
 *
 *     struct tree_store store = { .op = op, .tx = tx, .size = 1000000 };
 *     TRY(tree_store_root(&store, &root));
 *     struct audit_tree_source source = tree_store_source(&store);
 *     TRY(audit_tree_prove_inclusion(&source, 41, store.size, proof, &count));
 *
 * Borrows op and tx; what it read is kept in op's arena. INTERNAL with a note when a record or a tile is not there.
 */
#ifndef API_PROJECTION_TREE_STORE_H
#define API_PROJECTION_TREE_STORE_H

#include "api/projection/tree.h"
#include "api/store/store.h"

struct tree_nodes;
struct tree_store {
    struct op *op;
    struct tx *tx;
    uint64_t size;
    struct tree_nodes *seen; /* starts as NULL */
};
struct audit_tree_source tree_store_source(struct tree_store *store);
struct fault tree_store_root(struct tree_store *store, struct sha256 *ret_root);

#endif
