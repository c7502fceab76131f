/* Names of certificates in the form that nearly all have: one attribute a step, of a common type, in printable ASCII.
 * Every other is OpenSSL's to print, and what is printed here is what OpenSSL would have said. */
#include "api/inventory/crypto.h"

#include "appliance/base/der.h"

#define NAME_STEPS 16
#define PRINTABLE  0x13
#define IA5        0x16

struct step {
    const char *type;
    struct span value;
};

static const char *type_text(struct span oid)
{
    static const struct {
        struct span oid;
        const char *text;
    } types[] = {
        { { (const uint8_t *)"\x55\x04\x03", 3 }, "CN" },
        { { (const uint8_t *)"\x55\x04\x05", 3 }, "serialNumber" },
        { { (const uint8_t *)"\x55\x04\x06", 3 }, "C" },
        { { (const uint8_t *)"\x55\x04\x07", 3 }, "L" },
        { { (const uint8_t *)"\x55\x04\x08", 3 }, "ST" },
        { { (const uint8_t *)"\x55\x04\x0a", 3 }, "O" },
        { { (const uint8_t *)"\x55\x04\x0b", 3 }, "OU" },
        { { (const uint8_t *)"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19", 10 }, "DC" },
        { { (const uint8_t *)"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01", 9 }, "emailAddress" },
    };
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (span_equal(types[i].oid, oid)) {
            return types[i].text;
        }
    }
    return NULL;
}

static bool is_plain_text(const struct der_element *value)
{
    if (value->tag != DER_UTF8_STRING && value->tag != PRINTABLE && value->tag != IA5) {
        return false;
    }
    for (size_t i = 0; i < value->body.len; i++) {
        if (value->body.at[i] < ' ' || value->body.at[i] > '~') {
            return false;
        }
    }
    return value->body.len > 0;
}

static struct fault read_step(struct span *rest, struct step *step)
{
    struct der_element set, pair, type, value;
    TRY(der_take(rest, DER_SET, &set));
    TRY(der_take(&set.body, DER_SEQUENCE, &pair));
    TRY(der_end(set.body));
    TRY(der_take(&pair.body, DER_OID, &type));
    TRY(der_next(&pair.body, &value));
    TRY(der_end(pair.body));
    *step = (struct step){ .type = type_text(type.body), .value = value.body };
    REQUIRE(step->type != NULL && is_plain_text(&value), NOT_FOUND);
    return OK;
}

struct text {
    char *at;
    size_t len, size;
};

static struct fault put(struct text *text, const void *at, size_t len)
{
    REQUIRE(len < text->size - text->len, TOO_LARGE);
    memcpy(text->at + text->len, at, len);
    text->len += len;
    return OK;
}

/* RFC 4514 2.4: `c` at the beginning, the end, or anywhere. */
static bool is_escaped(uint8_t c, bool first, bool last)
{
    switch (c) {
    case '"':
    case '+':
    case ',':
    case ';':
    case '<':
    case '>':
    case '\\':
        return true;
    case ' ':
        return first || last;
    case '#':
        return first && !last; /* one alone is left as it is by OpenSSL */
    default:
        return false;
    }
}

static struct fault put_value(struct text *text, struct span value)
{
    size_t from = 0;
    for (size_t i = 0; i < value.len; i++) {
        if (is_escaped(value.at[i], i == 0, i + 1 == value.len)) {
            TRY(put(text, value.at + from, i - from));
            TRY(put(text, "\\", 1));
            from = i;
        }
    }
    return put(text, value.at + from, value.len - from);
}

static struct fault print_name(struct span name, struct text *text)
{
    struct step steps[NAME_STEPS] = { 0 };
    struct der_element whole;
    size_t count = 0;
    TRY(der_take(&name, DER_SEQUENCE, &whole));
    TRY(der_end(name));
    for (; whole.body.len > 0; count++) {
        REQUIRE(count < NAME_STEPS, TOO_LARGE);
        TRY(read_step(&whole.body, &steps[count]));
    }
    while (count-- > 0) {
        TRY(put(text, steps[count].type, strlen(steps[count].type)));
        TRY(put(text, "=", 1));
        TRY(put_value(text, steps[count].value));
        TRY(put(text, ",", count > 0 ? 1 : 0));
    }
    return OK;
}

bool crypto_read_name(struct span name, char *out, size_t size)
{
    struct text text = { out, 0, size };
    bool plain = !FAULTED(print_name(name, &text));
    out[plain ? text.len : 0] = '\0';
    return plain;
}
