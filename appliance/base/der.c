#include "appliance/base/der.h"

#include <stdio.h>

#define LENGTH_BYTES_MAX 4

/* X.690 10.1: definite form, in the fewest octets. */
static struct fault take_length(struct span *rest, size_t *ret_len)
{
    REQUIRE(rest->len >= 1, BAD_ARGUMENT);
    uint8_t first = rest->at[0];
    *rest = span_of(rest->at + 1, rest->len - 1);
    if (first < 0x80) {
        *ret_len = first;
        return OK;
    }
    size_t count = first & 0x7f;
    REQUIRE(count >= 1 && count <= LENGTH_BYTES_MAX && rest->len >= count, BAD_ARGUMENT);
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        len = len << 8 | rest->at[i];
    }
    REQUIRE(rest->at[0] != 0 && len >= 0x80, BAD_ARGUMENT);
    *rest = span_of(rest->at + count, rest->len - count);
    *ret_len = len;
    return OK;
}

struct fault der_next(struct span *rest, struct der_element *ret_element)
{
    struct span left = *rest;
    REQUIRE(left.len >= 2, BAD_ARGUMENT);
    uint8_t tag = left.at[0];
    REQUIRE((tag & 0x1f) != 0x1f && tag != 0, BAD_ARGUMENT);
    left = span_of(left.at + 1, left.len - 1);
    size_t len = 0;
    TRY(take_length(&left, &len));
    REQUIRE(len <= left.len, BAD_ARGUMENT);
    *ret_element = (struct der_element){
        .tag = tag,
        .body = span_of(left.at, len),
        .whole = span_of(rest->at, (size_t)(left.at - rest->at) + len),
    };
    *rest = span_of(left.at + len, left.len - len);
    return OK;
}

struct fault der_take(struct span *rest, uint8_t tag, struct der_element *ret_element)
{
    struct span left = *rest;
    struct der_element element;
    TRY(der_next(&left, &element));
    REQUIRE(element.tag == tag, BAD_ARGUMENT);
    *ret_element = element;
    *rest = left;
    return OK;
}

bool der_at(struct span rest, uint8_t tag)
{
    return rest.len > 0 && rest.at[0] == tag;
}

struct fault der_end(struct span rest)
{
    REQUIRE(rest.len == 0, BAD_ARGUMENT);
    return OK;
}

struct fault der_integer_check(struct span body)
{
    REQUIRE(body.len >= 1, BAD_ARGUMENT);
    if (body.len == 1) {
        return OK;
    }
    bool high = (body.at[1] & 0x80) != 0; /* X.690 8.3.2: the first nine bits are not all alike */
    REQUIRE(!(body.at[0] == 0x00 && !high) && !(body.at[0] == 0xff && high), BAD_ARGUMENT);
    return OK;
}

struct fault der_uint(struct span body, uint64_t *ret_value)
{
    TRY(der_integer_check(body));
    REQUIRE((body.at[0] & 0x80) == 0 && body.len <= 9, BAD_ARGUMENT);
    REQUIRE(body.len < 9 || body.at[0] == 0, BAD_ARGUMENT);
    uint64_t value = 0;
    for (size_t i = 0; i < body.len; i++) {
        value = value << 8 | body.at[i];
    }
    *ret_value = value;
    return OK;
}

struct fault der_boolean(struct span body, bool *ret_value)
{
    REQUIRE(body.len == 1 && (body.at[0] == 0x00 || body.at[0] == 0xff), BAD_ARGUMENT); /* X.690 11.1 */
    *ret_value = body.at[0] != 0;
    return OK;
}

struct fault der_oid_check(struct span body)
{
    REQUIRE(body.len >= 1 && (body.at[body.len - 1] & 0x80) == 0, BAD_ARGUMENT);
    bool start = true;
    for (size_t i = 0; i < body.len; i++) {
        REQUIRE(!(start && body.at[i] == 0x80), BAD_ARGUMENT);
        start = (body.at[i] & 0x80) == 0;
    }
    return OK;
}

struct fault der_oid_print(struct span body, char out[DER_OID_TEXT_MAX])
{
    TRY(der_oid_check(body));
    size_t used = 0;
    uint64_t value = 0;
    for (size_t i = 0; i < body.len; i++) {
        REQUIRE(value >> 57 == 0, BAD_ARGUMENT);
        value = value << 7 | (body.at[i] & 0x7f);
        if ((body.at[i] & 0x80) != 0) {
            continue;
        }
        int printed = 0;
        if (used == 0) {
            uint64_t top = value < 80 ? value / 40 : 2;
            printed = snprintf(out, DER_OID_TEXT_MAX, "%llu.%llu", (unsigned long long)top,
                               (unsigned long long)(value - top * 40));
        } else {
            printed = snprintf(out + used, DER_OID_TEXT_MAX - used, ".%llu", (unsigned long long)value);
        }
        REQUIRE(printed > 0 && (size_t)printed < DER_OID_TEXT_MAX - used, BAD_ARGUMENT);
        used += (size_t)printed;
        value = 0;
    }
    return OK;
}

/* One decimal arc without leading zeros, and the dot behind it when there is one. */
static struct fault take_arc(const char **text, uint64_t *ret_arc)
{
    const char *at = *text;
    REQUIRE(*at >= '0' && *at <= '9' && !(at[0] == '0' && at[1] >= '0' && at[1] <= '9'), BAD_ARGUMENT);
    uint64_t arc = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        REQUIRE(arc < UINT64_MAX / 20, BAD_ARGUMENT);
        arc = arc * 10 + (uint64_t)(*at - '0');
    }
    if (*at == '.') {
        at++;
        REQUIRE(*at != '\0', BAD_ARGUMENT);
    } else {
        REQUIRE(*at == '\0', BAD_ARGUMENT);
    }
    *ret_arc = arc;
    *text = at;
    return OK;
}

static struct fault put_arc(struct buf *out, uint64_t arc)
{
    unsigned shift = 0;
    while (shift <= 56 && arc >> (shift + 7) != 0) {
        shift += 7;
    }
    for (;; shift -= 7) {
        uint8_t seven = (uint8_t)(arc >> shift & 0x7f);
        TRY(buf_u8(out, shift == 0 ? seven : (uint8_t)(seven | 0x80)));
        if (shift == 0) {
            return OK;
        }
    }
}

struct fault der_oid_parse(const char *text, struct buf *out)
{
    uint64_t first = 0;
    uint64_t second = 0;
    TRY(take_arc(&text, &first));
    TRY(take_arc(&text, &second));
    REQUIRE(first <= 2 && (first == 2 || second < 40), BAD_ARGUMENT);
    TRY(put_arc(out, first * 40 + second));
    while (*text != '\0') {
        uint64_t arc = 0;
        TRY(take_arc(&text, &arc));
        TRY(put_arc(out, arc));
    }
    return OK;
}

void der_writer_init(struct der_writer *writer, uint8_t *at, size_t size)
{
    *writer = (struct der_writer){ .at = at, .size = size };
}

size_t der_mark(const struct der_writer *writer)
{
    return writer->len;
}

void der_write(struct der_writer *writer, struct span bytes)
{
    if (writer->full || bytes.len > writer->size - writer->len) {
        writer->full = true;
        return;
    }
    if (bytes.len > 0) {
        writer->len += bytes.len;
        memcpy(writer->at + writer->size - writer->len, bytes.at, bytes.len);
    }
}

void der_wrap(struct der_writer *writer, uint8_t tag, size_t mark)
{
    BUG_IF(mark > writer->len);
    size_t len = writer->len - mark;
    BUG_IF(len > UINT32_MAX);
    uint8_t header[2 + LENGTH_BYTES_MAX];
    size_t at = sizeof(header);
    if (len < 0x80) {
        header[--at] = (uint8_t)len;
    } else {
        uint8_t count = 0;
        for (size_t left = len; left > 0; left >>= 8) {
            header[--at] = (uint8_t)left;
            count++;
        }
        header[--at] = (uint8_t)(0x80 | count);
    }
    header[--at] = tag;
    der_write(writer, span_of(header + at, sizeof(header) - at));
}

void der_write_element(struct der_writer *writer, uint8_t tag, struct span body)
{
    size_t mark = der_mark(writer);
    der_write(writer, body);
    der_wrap(writer, tag, mark);
}

void der_write_uint(struct der_writer *writer, uint8_t tag, uint64_t value)
{
    uint8_t body[9];
    size_t at = sizeof(body);
    do {
        body[--at] = (uint8_t)value;
        value >>= 8;
    } while (value > 0);
    if ((body[at] & 0x80) != 0) {
        body[--at] = 0;
    }
    der_write_element(writer, tag, span_of(body + at, sizeof(body) - at));
}

struct fault der_written(const struct der_writer *writer, struct span *ret_der)
{
    REQUIRE(!writer->full, TOO_LARGE);
    *ret_der = span_of(writer->at + writer->size - writer->len, writer->len);
    return OK;
}
