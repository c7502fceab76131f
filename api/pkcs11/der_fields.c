#include "api/pkcs11/der_fields.h"

#include "appliance/base/der.h"

static const uint8_t oid_ec[] = { 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01 };
static const uint8_t oid_rsa[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01 };
static const uint8_t oid_common_name[] = { 0x55, 0x04, 0x03 };

#define POINT_UNCOMPRESSED 0x04

/* The curves that the appliance may have keys on. */
static const struct {
    uint8_t oid[8];
    size_t oid_len;
    unsigned bits;
} curves[] = {
    { { 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 }, 8, 256 },
    { { 0x2b, 0x81, 0x04, 0x00, 0x22 }, 5, 384 },
    { { 0x2b, 0x81, 0x04, 0x00, 0x23 }, 5, 521 },
};

static struct fault read_ec(struct span parameters, struct span point, struct public_fields *fields)
{
    struct der_element curve;
    TRY(der_take(&parameters, DER_OID, &curve));
    TRY(der_end(parameters));
    for (size_t i = 0; i < COUNT_OF(curves); i++) {
        if (span_equal(curve.body, span_of(curves[i].oid, curves[i].oid_len))) {
            fields->bits = curves[i].bits;
        }
    }
    size_t half = (fields->bits + 7) / 8;
    REQUIRE(half > 0 && point.len == 2 * half + 1 && point.at[0] == POINT_UNCOMPRESSED, BAD_ARGUMENT);
    fields->curve = curve.whole;
    fields->point = point;
    return OK;
}

static struct fault read_unsigned(struct span *rest, struct span *ret_number)
{
    struct der_element number;
    TRY(der_take(rest, DER_INTEGER, &number));
    TRY(der_integer_check(number.body));
    REQUIRE((number.body.at[0] & 0x80) == 0, BAD_ARGUMENT);
    bool padded = number.body.len > 1 && number.body.at[0] == 0;
    *ret_number = span_of(number.body.at + (padded ? 1 : 0), number.body.len - (padded ? 1 : 0));
    return OK;
}

static struct fault read_rsa(struct span key, struct public_fields *fields)
{
    struct der_element pair;
    TRY(der_take(&key, DER_SEQUENCE, &pair));
    TRY(der_end(key));
    struct span rest = pair.body;
    TRY(read_unsigned(&rest, &fields->modulus));
    TRY(read_unsigned(&rest, &fields->exponent));
    TRY(der_end(rest));
    REQUIRE(fields->modulus.len <= 2048 && fields->modulus.at[0] != 0, BAD_ARGUMENT);
    fields->rsa = true;
    fields->bits = (unsigned)fields->modulus.len * 8;
    for (uint8_t top = fields->modulus.at[0]; (top & 0x80) == 0; top = (uint8_t)(top << 1)) {
        fields->bits--;
    }
    return OK;
}

struct fault public_fields_read(struct span spki, struct public_fields *ret_fields)
{
    struct public_fields fields = { 0 };
    struct der_element whole, algorithm, oid, key;
    TRY(der_take(&spki, DER_SEQUENCE, &whole));
    TRY(der_end(spki));
    struct span rest = whole.body;
    TRY(der_take(&rest, DER_SEQUENCE, &algorithm));
    TRY(der_take(&rest, DER_BIT_STRING, &key));
    TRY(der_end(rest));
    REQUIRE(key.body.len > 1 && key.body.at[0] == 0, BAD_ARGUMENT); /* no unused bits */
    struct span bits = span_of(key.body.at + 1, key.body.len - 1), parameters = algorithm.body;
    TRY(der_take(&parameters, DER_OID, &oid));
    if (span_equal(oid.body, SPAN_ARRAY(oid_ec))) {
        TRY(read_ec(parameters, bits, &fields));
    } else {
        REQUIRE(span_equal(oid.body, SPAN_ARRAY(oid_rsa)), BAD_ARGUMENT);
        TRY(read_rsa(bits, &fields));
    }
    *ret_fields = fields;
    return OK;
}

/* The last one of the subject, as a name is written from the root downwards. */
static struct fault find_common_name(struct span names, struct span *ret_name)
{
    while (names.len > 0) {
        struct der_element set, pair, oid, value;
        TRY(der_take(&names, DER_SET, &set));
        for (struct span rest = set.body; rest.len > 0;) {
            TRY(der_take(&rest, DER_SEQUENCE, &pair));
            struct span members = pair.body;
            TRY(der_take(&members, DER_OID, &oid));
            TRY(der_next(&members, &value));
            TRY(der_end(members));
            if (span_equal(oid.body, SPAN_ARRAY(oid_common_name))) {
                *ret_name = value.body;
            }
        }
    }
    return OK;
}

struct fault certificate_fields_read(struct span certificate, struct certificate_fields *ret_fields)
{
    struct certificate_fields fields = { 0 };
    struct der_element whole, body, version, serial, algorithm, issuer, validity, subject, spki;
    TRY(der_take(&certificate, DER_SEQUENCE, &whole));
    TRY(der_end(certificate));
    struct span rest = whole.body;
    TRY(der_take(&rest, DER_SEQUENCE, &body));
    rest = body.body;
    if (der_at(rest, DER_CONTEXT_CONSTRUCTED(0))) {
        TRY(der_next(&rest, &version));
    }
    TRY(der_take(&rest, DER_INTEGER, &serial));
    TRY(der_take(&rest, DER_SEQUENCE, &algorithm));
    TRY(der_take(&rest, DER_SEQUENCE, &issuer));
    TRY(der_take(&rest, DER_SEQUENCE, &validity));
    TRY(der_take(&rest, DER_SEQUENCE, &subject));
    TRY(der_take(&rest, DER_SEQUENCE, &spki));
    TRY(find_common_name(subject.body, &fields.common_name));
    fields.serial = serial.whole;
    fields.issuer = issuer.whole;
    fields.subject = subject.whole;
    fields.spki = spki.whole;
    *ret_fields = fields;
    return OK;
}
