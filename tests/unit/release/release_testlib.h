/* Release files made on the spot, for the unit tests of appliance/release and of what writes updates. */
#ifndef TESTS_UNIT_RELEASE_RELEASE_TESTLIB_H
#define TESTS_UNIT_RELEASE_RELEASE_TESTLIB_H

#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "appliance/release/container.h"
#include "appliance/release/tree.h"
#include "testlib.h"

#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define MADE_UKI_SIZE 10000

static char made_folder[64];

static inline const char *made_path(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", made_folder, name);
    return path;
}

static inline int made_begin(void **state)
{
    (void)state;
    (void)snprintf(made_folder, sizeof(made_folder), "/tmp/svc-release-XXXXXX");
    return mkdtemp(made_folder) != NULL ? 0 : -1;
}

static inline struct op *made_op(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ { 0 } }, 60000, &op), NONE);
    return op;
}

static inline void made_write(const char *path, struct span bytes)
{
    assert_fault(file_write(path, bytes, 0600), NONE);
}

static inline EVP_PKEY *made_key(const char *group)
{
    EVP_PKEY *key = EVP_EC_gen(group);
    assert_non_null(key);
    return key;
}

static inline void made_pem(EVP_PKEY *key, struct buf *out)
{
    BIO *bio = BIO_new(BIO_s_mem());
    char *text = NULL;
    assert_int_equal(PEM_write_bio_PUBKEY(bio, key), 1);
    long len = BIO_get_mem_data(bio, &text);
    assert_fault(buf_put(out, span_of(text, (size_t)len)), NONE);
    BIO_free_all(bio);
}

static inline void made_sign(EVP_PKEY *key, const char *hash, struct span bytes, struct buf *out)
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    uint8_t signature[256];
    size_t len = sizeof(signature);
    assert_int_equal(EVP_DigestSignInit_ex(md, NULL, hash, NULL, NULL, key, NULL), 1);
    assert_int_equal(EVP_DigestSign(md, signature, &len, bytes.at, bytes.len), 1);
    assert_fault(buf_put(out, span_of(signature, len)), NONE);
    EVP_MD_CTX_free(md);
}

/* Keys that trust `key` alone. */
static inline struct release_keys *made_keys(struct op *op, EVP_PKEY *key)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(4096);
    struct release_keys *keys = NULL;
    made_pem(key, &pem);
    assert_fault(release_keys_new(&keys), NONE);
    assert_fault(release_keys_add(op, keys, "test.pem", buf_span(&pem)), NONE);
    return keys;
}

/* What differs between the files of the tests; the rest is filled in. */
struct made_release {
    enum release_kind kind;
    const char *name, *profile, *version, *min_version;
    unsigned blocks; /* of data; 0 = 3 */
    uint8_t fill;    /* what root and uki are made of */
};

static inline void made_parts(struct op *op, const struct made_release *wanted, struct release_manifest *made)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT((size_t)64 << 20);
    uint8_t salt[SHA256_LEN] = { 7 }, *at = NULL;
    size_t data = (wanted->blocks > 0 ? wanted->blocks : 3) * (size_t)RELEASE_BLOCK;
    assert_fault(buf_reserve(&bytes, data, &at), NONE);
    for (size_t i = 0; i < data; i++) {
        at[i] = (uint8_t)(i / 7 + wanted->fill);
    }
    made_write(made_path("part0"), buf_span(&bytes));
    int fd = open(made_path("part0"), O_RDWR | O_CLOEXEC);
    assert_fault(release_tree_append(op, fd, SPAN_ARRAY(salt), &made->tree), NONE);
    (void)close(fd);
    made_write(made_path("part1"), span_of(at, MADE_UKI_SIZE));
    made->part_count = made->kind == RELEASE_UPDATE ? 2 : 1;
    for (size_t i = 0; i < made->part_count; i++) {
        buf_clear(&bytes);
        assert_fault(file_read(made_path(i == 0 ? "part0" : "part1"), &bytes), NONE);
        made->parts[i] = (struct release_part){ .name = release_part_name(made->kind, i), .size = bytes.len };
        assert_fault(sha256_of(buf_span(&bytes), &made->parts[i].sha256), NONE);
    }
}

static inline void made_manifest(struct op *op, const struct made_release *wanted, struct release_manifest *made)
{
    *made = (struct release_manifest){ .kind = wanted->kind, .created = 1700000000 * US_PER_S };
    (void)snprintf(made->name, sizeof(made->name), "%s", wanted->name != NULL ? wanted->name : RELEASE_PRODUCT);
    (void)snprintf(made->profile, sizeof(made->profile), "%s", wanted->profile != NULL ? wanted->profile : "small");
    assert_fault(version_parse(span_text(wanted->version != NULL ? wanted->version : "0.2.0"), &made->version), NONE);
    assert_fault(
        version_parse(span_text(wanted->min_version != NULL ? wanted->min_version : "0.1.0"), &made->min_version),
        NONE);
    made_parts(op, wanted, made);
}

/* The file, signed by `key` (P-256). */
static inline void made_file(struct op *op, const struct made_release *wanted, EVP_PKEY *key, const char *path)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(RELEASE_MANIFEST_MAX), signature = BUF_INIT(512);
    struct release_manifest manifest;
    const char *const parts[] = { made_path("part0"), made_path("part1") };
    made_manifest(op, wanted, &manifest);
    assert_fault(release_manifest_print(op, &manifest, &json), NONE);
    made_sign(key, "SHA256", buf_span(&json), &signature);
    assert_fault(release_pack(op, buf_span(&json), buf_span(&signature), NULL, parts, path), NONE);
}

#endif
