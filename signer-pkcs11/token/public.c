/* The public half: from the attributes of the token's object to PKIX DER, and verification outside the token. */
#include "signer-pkcs11/token/internal.h"

#include "appliance/base/crypto.h"
#include "appliance/base/der.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#define POINT_MAX    128
#define MODULUS_MAX  512
#define EXPONENT_MAX 8

DEFINE_FREEP(OSSL_PARAM_BLD, OSSL_PARAM_BLD_free)
DEFINE_FREEP(OSSL_PARAM, OSSL_PARAM_free)

static struct fault key_from_params(struct op *op, const char *type, OSSL_PARAM *params, EVP_PKEY **ret_key)
{
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(crypto_context(), type, NULL);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    if (ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1) {
        return crypto_fail(op, "the token's public key is not a valid key");
    }
    *ret_key = TAKE(key);
    return OK;
}

/* The attribute is an OCTET STRING around the point; some modules leave the wrapping out. 0x04 starts both, so the
 * length tells. */
static struct span point_of(struct span attribute, size_t point_len)
{
    struct der_element octets;
    struct span rest = attribute;
    if (attribute.len != point_len && !FAULTED(der_take(&rest, DER_OCTET_STRING, &octets)) && rest.len == 0) {
        return octets.body;
    }
    return attribute;
}

static struct fault ec_key(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                           enum key_algorithm algorithm, EVP_PKEY **ret_key)
{
    uint8_t bytes[POINT_MAX];
    CK_ATTRIBUTE shown = { CKA_EC_POINT, bytes, sizeof(bytes) };
    TRY(gate_attributes(&session->call, session->handle, object, &shown, 1));
    size_t point_len = 1 + 2 * (size_t)algorithm_bits(algorithm) / 8;
    struct span point = point_of(span_of(bytes, shown.ulValueLen), point_len);
    if (point.len != point_len || point.at[0] != 0x04) {
        return op_fail(op, FAULT(INTERNAL), "the token shows a public key that does not fit its label's algorithm");
    }
    CLEANUP(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    const char *group = algorithm == KEY_ALGORITHM_EC_P256 ? "P-256" : "P-384";
    if (build == NULL || OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) != 1 ||
        OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point.at, point.len) != 1) {
        return crypto_fail(op, "the token's public key cannot be copied");
    }
    CLEANUP(OSSL_PARAM_freep) OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    return params == NULL ? crypto_fail(op, "the token's public key cannot be copied")
                          : key_from_params(op, "EC", params, ret_key);
}

static struct fault rsa_key(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                            enum key_algorithm algorithm, EVP_PKEY **ret_key)
{
    uint8_t modulus[MODULUS_MAX], exponent[EXPONENT_MAX];
    CK_ATTRIBUTE shown[] = { { CKA_MODULUS, modulus, sizeof(modulus) },
                             { CKA_PUBLIC_EXPONENT, exponent, sizeof(exponent) } };
    TRY(gate_attributes(&session->call, session->handle, object, shown, COUNT_OF(shown)));
    CLEANUP(BN_freep) BIGNUM *n = BN_bin2bn(modulus, (int)shown[0].ulValueLen, NULL);
    CLEANUP(BN_freep) BIGNUM *e = BN_bin2bn(exponent, (int)shown[1].ulValueLen, NULL);
    if (n == NULL || e == NULL || (unsigned)BN_num_bits(n) != algorithm_bits(algorithm)) {
        return op_fail(op, FAULT(INTERNAL), "the token shows a public key that does not fit its label's algorithm");
    }
    CLEANUP(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    if (build == NULL || OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) != 1 ||
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) != 1) {
        return crypto_fail(op, "the token's public key cannot be copied");
    }
    CLEANUP(OSSL_PARAM_freep) OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    return params == NULL ? crypto_fail(op, "the token's public key cannot be copied")
                          : key_from_params(op, "RSA", params, ret_key);
}

static struct fault load(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                         enum key_algorithm algorithm, EVP_PKEY **ret_key)
{
    if (object == CK_INVALID_HANDLE) {
        return op_fail(op, FAULT(INTERNAL),
                       "the token holds the private half of this key without its public half: "
                       "restore the public key object with the token's own tools");
    }
    return algorithm_is_ec(algorithm) ? ec_key(op, session, object, algorithm, ret_key)
                                      : rsa_key(op, session, object, algorithm, ret_key);
}

struct fault public_key_read(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                             enum key_algorithm algorithm, struct buf *spki)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    TRY(load(op, session, object, algorithm, &key));
    uint8_t *der = NULL;
    int len = i2d_PUBKEY(key, &der);
    if (len <= 0) {
        return crypto_fail(op, "the token's public key cannot be encoded");
    }
    struct fault fault = buf_put(spki, span_of(der, (size_t)len));
    OPENSSL_free(der);
    return fault;
}

struct public_job {
    const struct key_ref *key;
    enum key_algorithm algorithm;
    EVP_PKEY *loaded;
    struct buf *spki;
};

static struct fault public_step(struct op *op, struct token_session *session, void *arg)
{
    struct public_job *job = arg;
    struct key_objects objects;
    TRY(key_find(op, session, job->key, &objects));
    if (objects.private_key == CK_INVALID_HANDLE && objects.secret_key == CK_INVALID_HANDLE) {
        return key_not_found(op);
    }
    job->algorithm = objects.algorithm;
    if (objects.algorithm == KEY_ALGORITHM_AES_256) {
        return OK;
    }
    if (job->spki != NULL) {
        return public_key_read(op, session, objects.public_key, objects.algorithm, job->spki);
    }
    return load(op, session, objects.public_key, objects.algorithm, &job->loaded);
}

struct fault token_public_key(struct op *op, struct token_session *session, const struct key_ref *key,
                              enum key_algorithm *ret_algorithm, struct buf *spki)
{
    TRY(key_ref_check(op, key));
    struct public_job job = { .key = key, .spki = spki };
    TRY(token_run(op, session, key, public_step, &job));
    *ret_algorithm = job.algorithm;
    return OK;
}

static bool verified(EVP_PKEY *key, enum sign_scheme scheme, enum hash_algorithm hash, struct span digest,
                     struct span signature)
{
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(crypto_context(), key, NULL);
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), hash_algorithm_text(hash), NULL);
    if (ctx == NULL || md == NULL || EVP_PKEY_verify_init(ctx) != 1 || EVP_PKEY_CTX_set_signature_md(ctx, md) != 1) {
        return false;
    }
    if (scheme == SIGN_SCHEME_RSA_PKCS1 && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) != 1) {
        return false;
    }
    if (scheme == SIGN_SCHEME_RSA_PSS &&
        (EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) != 1 || EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, md) != 1 ||
         EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) != 1)) {
        return false;
    }
    return EVP_PKEY_verify(ctx, signature.at, signature.len, digest.at, digest.len) == 1;
}

static struct fault judge(struct op *op, EVP_PKEY *key, enum sign_scheme scheme, enum hash_algorithm hash,
                          struct span digest, struct span signature)
{
    if (!verified(key, scheme, hash, digest, signature)) {
        IGNORE(crypto_fail(NULL, "signature"));
        return op_fail(op, FAULT(SIGNATURE_INVALID), "the signature does not belong to this digest and key");
    }
    return OK;
}

/* Outside the token on purpose: a token that signs wrongly would also find its own signatures good. */
struct fault token_verify(struct op *op, struct token_session *session, const struct key_ref *key,
                          enum sign_scheme scheme, enum hash_algorithm hash, struct span digest, struct span signature)
{
    TRY(key_ref_check(op, key));
    TRY(sign_check(op, scheme, hash, digest));
    struct public_job job = { .key = key };
    struct fault fault = token_run(op, session, key, public_step, &job);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *loaded = TAKE(job.loaded);
    TRY(fault);
    TRY(sign_check_key(op, job.algorithm, scheme));
    return judge(op, loaded, scheme, hash, digest, signature);
}

struct fault token_verify_under(struct op *op, struct span spki, enum sign_scheme scheme, enum hash_algorithm hash,
                                struct span digest, struct span signature)
{
    TRY(sign_check(op, scheme, hash, digest));
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    bool rsa = scheme != SIGN_SCHEME_ECDSA;
    if (key == NULL || at != spki.at + spki.len || EVP_PKEY_is_a(key, rsa ? "RSA" : "EC") != 1) {
        IGNORE(crypto_fail(NULL, "public key"));
        return op_fail(op, FAULT(BAD_ARGUMENT), "the public key is not PKIX DER of a key that goes with the scheme");
    }
    return judge(op, key, scheme, hash, digest, signature);
}
