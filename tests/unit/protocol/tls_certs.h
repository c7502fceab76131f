/* Authorities and certificates of a test's own, in a folder under /tmp, with whatever may be wrong with them. */
#ifndef TESTS_UNIT_PROTOCOL_TLS_CERTS_H
#define TESTS_UNIT_PROTOCOL_TLS_CERTS_H

#include "testlib.h"

#include "appliance/base/file.h"

#include <dirent.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct certs_folder {
    char path[128];
};

static inline void certs_folder_new(struct certs_folder *folder)
{
    (void)snprintf(folder->path, sizeof(folder->path), "/tmp/svc-tls-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
}

static inline void certs_folder_free(struct certs_folder *folder)
{
    DIR *dir = opendir(folder->path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    (void)closedir(dir);
    (void)rmdir(folder->path);
}

/* One of a few texts that live until the next few calls. */
static inline const char *certs_path(const struct certs_folder *folder, const char *name)
{
    static char paths[16][256];
    static unsigned next;
    char *path = paths[next++ % 16];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", folder->path, name);
    return path;
}

struct issued {
    X509 *certificate;
    EVP_PKEY *key;
};

/* What a certificate shall say; a member left out is left out of it. */
struct certs_wanted {
    const char *name;  /* its common name */
    const char *names; /* subjectAltName as openssl.cnf has it: "DNS:api,URI:spiffe://x" */
    const char *usage; /* extendedKeyUsage */
    int from_day, to_day;
    bool authority;
    unsigned rsa_bits;           /* 0: P-256 */
    const struct issued *issuer; /* NULL: itself */
    struct span raw_name;        /* one DNS name, byte for byte */
};

static inline void certs_extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *made = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    assert_non_null(made);
    assert_int_equal(X509_add_ext(certificate, made, -1), 1);
    X509_EXTENSION_free(made);
}

static inline void certs_extend_raw(X509 *certificate, struct span bytes)
{
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    assert_int_equal(ASN1_STRING_set(text, bytes.at, (int)bytes.len), 1);
    GENERAL_NAME_set0_value(name, GEN_DNS, text);
    assert_int_equal(sk_GENERAL_NAME_push(names, name), 1);
    assert_int_equal(X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT), 1);
    GENERAL_NAMES_free(names);
}

static inline struct issued certs_issue(const struct certs_wanted *wanted)
{
    struct issued made = { .certificate = X509_new() };
    long serial = 0;
    assert_int_equal(getentropy(&serial, 4), 0);
    made.key = wanted->rsa_bits != 0 ? EVP_RSA_gen(wanted->rsa_bits) : EVP_EC_gen("P-256");
    const struct issued *issuer = wanted->issuer != NULL ? wanted->issuer : &made;
    X509 *leaf = made.certificate;
    X509_NAME *name = X509_get_subject_name(leaf);
    assert_non_null(made.key);
    assert_int_equal(X509_set_version(leaf, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(leaf), serial + 1), 1);
    assert_non_null(X509_time_adj_ex(X509_getm_notBefore(leaf), wanted->from_day, 0, NULL));
    assert_non_null(X509_time_adj_ex(X509_getm_notAfter(leaf), wanted->to_day != 0 ? wanted->to_day : 30, 0, NULL));
    assert_int_equal(
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)wanted->name, -1, -1, 0), 1);
    assert_int_equal(X509_set_pubkey(leaf, made.key), 1);
    assert_int_equal(X509_set_issuer_name(leaf, X509_get_subject_name(issuer->certificate)), 1);
    certs_extend(leaf, issuer->certificate, NID_basic_constraints, wanted->authority ? "critical,CA:TRUE" : "CA:FALSE");
    if (wanted->authority) {
        certs_extend(leaf, issuer->certificate, NID_key_usage, "critical,keyCertSign");
    }
    if (wanted->names != NULL) {
        certs_extend(leaf, issuer->certificate, NID_subject_alt_name, wanted->names);
    }
    if (wanted->raw_name.len > 0) {
        certs_extend_raw(leaf, wanted->raw_name);
    }
    if (wanted->usage != NULL) {
        certs_extend(leaf, issuer->certificate, NID_ext_key_usage, wanted->usage);
    }
    assert_true(X509_sign(leaf, issuer->key, EVP_sha256()) > 0);
    return made;
}

static inline void issued_clear(struct issued *issued)
{
    X509_free(issued->certificate);
    EVP_PKEY_free(issued->key);
    *issued = (struct issued){ 0 };
}

/* Replaced at once, as renewal does. */
static inline void certs_put_pem(const char *path, BIO *bio, mode_t mode)
{
    char *text = NULL;
    long len = BIO_get_mem_data(bio, &text);
    assert_fault(file_write(path, span_of(text, (size_t)len), mode), NONE);
    BIO_free(bio);
}

static inline void certs_put_certificate(const char *path, const struct issued *issued)
{
    BIO *bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_X509(bio, issued->certificate), 1);
    certs_put_pem(path, bio, 0644);
}

static inline void certs_put_key(const char *path, const struct issued *issued, const char *password)
{
    BIO *bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, issued->key, password != NULL ? EVP_aes_256_cbc() : NULL,
                                                   password, password != NULL ? (int)strlen(password) : 0, NULL, NULL),
                     1);
    certs_put_pem(path, bio, 0600);
}

#endif
