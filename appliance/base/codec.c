#include "appliance/base/codec.h"

static const char hex_digits[16] = { '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f' };
static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char urlsafe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

struct fault hex_encode(struct span bytes, struct buf *out)
{
    REQUIRE(bytes.len <= SIZE_MAX / 2, TOO_LARGE);
    uint8_t *at;
    TRY(buf_reserve(out, bytes.len * 2, &at));
    for (size_t i = 0; i < bytes.len; i++) {
        at[2 * i] = (uint8_t)hex_digits[bytes.at[i] >> 4];
        at[2 * i + 1] = (uint8_t)hex_digits[bytes.at[i] & 15];
    }
    return OK;
}

void hex_text(struct span bytes, char *out, size_t size)
{
    BUG_IF(size < 1 || (size - 1) / 2 < bytes.len);
    for (size_t i = 0; i < bytes.len; i++) {
        out[2 * i] = hex_digits[bytes.at[i] >> 4];
        out[2 * i + 1] = hex_digits[bytes.at[i] & 15];
    }
    out[2 * bytes.len] = 0;
}

static unsigned hex_value(uint8_t c) /* 16: not a digit */
{
    if (c >= '0' && c <= '9') {
        return c - (unsigned)'0';
    }
    return c >= 'a' && c <= 'f' ? c - (unsigned)'a' + 10 : 16;
}

struct fault hex_decode(struct span text, struct buf *out)
{
    REQUIRE(text.len % 2 == 0, BAD_ARGUMENT);
    size_t before = out->len;
    uint8_t *at;
    TRY(buf_reserve(out, text.len / 2, &at));
    for (size_t i = 0; i < text.len / 2; i++) {
        unsigned high = hex_value(text.at[2 * i]), low = hex_value(text.at[2 * i + 1]);
        if (high > 15 || low > 15) {
            out->len = before;
            return FAULT(BAD_ARGUMENT);
        }
        at[i] = (uint8_t)(high << 4 | low);
    }
    return OK;
}

static struct fault encode64(struct span bytes, const char *alphabet, bool pad, struct buf *out)
{
    REQUIRE(bytes.len <= SIZE_MAX / 2, TOO_LARGE);
    size_t tail = bytes.len % 3, full = bytes.len / 3;
    uint8_t *at;
    TRY(buf_reserve(out, full * 4 + (tail == 0 ? 0 : pad ? 4 : tail + 1), &at));
    const uint8_t *in = bytes.at;
    for (size_t i = 0; i < full; i++, in += 3, at += 4) {
        at[0] = (uint8_t)alphabet[in[0] >> 2];
        at[1] = (uint8_t)alphabet[(in[0] & 3) << 4 | in[1] >> 4];
        at[2] = (uint8_t)alphabet[(in[1] & 15) << 2 | in[2] >> 6];
        at[3] = (uint8_t)alphabet[in[2] & 63];
    }
    if (tail == 0) {
        return OK;
    }
    unsigned second = tail == 2 ? in[1] : 0;
    at[0] = (uint8_t)alphabet[in[0] >> 2];
    at[1] = (uint8_t)alphabet[(in[0] & 3u) << 4 | second >> 4];
    if (tail == 2) {
        at[2] = (uint8_t)alphabet[(second & 15) << 2];
    }
    for (size_t i = tail + 1; pad && i < 4; i++) {
        at[i] = '=';
    }
    return OK;
}

struct alphabet {
    uint8_t value[256]; /* 64: not of the alphabet */
};

static void alphabet_init(struct alphabet *table, const char *alphabet)
{
    memset(table->value, 64, sizeof(table->value));
    for (uint8_t i = 0; i < 64; i++) {
        table->value[(uint8_t)alphabet[i]] = i;
    }
}

/* `text` has no padding here. */
static struct fault decode64(struct span text, const char *alphabet, struct buf *out)
{
    struct alphabet table;
    alphabet_init(&table, alphabet);
    const uint8_t *v = table.value;
    size_t tail = text.len % 4, full = text.len / 4;
    REQUIRE(tail != 1, BAD_ARGUMENT);
    uint8_t *at;
    size_t before = out->len;
    TRY(buf_reserve(out, full * 3 + (tail == 0 ? 0 : tail - 1), &at));
    const uint8_t *in = text.at;
    unsigned bad = 0;
    for (size_t i = 0; i < full; i++, in += 4, at += 3) {
        unsigned a = v[in[0]], b = v[in[1]], c = v[in[2]], d = v[in[3]];
        bad |= a | b | c | d;
        at[0] = (uint8_t)(a << 2 | b >> 4);
        at[1] = (uint8_t)(b << 4 | c >> 2);
        at[2] = (uint8_t)(c << 6 | d);
    }
    if (tail > 0) {
        unsigned a = v[in[0]], b = v[in[1]], c = tail == 3 ? v[in[2]] : 0;
        bad |= a | b | c;
        bad |= tail == 2 ? (b & 15) << 6 : (c & 3) << 6; /* bits that carry nothing must be zero */
        at[0] = (uint8_t)(a << 2 | b >> 4);
        if (tail == 3) {
            at[1] = (uint8_t)(b << 4 | c >> 2);
        }
    }
    if (bad > 63) {
        out->len = before;
        return FAULT(BAD_ARGUMENT);
    }
    return OK;
}

struct fault base64_encode(struct span bytes, struct buf *out)
{
    return encode64(bytes, standard, true, out);
}

struct fault base64_decode(struct span text, struct buf *out)
{
    REQUIRE(text.len % 4 == 0, BAD_ARGUMENT);
    for (int i = 0; i < 2 && text.len > 0 && text.at[text.len - 1] == '='; i++) {
        text.len--;
    }
    return decode64(text, standard, out);
}

struct fault base64url_encode(struct span bytes, struct buf *out)
{
    return encode64(bytes, urlsafe, false, out);
}

struct fault base64url_decode(struct span text, struct buf *out)
{
    return decode64(text, urlsafe, out);
}
