#include "api/tsa/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"
#include "signer-pkcs11/provider/provider.h"

#include <openssl/x509v3.h>

#define CERTIFICATE_MAX 8192
#define ATTRIBUTE_MAX   2048

DEFINE_FREEP(ASN1_TIME, ASN1_TIME_free)

void tsa_unit_free(struct tsa_unit *unit)
{
    if (unit == NULL) {
        return;
    }
    EVP_PKEY_free(unit->key);
    buf_free(&unit->leaf);
    buf_free(&unit->root);
    buf_free(&unit->sid);
    buf_free(&unit->certificate_attribute);
    buf_free(&unit->accuracy);
    mem_free(unit);
}

static struct fault keep(struct buf *into, size_t max, struct span bytes)
{
    *into = (struct buf)BUF_INIT(max);
    return buf_put(into, bytes);
}

static struct fault keep_written(struct buf *into, const struct der_writer *writer)
{
    struct span der;
    TRY(der_written(writer, &der));
    return keep(into, der.len, der);
}

static struct fault decode(struct op *op, struct span der, X509 **ret_certificate)
{
    const unsigned char *at = der.at;
    CLEANUP(X509_freep) X509 *made = X509_new_ex(crypto_context(), NULL);
    REQUIRE(made != NULL, NO_MEMORY);
    X509 *into = made;
    if (d2i_X509(&into, &at, (long)der.len) == NULL) {
        (void)TAKE(made); /* d2i has freed it */
        return crypto_fail(op, "the certificate of the TSA key does not decode");
    }
    *ret_certificate = TAKE(made);
    return OK;
}

static struct fault read_time(const ASN1_TIME *time, utc_us *ret_time)
{
    int days = 0;
    int seconds = 0;
    CLEANUP(ASN1_TIME_freep) ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    REQUIRE(epoch != NULL && ASN1_TIME_diff(&days, &seconds, epoch, time) == 1, CRYPTO);
    *ret_time = ((int64_t)days * 86400 + seconds) * US_PER_S;
    return OK;
}

struct names {
    struct span issuer; /* Name, DER; of OPENSSL_malloc */
    struct span serial; /* INTEGER, whole; of OPENSSL_malloc */
};
static void names_clear(struct names *names)
{
    OPENSSL_free((void *)names->issuer.at);
    OPENSSL_free((void *)names->serial.at);
}

static struct fault names_of(X509 *leaf, struct names *names)
{
    unsigned char *at = NULL;
    int len = i2d_X509_NAME(X509_get_issuer_name(leaf), &at);
    REQUIRE(len > 0, CRYPTO);
    names->issuer = span_of(at, (size_t)len);
    at = NULL;
    len = i2d_ASN1_INTEGER(X509_get0_serialNumber(leaf), &at);
    REQUIRE(len > 0, CRYPTO);
    names->serial = span_of(at, (size_t)len);
    return OK;
}

static struct fault write_sid(struct tsa_unit *unit, const struct names *names)
{
    uint8_t room[ATTRIBUTE_MAX];
    struct der_writer writer;
    der_writer_init(&writer, room, sizeof(room));
    der_write(&writer, names->serial);
    der_write(&writer, names->issuer);
    der_wrap(&writer, DER_SEQUENCE, 0);
    return keep_written(&unit->sid, &writer);
}

/* RFC 5816 and RFC 5035 3: one ESSCertIDv2; SHA-256 is the default of hashAlgorithm, so DER leaves it out. */
static struct fault write_certificate_attribute(struct tsa_unit *unit, const struct names *names)
{
    struct sha256 digest;
    TRY(sha256_of(buf_span(&unit->leaf), &digest));
    uint8_t room[ATTRIBUTE_MAX];
    struct der_writer writer;
    der_writer_init(&writer, room, sizeof(room));
    der_write(&writer, names->serial);
    size_t general_names = der_mark(&writer);
    der_write(&writer, names->issuer);
    der_wrap(&writer, DER_CONTEXT_CONSTRUCTED(4), general_names); /* directoryName */
    der_wrap(&writer, DER_SEQUENCE, general_names);
    der_wrap(&writer, DER_SEQUENCE, 0); /* IssuerSerial */
    der_write_element(&writer, DER_OCTET_STRING, SPAN_ARRAY(digest.at));
    der_wrap(&writer, DER_SEQUENCE, 0); /* ESSCertIDv2 */
    der_wrap(&writer, DER_SEQUENCE, 0); /* certs */
    der_wrap(&writer, DER_SEQUENCE, 0); /* SigningCertificateV2 */
    der_wrap(&writer, DER_SET, 0);
    der_write_element(&writer, DER_OID, oid_signing_certificate_v2);
    der_wrap(&writer, DER_SEQUENCE, 0);
    return keep_written(&unit->certificate_attribute, &writer);
}

/* Accuracy ::= SEQUENCE { seconds INTEGER OPTIONAL, millis [0] INTEGER (1..999) OPTIONAL, micros ... } */
static struct fault write_accuracy(struct tsa_unit *unit, int64_t accuracy_ms)
{
    BUG_IF(accuracy_ms <= 0);
    uint8_t room[32];
    struct der_writer writer;
    der_writer_init(&writer, room, sizeof(room));
    if (accuracy_ms % 1000 != 0) {
        der_write_uint(&writer, DER_CONTEXT(0), (uint64_t)(accuracy_ms % 1000));
    }
    if (accuracy_ms >= 1000) {
        der_write_uint(&writer, DER_INTEGER, (uint64_t)(accuracy_ms / 1000));
    }
    der_wrap(&writer, DER_SEQUENCE, 0);
    return keep_written(&unit->accuracy, &writer);
}

static struct fault check_leaf(struct op *op, const struct tsa_unit *unit, X509 *leaf)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *certified = X509_get_pubkey(leaf);
    if (certified == NULL || EVP_PKEY_eq(certified, unit->key) != 1) {
        return op_fail(op, FAULT(CRYPTO), "the certificate recorded for the TSA key is not about that key");
    }
    return OK;
}

static struct fault fill(struct op *op, struct span spki, const struct span chain[2], int64_t accuracy_ms,
                         struct tsa_unit *unit)
{
    unit->hash = &tst_hashes[unit->algorithm == KEY_ALGORITHM_EC_P384 ? TST_SHA384 : TST_SHA256];
    TRY(svc_pkey_new(crypto_context(), &unit->ref, spki, &unit->key));
    TRY(keep(&unit->leaf, CERTIFICATE_MAX, chain[0]));
    TRY(keep(&unit->root, CERTIFICATE_MAX, chain[1]));

    CLEANUP(X509_freep) X509 *leaf = NULL;
    TRY(decode(op, chain[0], &leaf));
    TRY(check_leaf(op, unit, leaf));
    TRY(read_time(X509_get0_notBefore(leaf), &unit->not_before));
    TRY(read_time(X509_get0_notAfter(leaf), &unit->not_after));

    CLEANUP(names_clear) struct names names = { 0 };
    TRY(names_of(leaf, &names));
    TRY(write_sid(unit, &names));
    TRY(write_certificate_attribute(unit, &names));
    return write_accuracy(unit, accuracy_ms);
}

struct fault tsa_unit_new(struct op *op, const struct key_ref *ref, enum key_algorithm algorithm, struct span spki,
                          const struct span chain[2], int64_t accuracy_ms, struct tsa_unit **ret_unit)
{
    CLEANUP(tsa_unit_freep) struct tsa_unit *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->ref = *ref;
    made->algorithm = algorithm;
    TRY(fill(op, spki, chain, accuracy_ms, made));
    *ret_unit = TAKE(made);
    return OK;
}
