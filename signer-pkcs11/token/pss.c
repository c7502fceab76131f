/* Quirk pss-raw: the PSS encoding, for tokens that know no PSS. */
#include "signer-pkcs11/token/internal.h"

#include "appliance/base/crypto.h"

#include <openssl/evp.h>

#define HASH_MAX 64

static struct fault hash_parts(const EVP_MD *md, const struct span *parts, size_t count, uint8_t out[HASH_MAX])
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx != NULL && EVP_DigestInit_ex2(ctx, md, NULL) == 1;
    for (size_t i = 0; good && i < count; i++) {
        good = EVP_DigestUpdate(ctx, parts[i].at, parts[i].len) == 1;
    }
    REQUIRE(good && EVP_DigestFinal_ex(ctx, out, NULL) == 1, CRYPTO);
    return OK;
}

/* MGF1 (RFC 8017 B.2.1) over `seed`, xored onto `at`. */
static struct fault mask(const EVP_MD *md, struct span seed, uint8_t *at, size_t len)
{
    for (uint32_t counter = 0; len > 0; counter++) {
        const uint8_t number[4] = { (uint8_t)(counter >> 24), (uint8_t)(counter >> 16), (uint8_t)(counter >> 8),
                                    (uint8_t)counter };
        const struct span parts[] = { seed, SPAN_ARRAY(number) };
        uint8_t block[HASH_MAX];
        size_t step = seed.len < len ? seed.len : len;
        TRY(hash_parts(md, parts, COUNT_OF(parts), block));
        for (size_t i = 0; i < step; i++) {
            *at++ ^= block[i];
        }
        len -= step;
    }
    return OK;
}

/* EM = maskedDB || H || 0xbc, where DB = zeros || 0x01 || salt and H = hash(eight zeros || digest || salt). */
struct fault pss_encode(struct op *op, enum hash_algorithm hash, struct span digest, uint8_t *encoded, size_t len)
{
    static const uint8_t zeros[8] = { 0 };
    uint8_t salt[HASH_MAX] = { 0 };
    const size_t h_len = hash_size(hash), db_len = len - h_len - 1;
    BUG_IF(len < 2 * h_len + 2 || digest.len != h_len);
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), hash_algorithm_text(hash), NULL);
    const struct span parts[] = { SPAN_ARRAY(zeros), digest, span_of(salt, h_len) };
    memset(encoded, 0, len);
    if (md == NULL || FAULTED(random_bytes(salt, h_len)) ||
        FAULTED(hash_parts(md, parts, COUNT_OF(parts), encoded + db_len))) {
        return crypto_fail(op, "the signature cannot be encoded");
    }
    encoded[db_len - h_len - 1] = 0x01;
    memcpy(encoded + db_len - h_len, salt, h_len);
    if (FAULTED(mask(md, span_of(encoded + db_len, h_len), encoded, db_len))) {
        return crypto_fail(op, "the signature cannot be encoded");
    }
    encoded[0] &= 0x7f; /* one bit shorter than the modulus */
    encoded[len - 1] = 0xbc;
    return OK;
}
