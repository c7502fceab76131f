/* The making of proofs, after the recursive definitions of RFC 6962 2.1.1 and 2.1.2, with the recursion laid out. */
#include "api/projection/tree.h"

/* Root over the leaves first..end-1, where first is a multiple of the power of two that end - first fits in. */
static struct fault range_root(const struct audit_tree_source *source, uint64_t first, uint64_t end,
                               struct sha256 *ret_root)
{
    struct sha256 parts[64];
    size_t count = 0;
    for (uint64_t left = end - first; left > 0; count++) { /* the largest complete subtree, the next one, ... */
        unsigned level = 63u - (unsigned)__builtin_clzll(left);
        TRY(source->node(source->arg, level, first >> level, &parts[count]));
        first += (uint64_t)1 << level;
        left -= (uint64_t)1 << level;
    }
    struct sha256 root = parts[count - 1];
    for (size_t i = count - 1; i-- > 0;) {
        TRY(audit_tree_node(&parts[i], &root, &root));
    }
    *ret_root = root;
    return OK;
}

struct fault audit_tree_root_of(const struct audit_tree_source *source, uint64_t size, struct sha256 *ret_root)
{
    REQUIRE(size <= INT64_MAX, BAD_ARGUMENT);
    return size == 0 ? sha256_of(span_of(NULL, 0), ret_root) : range_root(source, 0, size, ret_root);
}

/* The largest power of two below n, for n > 1. */
static uint64_t split_of(uint64_t n)
{
    return (uint64_t)1 << (63u - (unsigned)__builtin_clzll(n - 1));
}

/* What stands beside the way down from the root, turned round: a proof begins at the leaf. */
static void turn(struct sha256 *proof, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        struct sha256 kept = proof[i];
        proof[i] = proof[count - 1 - i];
        proof[count - 1 - i] = kept;
    }
}

struct fault audit_tree_prove_inclusion(const struct audit_tree_source *source, uint64_t index, uint64_t size,
                                        struct sha256 proof[AUDIT_PROOF_MAX], size_t *ret_count)
{
    REQUIRE(index < size && size <= INT64_MAX, BAD_ARGUMENT);
    size_t count = 0;
    for (uint64_t first = 0, end = size; end - first > 1; count++) {
        uint64_t middle = first + split_of(end - first);
        if (index < middle) {
            TRY(range_root(source, middle, end, &proof[count]));
            end = middle;
        } else {
            TRY(range_root(source, first, middle, &proof[count]));
            first = middle;
        }
    }
    turn(proof, count);
    *ret_count = count;
    return OK;
}

struct fault audit_tree_prove_consistency(const struct audit_tree_source *source, uint64_t old_size, uint64_t size,
                                          struct sha256 proof[AUDIT_PROOF_MAX], size_t *ret_count)
{
    REQUIRE(old_size <= size && size <= INT64_MAX, BAD_ARGUMENT);
    size_t count = 0;
    uint64_t first = 0, end = size;
    while (old_size > 0 && end > old_size) {
        uint64_t middle = first + split_of(end - first);
        if (old_size <= middle) {
            TRY(range_root(source, middle, end, &proof[count++]));
            end = middle;
        } else {
            TRY(range_root(source, first, middle, &proof[count++]));
            first = middle;
        }
    }
    if (first > 0) { /* else the rest is the old tree itself, whose root the verifier has */
        TRY(range_root(source, first, end, &proof[count++]));
    }
    turn(proof, count);
    *ret_count = count;
    return OK;
}
