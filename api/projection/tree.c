#include "api/projection/tree.h"

struct fault audit_tree_leaf(struct span record, struct sha256 *ret_leaf)
{
    static const uint8_t prefix[] = { 0 };
    struct span parts[] = { SPAN_ARRAY(prefix), record };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_leaf);
}

struct fault audit_tree_node(const struct sha256 *left, const struct sha256 *right, struct sha256 *ret_node)
{
    uint8_t both[1 + 2 * SHA256_LEN] = { 1 }; /* one piece is hashed faster than three */
    memcpy(both + 1, left->at, SHA256_LEN);
    memcpy(both + 1 + SHA256_LEN, right->at, SHA256_LEN);
    return sha256_of(SPAN_ARRAY(both), ret_node);
}

struct fault audit_tree_join(const struct sha256 *nodes, size_t count, struct sha256 *ret_root)
{
    struct sha256 row[AUDIT_TILE_NODES / 2];
    const struct sha256 *from = nodes;
    BUG_IF(count == 0 || count > AUDIT_TILE_NODES || (count & (count - 1)) != 0);
    while (count > 1) {
        for (size_t i = 0; i < count / 2; i++) {
            TRY(audit_tree_node(&from[2 * i], &from[2 * i + 1], &row[i]));
        }
        from = row;
        count /= 2;
    }
    *ret_root = from[0];
    return OK;
}

/* ---- growing ---- */

static size_t roots_of(uint64_t size)
{
    return (size_t)__builtin_popcountll(size);
}

struct fault audit_frontier_add_tree(struct audit_frontier *frontier, unsigned level, const struct sha256 *root)
{
    BUG_IF(level > 62);
    uint64_t grow = (uint64_t)1 << level;
    BUG_IF((frontier->size & (grow - 1)) != 0);
    REQUIRE(frontier->size <= INT64_MAX - grow, TOO_LARGE);
    struct sha256 joined = *root;
    size_t count = roots_of(frontier->size);
    for (uint64_t bit = grow; (frontier->size & bit) != 0; bit <<= 1) {
        TRY(audit_tree_node(&frontier->roots[--count], &joined, &joined));
    }
    frontier->roots[count] = joined;
    frontier->size += grow;
    return OK;
}

struct fault audit_frontier_add(struct audit_frontier *frontier, const struct sha256 *leaf)
{
    return audit_frontier_add_tree(frontier, 0, leaf);
}

struct fault audit_frontier_root(const struct audit_frontier *frontier, struct sha256 *ret_root)
{
    size_t count = roots_of(frontier->size);
    if (count == 0) {
        return sha256_of(span_of(NULL, 0), ret_root);
    }
    struct sha256 root = frontier->roots[--count];
    while (count > 0) {
        TRY(audit_tree_node(&frontier->roots[--count], &root, &root));
    }
    *ret_root = root;
    return OK;
}

/* ---- checking (RFC 9162 2.1.3.2 and 2.1.4.2) ---- */

static bool same(const struct sha256 *a, const struct sha256 *b)
{
    return memcmp(a->at, b->at, SHA256_LEN) == 0; /* all of it is public */
}

struct fault audit_tree_check_inclusion(const struct sha256 *leaf, uint64_t index, uint64_t size,
                                        const struct sha256 *proof, size_t count, const struct sha256 *root)
{
    REQUIRE(index < size && count <= AUDIT_PROOF_MAX, AUDIT_PROOF);
    uint64_t at = index, last = size - 1;
    struct sha256 hash = *leaf;
    for (size_t i = 0; i < count; i++, at >>= 1, last >>= 1) {
        REQUIRE(last != 0, AUDIT_PROOF);
        if ((at & 1) == 0 && at != last) {
            TRY(audit_tree_node(&hash, &proof[i], &hash));
            continue;
        }
        TRY(audit_tree_node(&proof[i], &hash, &hash));
        for (; (at & 1) == 0 && at != 0; at >>= 1) {
            last >>= 1;
        }
    }
    REQUIRE(last == 0 && same(&hash, root), AUDIT_PROOF);
    return OK;
}

static struct fault climb(uint64_t at, uint64_t last, const struct sha256 *proof, size_t count, struct sha256 *old_root,
                          struct sha256 *new_root)
{
    for (size_t i = 0; i < count; i++, at >>= 1, last >>= 1) {
        REQUIRE(last != 0, AUDIT_PROOF);
        if ((at & 1) == 0 && at != last) {
            TRY(audit_tree_node(new_root, &proof[i], new_root));
            continue;
        }
        TRY(audit_tree_node(&proof[i], old_root, old_root));
        TRY(audit_tree_node(&proof[i], new_root, new_root));
        for (; (at & 1) == 0 && at != 0; at >>= 1) {
            last >>= 1;
        }
    }
    REQUIRE(last == 0, AUDIT_PROOF);
    return OK;
}

struct fault audit_tree_check_consistency(uint64_t size, const struct sha256 *root, uint64_t new_size,
                                          const struct sha256 *new_root, const struct sha256 *proof, size_t count)
{
    REQUIRE(size <= new_size && count <= AUDIT_PROOF_MAX, AUDIT_PROOF);
    if (size == new_size) {
        REQUIRE(count == 0 && same(root, new_root), AUDIT_PROOF);
        return OK;
    }
    if (size == 0) { /* every tree begins with the empty one */
        struct sha256 empty;
        TRY(sha256_of(span_of(NULL, 0), &empty));
        REQUIRE(count == 0 && same(root, &empty), AUDIT_PROOF);
        return OK;
    }
    bool whole = (size & (size - 1)) == 0; /* then the old root is a node of the new tree, and not repeated */
    REQUIRE(whole || count > 0, AUDIT_PROOF);
    uint64_t at = size - 1, last = new_size - 1;
    for (; (at & 1) == 1; at >>= 1) {
        last >>= 1;
    }
    struct sha256 made_old = whole ? *root : proof[0], made_new = made_old;
    size_t used = whole ? 0 : 1;
    TRY(climb(at, last, proof + used, count - used, &made_old, &made_new));
    REQUIRE(same(&made_old, root) && same(&made_new, new_root), AUDIT_PROOF);
    return OK;
}
