#include "api/projection/tree.h"
#include "appliance/base/codec.h"
#include "testlib.h"

#define SIZES 131

/* ---- the naive tree: RFC 6962 2.1 as it is written ---- */

static struct sha256 leaves[SIZES];

static struct sha256 naive_root(const struct sha256 *at, size_t n)
{
    struct sha256 root;
    if (n == 0) {
        assert_fault(sha256_of(span_of(NULL, 0), &root), NONE);
        return root;
    }
    if (n == 1) {
        return at[0];
    }
    size_t k = 1;
    while (2 * k < n) {
        k *= 2;
    }
    struct sha256 left = naive_root(at, k), right = naive_root(at + k, n - k);
    assert_fault(audit_tree_node(&left, &right, &root), NONE);
    return root;
}

static size_t naive_path(size_t m, const struct sha256 *at, size_t n, struct sha256 *proof)
{
    if (n == 1) {
        return 0;
    }
    size_t k = 1;
    while (2 * k < n) {
        k *= 2;
    }
    size_t count = m < k ? naive_path(m, at, k, proof) : naive_path(m - k, at + k, n - k, proof);
    proof[count] = m < k ? naive_root(at + k, n - k) : naive_root(at, k);
    return count + 1;
}

static size_t naive_subproof(size_t m, const struct sha256 *at, size_t n, bool whole, struct sha256 *proof)
{
    if (m == n) {
        if (!whole) {
            proof[0] = naive_root(at, n);
        }
        return whole ? 0 : 1;
    }
    size_t k = 1;
    while (2 * k < n) {
        k *= 2;
    }
    size_t count = m <= k ? naive_subproof(m, at, k, whole, proof) : naive_subproof(m - k, at + k, n - k, false, proof);
    proof[count] = m <= k ? naive_root(at + k, n - k) : naive_root(at, k);
    return count + 1;
}

static struct fault node_of_leaves(void *arg, unsigned level, uint64_t index, struct sha256 *ret_node)
{
    (void)arg;
    return audit_tree_join(&leaves[index << level], (size_t)1 << level, ret_node);
}

static const struct audit_tree_source source = { node_of_leaves, NULL };

static int make_leaves(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZES; i++) {
        uint8_t record[] = { 'r', (uint8_t)i };
        assert_fault(audit_tree_leaf(span_of(record, sizeof(record)), &leaves[i]), NONE);
    }
    return 0;
}

static void assert_same(const struct sha256 *got, const struct sha256 *want)
{
    assert_memory_equal(got->at, want->at, SHA256_LEN);
}

/* ---- the vectors that Certificate Transparency's own implementations are tested with ---- */

static const char *const vector_leaves[] = {
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"
};
static const char *const vector_roots[] = {
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
};
#define N0    "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"
#define N1    "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"
#define N2    "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"
#define N3    "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"
#define N4    "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a"
#define LEAF0 "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
#define LEAF1 "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"
#define ROOT2 "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"
#define ROOT4 "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"

static struct sha256 of_hex(const char *hex)
{
    struct sha256 hash;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(64);
    assert_fault(hex_decode(span_text(hex), &bytes), NONE);
    if (bytes.len == SHA256_LEN) {
        memcpy(hash.at, bytes.at, SHA256_LEN);
        return hash;
    }
    fail();
    return (struct sha256){ 0 };
}

static struct sha256 vector_leaf(size_t i)
{
    struct sha256 leaf;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(64);
    assert_fault(hex_decode(span_text(vector_leaves[i]), &bytes), NONE);
    assert_fault(audit_tree_leaf(buf_span(&bytes), &leaf), NONE);
    return leaf;
}

static void the_tree_has_the_published_roots(void **state)
{
    (void)state;
    struct audit_frontier frontier = { 0 };
    for (size_t n = 0; n <= 8; n++) {
        struct sha256 root, want = of_hex(vector_roots[n]);
        assert_fault(audit_frontier_root(&frontier, &root), NONE);
        assert_same(&root, &want);
        if (n < 8) {
            struct sha256 leaf = vector_leaf(n);
            assert_fault(audit_frontier_add(&frontier, &leaf), NONE);
        }
    }
}

static struct fault node_of_vectors(void *arg, unsigned level, uint64_t index, struct sha256 *ret_node)
{
    (void)arg;
    struct sha256 at[8];
    for (size_t i = 0; i < (size_t)1 << level; i++) {
        at[i] = vector_leaf(((size_t)index << level) + i);
    }
    return audit_tree_join(at, (size_t)1 << level, ret_node);
}

static void proofs_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        uint64_t first, size; /* index for inclusion */
        const char *nodes[4];
    } inclusions[] = {
        { 0, 1, { NULL } },
        { 0, 8, { LEAF1, N0, N1 } },
        { 5, 8, { N2, N3, ROOT4 } },
        { 2, 3, { ROOT2 } },
        { 1, 5, { LEAF0, N0, N2 } },
    }, consistencies[] = {
        { 1, 1, { NULL } },
        { 1, 8, { LEAF1, N0, N1 } },
        { 6, 8, { N4, N3, ROOT4 } },
        { 2, 5, { N0, N2 } },
    };
    struct audit_tree_source vectors = { node_of_vectors, NULL };
    struct sha256 proof[AUDIT_PROOF_MAX];
    for (size_t i = 0; i < COUNT_OF(inclusions) + COUNT_OF(consistencies); i++) {
        bool inclusion = i < COUNT_OF(inclusions);
        uint64_t first = inclusion ? inclusions[i].first : consistencies[i - COUNT_OF(inclusions)].first;
        uint64_t size = inclusion ? inclusions[i].size : consistencies[i - COUNT_OF(inclusions)].size;
        const char *const *nodes = inclusion ? inclusions[i].nodes : consistencies[i - COUNT_OF(inclusions)].nodes;
        size_t count = 0, want = 0;
        assert_fault(inclusion ? audit_tree_prove_inclusion(&vectors, first, size, proof, &count)
                               : audit_tree_prove_consistency(&vectors, first, size, proof, &count),
                     NONE);
        for (; nodes[want] != NULL; want++) {
            struct sha256 node = of_hex(nodes[want]);
            assert_true(want < count);
            assert_same(&proof[want], &node);
        }
        assert_int_equal(count, want);
    }
}

/* ---- against the naive tree, all sizes ---- */

static void a_growing_tree_has_the_root_of_the_recursive_definition(void **state)
{
    (void)state;
    struct audit_frontier frontier = { 0 }, coarse = { 0 };
    for (size_t n = 0; n < SIZES; n++) {
        struct sha256 root, want = naive_root(leaves, n);
        assert_fault(audit_frontier_root(&frontier, &root), NONE);
        assert_same(&root, &want);
        assert_fault(audit_frontier_add(&frontier, &leaves[n]), NONE);
    }
    for (size_t at = 0; at + 16 <= SIZES; at += 16) { /* the same in whole subtrees */
        struct sha256 root, want = naive_root(leaves, at + 16), part = naive_root(leaves + at, 16);
        assert_fault(audit_frontier_add_tree(&coarse, 4, &part), NONE);
        assert_fault(audit_frontier_root(&coarse, &root), NONE);
        assert_same(&root, &want);
    }
}

static struct fault check(bool inclusion, const struct sha256 *leaf, size_t first, size_t size,
                          const struct sha256 *proof, size_t count, const struct sha256 *roots)
{
    return inclusion ? audit_tree_check_inclusion(leaf, first, size, proof, count, &roots[size])
                     : audit_tree_check_consistency(first, leaf, size, &roots[size], proof, count);
}

/* One bit of each node, of what is proven and of the root; a node less, a node more; another place or size. */
static void assert_every_change_is_refused(bool inclusion, const struct sha256 *what, size_t first, size_t size,
                                           struct sha256 *proof, size_t count, struct sha256 *roots)
{
    size_t bit = (first * 7 + size * 13) % (8 * SHA256_LEN);
    uint8_t flip = (uint8_t)(1u << (bit % 8));
    for (size_t i = 0; i < count; i++) {
        proof[i].at[bit / 8] ^= flip;
        assert_fault(check(inclusion, what, first, size, proof, count, roots), AUDIT_PROOF);
        proof[i].at[bit / 8] ^= flip;
    }
    struct sha256 other = *what;
    other.at[bit / 8] ^= flip;
    assert_fault(check(inclusion, &other, first, size, proof, count, roots), AUDIT_PROOF);
    roots[size].at[bit / 8] ^= flip;
    assert_fault(check(inclusion, what, first, size, proof, count, roots), AUDIT_PROOF);
    roots[size].at[bit / 8] ^= flip;
    if (count > 0) {
        assert_fault(check(inclusion, what, first, size, proof, count - 1, roots), AUDIT_PROOF);
    }
    proof[count] = other;
    assert_fault(check(inclusion, what, first, size, proof, count + 1, roots), AUDIT_PROOF);
}

static void every_inclusion_proof_is_the_naive_one_holds_and_breaks_with_any_change(void **state)
{
    (void)state;
    struct sha256 proof[AUDIT_PROOF_MAX], want[AUDIT_PROOF_MAX], roots[SIZES];
    for (size_t n = 0; n < SIZES; n++) {
        roots[n] = naive_root(leaves, n);
    }
    for (size_t n = 1; n < SIZES; n++) {
        for (size_t m = 0; m < n; m++) {
            size_t count = 0;
            assert_fault(audit_tree_prove_inclusion(&source, m, n, proof, &count), NONE);
            assert_int_equal(count, naive_path(m, leaves, n, want));
            assert_memory_equal(proof, want, count * sizeof(want[0]));
            assert_fault(audit_tree_check_inclusion(&leaves[m], m, n, proof, count, &roots[n]), NONE);
            assert_every_change_is_refused(true, &leaves[m], m, n, proof, count, roots);
            for (size_t other = 0; other < n; other += 1 + n / 8) { /* a record has one place */
                assert_true(other == m ||
                            FAULTED(audit_tree_check_inclusion(&leaves[m], other, n, proof, count, &roots[n])));
            }
        }
        assert_fault(audit_tree_check_inclusion(&leaves[0], n, n, proof, 0, &roots[n]), AUDIT_PROOF);
    }
}

static void every_consistency_proof_is_the_naive_one_holds_and_breaks_with_any_change(void **state)
{
    (void)state;
    struct sha256 proof[AUDIT_PROOF_MAX], want[AUDIT_PROOF_MAX], roots[SIZES];
    for (size_t n = 0; n < SIZES; n++) {
        roots[n] = naive_root(leaves, n);
    }
    for (size_t n = 0; n < SIZES; n++) {
        for (size_t m = 0; m <= n; m++) {
            size_t count = 0;
            assert_fault(audit_tree_prove_consistency(&source, m, n, proof, &count), NONE);
            if (m > 0) {
                assert_int_equal(count, naive_subproof(m, leaves, n, true, want));
                assert_memory_equal(proof, want, count * sizeof(want[0]));
            }
            assert_fault(audit_tree_check_consistency(m, &roots[m], n, &roots[n], proof, count), NONE);
            if (m > 0) {
                struct sha256 old = roots[m]; /* m may be n */
                assert_every_change_is_refused(false, &old, m, n, proof, count, roots);
                assert_true(m == n ||
                            FAULTED(audit_tree_check_consistency(m - 1, &roots[m - 1], n, &roots[n], proof, count)));
            }
        }
    }
}

static void what_is_no_tree_is_refused(void **state)
{
    (void)state;
    struct sha256 proof[AUDIT_PROOF_MAX + 1] = { 0 }, root = leaves[0];
    size_t count = 7;
    assert_fault(audit_tree_check_inclusion(&leaves[0], 0, 0, proof, 0, &root), AUDIT_PROOF);
    assert_fault(audit_tree_check_inclusion(&leaves[0], 1, 1, proof, 0, &root), AUDIT_PROOF);
    assert_fault(audit_tree_check_inclusion(&leaves[0], 0, UINT64_MAX, proof, AUDIT_PROOF_MAX + 1, &root), AUDIT_PROOF);
    assert_fault(audit_tree_check_inclusion(&leaves[0], UINT64_MAX - 1, UINT64_MAX, proof, 64, &root), AUDIT_PROOF);
    assert_fault(audit_tree_check_consistency(2, &root, 1, &root, proof, 0), AUDIT_PROOF);
    assert_fault(audit_tree_check_consistency(0, &root, 1, &root, proof, 0), AUDIT_PROOF);
    assert_fault(audit_tree_check_consistency(UINT64_MAX, &root, UINT64_MAX, &root, proof, 1), AUDIT_PROOF);
    assert_fault(audit_tree_prove_inclusion(&source, 3, 3, proof, &count), BAD_ARGUMENT);
    assert_fault(audit_tree_prove_consistency(&source, 4, 3, proof, &count), BAD_ARGUMENT);
    assert_int_equal(count, 7);
    struct audit_frontier full = { .size = (uint64_t)INT64_MAX };
    assert_fault(audit_frontier_add(&full, &root), TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_tree_is_refused),
        cmocka_unit_test(the_tree_has_the_published_roots),
        cmocka_unit_test(proofs_are_the_published_ones),
        cmocka_unit_test(a_growing_tree_has_the_root_of_the_recursive_definition),
        cmocka_unit_test(every_inclusion_proof_is_the_naive_one_holds_and_breaks_with_any_change),
        cmocka_unit_test(every_consistency_proof_is_the_naive_one_holds_and_breaks_with_any_change),
    };
    return cmocka_run_group_tests_name("projection/tree", tests, make_leaves, NULL);
}
