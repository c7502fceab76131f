/*
 * The Merkle tree of a tenant's audit records, as RFC 6962 2.1 has it: leaf(n) = SHA-256(0x00, record n's bytes),
 * node = SHA-256(0x01, left, right), the empty tree SHA-256(""). Record n is leaf n - 1. A proof shows one record, or
 * that a smaller tree is the beginning of a larger one, without the rest. Pure functions, for server, projector and
 * offline verifier.
 */
#ifndef API_PROJECTION_TREE_H
#define API_PROJECTION_TREE_H

#include "appliance/base/id.h"

#define AUDIT_PROOF_MAX  64  /* nodes of a proof */
#define AUDIT_TILE_NODES 256 /* nodes of a tile, which is how the tree is stored */

struct fault audit_tree_leaf(struct span record, struct sha256 *ret_leaf);
struct fault audit_tree_node(const struct sha256 *left, const struct sha256 *right, struct sha256 *ret_node);

/* A tree that grows leaf by leaf and keeps only the roots of its complete subtrees: at most 63 of them. */
struct audit_frontier {
    uint64_t size;
    struct sha256 roots[AUDIT_PROOF_MAX]; /* of the set bits of size, the largest subtree first */
};
struct fault audit_frontier_add(struct audit_frontier *frontier, const struct sha256 *leaf);
/* A complete subtree of 2^level leaves in one step. BUG_IF size is no multiple of that. */
struct fault audit_frontier_add_tree(struct audit_frontier *frontier, unsigned level, const struct sha256 *root);
struct fault audit_frontier_root(const struct audit_frontier *frontier, struct sha256 *ret_root);

/* RFC 6962 2.1.1: does `leaf` stand at `index` of the tree of that size and root? RFC 9162's algorithm. AUDIT_PROOF. */
struct fault audit_tree_check_inclusion(const struct sha256 *leaf, uint64_t index, uint64_t size,
                                        const struct sha256 *proof, size_t count, const struct sha256 *root);
/* RFC 6962 2.1.2: is the tree of `size` with `root` the beginning of the one of `new_size` with `new_root`? */
struct fault audit_tree_check_consistency(uint64_t size, const struct sha256 *root, uint64_t new_size,
                                          const struct sha256 *new_root, const struct sha256 *proof, size_t count);

/* The roots of complete subtrees: node(level, index) is over the leaves index * 2^level up to (index + 1) * 2^level. */
struct audit_tree_source {
    struct fault (*node)(void *arg, unsigned level, uint64_t index, struct sha256 *ret_node);
    void *arg;
};
/* What the two checks take, for a tree of `size` leaves. BAD_ARGUMENT when index or old_size are not within it. */
struct fault audit_tree_prove_inclusion(const struct audit_tree_source *source, uint64_t index, uint64_t size,
                                        struct sha256 proof[AUDIT_PROOF_MAX], size_t *ret_count);
struct fault audit_tree_prove_consistency(const struct audit_tree_source *source, uint64_t old_size, uint64_t size,
                                          struct sha256 proof[AUDIT_PROOF_MAX], size_t *ret_count);
struct fault audit_tree_root_of(const struct audit_tree_source *source, uint64_t size, struct sha256 *ret_root);
/* Root over a power of two of nodes that follow one another (1 to 256 of them). */
struct fault audit_tree_join(const struct sha256 *nodes, size_t count, struct sha256 *ret_root);

#endif
