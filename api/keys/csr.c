#include "appliance/base/crypto.h"

#include "api/keys/internal.h"
#include "signer-pkcs11/provider/provider.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

DEFINE_FREEP(X509_REQ, X509_REQ_free)

static void extensions_free(STACK_OF(X509_EXTENSION) * extensions)
{
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
}
DEFINE_FREEP(STACK_OF(X509_EXTENSION), extensions_free)

/* DER begins with what is most general, RFC 4514's text with what is most particular. */
static struct fault set_subject(struct op *op, X509_REQ *request, const struct key_subject *subject)
{
    CLEANUP(X509_NAME_freep) X509_NAME *name = X509_NAME_new();
    REQUIRE(name != NULL, NO_MEMORY);
    for (size_t i = subject->count; i-- > 0;) {
        const unsigned char *value = (const unsigned char *)subject->at[i].value;
        if (X509_NAME_add_entry_by_NID(name, subject->at[i].nid, MBSTRING_UTF8, value, -1, -1, 0) != 1) {
            return crypto_fail(op, "the subject cannot be encoded");
        }
    }
    REQUIRE(X509_REQ_set_subject_name(request, name) == 1, CRYPTO);
    return OK;
}

static struct fault add_extension(struct op *op, STACK_OF(X509_EXTENSION) * extensions, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    if (extension == NULL || sk_X509_EXTENSION_push(extensions, extension) <= 0) {
        X509_EXTENSION_free(extension);
        return crypto_fail(op, "an extension cannot be requested");
    }
    return OK;
}

/* What the certificate should say; the authority decides. */
static struct fault request_extensions(struct op *op, X509_REQ *request, const char *usage, const char *email)
{
    CLEANUP(extensions_freep) STACK_OF(X509_EXTENSION) *extensions = sk_X509_EXTENSION_new_null();
    REQUIRE(extensions != NULL, NO_MEMORY);
    TRY(add_extension(op, extensions, NID_key_usage, "critical,digitalSignature"));
    TRY(add_extension(op, extensions, NID_ext_key_usage, usage));
    if (email != NULL) {
        char name[KEY_EMAIL_MAX + 8];
        (void)snprintf(name, sizeof(name), "email:%s", email);
        TRY(add_extension(op, extensions, NID_subject_alt_name, name));
    }
    REQUIRE(X509_REQ_add_extensions(request, extensions) == 1, CRYPTO);
    return OK;
}

static struct fault sign(struct op *op, X509_REQ *request, const struct managed_key *key, EVP_PKEY *public,
                         struct uuid journal_id)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *private = NULL;
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    const char *digest = key->algorithm == KEY_ALGORITHM_EC_P384 ? "SHA384" : "SHA256";
    TRY(svc_pkey_new(crypto_context(), &key->ref, key->spki, &private));
    svc_provider_bind(op, journal_id);
    bool signed_now = ctx != NULL &&
                      EVP_DigestSignInit_ex(ctx, NULL, digest, crypto_context(), NULL, private, NULL) == 1 &&
                      X509_REQ_sign_ctx(request, ctx) > 0;
    svc_provider_unbind();
    if (!signed_now) {
        struct fault fault = svc_provider_fault();
        if (FAULTED(fault)) {
            ERR_clear_error(); /* OpenSSL's words about it are none of the next call's */
            return fault;
        }
        return crypto_fail(op, "the request could not be signed");
    }
    if (X509_REQ_verify_ex(request, public, crypto_context(), NULL) != 1) {
        return crypto_fail(op, "the token's signature over the request does not verify");
    }
    return OK;
}

static struct fault make(struct op *op, const struct managed_key *key, const struct key_subject *subject,
                         const char *usage, const char *email, struct uuid journal_id, struct span *ret_der)
{
    const unsigned char *at = key->spki.at;
    CLEANUP(X509_REQ_freep) X509_REQ *request = X509_REQ_new_ex(crypto_context(), NULL);
    CLEANUP(EVP_PKEY_freep)
    EVP_PKEY *public = d2i_PUBKEY_ex(NULL, &at, (long)key->spki.len, crypto_context(), NULL);
    REQUIRE(request != NULL, NO_MEMORY);
    if (public == NULL || X509_REQ_set_version(request, X509_REQ_VERSION_1) != 1 ||
        X509_REQ_set_pubkey(request, public) != 1) {
        return crypto_fail(op, "the key's public half cannot be used");
    }
    TRY(set_subject(op, request, subject));
    TRY(request_extensions(op, request, usage, email));
    TRY(sign(op, request, key, public, journal_id));

    uint8_t *der = NULL;
    int len = i2d_X509_REQ(request, NULL);
    REQUIRE(len > 0, CRYPTO);
    TRY(arena_take(op->arena, (size_t)len, 1, &der));
    *ret_der = span_of(der, (size_t)len);
    REQUIRE(i2d_X509_REQ(request, &der) == len, CRYPTO);
    return OK;
}

struct fault key_csr_make(struct op *op, const struct managed_key *key, const struct key_subject *subject,
                          const char *email, struct uuid journal_id, struct span *ret_der)
{
    return make(op, key, subject, "codeSigning", email, journal_id, ret_der);
}

struct fault keys_csr(struct op *op, const struct managed_key *key, const char *subject, const char *usage,
                      struct uuid journal_id, struct span *ret_der)
{
    struct key_subject parsed;
    TRY(key_subject_parse(op, subject, &parsed));
    return make(op, key, &parsed, usage, NULL, journal_id, ret_der);
}
