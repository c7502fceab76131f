#include "appliance/release/tree.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/hashed_file.h"
#include "appliance/release/container.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#define PER_BLOCK  (RELEASE_BLOCK / SHA256_LEN)
#define LEVELS_MAX 4 /* 128^4 blocks are far more than RELEASE_PART_MAX */

struct tree {
    uint8_t *levels[LEVELS_MAX]; /* [0] hashes data; whole blocks, the rest of the last one zero */
    uint64_t blocks[LEVELS_MAX];
    size_t count;
    uint8_t root[SHA256_LEN];
    struct span salt;
    EVP_MD_CTX *digest;
};

static void tree_free(struct tree *tree)
{
    for (size_t i = 0; i < LEVELS_MAX; i++) {
        mem_free(TAKE(tree->levels[i]));
    }
    EVP_MD_CTX_free(TAKE(tree->digest));
}

static struct fault hash_block(struct tree *tree, const uint8_t *block, uint8_t out[SHA256_LEN])
{
    REQUIRE(EVP_DigestInit_ex2(tree->digest, NULL, NULL) == 1 &&
                EVP_DigestUpdate(tree->digest, tree->salt.at, tree->salt.len) == 1 &&
                EVP_DigestUpdate(tree->digest, block, RELEASE_BLOCK) == 1 &&
                EVP_DigestFinal_ex(tree->digest, out, NULL) == 1,
            CRYPTO);
    return OK;
}

static struct fault hash_data(struct op *op, struct tree *tree, int fd, uint64_t offset, uint64_t blocks)
{
    CLEANUP(buf_free) struct buf chunk = BUF_INIT(RELEASE_CHUNK);
    uint8_t *at = NULL;
    TRY(buf_reserve(&chunk, RELEASE_CHUNK, &at));
    for (uint64_t block = 0; block < blocks;) {
        uint64_t left = blocks - block, most = RELEASE_CHUNK / RELEASE_BLOCK;
        uint64_t count = left < most ? left : most;
        TRY(release_pread(op, fd, at, (size_t)count * RELEASE_BLOCK, offset + block * RELEASE_BLOCK));
        for (uint64_t i = 0; i < count; i++, block++) {
            TRY(hash_block(tree, at + i * RELEASE_BLOCK, tree->levels[0] + block * SHA256_LEN));
        }
    }
    return OK;
}

/* All levels over `blocks` blocks of data, and the root. */
static struct fault compute(struct op *op, struct tree *tree, int fd, uint64_t offset, uint64_t blocks)
{
    BUG_IF(blocks < 2 || blocks > RELEASE_PART_MAX / RELEASE_BLOCK || tree->salt.len != SHA256_LEN);
    TRY(sha256_begin(&tree->digest));
    for (uint64_t below = blocks; tree->count == 0 || below > 1; below = tree->blocks[tree->count++]) {
        tree->blocks[tree->count] = (below + PER_BLOCK - 1) / PER_BLOCK;
        TRY(mem_new((size_t)tree->blocks[tree->count], RELEASE_BLOCK, &tree->levels[tree->count]));
    }
    TRY(hash_data(op, tree, fd, offset, blocks));
    for (size_t level = 1; level < tree->count; level++) {
        for (uint64_t i = 0; i < tree->blocks[level - 1]; i++) {
            TRY(hash_block(tree, tree->levels[level - 1] + i * RELEASE_BLOCK, tree->levels[level] + i * SHA256_LEN));
        }
    }
    return hash_block(tree, tree->levels[tree->count - 1], tree->root);
}

static uint64_t tree_blocks(const struct tree *tree)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < tree->count; i++) {
        sum += tree->blocks[i];
    }
    return sum;
}

static struct fault compare_levels(struct op *op, const struct tree *tree, int fd, uint64_t offset)
{
    uint8_t stored[RELEASE_BLOCK];
    for (size_t level = tree->count; level-- > 0;) {
        for (uint64_t i = 0; i < tree->blocks[level]; i++, offset += RELEASE_BLOCK) {
            TRY(release_pread(op, fd, stored, sizeof(stored), offset));
            if (memcmp(stored, tree->levels[level] + i * RELEASE_BLOCK, RELEASE_BLOCK) != 0) {
                return op_fail(op, FAULT(RELEASE_FILE), "the image's hash tree is not that of its data");
            }
        }
    }
    return OK;
}

struct fault release_tree_check(struct op *op, int fd, uint64_t offset, uint64_t size, const struct release_tree *tree)
{
    CLEANUP(tree_free) struct tree made = { 0 };
    CLEANUP(buf_free) struct buf salt = BUF_INIT(SHA256_LEN);
    char root[RELEASE_HEX_MAX + 1];
    if (tree->blocks < 2 || tree->blocks > size / RELEASE_BLOCK || size > RELEASE_PART_MAX ||
        FAULTED(hex_decode(span_text(tree->salt), &salt)) || salt.len != SHA256_LEN) {
        return op_fail(op, FAULT(RELEASE_FILE), "the image is smaller than its data, or its salt is malformed");
    }
    made.salt = buf_span(&salt);
    TRY(compute(op, &made, fd, offset, tree->blocks));
    hex_text(SPAN_ARRAY(made.root), root, sizeof(root));
    if (strcmp(root, tree->roothash) != 0) {
        return op_fail(op, FAULT(RELEASE_FILE), "the image's root hash is %s and not the one that was named", root);
    }
    if (size != (tree->blocks + 1 + tree_blocks(&made)) * RELEASE_BLOCK) {
        return op_fail(op, FAULT(RELEASE_FILE), "the image does not end where its hash tree does");
    }
    return compare_levels(op, &made, fd, offset + (tree->blocks + 1) * RELEASE_BLOCK);
}

static struct fault put(struct op *op, int fd, const uint8_t *bytes, uint64_t len, uint64_t offset)
{
    while (len > 0) {
        ssize_t done = pwrite(fd, bytes, (size_t)len, (off_t)offset);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return op_fail(op, FAULT(IO), "the hash tree cannot be written");
        }
        bytes += done;
        len -= (uint64_t)done;
        offset += (uint64_t)done;
    }
    return OK;
}

static void put_le(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

/* As cryptsetup's veritysetup writes it; the uuid comes from the salt, so that the same input gives the same bytes. */
static void super_block(const struct tree *tree, uint64_t blocks, uint8_t out[RELEASE_BLOCK])
{
    memset(out, 0, RELEASE_BLOCK);
    memcpy(out, "verity\0\0", 8);
    put_le(out + 8, 1, 4);  /* version */
    put_le(out + 12, 1, 4); /* salt in front */
    memcpy(out + 16, tree->salt.at, 16);
    out[16 + 6] = (uint8_t)(0x40 | (out[16 + 6] & 0x0f));
    out[16 + 8] = (uint8_t)(0x80 | (out[16 + 8] & 0x3f));
    memcpy(out + 32, "sha256", 6);
    put_le(out + 64, RELEASE_BLOCK, 4);
    put_le(out + 68, RELEASE_BLOCK, 4);
    put_le(out + 72, blocks, 8);
    put_le(out + 80, SHA256_LEN, 2);
    memcpy(out + 88, tree->salt.at, SHA256_LEN);
}

struct fault release_tree_append(struct op *op, int fd, struct span salt, struct release_tree *ret_tree)
{
    CLEANUP(tree_free) struct tree made = { .salt = salt };
    uint8_t super[RELEASE_BLOCK];
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= RELEASE_BLOCK ||
        (uint64_t)status.st_size > RELEASE_PART_MAX / 2) {
        return op_fail(op, FAULT(RELEASE_FILE), "the image is no file, or not of a size that one may have");
    }
    uint64_t blocks = ((uint64_t)status.st_size + RELEASE_BLOCK - 1) / RELEASE_BLOCK;
    REQUIRE(ftruncate(fd, (off_t)(blocks * RELEASE_BLOCK)) == 0, IO);
    TRY(compute(op, &made, fd, 0, blocks));
    super_block(&made, blocks, super);
    uint64_t at = blocks * RELEASE_BLOCK;
    TRY(put(op, fd, super, sizeof(super), at));
    at += sizeof(super);
    for (size_t level = made.count; level-- > 0; at += made.blocks[level] * RELEASE_BLOCK) {
        TRY(put(op, fd, made.levels[level], made.blocks[level] * RELEASE_BLOCK, at));
    }
    hex_text(SPAN_ARRAY(made.root), ret_tree->roothash, sizeof(ret_tree->roothash));
    hex_text(salt, ret_tree->salt, sizeof(ret_tree->salt));
    ret_tree->blocks = blocks;
    return OK;
}
