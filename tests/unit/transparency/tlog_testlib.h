/* A transparency log of the test's own: a key, leaves in a Merkle tree, signed entry timestamps and checkpoints. Its
 * hashes and proofs are made the slow way, straight from RFC 6962's definitions, so that they are a second opinion. */
#ifndef TESTS_UNIT_TRANSPARENCY_TLOG_TESTLIB_H
#define TESTS_UNIT_TRANSPARENCY_TLOG_TESTLIB_H

#include "testlib.h"

#include "api/transparency/verify_internal.h"
#include "appliance/base/codec.h"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <stdio.h>

#define LEAVES_MAX 1024u
#define LOG_TIME   INT64_C(1800000000)

static struct op *test_op;

static inline struct span keep(struct span bytes)
{
    struct span copy;
    assert_fault(arena_copy(test_op->arena, bytes, &copy), NONE);
    return copy;
}

static inline const char *keep_text(struct span bytes)
{
    const char *copy = NULL;
    assert_fault(arena_text(test_op->arena, bytes, &copy), NONE);
    return copy;
}

/* ---- keys ---- */

static inline struct span spki_of(EVP_PKEY *key)
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(key, &der);
    assert_true(len > 0);
    struct span copy = keep(span_of(der, (size_t)len));
    OPENSSL_free(der);
    return copy;
}

static inline struct span sign_with(EVP_PKEY *key, const char *hash, struct span message)
{
    unsigned char out[512];
    size_t len = sizeof(out);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit_ex(ctx, NULL, hash, NULL, NULL, key, NULL), 1);
    assert_int_equal(EVP_DigestSign(ctx, out, &len, message.at, message.len), 1);
    EVP_MD_CTX_free(ctx);
    return keep(span_of(out, len));
}

static inline struct span pem_of(const char *label, struct span der)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    CLEANUP(buf_free) struct buf pem = BUF_INIT(65536);
    assert_fault(base64_encode(der, &text), NONE);
    assert_fault(buf_printf(&pem, "-----BEGIN %s-----\n", label), NONE);
    for (size_t at = 0; at < text.len; at += 64) {
        size_t len = text.len - at < 64 ? text.len - at : 64;
        assert_fault(buf_printf(&pem, "%.*s\n", (int)len, (const char *)text.at + at), NONE);
    }
    assert_fault(buf_printf(&pem, "-----END %s-----\n", label), NONE);
    return keep(buf_span(&pem));
}

static inline const char *base64_of(struct span bytes)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(1 << 20);
    assert_fault(base64_encode(bytes, &text), NONE);
    return keep_text(buf_span(&text));
}

static inline const char *hex_of(struct span bytes)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(1 << 20);
    assert_fault(hex_encode(bytes, &text), NONE);
    return keep_text(buf_span(&text));
}

/* ---- the tree, by definition ---- */

struct tree {
    struct sha256 leaves[LEAVES_MAX];
    size_t count;
};

static inline void hash_leaf(struct span body, struct sha256 *out)
{
    unsigned char bytes[8192] = { 0 };
    assert_true(body.len < sizeof(bytes));
    memcpy(bytes + 1, body.at, body.len);
    (void)SHA256(bytes, body.len + 1, out->at);
}

static inline void hash_range(const struct tree *tree, size_t first, size_t count, struct sha256 *out)
{
    if (count == 1) {
        *out = tree->leaves[first];
        return;
    }
    size_t half = 1;
    unsigned char bytes[1 + 2 * SHA256_LEN] = { 1 };
    struct sha256 left, right;
    while (half * 2 < count) {
        half *= 2;
    }
    hash_range(tree, first, half, &left);
    hash_range(tree, first + half, count - half, &right);
    memcpy(bytes + 1, left.at, SHA256_LEN);
    memcpy(bytes + 1 + SHA256_LEN, right.at, SHA256_LEN);
    (void)SHA256(bytes, sizeof(bytes), out->at);
}

/* From the leaf up. */
static inline size_t prove(const struct tree *tree, size_t index, size_t first, size_t count, struct span *hashes)
{
    if (count == 1) {
        return 0;
    }
    size_t half = 1;
    struct sha256 beside;
    while (half * 2 < count) {
        half *= 2;
    }
    bool left = index < first + half;
    size_t below =
        left ? prove(tree, index, first, half, hashes) : prove(tree, index, first + half, count - half, hashes);
    hash_range(tree, left ? first + half : first, left ? count - half : half, &beside);
    hashes[below] = keep(SPAN_ARRAY(beside.at));
    return below + 1;
}

/* ---- the log ---- */

struct log {
    EVP_PKEY *key;
    const char *hash; /* NULL for Ed25519 */
    const char *origin, *name;
    struct tlog_key pinned;
    struct tlog_trust trust;
    struct sha256 id; /* of the SPKI */
};

static inline void log_open(struct log *log, const char *type, const char *origin)
{
    *log = (struct log){ .origin = origin, .name = "log.example", .hash = "SHA256" };
    if (strcmp(type, "Ed25519") == 0) {
        log->key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
        log->hash = NULL;
    } else {
        log->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", type);
    }
    assert_non_null(log->key);
    log->pinned.spki = spki_of(log->key);
    log->trust = (struct tlog_trust){ .keys = &log->pinned, .key_count = 1, .origin = NULL };
    (void)SHA256(log->pinned.spki.at, log->pinned.spki.len, log->id.at);
}

static inline void log_close(struct log *log)
{
    EVP_PKEY_free(log->key);
}

static inline void note_key_id(const struct log *log, struct sha256 *out)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(4096);
    unsigned char raw[32];
    size_t len = sizeof(raw);
    if (log->hash != NULL) {
        *out = log->id;
        return;
    }
    assert_int_equal(EVP_PKEY_get_raw_public_key(log->key, raw, &len), 1);
    assert_fault(buf_printf(&text, "%s\n\x01", log->name), NONE);
    assert_fault(buf_put(&text, span_of(raw, len)), NONE);
    (void)SHA256(text.at, text.len, out->at);
}

/* "— name base64(id[:4] || signature)\n" over `text`. */
static inline const char *sign_line(const struct log *log, struct span text)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(4096);
    struct sha256 id;
    const char *line = NULL;
    note_key_id(log, &id);
    assert_fault(buf_put(&bytes, span_of(id.at, 4)), NONE);
    assert_fault(buf_put(&bytes, sign_with(log->key, log->hash, text)), NONE);
    assert_fault(arena_printf(test_op->arena, &line, "\xe2\x80\x94 %s %s\n", log->name, base64_of(buf_span(&bytes))),
                 NONE);
    return line;
}

static inline const char *checkpoint_text(const struct log *log, size_t size, const struct sha256 *root)
{
    const char *text = NULL;
    assert_fault(
        arena_printf(test_op->arena, &text, "%s\n%zu\n%s\n", log->origin, size, base64_of(SPAN_ARRAY(root->at))), NONE);
    return text;
}

static inline const char *checkpoint_of(const struct log *log, size_t size, const struct sha256 *root)
{
    const char *text = checkpoint_text(log, size, root), *note = NULL;
    assert_fault(arena_printf(test_op->arena, &note, "%s\n%s", text, sign_line(log, span_text(text))), NONE);
    return note;
}

static inline void promise(const struct log *log, struct tlog_entry *entry)
{
    const char *text = NULL;
    assert_fault(arena_printf(test_op->arena, &text,
                              "{\"body\":\"%s\",\"integratedTime\":%lld,\"logID\":\"%s\",\"logIndex\":%lld}",
                              base64_of(entry->body), (long long)entry->integrated_time, hex_of(entry->log_id),
                              (long long)entry->log_index),
                 NONE);
    entry->set = sign_with(log->key, log->hash, span_text(text));
}

/* ---- a signing, and its body ---- */

struct signing {
    EVP_PKEY *key;
    struct tlog_expect expect;
};

static inline void signing_make(struct signing *signing)
{
    unsigned char digest[32];
    signing->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    (void)SHA256((const unsigned char *)"artifact", 8, digest);
    signing->expect = (struct tlog_expect){ .hash = "sha256",
                                            .digest = keep(SPAN_ARRAY(digest)),
                                            .signature = sign_with(signing->key, "SHA256", span_text("artifact")),
                                            .spki = spki_of(signing->key) };
}

/* Not a real one: the verification compares its bytes and asks no more of it. */
static inline struct span some_certificate(void)
{
    return keep(span_text("not much of a certificate, but it has bytes of its own"));
}

static inline struct span body_v1(const struct tlog_expect *expect)
{
    const char *text = NULL;
    bool certified = expect->certificate.len > 0;
    struct span pem = certified ? pem_of("CERTIFICATE", expect->certificate) : pem_of("PUBLIC KEY", expect->spki);
    assert_fault(arena_printf(test_op->arena, &text,
                              "{\"apiVersion\":\"0.0.1\",\"kind\":\"hashedrekord\",\"spec\":{\"data\":{\"hash\":"
                              "{\"algorithm\":\"%s\",\"value\":\"%s\"}},\"signature\":{\"content\":\"%s\","
                              "\"publicKey\":{\"content\":\"%s\"}}}}",
                              expect->hash, hex_of(expect->digest), base64_of(expect->signature), base64_of(pem)),
                 NONE);
    return span_text(text);
}

static inline struct span body_v2(const struct tlog_expect *expect)
{
    const char *text = NULL;
    bool certified = expect->certificate.len > 0;
    assert_fault(arena_printf(test_op->arena, &text,
                              "{\"apiVersion\":\"0.0.2\",\"kind\":\"hashedrekord\",\"spec\":{\"hashedRekordV002\":"
                              "{\"data\":{\"algorithm\":\"SHA2_%s\",\"digest\":\"%s\"},\"signature\":{\"content\":"
                              "\"%s\",\"verifier\":{\"keyDetails\":\"PKIX_ECDSA_P256_SHA_256\",\"%s\":{\"rawBytes\":"
                              "\"%s\"}}}}}}",
                              expect->hash + 3, base64_of(expect->digest), base64_of(expect->signature),
                              certified ? "x509Certificate" : "publicKey",
                              base64_of(certified ? expect->certificate : expect->spki)),
                 NONE);
    return span_text(text);
}

/* ---- an entry of a tree of `size` leaves at `index`, with all its proofs ---- */

static inline struct tree *grow(struct span body, size_t index, size_t size)
{
    struct tree *tree = NULL;
    assert_fault(arena_take(test_op->arena, 1, sizeof(*tree), &tree), NONE);
    for (tree->count = 0; tree->count < size; tree->count++) {
        char other[32];
        int len = snprintf(other, sizeof(other), "leaf %zu", tree->count);
        hash_leaf(tree->count == index ? body : span_of(other, (size_t)len), &tree->leaves[tree->count]);
    }
    return tree;
}

static inline void add_proof(const struct log *log, struct tlog_entry *entry, size_t index, size_t size)
{
    struct tree *tree = grow(entry->body, index, size);
    struct sha256 root;
    hash_range(tree, 0, size, &root);
    assert_fault(arena_take(test_op->arena, TLOG_HASHES_MAX, sizeof(struct span), &entry->hashes), NONE);
    entry->proof_index = (int64_t)index;
    entry->tree_size = (int64_t)size;
    entry->root_hash = keep(SPAN_ARRAY(root.at));
    entry->hash_count = prove(tree, index, 0, size, entry->hashes);
    entry->checkpoint = checkpoint_of(log, size, &root);
}

/* As Rekor v1 gives it: the index within the whole log is another than within the tree. */
static inline struct tlog_entry entry_v1(const struct log *log, const struct tlog_expect *expect)
{
    struct tlog_entry entry = { .kind = "hashedrekord",
                                .version = "0.0.1",
                                .log_id = keep(SPAN_ARRAY(log->id.at)),
                                .log_index = 100005,
                                .integrated_time = LOG_TIME,
                                .body = body_v1(expect) };
    promise(log, &entry);
    add_proof(log, &entry, 5, 7);
    return entry;
}

static inline struct tlog_entry entry_v2(const struct log *log, const struct tlog_expect *expect)
{
    struct tlog_entry entry = { .kind = "hashedrekord", .version = "0.0.2", .log_index = 5, .body = body_v2(expect) };
    struct sha256 id;
    note_key_id(log, &id);
    entry.log_id = keep(SPAN_ARRAY(id.at));
    add_proof(log, &entry, 5, 7);
    return entry;
}

/* A copy with one byte changed. */
static inline struct span bent(struct span bytes, size_t at)
{
    CLEANUP(buf_free) struct buf copy = BUF_INIT(1 << 20);
    assert_true(at < bytes.len);
    assert_fault(buf_put(&copy, bytes), NONE);
    copy.at[at] ^= 1;
    return keep(buf_span(&copy));
}

static inline int op_open(void **state)
{
    (void)state;
    struct tenant_id tenant = { "default" };
    return FAULTED(op_new("test", tenant, 60000, &test_op)) ? 1 : 0;
}

static inline int op_close(void **state)
{
    (void)state;
    op_free(TAKE(test_op));
    return 0;
}

#endif
