#include "api/ca/certificate.h"
#include "api/tsa/internal.h"
#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"
#include "signer-pkcs11/provider/provider.h"

#include <openssl/x509v3.h>

#define CERTIFICATE_MAX 8192
#define CHAIN_BYTES_MAX 32768
#define ATTRIBUTE_MAX   2048
#define NAME_MAX_BYTES  512 /* a token's TSTInfo has room for it */
#define PEM_MAX         65536

DEFINE_FREEP(ASN1_TIME, ASN1_TIME_free)
DEFINE_FREEP(PKEY_USAGE_PERIOD, PKEY_USAGE_PERIOD_free)

void tsa_unit_free(struct tsa_unit *unit)
{
    if (unit == NULL) {
        return;
    }
    EVP_PKEY_free(unit->key);
    buf_free(&unit->leaf);
    buf_free(&unit->root);
    buf_free(&unit->issuer);
    buf_free(&unit->certificates);
    buf_free(&unit->sid);
    buf_free(&unit->certificate_attribute);
    buf_free(&unit->accuracy);
    buf_free(&unit->name);
    buf_free(&unit->root_pem);
    buf_free(&unit->below_pem);
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

/* The privateKeyUsagePeriod's end, where the certificate has one: the key stamps no longer. */
static struct fault read_usage_end(X509 *leaf, utc_us *ret_end)
{
    CLEANUP(PKEY_USAGE_PERIOD_freep)
    PKEY_USAGE_PERIOD *period = X509_get_ext_d2i(leaf, NID_private_key_usage_period, NULL, NULL);
    return period != NULL && period->notAfter != NULL ? read_time(period->notAfter, ret_end) : OK;
}

static struct fault times_of(X509 *leaf, struct tsa_times *ret_times)
{
    struct tsa_times times = { 0 };
    TRY(read_time(X509_get0_notBefore(leaf), &times.not_before));
    TRY(read_time(X509_get0_notAfter(leaf), &times.not_after));
    times.usage_end = times.not_after;
    TRY(read_usage_end(leaf, &times.usage_end));
    *ret_times = times;
    return OK;
}

struct fault tsa_certificate_times(struct op *op, struct span der, struct tsa_times *ret_times)
{
    CLEANUP(X509_freep) X509 *certificate = NULL;
    TRY(decode(op, der, &certificate));
    return times_of(certificate, ret_times);
}

struct names {
    struct span issuer, subject; /* Name, DER; of OPENSSL_malloc */
    struct span serial;          /* INTEGER, whole; of OPENSSL_malloc */
};
static void names_clear(struct names *names)
{
    OPENSSL_free((void *)names->issuer.at);
    OPENSSL_free((void *)names->subject.at);
    OPENSSL_free((void *)names->serial.at);
}

static struct fault names_of(X509 *leaf, struct names *names)
{
    unsigned char *at = NULL;
    int len = i2d_X509_NAME(X509_get_issuer_name(leaf), &at);
    REQUIRE(len > 0, CRYPTO);
    names->issuer = span_of(at, (size_t)len);
    at = NULL;
    len = i2d_X509_NAME(X509_get_subject_name(leaf), &at);
    REQUIRE(len > 0, CRYPTO);
    names->subject = span_of(at, (size_t)len);
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

/* RFC 3161 2.4.2: [0] GeneralName, which is directoryName [4]; both explicit, since they are choices. An empty subject
 * names nobody: nothing is stated then. */
static struct fault write_name(struct tsa_unit *unit, const struct names *names)
{
    uint8_t room[NAME_MAX_BYTES];
    struct der_writer writer;
    if (names->subject.len <= 2) {
        return OK;
    }
    der_writer_init(&writer, room, sizeof(room));
    der_write(&writer, names->subject);
    der_wrap(&writer, DER_CONTEXT_CONSTRUCTED(4), 0);
    der_wrap(&writer, DER_CONTEXT_CONSTRUCTED(0), 0);
    return keep_written(&unit->name, &writer);
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

static int by_encoding(const void *a, const void *b)
{
    const struct span *one = a, *other = b;
    size_t least = one->len < other->len ? one->len : other->len;
    int order = memcmp(one->at, other->at, least);
    return order != 0 ? order : (one->len > other->len) - (one->len < other->len);
}

/* What goes into a token: all but the root, which is the reader's to know; in the order of a DER SET OF. */
static struct fault keep_certificates(struct tsa_unit *unit, const struct span *chain, size_t count)
{
    struct span sorted[TSA_CHAIN_MAX];
    memcpy(sorted, chain, (count - 1) * sizeof(*chain));
    qsort(sorted, count - 1, sizeof(*sorted), by_encoding);
    unit->certificates = (struct buf)BUF_INIT(CHAIN_BYTES_MAX);
    for (size_t i = 0; i + 1 < count; i++) {
        TRY(buf_put(&unit->certificates, sorted[i]));
    }
    return OK;
}

static struct fault keep_pem(struct tsa_unit *unit, const struct span *chain, size_t count)
{
    unit->root_pem = (struct buf)BUF_INIT(PEM_MAX);
    unit->below_pem = (struct buf)BUF_INIT(PEM_MAX);
    for (size_t i = 0; i + 1 < count; i++) {
        TRY(certificate_pem(chain[i], &unit->below_pem));
    }
    return certificate_pem(chain[count - 1], &unit->root_pem);
}

static struct fault fill(struct op *op, struct span spki, const struct span *chain, size_t count, int64_t accuracy_ms,
                         struct tsa_unit *unit)
{
    unit->hash = &tst_hashes[unit->algorithm == KEY_ALGORITHM_EC_P384 ? TST_SHA384 : TST_SHA256];
    TRY(svc_pkey_new(crypto_context(), &unit->ref, spki, &unit->key));
    TRY(keep(&unit->leaf, CERTIFICATE_MAX, chain[0]));
    TRY(keep(&unit->issuer, CERTIFICATE_MAX, chain[1]));
    TRY(keep(&unit->root, CERTIFICATE_MAX, chain[count - 1]));
    TRY(keep_certificates(unit, chain, count));
    TRY(keep_pem(unit, chain, count));

    CLEANUP(X509_freep) X509 *leaf = NULL;
    struct tsa_times times;
    TRY(decode(op, chain[0], &leaf));
    TRY(check_leaf(op, unit, leaf));
    TRY(times_of(leaf, &times));
    unit->not_before = times.not_before;
    unit->not_after = times.not_after;
    unit->usage_end = times.usage_end;

    CLEANUP(names_clear) struct names names = { 0 };
    TRY(names_of(leaf, &names));
    TRY(write_sid(unit, &names));
    TRY(write_name(unit, &names));
    TRY(write_certificate_attribute(unit, &names));
    return write_accuracy(unit, accuracy_ms);
}

struct fault tsa_unit_of_chain(struct op *op, const struct key_ref *ref, enum key_algorithm algorithm, struct span spki,
                               const struct span *chain, size_t count, int64_t accuracy_ms, struct tsa_unit **ret_unit)
{
    CLEANUP(tsa_unit_freep) struct tsa_unit *made = NULL;
    REQUIRE(count >= 2 && count <= TSA_CHAIN_MAX, BAD_ARGUMENT);
    TRY(mem_new(1, sizeof(*made), &made));
    made->ref = *ref;
    made->algorithm = algorithm;
    TRY(fill(op, spki, chain, count, accuracy_ms, made));
    *ret_unit = TAKE(made);
    return OK;
}

struct fault tsa_unit_new(struct op *op, const struct key_ref *ref, enum key_algorithm algorithm, struct span spki,
                          const struct span chain[2], int64_t accuracy_ms, struct tsa_unit **ret_unit)
{
    return tsa_unit_of_chain(op, ref, algorithm, spki, chain, 2, accuracy_ms, ret_unit);
}
