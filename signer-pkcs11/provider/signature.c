#include "signer-pkcs11/provider/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"

#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <strings.h>

/*
 * ECDSA and RSA by the token. The message is hashed here (a digest of the process's own library context, so of the
 * FIPS module), then only the digest travels. PSS salts are as long as the digest, MGF1 uses the same hash: the signer
 * knows nothing else.
 */

struct signature {
    struct svc_key *key;
    enum sign_scheme scheme;
    enum hash_algorithm hash;
    EVP_MD_CTX *digest; /* while a message is being hashed */
};

static const char *const hash_names[HASH_COUNT] = { "", "SHA256", "SHA384", "SHA512" };

/* Names as OpenSSL may say them: "SHA256", "SHA2-256", "sha-256". */
static enum hash_algorithm hash_find(const char *name)
{
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(svc_provider_libctx(), name, NULL);
    for (int hash = HASH_SHA256; md != NULL && hash < HASH_COUNT; hash++) {
        if (EVP_MD_is_a(md, hash_names[hash]) == 1) {
            return (enum hash_algorithm)hash;
        }
    }
    return HASH_NONE;
}

static void *context_new(void *context, const char *properties)
{
    (void)context;
    (void)properties;
    struct signature *made = NULL;
    return FAULTED(mem_new(1, sizeof(*made), &made)) ? NULL : made;
}

static void context_free(void *data)
{
    struct signature *context = data;
    if (context == NULL) {
        return;
    }
    svc_key_unref(context->key);
    EVP_MD_CTX_free(context->digest);
    mem_free(context);
}

static void *context_dup(void *data)
{
    const struct signature *from = data;
    struct signature *made = context_new(NULL, NULL);
    if (made == NULL) {
        return NULL;
    }
    made->scheme = from->scheme;
    made->hash = from->hash;
    made->key = from->key != NULL ? svc_key_ref(from->key) : NULL;
    if (from->digest != NULL) {
        made->digest = EVP_MD_CTX_new();
        if (made->digest == NULL || EVP_MD_CTX_copy_ex(made->digest, from->digest) != 1) {
            context_free(made);
            return NULL;
        }
    }
    return made;
}

static bool set_hash(struct signature *context, const char *name)
{
    enum hash_algorithm hash = hash_find(name);
    if (hash == HASH_NONE) {
        return false;
    }
    context->hash = hash;
    return true;
}

/* OpenSSL says the padding as a number or as a word. */
static bool set_padding(struct signature *context, const OSSL_PARAM *param)
{
    const char *word = NULL;
    int number = 0;
    if (OSSL_PARAM_get_utf8_string_ptr(param, &word) == 1) {
        number = strcasecmp(word, OSSL_PKEY_RSA_PAD_MODE_PSS) == 0       ? RSA_PKCS1_PSS_PADDING
                 : strcasecmp(word, OSSL_PKEY_RSA_PAD_MODE_PKCSV15) == 0 ? RSA_PKCS1_PADDING
                                                                         : 0;
    } else if (OSSL_PARAM_get_int(param, &number) != 1) {
        return false;
    }
    if (context->scheme == SIGN_SCHEME_ECDSA || (number != RSA_PKCS1_PADDING && number != RSA_PKCS1_PSS_PADDING)) {
        return false;
    }
    context->scheme = number == RSA_PKCS1_PSS_PADDING ? SIGN_SCHEME_RSA_PSS : SIGN_SCHEME_RSA_PKCS1;
    return true;
}

/* A number, the number in digits, or a word: only the digest's own length passes. */
static bool salt_allowed(const struct signature *context, const OSSL_PARAM *param)
{
    const char *word = NULL;
    int number = 0;
    if (OSSL_PARAM_get_utf8_string_ptr(param, &word) == 1) {
        char digits[8];
        (void)snprintf(digits, sizeof(digits), "%zu", hash_size(context->hash));
        return strcmp(word, OSSL_PKEY_RSA_PSS_SALT_LEN_DIGEST) == 0 ||
               (context->hash != HASH_NONE && strcmp(word, digits) == 0);
    }
    return OSSL_PARAM_get_int(param, &number) == 1 &&
           (number == RSA_PSS_SALTLEN_DIGEST || (number > 0 && (size_t)number == hash_size(context->hash)));
}

static int set_ctx_params(void *data, const OSSL_PARAM params[])
{
    struct signature *context = data;
    const char *name = NULL;
    if (params == NULL) {
        return 1;
    }
    const OSSL_PARAM *param = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_DIGEST);
    if (param != NULL && (OSSL_PARAM_get_utf8_string_ptr(param, &name) != 1 || !set_hash(context, name))) {
        return 0;
    }
    param = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PAD_MODE);
    if (param != NULL && !set_padding(context, param)) {
        return 0;
    }
    param = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PSS_SALTLEN);
    if (param != NULL && !salt_allowed(context, param)) {
        return 0;
    }
    param = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_MGF1_DIGEST);
    return param == NULL || (OSSL_PARAM_get_utf8_string_ptr(param, &name) == 1 && hash_find(name) == context->hash);
}

static const OSSL_PARAM *settable_ctx_params(void *data, void *context)
{
    (void)data;
    (void)context;
    static const OSSL_PARAM known[] = {
        OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_DIGEST, NULL, 0),
        OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, NULL, 0),
        OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, NULL, 0),
        OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_MGF1_DIGEST, NULL, 0),
        OSSL_PARAM_END,
    };
    return known;
}

static int get_ctx_params(void *data, OSSL_PARAM params[])
{
    const struct signature *context = data;
    OSSL_PARAM *param = OSSL_PARAM_locate(params, OSSL_SIGNATURE_PARAM_ALGORITHM_ID);
    if (param != NULL) {
        struct span id = svc_algorithm_id(context->scheme, context->hash);
        if (id.len == 0 || OSSL_PARAM_set_octet_string(param, id.at, id.len) != 1) {
            return 0;
        }
    }
    param = OSSL_PARAM_locate(params, OSSL_SIGNATURE_PARAM_DIGEST);
    return param == NULL || OSSL_PARAM_set_utf8_string(param, hash_names[context->hash]) == 1;
}

static const OSSL_PARAM *gettable_ctx_params(void *data, void *context)
{
    (void)data;
    (void)context;
    static const OSSL_PARAM known[] = {
        OSSL_PARAM_octet_string(OSSL_SIGNATURE_PARAM_ALGORITHM_ID, NULL, 0),
        OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_DIGEST, NULL, 0),
        OSSL_PARAM_END,
    };
    return known;
}

static int sign_init(void *data, void *key, const OSSL_PARAM params[])
{
    struct signature *context = data;
    if (key != NULL) {
        svc_key_unref(context->key);
        context->key = svc_key_ref(key);
    }
    if (context->key == NULL) {
        return 0;
    }
    context->scheme = EVP_PKEY_is_a(context->key->public, "EC") == 1 ? SIGN_SCHEME_ECDSA : SIGN_SCHEME_RSA_PKCS1;
    context->hash = HASH_NONE;
    return set_ctx_params(context, params);
}

/* Without room only the size is told, and nothing is signed. */
static int sign_digest(struct signature *context, struct span digest, unsigned char *out, size_t *len, size_t size)
{
    int max = EVP_PKEY_get_size(context->key->public);
    if (max <= 0) {
        return 0;
    }
    if (out == NULL) {
        *len = (size_t)max;
        return 1;
    }
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    if (!svc_provider_sign(context->key, context->scheme, context->hash, digest, &signature) || signature.len > size) {
        return 0;
    }
    memcpy(out, signature.at, signature.len);
    *len = signature.len;
    return 1;
}

/* A digest by itself: its size names the hash where nobody else did. */
static int sign(void *data, unsigned char *out, size_t *len, size_t size, const unsigned char *digest,
                size_t digest_len)
{
    struct signature *context = data;
    for (int hash = HASH_SHA256; context->hash == HASH_NONE && hash < HASH_COUNT; hash++) {
        if (hash_size((enum hash_algorithm)hash) == digest_len) {
            context->hash = (enum hash_algorithm)hash;
        }
    }
    if (context->hash == HASH_NONE || hash_size(context->hash) != digest_len) {
        return 0;
    }
    return sign_digest(context, span_of(digest, digest_len), out, len, size);
}

static int digest_sign_init(void *data, const char *name, void *key, const OSSL_PARAM params[])
{
    struct signature *context = data;
    if (sign_init(context, key, NULL) != 1) {
        return 0;
    }
    char fallback[64] = "";
    if (name == NULL || name[0] == '\0') {
        if (EVP_PKEY_get_default_digest_name(context->key->public, fallback, sizeof(fallback)) <= 0) {
            return 0;
        }
        name = fallback;
    }
    if (!set_hash(context, name)) {
        return 0;
    }
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(svc_provider_libctx(), hash_names[context->hash], NULL);
    EVP_MD_CTX_free(context->digest);
    context->digest = EVP_MD_CTX_new();
    return md != NULL && context->digest != NULL && EVP_DigestInit_ex2(context->digest, md, NULL) == 1 &&
           set_ctx_params(context, params);
}

static int digest_sign_update(void *data, const unsigned char *bytes, size_t len)
{
    struct signature *context = data;
    return context->digest != NULL && EVP_DigestUpdate(context->digest, bytes, len) == 1;
}

static int digest_sign_final(void *data, unsigned char *out, size_t *len, size_t size)
{
    struct signature *context = data;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_len = 0;
    if (out != NULL && (context->digest == NULL || EVP_DigestFinal_ex(context->digest, digest, &digest_len) != 1)) {
        return 0;
    }
    return sign_digest(context, span_of(digest, digest_len), out, len, size);
}

#define SIGNATURE                                                                         \
    {                                                                                     \
        { OSSL_FUNC_SIGNATURE_NEWCTX, (void (*)(void))context_new },                      \
        { OSSL_FUNC_SIGNATURE_FREECTX, (void (*)(void))context_free },                    \
        { OSSL_FUNC_SIGNATURE_DUPCTX, (void (*)(void))context_dup },                      \
        { OSSL_FUNC_SIGNATURE_SIGN_INIT, (void (*)(void))sign_init },                     \
        { OSSL_FUNC_SIGNATURE_SIGN, (void (*)(void))sign },                               \
        { OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, (void (*)(void))digest_sign_init },       \
        { OSSL_FUNC_SIGNATURE_DIGEST_SIGN_UPDATE, (void (*)(void))digest_sign_update },   \
        { OSSL_FUNC_SIGNATURE_DIGEST_SIGN_FINAL, (void (*)(void))digest_sign_final },     \
        { OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, (void (*)(void))set_ctx_params },           \
        { OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, (void (*)(void))settable_ctx_params }, \
        { OSSL_FUNC_SIGNATURE_GET_CTX_PARAMS, (void (*)(void))get_ctx_params },           \
        { OSSL_FUNC_SIGNATURE_GETTABLE_CTX_PARAMS, (void (*)(void))gettable_ctx_params }, \
        OSSL_DISPATCH_END,                                                                \
    }

const OSSL_DISPATCH svc_signature_ecdsa[] = SIGNATURE;
const OSSL_DISPATCH svc_signature_rsa[] = SIGNATURE;
