#include "appliance/base/bytes.h"

#include "appliance/base/alloc.h"
#include "appliance/base/secret.h"

#include <stdarg.h>
#include <stdio.h>

#define BUF_FIRST_CAP 256u

bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool span_equal_text(struct span a, const char *text)
{
    return span_equal(a, span_text(text));
}

void buf_free(struct buf *buf)
{
    if (buf->at != NULL) {
        secret_wipe(buf->at, buf->cap);
    }
    mem_free(TAKE(buf->at));
    buf->len = buf->cap = 0;
}

void buf_clear(struct buf *buf)
{
    if (buf->at != NULL) {
        secret_wipe(buf->at, buf->len);
    }
    buf->len = 0;
}

/* Never realloc(): it would leave an unwiped copy of the old bytes behind. */
static struct fault grow_to(struct buf *buf, size_t cap)
{
    uint8_t *made = NULL;
    TRY(mem_new(cap, 1, &made));
    size_t len = buf->len;
    if (len > 0) {
        memcpy(made, buf->at, len);
    }
    buf_free(buf);
    buf->at = made;
    buf->len = len;
    buf->cap = cap;
    return OK;
}

/* Capacity for `extra` bytes and a NUL behind them. */
static struct fault room_for(struct buf *buf, size_t extra)
{
    REQUIRE(buf->len <= buf->max && extra <= buf->max - buf->len && buf->max < SIZE_MAX, TOO_LARGE);
    size_t need = buf->len + extra + 1;
    if (need <= buf->cap) {
        return OK;
    }
    size_t cap = buf->cap > BUF_FIRST_CAP ? buf->cap : BUF_FIRST_CAP;
    while (cap < need && cap <= SIZE_MAX / 2) {
        cap *= 2;
    }
    if (cap > buf->max + 1) {
        cap = buf->max + 1;
    }
    return grow_to(buf, cap > need ? cap : need);
}

struct fault buf_reserve(struct buf *buf, size_t len, uint8_t **ret_at)
{
    TRY(room_for(buf, len));
    *ret_at = buf->at + buf->len;
    buf->len += len;
    return OK;
}

struct fault buf_put(struct buf *buf, struct span bytes)
{
    uint8_t *at;
    TRY(buf_reserve(buf, bytes.len, &at));
    if (bytes.len > 0) {
        memcpy(at, bytes.at, bytes.len);
    }
    return OK;
}

struct fault buf_text(struct buf *buf, const char *text)
{
    return buf_put(buf, span_text(text));
}

struct fault buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    struct fault fault = len < 0 ? FAULT(BAD_ARGUMENT) : room_for(buf, (size_t)len);
    if (!FAULTED(fault)) {
        (void)vsnprintf((char *)buf->at + buf->len, (size_t)len + 1, format, again);
        buf->len += (size_t)len;
    }
    va_end(again);
    return fault;
}

static struct fault put_number(struct buf *buf, uint64_t value, size_t width)
{
    uint8_t *at;
    TRY(buf_reserve(buf, width, &at));
    for (size_t i = 0; i < width; i++) {
        at[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    }
    return OK;
}

struct fault buf_u8(struct buf *buf, uint8_t value)
{
    return put_number(buf, value, 1);
}

struct fault buf_u16(struct buf *buf, uint16_t value)
{
    return put_number(buf, value, 2);
}

struct fault buf_u32(struct buf *buf, uint32_t value)
{
    return put_number(buf, value, 4);
}

struct fault buf_u64(struct buf *buf, uint64_t value)
{
    return put_number(buf, value, 8);
}

struct fault buf_cstr(struct buf *buf, const char **ret_text)
{
    TRY(room_for(buf, 0));
    buf->at[buf->len] = 0;
    *ret_text = (const char *)buf->at;
    return OK;
}

static struct fault take_number(struct reader *reader, size_t width, uint64_t *ret_value)
{
    struct span bytes;
    TRY(reader_bytes(reader, width, &bytes));
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++) {
        value = value << 8 | bytes.at[i];
    }
    *ret_value = value;
    return OK;
}

struct fault reader_u8(struct reader *reader, uint8_t *ret_value)
{
    uint64_t value;
    TRY(take_number(reader, 1, &value));
    *ret_value = (uint8_t)value;
    return OK;
}

struct fault reader_u16(struct reader *reader, uint16_t *ret_value)
{
    uint64_t value;
    TRY(take_number(reader, 2, &value));
    *ret_value = (uint16_t)value;
    return OK;
}

struct fault reader_u32(struct reader *reader, uint32_t *ret_value)
{
    uint64_t value;
    TRY(take_number(reader, 4, &value));
    *ret_value = (uint32_t)value;
    return OK;
}

struct fault reader_u64(struct reader *reader, uint64_t *ret_value)
{
    return take_number(reader, 8, ret_value);
}

struct fault reader_bytes(struct reader *reader, size_t len, struct span *ret_bytes)
{
    REQUIRE(len <= reader->rest.len, BAD_ARGUMENT);
    *ret_bytes = span_of(reader->rest.at, len);
    if (len > 0) {
        reader->rest.at += len;
        reader->rest.len -= len;
    }
    return OK;
}

struct fault reader_end(const struct reader *reader)
{
    REQUIRE(reader->rest.len == 0, BAD_ARGUMENT);
    return OK;
}
