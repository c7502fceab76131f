#include "fips/jws_internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/der.h"
#include "appliance/base/json.h"

#include <openssl/rsa.h>

#define HEADER_MAX    1024
#define SIGNATURE_MAX 512
#define ECDSA_MAX     96 /* r and s of P-384 */

bool jws_padding(const struct jws_algorithm *algorithm, EVP_PKEY_CTX *options)
{
    if (algorithm->curve != NULL) {
        return true;
    }
    if (!algorithm->pss) {
        return EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PADDING) == 1;
    }
    return EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
           EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1;
}

/* SEQUENCE(r, s) as two integers of fixed width (RFC 7518 3.4). */
static struct fault ecdsa_to_jws(struct span der, size_t width, uint8_t out[ECDSA_MAX])
{
    struct der_element sequence;
    TRY(der_take(&der, DER_SEQUENCE, &sequence));
    TRY(der_end(der));
    memset(out, 0, 2 * width);
    for (size_t i = 0; i < 2; i++) {
        struct der_element number;
        TRY(der_take(&sequence.body, DER_INTEGER, &number));
        TRY(der_integer_check(number.body));
        struct span body = number.body;
        if (body.at[0] == 0) {
            body = span_of(body.at + 1, body.len - 1);
        }
        REQUIRE(body.len <= width, BAD_ARGUMENT);
        memcpy(out + (i + 1) * width - body.len, body.at, body.len);
    }
    return der_end(sequence.body);
}

static void write_number(struct der_writer *writer, struct span number)
{
    while (number.len > 1 && number.at[0] == 0) {
        number = span_of(number.at + 1, number.len - 1);
    }
    size_t mark = der_mark(writer);
    der_write(writer, number);
    if ((number.at[0] & 0x80) != 0) {
        der_write(writer, span_of("", 1));
    }
    der_wrap(writer, DER_INTEGER, mark);
}

struct fault jws_ecdsa_der(struct span raw, size_t width, uint8_t *room, size_t size, struct span *ret_der)
{
    REQUIRE(raw.len == 2 * width, JWS_SIGNATURE);
    struct der_writer writer;
    der_writer_init(&writer, room, size);
    write_number(&writer, span_of(raw.at + width, width));
    write_number(&writer, span_of(raw.at, width));
    der_wrap(&writer, DER_SEQUENCE, 0);
    return der_written(&writer, ret_der);
}

static struct fault header_print(const char *alg, const char *kid, const char *typ, struct buf *out)
{
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_text(&json, "alg", alg);
    jout_key_text(&json, "kid", kid);
    jout_key_text(&json, "typ", typ);
    jout_object_end(&json);
    return jout_end(&json);
}

static struct fault sign_bytes(struct op *op, EVP_PKEY *key, const struct jws_algorithm *algorithm, struct span message,
                               uint8_t *out, size_t *len)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL; /* belongs to ctx */
    if (ctx == NULL ||
        EVP_DigestSignInit_ex(ctx, &options, algorithm->digest, crypto_context(), NULL, key, NULL) != 1 ||
        !jws_padding(algorithm, options) || EVP_DigestSign(ctx, out, len, message.at, message.len) != 1) {
        return crypto_fail(op, "the JWS could not be signed");
    }
    return OK;
}

struct fault jws_header_begin(EVP_PKEY *key, struct span spki, const char *typ, struct buf *out,
                              const struct jws_algorithm **ret_algorithm)
{
    BUG_IF(typ == NULL);
    const char *alg = NULL;
    char kid[44];
    TRY(jwk_alg(key, &alg));
    TRY(jwk_kid(spki, kid));
    CLEANUP(buf_free) struct buf header = BUF_INIT(HEADER_MAX);
    TRY(header_print(alg, kid, typ, &header));
    TRY(base64url_encode(buf_span(&header), out));
    TRY(buf_text(out, "."));
    *ret_algorithm = jws_algorithm_find(alg);
    return OK;
}

struct fault jws_signature_put(const struct jws_algorithm *algorithm, struct span signature, struct buf *out)
{
    uint8_t fixed[ECDSA_MAX];
    if (algorithm->curve != NULL) {
        TRY(ecdsa_to_jws(signature, algorithm->coordinate, fixed));
        signature = span_of(fixed, 2 * algorithm->coordinate);
    }
    TRY(buf_text(out, "."));
    return base64url_encode(signature, out);
}

struct fault jws_sign(struct op *op, EVP_PKEY *key, struct span spki, const char *typ, struct span payload,
                      struct buf *compact)
{
    const struct jws_algorithm *algorithm = NULL;
    size_t start = compact->len;
    TRY(jws_header_begin(key, spki, typ, compact, &algorithm));
    TRY(base64url_encode(payload, compact));

    uint8_t signature[SIGNATURE_MAX];
    size_t len = sizeof(signature);
    TRY(sign_bytes(op, key, algorithm, span_of(compact->at + start, compact->len - start), signature, &len));
    return jws_signature_put(algorithm, span_of(signature, len), compact);
}

struct fault jws_split(struct op *op, struct span compact, struct jws_parts *ret_parts)
{
    const uint8_t *end = compact.at + compact.len;
    const uint8_t *first = compact.len > 0 ? memchr(compact.at, '.', compact.len) : NULL;
    const uint8_t *second = first != NULL ? memchr(first + 1, '.', (size_t)(end - first) - 1) : NULL;
    if (second == NULL || memchr(second + 1, '.', (size_t)(end - second) - 1) != NULL) {
        return op_fail(op, FAULT(JWS_FORMAT), "a compact JWS has three parts with a dot between them");
    }
    *ret_parts = (struct jws_parts){
        .header = span_of(compact.at, (size_t)(first - compact.at)),
        .payload = span_of(first + 1, (size_t)(second - first) - 1),
        .signature = span_of(second + 1, (size_t)(end - second) - 1),
        .signing_input = span_of(compact.at, (size_t)(second - compact.at)),
    };
    return OK;
}

/* Everything else in a header is refused as unknown: crit (RFC 7515 4.1.11) above all, and jwk, jku, x5u, x5c, by which
 * a forger could bring a key of his own. */
static const struct jin_field header_fields[] = {
    JIN_TEXT(struct jws_header, alg, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct jws_header, kid, JIN_OPTIONAL, 1, 128),
    JIN_TEXT(struct jws_header, typ, JIN_OPTIONAL, 1, 128),
};

struct fault jws_header_decode(struct op *op, struct span text, struct jws_header *ret_header)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(HEADER_MAX);
    struct fault fault = base64url_decode(text, &json);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return op_fail(op, FAULT(JWS_FORMAT), "the JWS header is not base64url, or larger than %d bytes", HEADER_MAX);
    }
    fault = jin_decode(op, buf_span(&json), header_fields, COUNT_OF(header_fields), ret_header);
    return fault.code == FAULT_JSON_SYNTAX || fault.code == FAULT_JSON_FIELD ? FAULT(JWS_FORMAT) : fault;
}

/* By kid; without one only when a single key is pinned, so that there is nothing to choose. */
struct fault jws_pick_key(struct op *op, const struct jws_header *header, const struct jwk_set *keys,
                          const struct jwk **ret_key)
{
    const struct jwk *found = NULL;
    for (size_t i = 0; i < keys->count; i++) {
        if (header->kid != NULL ? strcmp(keys->at[i].kid, header->kid) == 0 : keys->count == 1) {
            found = &keys->at[i];
        }
    }
    if (found == NULL) {
        return op_fail(op, FAULT(JWS_KEY), "the JWS names the key \"%s\", which is not among the %zu pinned ones",
                       header->kid != NULL ? header->kid : "", keys->count);
    }
    if (strcmp(found->alg, header->alg) != 0) {
        return op_fail(op, FAULT(JWS_KEY), "the JWS says alg \"%s\", its pinned key is for %s", header->alg,
                       found->alg);
    }
    *ret_key = found;
    return OK;
}

struct fault jws_check(struct op *op, const struct jws_algorithm *algorithm, const struct jwk *jwk, struct span message,
                       struct span signature)
{
    BUG_IF(algorithm == NULL);
    uint8_t room[ECDSA_MAX + 16];
    if (algorithm->curve != NULL &&
        FAULTED(jws_ecdsa_der(signature, algorithm->coordinate, room, sizeof(room), &signature))) {
        return op_fail(op, FAULT(JWS_SIGNATURE), "an %s signature has %zu bytes, this one %zu", algorithm->name,
                       2 * algorithm->coordinate, signature.len);
    }
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL; /* belongs to ctx */
    if (ctx == NULL ||
        EVP_DigestVerifyInit_ex(ctx, &options, algorithm->digest, crypto_context(), NULL, jwk->key, NULL) != 1 ||
        !jws_padding(algorithm, options)) {
        return crypto_fail(op, "the JWS signature could not be checked");
    }
    if (EVP_DigestVerify(ctx, signature.at, signature.len, message.at, message.len) != 1) {
        char reason[256];
        crypto_last_error(reason, sizeof(reason));
        struct fault fault = op_fail(op, FAULT(JWS_SIGNATURE),
                                     "the signature was not made by the pinned key \"%s\" over "
                                     "these bytes",
                                     jwk->kid);
        op_note_log(op, "OpenSSL: %s", reason);
        return fault;
    }
    return OK;
}

struct fault jws_verify(struct op *op, struct span compact, const char *typ, const struct jwk_set *keys,
                        struct span *ret_payload, const char **ret_kid)
{
    struct jws_parts parts = { 0 };
    struct jws_header header = { 0 };
    const struct jwk *key = NULL;
    TRY(jws_split(op, compact, &parts));
    TRY(jws_header_decode(op, parts.header, &header));
    if (typ != NULL && (header.typ == NULL || strcmp(header.typ, typ) != 0)) {
        return op_fail(op, FAULT(JWS_FORMAT), "the JWS has typ \"%s\", \"%s\" is wanted",
                       header.typ != NULL ? header.typ : "", typ);
    }
    TRY(jws_pick_key(op, &header, keys, &key));

    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    struct fault fault = base64url_decode(parts.signature, &signature);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return op_fail(op, FAULT(JWS_FORMAT), "the JWS signature is not base64url");
    }
    TRY(jws_check(op, jws_algorithm_find(key->alg), key, parts.signing_input, buf_span(&signature)));

    CLEANUP(buf_free) struct buf payload = BUF_INIT(parts.payload.len + 1);
    fault = base64url_decode(parts.payload, &payload);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return op_fail(op, FAULT(JWS_FORMAT), "the JWS payload is not base64url");
    }
    struct span kept;
    TRY(arena_copy(op->arena, buf_span(&payload), &kept));
    *ret_payload = kept;
    if (ret_kid != NULL) {
        *ret_kid = key->kid;
    }
    return OK;
}
