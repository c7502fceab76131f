/* Identifiers that follow from what was signed. */
#include "api/compliance/render.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#include <stdio.h>

#define SHA1_BYTES 20

static struct fault uuid_bytes(const char *text, uint8_t out[16])
{
    size_t at = 0;
    for (const char *c = text; *c != '\0'; c++) {
        unsigned digit = *c >= 'a' ? (unsigned)(*c - 'a') + 10 : (unsigned)(*c - '0');
        if (*c == '-') {
            continue;
        }
        REQUIRE(at < 32 && digit < 16, BAD_ARGUMENT);
        out[at / 2] = (uint8_t)(at % 2 == 0 ? digit << 4 : out[at / 2] | digit);
        at++;
    }
    REQUIRE(at == 32, BAD_ARGUMENT);
    return OK;
}

struct fault render_uuid(const struct sha256 *digest, const char *name, struct uuid *ret_uuid)
{
    CLEANUP(EVP_MD_freep) EVP_MD *sha1 = EVP_MD_fetch(crypto_context(), "SHA1", NULL);
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CLEANUP(buf_free) struct buf text = BUF_INIT(1024);
    uint8_t at[SHA1_BYTES], space[16];
    char hex[2 * SHA256_LEN + 1];
    unsigned len = 0;
    hex_text(SPAN_ARRAY(digest->at), hex, sizeof(hex));
    TRY(uuid_bytes(RENDER_UUID_NAMESPACE, space));
    TRY(buf_printf(&text, "%s/%s", hex, name));
    if (sha1 == NULL || ctx == NULL || EVP_DigestInit_ex2(ctx, sha1, NULL) != 1 ||
        EVP_DigestUpdate(ctx, space, sizeof(space)) != 1 || EVP_DigestUpdate(ctx, text.at, text.len) != 1 ||
        EVP_DigestFinal_ex(ctx, at, &len) != 1 || len != sizeof(at)) {
        return crypto_fail(NULL, "the identifiers cannot be made");
    }
    at[6] = (uint8_t)((at[6] & 0x0f) | 0x50);
    at[8] = (uint8_t)((at[8] & 0x3f) | 0x80);
    hex_text(span_of(at, 16), hex, sizeof(hex));
    (void)snprintf(ret_uuid->text, sizeof(ret_uuid->text), "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
                   hex + 16, hex + 20);
    return OK;
}
