/*
 * Certificates and public keys in the form that nearly all have, strict DER, read where they stand. Whatever is not so
 * plain is OpenSSL's to read, and what is read here is what OpenSSL would have said: it makes a key of each for that,
 * and a hundred thousand of them take it many seconds.
 */
#include "api/inventory/crypto.h"

#include "appliance/base/der.h"

#define UTC_TIME 0x17

/* ---- public keys ---- */

static const char *plain_curve(struct span parameters)
{
    static const struct {
        struct span whole;
        const char *name;
    } curves[] = {
        { { (const uint8_t *)"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07", 10 }, "ec-p256" },
        { { (const uint8_t *)"\x06\x05\x2b\x81\x04\x00\x22", 7 }, "ec-p384" },
        { { (const uint8_t *)"\x06\x05\x2b\x81\x04\x00\x23", 7 }, "ec-p521" },
    };
    for (size_t i = 0; i < COUNT_OF(curves); i++) {
        if (span_equal(curves[i].whole, parameters)) {
            return curves[i].name;
        }
    }
    return NULL;
}

/* A number, and none below zero. */
static struct fault read_natural(struct span body, struct span *ret_bytes)
{
    TRY(der_integer_check(body));
    REQUIRE(body.at[0] < 0x80, BAD_ARGUMENT);
    *ret_bytes = body.at[0] == 0 ? span_of(body.at + 1, body.len - 1) : body;
    return OK;
}

/* Bits of the modulus of an RSAPublicKey (RFC 8017 A.1.1). */
static struct fault modulus_bits(struct span key, size_t *ret_bits)
{
    struct der_element sequence, modulus, exponent;
    TRY(der_take(&key, DER_SEQUENCE, &sequence));
    TRY(der_end(key));
    TRY(der_take(&sequence.body, DER_INTEGER, &modulus));
    TRY(der_take(&sequence.body, DER_INTEGER, &exponent));
    TRY(der_end(sequence.body));
    TRY(der_integer_check(exponent.body));
    struct span bytes;
    TRY(read_natural(modulus.body, &bytes));
    REQUIRE(bytes.len > 0, BAD_ARGUMENT);
    size_t bits = bytes.len * 8;
    for (unsigned first = bytes.at[0]; first < 0x80; first <<= 1) {
        bits--;
    }
    *ret_bits = bits;
    return OK;
}

static const char *plain_rsa(struct span parameters, struct span key)
{
    size_t bits = 0;
    if (!span_equal(parameters, span_of("\x05\x00", 2)) || FAULTED(modulus_bits(key, &bits))) {
        return NULL;
    }
    return crypto_rsa_name(bits);
}

/* NULL = not plain. `oid`: body; `parameters`: one element or nothing; `key`: what the bit string holds. */
static const char *plain_key(struct span oid, struct span parameters, struct span key)
{
    if (span_equal(oid, span_of("\x2a\x86\x48\xce\x3d\x02\x01", 7))) {
        return plain_curve(parameters);
    }
    if (span_equal(oid, span_of("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01", 9))) {
        return plain_rsa(parameters, key);
    }
    char text[DER_OID_TEXT_MAX];
    return parameters.len == 0 && !FAULTED(der_oid_print(oid, text)) ? crypto_name_of_oid(text) : NULL;
}

static struct fault read_spki(struct span spki, const char **ret_name)
{
    struct der_element whole, algorithm, oid, key;
    TRY(der_take(&spki, DER_SEQUENCE, &whole));
    TRY(der_end(spki));
    TRY(der_take(&whole.body, DER_SEQUENCE, &algorithm));
    TRY(der_take(&whole.body, DER_BIT_STRING, &key));
    TRY(der_end(whole.body));
    TRY(der_take(&algorithm.body, DER_OID, &oid));
    REQUIRE(key.body.len > 0 && key.body.at[0] == 0, BAD_ARGUMENT);
    const char *name = plain_key(oid.body, algorithm.body, span_of(key.body.at + 1, key.body.len - 1));
    REQUIRE(name != NULL, NOT_FOUND);
    *ret_name = name;
    return OK;
}

bool crypto_read_spki(struct span spki, const struct crypto_algorithm **ret_algorithm)
{
    const char *name = NULL;
    if (FAULTED(read_spki(spki, &name))) {
        return false;
    }
    *ret_algorithm = crypto_algorithm_find(name);
    return true;
}

/* ---- certificates ---- */

/* To the second and in UTC, as RFC 5280 4.1.2.5 wants it. */
static struct fault read_time(const struct der_element *element, utc_us *ret_time)
{
    char text[15];
    struct span body = element->body;
    if (element->tag == UTC_TIME) {
        REQUIRE(body.len == 13, BAD_ARGUMENT);
        memcpy(text, body.at[0] < '5' ? "20" : "19", 2);
        memcpy(text + 2, body.at, 13);
        body = span_of(text, sizeof(text));
    } else {
        REQUIRE(element->tag == DER_GENERALIZED_TIME && body.len == 15, BAD_ARGUMENT);
    }
    REQUIRE(memcmp(body.at + 12, "60", 2) != 0, BAD_ARGUMENT);
    return der_time(body, ret_time);
}

static struct fault read_certificate(struct span der, struct crypto_plain *plain)
{
    struct der_element certificate, tbs, skipped, serial, validity, begin, end, subject, issuer, spki;
    TRY(der_take(&der, DER_SEQUENCE, &certificate));
    TRY(der_end(der));
    TRY(der_take(&certificate.body, DER_SEQUENCE, &tbs));
    TRY(der_take(&certificate.body, DER_SEQUENCE, &skipped));
    TRY(der_take(&certificate.body, DER_BIT_STRING, &skipped));
    TRY(der_end(certificate.body));
    if (der_at(tbs.body, DER_CONTEXT_CONSTRUCTED(0))) {
        TRY(der_next(&tbs.body, &skipped));
    }
    TRY(der_take(&tbs.body, DER_INTEGER, &serial));
    TRY(read_natural(serial.body, &plain->serial));
    TRY(der_take(&tbs.body, DER_SEQUENCE, &skipped));
    TRY(der_take(&tbs.body, DER_SEQUENCE, &issuer));
    TRY(der_take(&tbs.body, DER_SEQUENCE, &validity));
    TRY(der_take(&tbs.body, DER_SEQUENCE, &subject));
    TRY(der_take(&tbs.body, DER_SEQUENCE, &spki));
    TRY(der_next(&validity.body, &begin));
    TRY(der_next(&validity.body, &end));
    TRY(der_end(validity.body));
    TRY(read_time(&begin, &plain->not_before));
    TRY(read_time(&end, &plain->not_after));
    plain->subject = subject.whole;
    plain->issuer = issuer.whole;
    plain->spki = spki.whole;
    return OK;
}

bool crypto_read_certificate(struct span der, struct crypto_plain *ret_plain)
{
    struct crypto_plain plain;
    if (FAULTED(read_certificate(der, &plain))) {
        return false;
    }
    *ret_plain = plain;
    return true;
}
