#include "appliance/supervisor/listener_cert.h"

#include "appliance/base/id.h"
#include "fips/fips.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <string.h>

#define VALID_DAYS    730
#define SECONDS_A_DAY 86400
#define BACKDATE_S    3600 /* clocks of clients may be a little behind */
#define SERIAL_BYTES  16

DEFINE_FREEP(X509, X509_free)
DEFINE_FREEP(EVP_PKEY, EVP_PKEY_free)
DEFINE_FREEP(BIO, BIO_free_all)
DEFINE_FREEP(X509_EXTENSION, X509_EXTENSION_free)
DEFINE_FREEP(X509_STORE, X509_STORE_free)
DEFINE_FREEP(X509_STORE_CTX, X509_STORE_CTX_free)

static struct fault key_new(EVP_PKEY **ret_key)
{
    *ret_key = EVP_PKEY_Q_keygen(fips_libctx(), NULL, "EC", "P-256");
    REQUIRE(*ret_key != NULL, CRYPTO);
    return OK;
}

static bool set_serial(X509 *certificate)
{
    uint8_t raw[SERIAL_BYTES];
    if (FAULTED(random_bytes(raw, sizeof(raw)))) {
        return false;
    }
    raw[0] = (uint8_t)((raw[0] & 0x7f) | 0x40); /* positive, always of full length */
    BIGNUM *number = BN_bin2bn(raw, sizeof(raw), NULL);
    bool set = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != NULL;
    BN_free(number);
    return set;
}

static struct fault certificate_new(const char *common_name, EVP_PKEY *key, X509 **ret_certificate)
{
    CLEANUP(X509_freep) X509 *made = X509_new_ex(fips_libctx(), NULL);
    REQUIRE(made != NULL, NO_MEMORY);
    X509_NAME *name = X509_get_subject_name(made);
    bool done =
        X509_set_version(made, X509_VERSION_3) == 1 && set_serial(made) &&
        X509_gmtime_adj(X509_getm_notBefore(made), -BACKDATE_S) != NULL &&
        X509_gmtime_adj(X509_getm_notAfter(made), (long)VALID_DAYS * SECONDS_A_DAY) != NULL &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1, -1, 0) == 1 &&
        X509_set_pubkey(made, key) == 1;
    REQUIRE(done, CRYPTO);
    *ret_certificate = TAKE(made);
    return OK;
}

static struct fault extend(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509V3_set_ctx_nodb(&context);
    CLEANUP(X509_EXTENSION_freep) X509_EXTENSION *made = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    REQUIRE(made != NULL && X509_add_ext(certificate, made, -1) == 1, CRYPTO);
    return OK;
}

static struct fault make_ca(EVP_PKEY *key, X509 **ret_ca)
{
    uint8_t raw[4];
    char name[64];
    TRY(random_bytes(raw, sizeof(raw)));
    (void)snprintf(name, sizeof(name), "svc listener authority %02x%02x%02x%02x", raw[0], raw[1], raw[2], raw[3]);
    CLEANUP(X509_freep) X509 *ca = NULL;
    TRY(certificate_new(name, key, &ca));
    REQUIRE(X509_set_issuer_name(ca, X509_get_subject_name(ca)) == 1, CRYPTO);
    TRY(extend(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
    TRY(extend(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign"));
    TRY(extend(ca, ca, NID_subject_key_identifier, "hash"));
    REQUIRE(X509_sign(ca, key, EVP_sha256()) > 0, CRYPTO);
    *ret_ca = TAKE(ca);
    return OK;
}

static bool is_address(const char *name)
{
    struct in6_addr ignored;
    return inet_pton(AF_INET, name, &ignored) == 1 || inet_pton(AF_INET6, name, &ignored) == 1;
}

static struct fault print_names(const char *const *names, struct buf *out)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        TRY(buf_printf(out, "%s%s:%s", i > 0 ? "," : "", is_address(names[i]) ? "IP" : "DNS", names[i]));
    }
    return OK;
}

static struct fault make_leaf(const char *const *names, EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key, X509 **ret_leaf)
{
    CLEANUP(X509_freep) X509 *leaf = NULL;
    CLEANUP(buf_free) struct buf san = BUF_INIT(4096);
    const char *san_text = NULL;
    TRY(print_names(names, &san));
    TRY(buf_cstr(&san, &san_text));
    TRY(certificate_new("svc-api", key, &leaf));
    REQUIRE(X509_set_issuer_name(leaf, X509_get_subject_name(ca)) == 1, CRYPTO);
    TRY(extend(leaf, ca, NID_basic_constraints, "critical,CA:FALSE"));
    TRY(extend(leaf, ca, NID_key_usage, "critical,digitalSignature"));
    TRY(extend(leaf, ca, NID_ext_key_usage, "serverAuth"));
    TRY(extend(leaf, ca, NID_subject_alt_name, san_text));
    TRY(extend(leaf, ca, NID_subject_key_identifier, "hash"));
    TRY(extend(leaf, ca, NID_authority_key_identifier, "keyid:always"));
    REQUIRE(X509_sign(leaf, ca_key, EVP_sha256()) > 0, CRYPTO);
    *ret_leaf = TAKE(leaf);
    return OK;
}

static struct fault take_bio(BIO *bio, struct buf *out)
{
    char *at = NULL;
    long len = BIO_get_mem_data(bio, &at);
    REQUIRE(len > 0 && at != NULL, CRYPTO);
    return buf_put(out, span_of(at, (size_t)len));
}

static struct fault put_certificate(X509 *certificate, struct buf *out)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    REQUIRE(bio != NULL && PEM_write_bio_X509(bio, certificate) == 1, CRYPTO);
    return take_bio(bio, out);
}

static struct fault put_key(EVP_PKEY *key, struct buf *out)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_secmem());
    REQUIRE(bio != NULL && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1, CRYPTO);
    return take_bio(bio, out);
}

struct fault listener_cert_make(struct op *op, const char *const *names, struct listener_pem *pem)
{
    (void)op;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *ca_key = NULL, *key = NULL;
    CLEANUP(X509_freep) X509 *ca = NULL, *leaf = NULL;
    TRY(key_new(&ca_key));
    TRY(key_new(&key));
    TRY(make_ca(ca_key, &ca));
    TRY(make_leaf(names, key, ca, ca_key, &leaf));
    TRY(put_certificate(ca, &pem->ca));
    TRY(put_certificate(leaf, &pem->leaf));
    return put_key(key, &pem->key);
}

/* ---- is what is there still good? ---- */

static X509 *get_certificate(struct span pem)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    X509 *made = bio != NULL ? X509_new_ex(fips_libctx(), NULL) : NULL;
    if (made != NULL && PEM_read_bio_X509(bio, &made, NULL, NULL) == NULL) {
        X509_free(made);
        return NULL;
    }
    return made;
}

static bool issued_by(X509 *leaf, X509 *ca)
{
    CLEANUP(X509_STORE_freep) X509_STORE *store = X509_STORE_new();
    CLEANUP(X509_STORE_CTX_freep) X509_STORE_CTX *context = X509_STORE_CTX_new_ex(fips_libctx(), NULL);
    return store != NULL && context != NULL && X509_STORE_add_cert(store, ca) == 1 &&
           X509_STORE_CTX_init(context, store, leaf, NULL) == 1 &&
           X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER) == 1 && X509_verify_cert(context) == 1;
}

static bool covers(X509 *leaf, const char *const *names)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        int match = is_address(names[i])
                        ? X509_check_ip_asc(leaf, names[i], 0)
                        : X509_check_host(leaf, names[i], 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL);
        if (match != 1) {
            return false;
        }
    }
    return true;
}

bool listener_cert_good(struct span ca_pem, struct span leaf_pem, struct span key_pem, const char *const *names,
                        int days)
{
    CLEANUP(X509_freep) X509 *ca = get_certificate(ca_pem);
    CLEANUP(X509_freep) X509 *leaf = get_certificate(leaf_pem);
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(key_pem.at, (int)key_pem.len);
    CLEANUP(EVP_PKEY_freep)
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey_ex(bio, NULL, NULL, NULL, fips_libctx(), NULL) : NULL;
    if (ca == NULL || leaf == NULL || key == NULL) {
        return false;
    }
    time_t then = (time_t)(clock_utc() / US_PER_S) + (time_t)days * SECONDS_A_DAY;
    return X509_check_private_key(leaf, key) == 1 && issued_by(leaf, ca) && covers(leaf, names) &&
           X509_cmp_time(X509_get0_notAfter(leaf), &then) > 0;
}
