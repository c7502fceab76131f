/* RFC 6962 hashes and audit paths. */
#include "api/transparency/verify_internal.h"

struct fault tlog_leaf_hash(struct span body, struct sha256 *ret_hash)
{
    static const uint8_t leaf[] = { 0x00 };
    const struct span parts[] = { SPAN_ARRAY(leaf), body };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_hash);
}

struct fault tlog_node_hash(const struct sha256 *left, const struct sha256 *right, struct sha256 *ret_hash)
{
    static const uint8_t node[] = { 0x01 };
    const struct span parts[] = { SPAN_ARRAY(node), SPAN_ARRAY(left->at), SPAN_ARRAY(right->at) };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_hash);
}

/* RFC 9162 2.1.3.2, with its names: fn and sn are node and last node of the level at hand. */
struct fault tlog_root_of(uint64_t index, uint64_t size, const struct sha256 *leaf, const struct span *hashes,
                          size_t count, struct sha256 *ret_root)
{
    REQUIRE(index < size && count <= TLOG_HASHES_MAX, BAD_ARGUMENT);
    uint64_t fn = index, sn = size - 1;
    struct sha256 root = *leaf;
    for (size_t i = 0; i < count; i++) {
        struct sha256 beside;
        REQUIRE(sn != 0 && hashes[i].len == SHA256_LEN, BAD_ARGUMENT);
        memcpy(beside.at, hashes[i].at, SHA256_LEN);
        bool right = (fn & 1) != 0 || fn == sn;
        TRY(right ? tlog_node_hash(&beside, &root, &root) : tlog_node_hash(&root, &beside, &root));
        while (right && (fn & 1) == 0 && fn != 0) { /* levels in which this node is the last and alone */
            fn >>= 1;
            sn >>= 1;
        }
        fn >>= 1;
        sn >>= 1;
    }
    REQUIRE(sn == 0, BAD_ARGUMENT);
    *ret_root = root;
    return OK;
}
