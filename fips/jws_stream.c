/* A JWS of any size, verified as its bytes go by. */
#include "fips/jws_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#define SIGNATURE_MAX 512
#define ECDSA_ROOM    112

struct jws_stream {
    const struct jwk *key;
    const struct jws_algorithm *algorithm;
    EVP_MD_CTX *ctx;
};

void jws_stream_free(struct jws_stream *stream)
{
    if (stream != NULL) {
        EVP_MD_CTX_free(stream->ctx);
        mem_free(stream);
    }
}

static bool is_pinned(const struct jwk_set *keys, const char *kid)
{
    for (size_t i = 0; kid != NULL && i < keys->count; i++) {
        if (strcmp(keys->at[i].kid, kid) == 0) {
            return true;
        }
    }
    return false;
}

static struct fault begin(struct op *op, struct jws_stream *stream)
{
    EVP_PKEY_CTX *options = NULL; /* belongs to ctx */
    stream->algorithm = jws_algorithm_find(stream->key->alg);
    BUG_IF(stream->algorithm == NULL);
    stream->ctx = EVP_MD_CTX_new();
    REQUIRE(stream->ctx != NULL, NO_MEMORY);
    if (EVP_DigestVerifyInit_ex(stream->ctx, &options, stream->algorithm->digest, crypto_context(), NULL,
                                stream->key->key, NULL) != 1 ||
        !jws_padding(stream->algorithm, options)) {
        return crypto_fail(op, "the JWS signature could not be checked");
    }
    return OK;
}

struct fault jws_stream_new(struct op *op, struct span header, const char *typ, const struct jwk_set *keys,
                            struct jws_stream **ret_stream)
{
    struct jws_header decoded = { 0 };
    CLEANUP(jws_stream_freep) struct jws_stream *stream = NULL;
    TRY(jws_header_decode(op, header, &decoded));
    if (typ != NULL && (decoded.typ == NULL || strcmp(decoded.typ, typ) != 0)) {
        return op_fail(op, FAULT(JWS_FORMAT), "the JWS has typ \"%s\", \"%s\" is wanted",
                       decoded.typ != NULL ? decoded.typ : "", typ);
    }
    TRY(mem_new(1, sizeof(*stream), &stream));
    struct fault fault = jws_pick_key(op, &decoded, keys, &stream->key);
    if (fault.code == FAULT_JWS_KEY && (is_pinned(keys, decoded.kid) || (decoded.kid == NULL && keys->count == 1))) {
        op->note.code = FAULT_JWS_ALGORITHM;
        return FAULT(JWS_ALGORITHM);
    }
    TRY(fault);
    TRY(begin(op, stream));
    TRY(jws_stream_payload(stream, header));
    TRY(jws_stream_payload(stream, span_text(".")));
    *ret_stream = TAKE(stream);
    return OK;
}

struct fault jws_stream_payload(struct jws_stream *stream, struct span encoded)
{
    REQUIRE(EVP_DigestVerifyUpdate(stream->ctx, encoded.at, encoded.len) == 1, CRYPTO);
    return OK;
}

struct fault jws_stream_end(struct op *op, struct jws_stream *stream, struct span signature, const struct jwk **ret_key)
{
    uint8_t room[ECDSA_ROOM];
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(SIGNATURE_MAX);
    struct fault fault = base64url_decode(signature, &bytes);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return op_fail(op, FAULT(JWS_FORMAT), "the JWS signature is not base64url");
    }
    struct span wire = buf_span(&bytes);
    if (stream->algorithm->curve != NULL &&
        FAULTED(jws_ecdsa_der(wire, stream->algorithm->coordinate, room, sizeof(room), &wire))) {
        return op_fail(op, FAULT(JWS_SIGNATURE), "an %s signature has %zu bytes, this one %zu", stream->algorithm->name,
                       2 * stream->algorithm->coordinate, bytes.len);
    }
    if (EVP_DigestVerifyFinal(stream->ctx, wire.at, wire.len) != 1) {
        char reason[256];
        crypto_last_error(reason, sizeof(reason));
        fault = op_fail(op, FAULT(JWS_SIGNATURE),
                        "the signature was not made by the pinned key \"%s\" over these bytes", stream->key->kid);
        op_note_log(op, "OpenSSL: %s", reason);
        return fault;
    }
    *ret_key = stream->key;
    return OK;
}
