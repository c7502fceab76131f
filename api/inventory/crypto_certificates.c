/* Certificates of the tenant as assets: what they say themselves, read from their own bytes. */
#include "api/inventory/certificates.h"
#include "api/inventory/crypto.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>

utc_us crypto_time(const ASN1_TIME *time)
{
    struct tm parts = { 0 };
    return ASN1_TIME_to_tm(time, &parts) == 1 ? (utc_us)timegm(&parts) * US_PER_S : 0;
}

/* RFC 2253 text, everything beyond ASCII escaped; "" where it does not print. */
static void print_name(const X509_NAME *name, char out[CRYPTO_SUBJECT_MAX])
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    out[0] = '\0';
    if (bio == NULL || X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) < 0) {
        return;
    }
    int len = BIO_read(bio, out, CRYPTO_SUBJECT_MAX - 1);
    out[len > 0 ? len : 0] = '\0';
}

void crypto_parse_by_openssl(struct span der, struct crypto_parsed *ret_parsed)
{
    const unsigned char *at = der.at;
    unsigned char *spki = NULL;
    CLEANUP(X509_freep) X509 *certificate = d2i_X509(NULL, &at, (long)der.len);
    ret_parsed->algorithm = crypto_algorithm_find("unknown");
    ret_parsed->not_before = 0;
    ret_parsed->subject[0] = ret_parsed->issuer[0] = '\0';
    if (certificate != NULL) {
        int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &spki);
        ret_parsed->algorithm = crypto_algorithm_by_openssl(span_of(spki, len > 0 ? (size_t)len : 0));
        ret_parsed->not_before = crypto_time(X509_get0_notBefore(certificate));
        print_name(X509_get_subject_name(certificate), ret_parsed->subject);
        print_name(X509_get_issuer_name(certificate), ret_parsed->issuer);
    }
    OPENSSL_free(spki);
    ERR_clear_error();
}

static void name_text(struct span der, char out[CRYPTO_SUBJECT_MAX])
{
    if (crypto_read_name(der, out, CRYPTO_SUBJECT_MAX)) {
        return;
    }
    const unsigned char *at = der.at;
    X509_NAME *name = d2i_X509_NAME(NULL, &at, (long)der.len);
    if (name != NULL) {
        print_name(name, out);
    }
    X509_NAME_free(name);
    ERR_clear_error();
}

void crypto_parse(struct span der, struct crypto_parsed *ret_parsed)
{
    struct crypto_plain plain;
    if (!crypto_read_certificate(der, &plain)) {
        crypto_parse_by_openssl(der, ret_parsed);
        return;
    }
    ret_parsed->algorithm = crypto_algorithm_of_spki(plain.spki);
    ret_parsed->not_before = plain.not_before;
    name_text(plain.subject, ret_parsed->subject);
    name_text(plain.issuer, ret_parsed->issuer);
}

struct visitor {
    crypto_visit visit;
    void *arg;
    struct custody_summary *custody;
};

static struct fault visit_one(struct op *scratch, void *arg, const struct certificate_row *row)
{
    const struct visitor *visitor = arg;
    struct crypto_parsed parsed;
    char key_object[CRYPTO_OBJECT_MAX] = "", fingerprint[2 * SHA256_LEN + 1];
    TRY(visitor->custody != NULL ? custody_summary_add(scratch, visitor->custody, row) : OK);
    crypto_parse(row->der, &parsed);
    hex_text(SPAN_ARRAY(row->fingerprint.at), fingerprint, sizeof(fingerprint));
    if (row->key_id != NULL) {
        (void)snprintf(key_object, sizeof(key_object), "key:%s", row->key_id);
    }
    struct crypto_asset asset = {
        .kind = CRYPTO_CERTIFICATE,
        .algorithm = parsed.algorithm,
        .name = fingerprint,
        .purpose = "",
        .state = "recorded",
        .token = "",
        .subject = parsed.subject,
        .issuer = parsed.issuer,
        .system = false,
        .version = row->version,
        .created = row->recorded,
        .not_before = parsed.not_before,
        .not_after = row->not_after,
        .key_object = key_object,
    };
    (void)snprintf(asset.object, sizeof(asset.object), "certificate:%s", row->id.text);
    return visitor->visit(visitor->arg, &asset);
}

struct fault crypto_walk_certificates(struct op *op, struct tx *tx, struct custody_summary *custody, crypto_visit visit,
                                      void *arg)
{
    struct visitor visitor = { visit, arg, custody };
    return certificate_walk(op, tx, visit_one, &visitor);
}
