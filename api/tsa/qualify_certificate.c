#include "api/tsa/qualify.h"

#include "appliance/base/crypto.h"

#include <openssl/x509v3.h>

#define LEFT_US (30 * 86400 * US_PER_S) /* less than a month is no stable certificate any more */

DEFINE_FREEP(EXTENDED_KEY_USAGE, EXTENDED_KEY_USAGE_free)

static void find(struct qualify *qualify, const char *explanation, const char *recovery)
{
    qualify_find(qualify, QUALIFY_CERTIFICATE, explanation, recovery);
}

static X509 *decode(struct span der)
{
    const unsigned char *at = der.at;
    X509 *into = X509_new_ex(crypto_context(), NULL);
    if (into != NULL && d2i_X509(&into, &at, (long)der.len) == NULL) {
        into = NULL; /* d2i has freed it */
    }
    return into;
}

/* RFC 3161 2.3: one extendedKeyUsage, critical, with timeStamping and nothing else. */
static bool for_time_stamping_only(X509 *leaf)
{
    int critical = 0;
    CLEANUP(EXTENDED_KEY_USAGE_freep)
    EXTENDED_KEY_USAGE *usage = X509_get_ext_d2i(leaf, NID_ext_key_usage, &critical, NULL);
    return usage != NULL && critical == 1 && sk_ASN1_OBJECT_num(usage) == 1 &&
           OBJ_obj2nid(sk_ASN1_OBJECT_value(usage, 0)) == NID_time_stamp;
}

/* ETSI EN 319 422 6: digitalSignature, nonRepudiation or both; never an authority's. */
static bool may_only_sign(X509 *leaf)
{
    uint32_t usage = X509_get_key_usage(leaf);
    const uint32_t allowed = KU_DIGITAL_SIGNATURE | KU_NON_REPUDIATION;
    return usage != UINT32_MAX && (usage & allowed) != 0 && (usage & ~allowed) == 0 && X509_check_ca(leaf) == 0;
}

static bool issued_by(X509 *leaf, X509 *issuer)
{
    EVP_PKEY *key = X509_get0_pubkey(issuer);
    bool issued = key != NULL && X509_NAME_cmp(X509_get_issuer_name(leaf), X509_get_subject_name(issuer)) == 0 &&
                  X509_verify(leaf, key) == 1;
    IGNORE(crypto_fail(NULL, "")); /* empties the queue */
    return issued;
}

static void check_use(struct qualify *qualify, const struct tsa_unit *unit, X509 *leaf, X509 *issuer)
{
    const EVP_PKEY *certified = X509_get0_pubkey(leaf);
    if (!for_time_stamping_only(leaf) || !may_only_sign(leaf)) {
        find(qualify, "The certificate is not for time stamping alone (critical extendedKeyUsage, keyUsage).",
             "Have the unit certified again with timeStamping as its only, critical extended key usage.");
    }
    if (certified == NULL || EVP_PKEY_eq(certified, unit->key) != 1) {
        find(qualify, "The certificate is not about the key in use.",
             "Start the instance again; if it stays, have the unit certified again.");
    }
    if (!issued_by(leaf, issuer)) {
        find(qualify, "The certificate was not issued by the root that is published with it.",
             "Publish the chain of the authority that issued it, or have the unit certified again.");
    }
}

void qualify_certificate(struct qualify *qualify, const struct tsa_unit *unit, struct span recorded, utc_us now)
{
    CLEANUP(X509_freep) X509 *leaf = decode(buf_span(&unit->leaf));
    CLEANUP(X509_freep) X509 *issuer = decode(buf_span(&unit->issuer));
    if (leaf == NULL || issuer == NULL) {
        find(qualify, "The certificate cannot be read.", "Start the instance again.");
        return;
    }
    if (now < unit->not_before || now > unit->not_after) {
        find(qualify, "The certificate is not valid now.",
             "Compare the clock; start the instance again, which renews the certificate, or import a new one.");
    } else if (unit->not_after - now < LEFT_US) {
        find(qualify, "The certificate ends within 30 days.",
             "Start the instance again, which renews the certificate, or import a new one.");
    }
    check_use(qualify, unit, leaf, issuer);
    if (!span_equal(buf_span(&unit->leaf), recorded)) {
        find(qualify, "The certificate in use is not the one on record for the key, or the key is not active any more.",
             "Start the instance again, so that it takes what is on record.");
    }
}
