/*
 * Where a key's public half can be had. In this order: the public key object; the private key's own
 * CKA_PUBLIC_KEY_INFO, CKA_EC_POINT or CKA_MODULUS; the one certificate object with the key's id; a file of
 * public_keys_dir. A source that is not there gives way to the next one; a source that shows a key of another algorithm
 * than the label says does not.
 */
#include "signer-pkcs11/token/internal.h"

#include "appliance/base/crypto.h"
#include "appliance/base/der.h"
#include "appliance/base/file.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#define POINT_MAX       128
#define MODULUS_MAX     512
#define EXPONENT_MAX    8
#define CERTIFICATE_MAX ((size_t)16 << 10)
#define PATH_SIZE       4096

DEFINE_FREEP(OSSL_PARAM_BLD, OSSL_PARAM_BLD_free)
DEFINE_FREEP(OSSL_PARAM, OSSL_PARAM_free)

/* What all sources are asked with. `key` stays NULL when a source has none. */
struct search {
    struct op *op;
    struct token_session *session;
    const struct key_ref *ref;
    enum key_algorithm algorithm;
    EVP_PKEY *key;
};

static struct fault misfit(struct op *op)
{
    return op_fail(op, FAULT(INTERNAL), "the token shows a public key that does not fit its label's algorithm");
}

/* Attributes that the token may not have or not show: *ret_shown says. */
static struct fault ask(struct token_session *session, CK_OBJECT_HANDLE object, CK_ATTRIBUTE *shown, CK_ULONG count,
                        bool *ret_shown)
{
    struct call *call = &session->call;
    struct fault fault = gate_attributes(call, session->handle, object, shown, count);
    if (FAULTED(fault) && call->refusal->class == CKR_CLASS_CALL) {
        call_clear(call);
        *ret_shown = false;
        return OK;
    }
    TRY(fault);
    *ret_shown = true;
    for (CK_ULONG i = 0; i < count; i++) {
        *ret_shown = *ret_shown && shown[i].ulValueLen != 0 && shown[i].ulValueLen != CK_UNAVAILABLE_INFORMATION;
    }
    return OK;
}

/* ---- from attributes ---- */

static struct fault key_from_params(struct op *op, const char *type, OSSL_PARAM *params, EVP_PKEY **ret_key)
{
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(crypto_context(), type, NULL);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    if (params == NULL || ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
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

static struct fault ec_key(struct search *search, CK_OBJECT_HANDLE object)
{
    uint8_t bytes[POINT_MAX];
    CK_ATTRIBUTE shown = { CKA_EC_POINT, bytes, sizeof(bytes) };
    bool there = false;
    TRY(ask(search->session, object, &shown, 1, &there));
    if (!there) {
        return OK;
    }
    size_t point_len = 1 + 2 * (size_t)algorithm_bits(search->algorithm) / 8;
    struct span point = point_of(span_of(bytes, shown.ulValueLen), point_len);
    if (point.len != point_len || point.at[0] != 0x04) {
        return misfit(search->op);
    }
    CLEANUP(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    const char *group = search->algorithm == KEY_ALGORITHM_EC_P256 ? "P-256" : "P-384";
    if (build == NULL || OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) != 1 ||
        OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point.at, point.len) != 1) {
        return crypto_fail(search->op, "the token's public key cannot be copied");
    }
    CLEANUP(OSSL_PARAM_freep) OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    return key_from_params(search->op, "EC", params, &search->key);
}

static struct fault rsa_key(struct search *search, CK_OBJECT_HANDLE object)
{
    uint8_t modulus[MODULUS_MAX], exponent[EXPONENT_MAX];
    CK_ATTRIBUTE shown[] = { { CKA_MODULUS, modulus, sizeof(modulus) },
                             { CKA_PUBLIC_EXPONENT, exponent, sizeof(exponent) } };
    bool there = false;
    TRY(ask(search->session, object, shown, COUNT_OF(shown), &there));
    if (!there) {
        return OK;
    }
    CLEANUP(BN_freep) BIGNUM *n = BN_bin2bn(modulus, (int)shown[0].ulValueLen, NULL);
    CLEANUP(BN_freep) BIGNUM *e = BN_bin2bn(exponent, (int)shown[1].ulValueLen, NULL);
    if (n == NULL || e == NULL || (unsigned)BN_num_bits(n) != algorithm_bits(search->algorithm)) {
        return misfit(search->op);
    }
    CLEANUP(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    if (build == NULL || OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) != 1 ||
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) != 1) {
        return crypto_fail(search->op, "the token's public key cannot be copied");
    }
    CLEANUP(OSSL_PARAM_freep) OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    return key_from_params(search->op, "RSA", params, &search->key);
}

static struct fault from_attributes(struct search *search, CK_OBJECT_HANDLE object)
{
    return algorithm_is_ec(search->algorithm) ? ec_key(search, object) : rsa_key(search, object);
}

/* ---- from encoded keys ---- */

/* Is it a key of the algorithm that the label names? */
static bool fits(const EVP_PKEY *key, enum key_algorithm algorithm)
{
    char group[32] = "";
    if ((unsigned)EVP_PKEY_get_bits(key) != algorithm_bits(algorithm)) {
        return false;
    }
    if (algorithm_is_rsa(algorithm)) {
        return EVP_PKEY_is_a(key, "RSA") == 1;
    }
    return EVP_PKEY_is_a(key, "EC") == 1 && EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
           strcmp(group, algorithm == KEY_ALGORITHM_EC_P256 ? "prime256v1" : "secp384r1") == 0;
}

static struct fault accept(struct search *search, EVP_PKEY *key)
{
    ERR_clear_error();
    if (key != NULL && !fits(key, search->algorithm)) {
        EVP_PKEY_free(key);
        return misfit(search->op);
    }
    search->key = key;
    return OK;
}

static struct fault from_spki(struct search *search, struct span spki)
{
    const unsigned char *at = spki.at;
    EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    return accept(search, key);
}

static struct fault from_key_info(struct search *search, CK_OBJECT_HANDLE object)
{
    uint8_t bytes[SPKI_MAX];
    CK_ATTRIBUTE shown = { CKA_PUBLIC_KEY_INFO, bytes, sizeof(bytes) };
    bool there = false;
    TRY(ask(search->session, object, &shown, 1, &there));
    return there ? from_spki(search, span_of(bytes, shown.ulValueLen)) : OK;
}

static struct fault from_certificate(struct search *search)
{
    CK_OBJECT_HANDLE object = CK_INVALID_HANDLE;
    uint8_t *bytes = NULL;
    bool there = false;
    TRY(key_find_certificate(search->session, search->ref, &object));
    if (object == CK_INVALID_HANDLE) {
        return OK;
    }
    TRY(arena_take(search->op->arena, CERTIFICATE_MAX, 1, (void *)&bytes));
    CK_ATTRIBUTE shown = { CKA_VALUE, bytes, CERTIFICATE_MAX };
    TRY(ask(search->session, object, &shown, 1, &there));
    const unsigned char *at = bytes;
    CLEANUP(X509_freep) X509 *certificate = X509_new_ex(crypto_context(), NULL);
    if (!there || certificate == NULL || d2i_X509(&certificate, &at, (long)shown.ulValueLen) == NULL) {
        ERR_clear_error();
        return OK;
    }
    return accept(search, X509_get_pubkey(certificate));
}

static bool file_path(const struct token *token, const struct key_ref *ref, const char *end, char path[PATH_SIZE])
{
    const char *folder = token->settings->public_keys_dir;
    int len =
        folder == NULL || folder[0] == '\0' ? -1 : snprintf(path, PATH_SIZE, "%s/%s.%s", folder, ref->id.text, end);
    return len > 0 && len < PATH_SIZE;
}

static struct fault from_file(struct search *search)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(CERTIFICATE_MAX);
    char path[PATH_SIZE];
    const struct token *token = search->session->token;
    if (file_path(token, search->ref, "der", path) && !FAULTED(file_read(path, &bytes))) {
        return from_spki(search, buf_span(&bytes));
    }
    buf_clear(&bytes);
    if (file_path(token, search->ref, "pem", path) && !FAULTED(file_read(path, &bytes))) {
        CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(bytes.at, (int)bytes.len);
        EVP_PKEY *key = bio != NULL ? PEM_read_bio_PUBKEY_ex(bio, NULL, NULL, NULL, crypto_context(), NULL) : NULL;
        return accept(search, key);
    }
    return OK;
}

/* ---- all of them ---- */

static struct fault look_everywhere(struct search *search, const struct key_objects *objects)
{
    if (objects->public_key != CK_INVALID_HANDLE) {
        TRY(from_attributes(search, objects->public_key));
    }
    if (search->key == NULL && objects->private_key != CK_INVALID_HANDLE) {
        TRY(from_key_info(search, objects->private_key));
    }
    if (search->key == NULL && objects->private_key != CK_INVALID_HANDLE) {
        TRY(from_attributes(search, objects->private_key));
    }
    if (search->key == NULL) {
        TRY(from_certificate(search));
    }
    return search->key == NULL ? from_file(search) : OK;
}

struct fault public_key_load(struct op *op, struct token_session *session, const struct key_ref *ref,
                             const struct key_objects *objects, EVP_PKEY **ret_key)
{
    struct search search = { .op = op, .session = session, .ref = ref, .algorithm = objects->algorithm };
    TRY(look_everywhere(&search, objects));
    if (search.key == NULL) {
        return op_fail(op, FAULT(INTERNAL),
                       "the token shows no public half of this key, neither by itself nor by a certificate: put it "
                       "as %s.pem into token.public_keys_dir, or restore the public key object",
                       ref->id.text);
    }
    *ret_key = search.key;
    return OK;
}

struct fault public_key_read(struct op *op, struct token_session *session, const struct key_ref *ref,
                             const struct key_objects *objects, struct buf *spki)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    TRY(public_key_load(op, session, ref, objects, &key));
    uint8_t *der = NULL;
    int len = i2d_PUBKEY(key, &der);
    if (len <= 0) {
        return crypto_fail(op, "the token's public key cannot be encoded");
    }
    struct fault fault = buf_put(spki, span_of(der, (size_t)len));
    OPENSSL_free(der);
    return fault;
}

struct fault public_key_store(struct op *op, const struct token *token, const struct key_ref *ref, struct span spki)
{
    char path[PATH_SIZE];
    if (!file_path(token, ref, "der", path)) {
        return OK;
    }
    if (FAULTED(file_write(path, spki, 0644))) {
        return op_fail(op, FAULT(IO),
                       "the public key cannot be written below token.public_keys_dir: look at the "
                       "folder's rights and room");
    }
    return OK;
}
