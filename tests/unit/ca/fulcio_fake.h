/* A certificate authority that issues what it is told, right or wrong, and answers as Fulcio's gateway does. */
#ifndef TESTS_CA_FULCIO_FAKE_H
#define TESTS_CA_FULCIO_FAKE_H

#include "api/ca/internal.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#include <openssl/pem.h>

struct fake_ca {
    EVP_PKEY *root_key, *key;
    X509 *root, *intermediate;
};

/* What a leaf says. */
struct fake_leaf {
    const char *san, *usage, *extended_usage, *issuer, *issuer_2; /* NULL = not there */
    const char *constraints;
    struct span spki;
    int64_t from_s, until_s;
    EVP_PKEY *signed_by; /* NULL = the intermediate's */
    bool two_issuers;
};

static inline void fake_extension(X509 *made, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, made, NULL, NULL, 0);
    X509_EXTENSION *extension = value != NULL ? X509V3_EXT_conf_nid(NULL, &ctx, nid, value) : NULL;
    BUG_IF(value != NULL && (extension == NULL || X509_add_ext(made, extension, -1) != 1));
    X509_EXTENSION_free(extension);
}

static inline void fake_text(X509 *made, const char *oid, const char *value, bool utf8)
{
    if (value == NULL) {
        return;
    }
    unsigned char *der = NULL;
    ASN1_UTF8STRING *text = ASN1_UTF8STRING_new();
    ASN1_OCTET_STRING *bytes = ASN1_OCTET_STRING_new();
    BUG_IF(ASN1_STRING_set(text, value, -1) != 1);
    int len = i2d_ASN1_UTF8STRING(text, &der);
    BUG_IF(ASN1_OCTET_STRING_set(bytes, utf8 ? der : (const unsigned char *)value, utf8 ? len : (int)strlen(value)) !=
           1);
    ASN1_OBJECT *object = OBJ_txt2obj(oid, 1);
    X509_EXTENSION *extension = X509_EXTENSION_create_by_OBJ(NULL, object, 0, bytes);
    BUG_IF(X509_add_ext(made, extension, -1) != 1);
    X509_EXTENSION_free(extension);
    ASN1_OBJECT_free(object);
    ASN1_OCTET_STRING_free(bytes);
    ASN1_UTF8STRING_free(text);
    OPENSSL_free(der);
}

static inline X509 *fake_certificate(const char *name, X509 *issuer, EVP_PKEY *key, int64_t from_s, int64_t until_s)
{
    static long serial;
    X509 *made = X509_new();
    BUG_IF(made == NULL || X509_set_version(made, X509_VERSION_3) != 1 || X509_set_pubkey(made, key) != 1 ||
           ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial) != 1);
    if (name != NULL) {
        BUG_IF(X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8, (const unsigned char *)name,
                                          -1, -1, 0) != 1);
    }
    BUG_IF(X509_set_issuer_name(made, X509_get_subject_name(issuer != NULL ? issuer : made)) != 1);
    ASN1_TIME_set(X509_getm_notBefore(made), (time_t)from_s);
    ASN1_TIME_set(X509_getm_notAfter(made), (time_t)until_s);
    return made;
}

static inline void fake_sign(X509 *made, EVP_PKEY *key)
{
    BUG_IF(X509_sign(made, key, EVP_sha256()) <= 0);
}

static inline void fake_ca_new(struct fake_ca *ca, int64_t now_s)
{
    ca->root_key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    ca->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    ca->root = fake_certificate("root", NULL, ca->root_key, now_s - 3600, now_s + 86400);
    fake_extension(ca->root, ca->root, NID_basic_constraints, "critical,CA:TRUE");
    fake_extension(ca->root, ca->root, NID_key_usage, "critical,keyCertSign");
    fake_extension(ca->root, ca->root, NID_subject_key_identifier, "hash");
    fake_sign(ca->root, ca->root_key);
    ca->intermediate = fake_certificate("intermediate", ca->root, ca->key, now_s - 3600, now_s + 86400);
    fake_extension(ca->intermediate, ca->root, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    fake_extension(ca->intermediate, ca->root, NID_key_usage, "critical,keyCertSign");
    fake_extension(ca->intermediate, ca->root, NID_ext_key_usage, "codeSigning");
    fake_extension(ca->intermediate, ca->root, NID_subject_key_identifier, "hash");
    fake_extension(ca->intermediate, ca->root, NID_authority_key_identifier, "keyid");
    fake_sign(ca->intermediate, ca->root_key);
}

static inline void fake_ca_free(struct fake_ca *ca)
{
    X509_free(ca->root);
    X509_free(ca->intermediate);
    EVP_PKEY_free(ca->root_key);
    EVP_PKEY_free(ca->key);
}

static inline X509 *fake_leaf_new(const struct fake_ca *ca, const struct fake_leaf *leaf)
{
    const unsigned char *at = leaf->spki.at;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)leaf->spki.len);
    X509 *made = fake_certificate(NULL, ca->intermediate, key, leaf->from_s, leaf->until_s);
    fake_extension(made, ca->intermediate, NID_key_usage, leaf->usage);
    fake_extension(made, ca->intermediate, NID_ext_key_usage, leaf->extended_usage);
    fake_extension(made, ca->intermediate, NID_basic_constraints, leaf->constraints);
    fake_extension(made, ca->intermediate, NID_subject_alt_name, leaf->san);
    fake_text(made, KEYLESS_ARC ".1", leaf->issuer, false);
    fake_text(made, KEYLESS_ARC ".8", leaf->issuer_2, true);
    if (leaf->two_issuers) {
        fake_text(made, KEYLESS_ARC ".8", leaf->issuer_2, true);
    }
    fake_sign(made, leaf->signed_by != NULL ? leaf->signed_by : ca->key);
    EVP_PKEY_free(key);
    return made;
}

static inline void fake_pem(X509 *certificate, struct buf *out)
{
    char *text = NULL;
    BIO *bio = BIO_new(BIO_s_mem());
    BUG_IF(PEM_write_bio_X509(bio, certificate) != 1);
    long len = BIO_get_mem_data(bio, &text);
    BUG_IF(FAULTED(buf_put(out, span_of(text, (size_t)len))));
    BIO_free(bio);
}

/* {"<member>":{"chain":{"certificates":[PEM, ...]}, ...}} */
static inline void fake_answer(const char *member, X509 *const *chain, size_t count, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key(&jout, member);
    jout_object(&jout);
    jout_key(&jout, "chain");
    jout_object(&jout);
    jout_key(&jout, "certificates");
    jout_array(&jout);
    for (size_t i = 0; i < count; i++) {
        CLEANUP(buf_free) struct buf pem = BUF_INIT(65536);
        fake_pem(chain[i], &pem);
        jout_span_text(&jout, buf_span(&pem));
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    jout_key_text(&jout, "signedCertificateTimestamp", "");
    jout_object_end(&jout);
    jout_object_end(&jout);
    BUG_IF(FAULTED(jout_end(&jout)));
}

#endif
