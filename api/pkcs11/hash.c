#include "api/pkcs11/hash.h"

#include "appliance/base/id.h"

#include <openssl/provider.h>

/* The last byte of the OID 2.16.840.1.101.3.4.2.x, and the digest's length. */
#define DIGEST_INFO(x, len)                                             \
    { 0x30, (len) + 17, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, \
      0x65, 0x03,       0x04, 0x02, (x),  0x05, 0x00, 0x04, (len) }

static const struct hash hashes[] = {
    { "sha256", "SHA2-256", CKM_SHA256, CKG_MGF1_SHA256, 32, DIGEST_INFO(1, 32) },
    { "sha384", "SHA2-384", CKM_SHA384, CKG_MGF1_SHA384, 48, DIGEST_INFO(2, 48) },
    { "sha512", "SHA2-512", CKM_SHA512, CKG_MGF1_SHA512, 64, DIGEST_INFO(3, 64) },
};

const struct hash *hash_by_mechanism(CK_MECHANISM_TYPE mechanism)
{
    for (size_t i = 0; i < COUNT_OF(hashes); i++) {
        if (hashes[i].mechanism == mechanism) {
            return &hashes[i];
        }
    }
    return NULL;
}

const struct hash *hash_by_len(size_t len)
{
    for (size_t i = 0; i < COUNT_OF(hashes); i++) {
        if (hashes[i].len == len) {
            return &hashes[i];
        }
    }
    return NULL;
}

const struct hash *hash_unwrap(struct span digest_info, struct span *ret_digest)
{
    for (size_t i = 0; i < COUNT_OF(hashes); i++) {
        size_t head = sizeof(hashes[i].digest_info);
        if (digest_info.len == head + hashes[i].len &&
            span_equal(span_of(digest_info.at, head), SPAN_ARRAY(hashes[i].digest_info))) {
            *ret_digest = span_of(digest_info.at + head, hashes[i].len);
            return &hashes[i];
        }
    }
    return NULL;
}

static OSSL_LIB_CTX *context;

struct fault context_ready(void)
{
    if (context != NULL) {
        return OK;
    }
    OSSL_LIB_CTX *made = OSSL_LIB_CTX_new();
    REQUIRE(made != NULL, NO_MEMORY);
    if (OSSL_PROVIDER_load(made, "default") == NULL) {
        OSSL_LIB_CTX_free(made);
        return crypto_fail(NULL, "");
    }
    context = made;
    crypto_context_set(made);
    return OK;
}

void context_forked(void)
{
    context = NULL;
}

struct fault hash_start(const struct hash *hash, EVP_MD_CTX **ret_md)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
    CLEANUP(EVP_MD_freep) EVP_MD *type = EVP_MD_fetch(crypto_context(), hash->openssl_name, NULL);
    REQUIRE(md != NULL, NO_MEMORY);
    if (type == NULL || EVP_DigestInit_ex2(md, type, NULL) != 1) {
        return crypto_fail(NULL, "");
    }
    *ret_md = TAKE(md);
    return OK;
}
