#include "fips/jws_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#define SIGNATURE_MAX 512

struct jws_writer {
    EVP_MD_CTX *ctx; /* of the key: only the digest goes to it, at the end */
    const struct jws_algorithm *algorithm;
    uint8_t carry[3]; /* payload that does not fill a group of base64url yet */
    size_t carried;
};

void jws_writer_free(struct jws_writer *writer)
{
    if (writer != NULL) {
        EVP_MD_CTX_free(writer->ctx);
        mem_free(writer);
    }
}

static struct fault hash_since(struct jws_writer *writer, const struct buf *out, size_t from)
{
    REQUIRE(EVP_DigestSignUpdate(writer->ctx, out->at + from, out->len - from) == 1, CRYPTO);
    return OK;
}

struct fault jws_writer_new(struct op *op, EVP_PKEY *key, struct span spki, const char *typ,
                            struct jws_writer **ret_writer, struct buf *out)
{
    CLEANUP(jws_writer_freep) struct jws_writer *writer = NULL;
    EVP_PKEY_CTX *options = NULL; /* belongs to ctx */
    size_t from = out->len;
    TRY(mem_new(1, sizeof(*writer), &writer));
    TRY(jws_header_begin(key, spki, typ, out, &writer->algorithm));
    writer->ctx = EVP_MD_CTX_new();
    if (writer->ctx == NULL ||
        EVP_DigestSignInit_ex(writer->ctx, &options, writer->algorithm->digest, crypto_context(), NULL, key, NULL) !=
            1 ||
        !jws_padding(writer->algorithm, options)) {
        return crypto_fail(op, "the JWS could not be begun");
    }
    TRY(hash_since(writer, out, from));
    *ret_writer = TAKE(writer);
    return OK;
}

struct fault jws_writer_payload(struct jws_writer *writer, struct span payload, struct buf *out)
{
    size_t from = out->len;
    while (writer->carried > 0 && writer->carried < sizeof(writer->carry) && payload.len > 0) {
        writer->carry[writer->carried++] = payload.at[0];
        payload = span_of(payload.at + 1, payload.len - 1);
    }
    if (writer->carried == sizeof(writer->carry)) {
        TRY(base64url_encode(SPAN_ARRAY(writer->carry), out));
        writer->carried = 0;
    }
    if (writer->carried == 0) {
        size_t whole = payload.len - payload.len % sizeof(writer->carry);
        TRY(base64url_encode(span_of(payload.at, whole), out));
        writer->carried = payload.len - whole;
        for (size_t i = 0; i < writer->carried; i++) {
            writer->carry[i] = payload.at[whole + i];
        }
    }
    return hash_since(writer, out, from);
}

struct fault jws_writer_end(struct op *op, struct jws_writer *writer, struct buf *out)
{
    uint8_t signature[SIGNATURE_MAX];
    size_t len = sizeof(signature), from = out->len;
    TRY(base64url_encode(span_of(writer->carry, writer->carried), out));
    TRY(hash_since(writer, out, from));
    if (EVP_DigestSignFinal(writer->ctx, signature, &len) != 1) {
        return crypto_fail(op, "the JWS could not be signed");
    }
    return jws_signature_put(writer->algorithm, span_of(signature, len), out);
}
