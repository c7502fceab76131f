#include "api/codesign/check.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "fips/fence.h"
#include "fips/fips.h"

#include <openssl/err.h>

#define CERTIFICATE_MAX 8192
#define RSA_BITS_MIN    2048 /* NIST SP 800-131A */

struct fault check_read_digest(struct op *op, const struct check_body *body, enum hash_algorithm *ret_hash)
{
    struct codesign_request request;
    const struct codesign_body one = {
        .artifact_type = "",
        .digest_algorithm = body->digest_algorithm,
        .digest = body->digest,
    };
    TRY(codesign_request_read(op, FORM_SIGN, &one, &request));
    *ret_hash = request.hash;
    return OK;
}

static struct fault read_certificate(struct op *op, const char *pointer, const char *text, struct span *ret_der)
{
    CLEANUP(buf_free) struct buf der = BUF_INIT(CERTIFICATE_MAX);
    CLEANUP(X509_freep) X509 *parsed = NULL;
    if (FAULTED(base64_decode(span_text(text), &der)) || FAULTED(certificate_parse(NULL, buf_span(&der), &parsed))) {
        return op_fail_field(op, FAULT(JSON_FIELD), pointer,
                             "this is no certificate: give the base64 of its DER, of %d bytes at most",
                             CERTIFICATE_MAX);
    }
    return arena_copy(op->arena, buf_span(&der), ret_der);
}

struct fault check_read_chain(struct op *op, const char *pointer, const struct jin_texts *texts,
                              struct chain *ret_chain)
{
    struct chain chain = { .count = 0 };
    if (texts->count > CHAIN_MAX) {
        return op_fail_field(op, FAULT(JSON_FIELD), pointer, "at most %d certificates", CHAIN_MAX);
    }
    for (size_t i = 0; i < texts->count; i++) {
        const char *at = NULL;
        TRY(arena_printf(op->arena, &at, "%s/%zu", pointer, i));
        TRY(read_certificate(op, at, texts->at[i], &chain.at[i]));
        chain.count++;
    }
    *ret_chain = chain;
    return OK;
}

static bool on_known_curve(const EVP_PKEY *key)
{
    static const char *const curves[] = { "prime256v1", "secp384r1", "secp521r1" };
    char group[64] = "";
    bool known = false;
    if (EVP_PKEY_is_a(key, "EC") == 1 && EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1) {
        for (size_t i = 0; i < COUNT_OF(curves); i++) {
            known = known || strcmp(curves[i], group) == 0;
        }
    }
    ERR_clear_error();
    return known;
}

bool check_approved(struct span spki)
{
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    char group[64] = "";
    if (!fips_approved_mode() || ml_dsa_65_is_spki(spki)) {
        return false;
    }
    key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    int bits = key != NULL ? EVP_PKEY_get_bits(key) : 0;
    bool rsa = key != NULL && EVP_PKEY_is_a(key, "RSA") == 1 && (bits == 3072 || bits == 4096);
    bool ec = key != NULL && EVP_PKEY_is_a(key, "EC") == 1 &&
              EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
              (strcmp(group, "prime256v1") == 0 || strcmp(group, "secp384r1") == 0);
    ERR_clear_error();
    return rsa || ec;
}

struct fault check_read_scheme(struct op *op, struct span spki, struct fault code, const char *pointer,
                               const char *scheme, enum sign_scheme *ret_scheme)
{
    if (ml_dsa_65_is_spki(spki)) {
        TRY(fence_check(op));
        return codesign_scheme_choose(op, scheme, KEY_ALGORITHM_ML_DSA_65, ret_scheme);
    }
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    if (key == NULL || at != spki.at + spki.len) {
        IGNORE(crypto_fail(NULL, "public key"));
        return op_fail_field(op, code, pointer, "there is no public key in it that can be read (PKIX, DER)");
    }
    bool rsa = EVP_PKEY_is_a(key, "RSA") == 1 && EVP_PKEY_get_bits(key) >= RSA_BITS_MIN;
    if ((!rsa && !on_known_curve(key)) || spki.len > SPKI_MAX) {
        return op_fail_field(op, code, pointer,
                             "signatures are verified under EC keys on P-256, P-384 or P-521 and under RSA keys of "
                             "2048 to 7680 bits");
    }
    return codesign_scheme_choose(op, scheme, rsa ? KEY_ALGORITHM_RSA_3072 : KEY_ALGORITHM_EC_P256, ret_scheme);
}
