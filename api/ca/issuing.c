#include "api/ca/internal.h"
#include "signer-pkcs11/provider/provider.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#define KEY_ID_LEN 20 /* RFC 7093 2, method 1: the leftmost 160 bits of SHA-256 */

static struct fault failed(const struct issuance *in, const char *what)
{
    return crypto_fail(in->op, what);
}

void issuance_clear(struct issuance *in)
{
    X509_free(TAKE(in->made));
    X509_free(TAKE(in->issuer));
}

struct fault issuance_init(struct issuance *in, struct op *op, struct span issuer, struct span subject_spki)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *subject = NULL;
    in->op = op;
    in->made = X509_new_ex(crypto_context(), NULL);
    REQUIRE(in->made != NULL, NO_MEMORY);
    if (issuer.len > 0) {
        TRY(ca_certificate(op, issuer, &in->issuer));
    }
    TRY(ca_public_key(op, subject_spki, &subject));
    if (X509_set_version(in->made, X509_VERSION_3) != 1 || X509_set_pubkey(in->made, subject) != 1) {
        return failed(in, "the certificate's public key could not be set");
    }
    return OK;
}

struct fault issuance_serial(const struct issuance *in, const uint8_t bytes[CA_SERIAL_LEN])
{
    uint8_t positive[CA_SERIAL_LEN];
    memcpy(positive, bytes, sizeof(positive));
    positive[0] &= 0x7f;
    CLEANUP(BN_freep) BIGNUM *number = BN_bin2bn(positive, sizeof(positive), NULL);
    CLEANUP(ASN1_INTEGER_freep) ASN1_INTEGER *serial = number != NULL ? BN_to_ASN1_INTEGER(number, NULL) : NULL;
    if (serial == NULL || X509_set_serialNumber(in->made, serial) != 1) {
        return failed(in, "the certificate's serial number could not be set");
    }
    return OK;
}

static struct fault add_name(const struct issuance *in, X509_NAME *name, int nid, const char *text)
{
    if (X509_NAME_add_entry_by_NID(name, nid, MBSTRING_UTF8, (const unsigned char *)text, -1, -1, 0) != 1) {
        return failed(in, "the certificate's name is not acceptable");
    }
    return OK;
}

struct fault issuance_names(const struct issuance *in, const char *organization, const char *common_name)
{
    CLEANUP(X509_NAME_freep) X509_NAME *name = X509_NAME_new();
    REQUIRE(name != NULL, NO_MEMORY);
    if (organization != NULL) {
        TRY(add_name(in, name, NID_organizationName, organization));
    }
    if (common_name != NULL) {
        TRY(add_name(in, name, NID_commonName, common_name));
    }
    X509_NAME *issuer = in->issuer != NULL ? X509_get_subject_name(in->issuer) : name;
    if (X509_set_subject_name(in->made, name) != 1 || X509_set_issuer_name(in->made, issuer) != 1) {
        return failed(in, "the certificate's names could not be set");
    }
    return OK;
}

struct fault issuance_validity(const struct issuance *in, int64_t from_s, int64_t until_s)
{
    CLEANUP(ASN1_TIME_freep) ASN1_TIME *not_before = ASN1_TIME_set(NULL, (time_t)from_s);
    CLEANUP(ASN1_TIME_freep) ASN1_TIME *not_after = ASN1_TIME_set(NULL, (time_t)until_s);
    REQUIRE(not_before != NULL && not_after != NULL, CRYPTO);
    const ASN1_TIME *last = not_after;
    if (in->issuer != NULL && ASN1_TIME_compare(not_after, X509_get0_notAfter(in->issuer)) > 0) {
        last = X509_get0_notAfter(in->issuer);
    }
    if (X509_set1_notBefore(in->made, not_before) != 1 || X509_set1_notAfter(in->made, last) != 1) {
        return failed(in, "the certificate's validity could not be set");
    }
    return OK;
}

struct fault issuance_extension(const struct issuance *in, int nid, const char *value)
{
    CLEANUP(X509_EXTENSION_freep) X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    if (extension == NULL || X509_add_ext(in->made, extension, -1) != 1) {
        return failed(in, "an extension of the certificate could not be added");
    }
    return OK;
}

struct fault issuance_extension_bytes(const struct issuance *in, const char *oid, struct span value)
{
    CLEANUP(ASN1_OBJECT_freep) ASN1_OBJECT *object = OBJ_txt2obj(oid, 1);
    CLEANUP(ASN1_OCTET_STRING_freep) ASN1_OCTET_STRING *bytes = ASN1_OCTET_STRING_new();
    REQUIRE(bytes != NULL, NO_MEMORY);
    bool filled = object != NULL && ASN1_OCTET_STRING_set(bytes, value.at, (int)value.len) == 1;
    CLEANUP(X509_EXTENSION_freep)
    X509_EXTENSION *extension = filled ? X509_EXTENSION_create_by_OBJ(NULL, object, 0, bytes) : NULL;
    if (extension == NULL || X509_add_ext(in->made, extension, -1) != 1) {
        return failed(in, "an extension of the certificate could not be added");
    }
    return OK;
}

static struct fault subject_key_id(const struct issuance *in, ASN1_OCTET_STRING **ret_id)
{
    const ASN1_BIT_STRING *bits = X509_get0_pubkey_bitstr(in->made);
    struct sha256 digest;
    REQUIRE(bits != NULL, CRYPTO);
    TRY(sha256_of(span_of(ASN1_STRING_get0_data(bits), (size_t)ASN1_STRING_length(bits)), &digest));
    CLEANUP(ASN1_OCTET_STRING_freep) ASN1_OCTET_STRING *id = ASN1_OCTET_STRING_new();
    REQUIRE(id != NULL && ASN1_OCTET_STRING_set(id, digest.at, KEY_ID_LEN) == 1, NO_MEMORY);
    *ret_id = TAKE(id);
    return OK;
}

struct fault issuance_key_ids(const struct issuance *in)
{
    CLEANUP(ASN1_OCTET_STRING_freep) ASN1_OCTET_STRING *subject = NULL;
    CLEANUP(AUTHORITY_KEYID_freep) AUTHORITY_KEYID *authority = AUTHORITY_KEYID_new();
    TRY(subject_key_id(in, &subject));
    const ASN1_OCTET_STRING *issuer = in->issuer != NULL ? X509_get0_subject_key_id(in->issuer) : subject;
    REQUIRE(authority != NULL, NO_MEMORY);
    if (issuer == NULL || (authority->keyid = ASN1_OCTET_STRING_dup(issuer)) == NULL ||
        X509_add1_ext_i2d(in->made, NID_subject_key_identifier, subject, 0, X509V3_ADD_DEFAULT) != 1 ||
        X509_add1_ext_i2d(in->made, NID_authority_key_identifier, authority, 0, X509V3_ADD_DEFAULT) != 1) {
        return failed(in, "the certificate's key identifiers could not be added");
    }
    return OK;
}

struct fault issuance_sign(const struct issuance *in, const struct key_ref *key_ref, struct span spki,
                           struct uuid journal_id)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *public = NULL;
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    TRY(ca_public_key(in->op, spki, &public));
    TRY(svc_pkey_new(crypto_context(), key_ref, spki, &key));
    const char *digest = EVP_PKEY_get_bits(public) == 384 ? "SHA384" : "SHA256";
    svc_provider_bind(in->op, journal_id);
    bool signed_now = ctx != NULL && EVP_DigestSignInit_ex(ctx, NULL, digest, crypto_context(), NULL, key, NULL) == 1 &&
                      X509_sign_ctx(in->made, ctx) > 0;
    svc_provider_unbind();
    if (!signed_now) {
        struct fault fault = svc_provider_fault();
        if (FAULTED(fault)) {
            ERR_clear_error(); /* OpenSSL's words about it are none of the next call's */
            return fault;
        }
        return failed(in, "the certificate could not be signed");
    }
    if (X509_verify(in->made, public) != 1) {
        return failed(in, "the token's signature over the certificate does not verify");
    }
    return OK;
}

struct fault issuance_der(const struct issuance *in, struct span *ret_der)
{
    uint8_t *der = NULL;
    int len = i2d_X509(in->made, NULL);
    REQUIRE(len > 0 && len <= CA_CERTIFICATE_MAX, CRYPTO);
    TRY(arena_take(in->op->arena, (size_t)len, 1, &der));
    uint8_t *at = der;
    REQUIRE(i2d_X509(in->made, &at) == len, CRYPTO);
    *ret_der = span_of(der, (size_t)len);
    return OK;
}

struct fault ca_certificate(struct op *op, struct span der, X509 **ret_certificate)
{
    const unsigned char *at = der.at;
    CLEANUP(X509_freep) X509 *certificate = X509_new_ex(crypto_context(), NULL);
    REQUIRE(certificate != NULL, NO_MEMORY);
    X509 *into = certificate;
    if (d2i_X509(&into, &at, (long)der.len) == NULL) {
        (void)TAKE(certificate); /* d2i has freed it */
        return crypto_fail(op, "a certificate does not decode");
    }
    if (at != der.at + der.len) {
        return crypto_fail(op, "bytes follow behind a certificate");
    }
    *ret_certificate = TAKE(certificate);
    return OK;
}

struct fault ca_public_key(struct op *op, struct span spki, EVP_PKEY **ret_key)
{
    const unsigned char *at = spki.at;
    EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    if (key == NULL) {
        return crypto_fail(op, "a public key for the certificate does not decode");
    }
    *ret_key = key;
    return OK;
}

struct fault ca_pem(const char *label, struct span der, struct buf *out)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    REQUIRE(bio != NULL, NO_MEMORY);
    REQUIRE(PEM_write_bio(bio, label, "", der.at, (long)der.len) > 0, CRYPTO);
    char *text = NULL;
    long len = BIO_get_mem_data(bio, &text);
    REQUIRE(len > 0, CRYPTO);
    return buf_put(out, span_of(text, (size_t)len));
}
