#include "api/pkcs11/ecdsa.h"

#include "appliance/base/der.h"

/* A positive INTEGER, right-aligned in `half` bytes. */
static struct fault put_half(struct span *rest, size_t half, uint8_t *out)
{
    struct der_element number;
    TRY(der_take(rest, DER_INTEGER, &number));
    TRY(der_integer_check(number.body));
    REQUIRE((number.body.at[0] & 0x80) == 0, BAD_ARGUMENT);
    struct span digits = number.body;
    if (digits.len > 1 && digits.at[0] == 0) {
        digits = span_of(digits.at + 1, digits.len - 1);
    }
    REQUIRE(digits.len <= half, BAD_ARGUMENT);
    memset(out, 0, half - digits.len);
    memcpy(out + (half - digits.len), digits.at, digits.len);
    return OK;
}

struct fault ecdsa_to_raw(struct span der, size_t half, uint8_t *raw)
{
    uint8_t numbers[ECDSA_RAW_MAX];
    struct der_element pair;
    REQUIRE(half > 0 && half <= sizeof(numbers) / 2, BAD_ARGUMENT);
    TRY(der_take(&der, DER_SEQUENCE, &pair));
    TRY(der_end(der));
    struct span rest = pair.body;
    TRY(put_half(&rest, half, numbers));
    TRY(put_half(&rest, half, numbers + half));
    TRY(der_end(rest));
    memcpy(raw, numbers, 2 * half);
    return OK;
}

static void write_half(struct der_writer *writer, struct span half)
{
    static const uint8_t zero = 0;
    size_t mark = der_mark(writer);
    while (half.len > 1 && half.at[0] == 0) {
        half = span_of(half.at + 1, half.len - 1);
    }
    der_write(writer, half);
    if ((half.at[0] & 0x80) != 0) {
        der_write(writer, span_of(&zero, 1));
    }
    der_wrap(writer, DER_INTEGER, mark);
}

struct fault ecdsa_to_der(struct span raw, uint8_t bytes[ECDSA_DER_MAX], struct span *ret_der)
{
    struct der_writer writer;
    size_t half = raw.len / 2;
    REQUIRE(half > 0 && raw.len == 2 * half && raw.len <= ECDSA_RAW_MAX, BAD_ARGUMENT);
    der_writer_init(&writer, bytes, ECDSA_DER_MAX);
    write_half(&writer, span_of(raw.at + half, half));
    write_half(&writer, span_of(raw.at, half));
    der_wrap(&writer, DER_SEQUENCE, 0);
    return der_written(&writer, ret_der);
}
