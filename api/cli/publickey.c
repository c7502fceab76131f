#include "api/cli/publickey.h"

#include "appliance/base/crypto.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>

static EVP_PKEY *from_certificate(BIO *pem, struct span der)
{
    CLEANUP(X509_freep) X509 *certificate = X509_new_ex(crypto_context(), NULL);
    const unsigned char *at = der.at;
    if (certificate == NULL) {
        return NULL;
    }
    X509 *into = certificate;
    X509 *read = pem != NULL ? PEM_read_bio_X509(pem, &into, NULL, NULL) : d2i_X509(&into, &at, (long)der.len);
    if (read == NULL) {
        certificate = into; /* freed and NULL where it was begun to be read */
        return NULL;
    }
    return X509_get_pubkey(certificate);
}

struct fault public_key_parse(struct op *op, struct span bytes, EVP_PKEY **ret_key)
{
    const unsigned char *at = bytes.at;
    char reason[256];
    if (bytes.len == 0) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the public key file is empty");
    }
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)bytes.len, crypto_context(), NULL);
    if (key == NULL) {
        key = from_certificate(NULL, bytes);
    }
    if (key == NULL) {
        CLEANUP(BIO_free_allp) BIO *pem = BIO_new_mem_buf(bytes.at, (int)bytes.len);
        CLEANUP(BIO_free_allp) BIO *again = BIO_new_mem_buf(bytes.at, (int)bytes.len);
        key = pem != NULL ? PEM_read_bio_PUBKEY_ex(pem, NULL, NULL, NULL, crypto_context(), NULL) : NULL;
        key = key == NULL && again != NULL ? from_certificate(again, bytes) : key;
    }
    crypto_last_error(reason, sizeof(reason));
    if (key == NULL) {
        return op_fail(op, FAULT(BAD_ARGUMENT),
                       "no public key in it: give a PKIX public key or a certificate, PEM or DER");
    }
    *ret_key = TAKE(key);
    return OK;
}

bool public_key_is_fenced(EVP_PKEY *key)
{
    return EVP_PKEY_is_a(key, "ML-DSA-65") == 1;
}

const char *public_key_scheme_of(const char *encoding)
{
    static const struct {
        const char *encoding, *scheme;
    } known[] = {
        { "ecdsa-der", "ecdsa" },
        { "rsa-pkcs1v15", "rsa-pkcs1v15" },
        { "rsa-pss", "rsa-pss" },
        { "ml-dsa-65", "ml-dsa" },
    };
    for (size_t i = 0; encoding != NULL && i < COUNT_OF(known); i++) {
        if (strcmp(known[i].encoding, encoding) == 0) {
            return known[i].scheme;
        }
    }
    return NULL;
}

void public_key_print(EVP_PKEY *key, char *text, size_t size)
{
    char group[64] = "";
    size_t len = 0;
    if (EVP_PKEY_is_a(key, "EC") == 1 && EVP_PKEY_get_group_name(key, group, sizeof(group), &len) == 1) {
        const char *name = EC_curve_nid2nist(OBJ_sn2nid(group));
        (void)snprintf(text, size, "EC %s", name != NULL ? name : group);
        return;
    }
    const char *type = EVP_PKEY_get0_type_name(key);
    if (public_key_is_fenced(key)) {
        (void)snprintf(text, size, "%s", type);
        return;
    }
    (void)snprintf(text, size, "%s %d", type != NULL ? type : "key", EVP_PKEY_get_bits(key));
}

/* The digest is the message. */
static bool verifies_ml_dsa(EVP_PKEY *key, struct span digest, struct span signature)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx != NULL && EVP_DigestVerifyInit_ex(ctx, NULL, NULL, crypto_context(), NULL, key, NULL) == 1 &&
                EVP_DigestVerify(ctx, signature.at, signature.len, digest.at, digest.len) == 1;
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
    return good;
}

static bool verifies(EVP_PKEY *key, int padding, const char *hash, struct span digest, struct span signature)
{
    if (public_key_is_fenced(key)) {
        return verifies_ml_dsa(key, digest, signature);
    }
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(crypto_context(), key, NULL);
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), hash, NULL);
    bool good =
        ctx != NULL && md != NULL && EVP_PKEY_verify_init(ctx) == 1 &&
        (padding == 0 || EVP_PKEY_CTX_set_rsa_padding(ctx, padding) == 1) &&
        EVP_PKEY_CTX_set_signature_md(ctx, md) == 1 &&
        (padding != RSA_PKCS1_PSS_PADDING || (EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, md) == 1 &&
                                              EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
        EVP_PKEY_verify(ctx, signature.at, signature.len, digest.at, digest.len) == 1;
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
    return good;
}

struct fault public_key_verify(struct op *op, EVP_PKEY *key, const char *scheme, const char *hash, struct span digest,
                               struct span signature, const char **ret_scheme)
{
    static const struct {
        const char *scheme, *type;
        int padding;
    } known[] = {
        { "ecdsa", "EC", 0 },
        { "rsa-pkcs1v15", "RSA", RSA_PKCS1_PADDING },
        { "rsa-pss", "RSA", RSA_PKCS1_PSS_PADDING },
        { "ml-dsa", "ML-DSA-65", 0 },
    };
    bool tried = false;
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (EVP_PKEY_is_a(key, known[i].type) != 1 || (scheme != NULL && strcmp(scheme, known[i].scheme) != 0)) {
            continue;
        }
        tried = true;
        if (verifies(key, known[i].padding, hash, digest, signature)) {
            *ret_scheme = known[i].scheme;
            return OK;
        }
    }
    if (!tried) {
        return op_fail(op, FAULT(BAD_ARGUMENT),
                       "this key does not go with the scheme: ecdsa for an EC key, "
                       "rsa-pkcs1v15 or rsa-pss for an RSA key, ml-dsa for an ML-DSA-65 key");
    }
    return op_fail(op, FAULT(SIGNATURE_INVALID),
                   "file, signature and public key do not belong together: one of them is another or was altered");
}
