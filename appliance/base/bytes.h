/*
 * Bytes: `struct span` borrows, `struct buf` owns and grows up to a bound given at the start, `struct reader` is a
 * cursor over a span for wire formats (big-endian, fixed width). reader_end refuses leftovers.
 */
#ifndef APPLIANCE_BASE_BYTES_H
#define APPLIANCE_BASE_BYTES_H

#include "appliance/base/fault.h"

#include <string.h>

struct span {
    const uint8_t *at;
    size_t len;
};

static inline struct span span_of(const void *at, size_t len)
{
    return (struct span){ at, len };
}
/* Without the NUL. NULL gives the empty span. */
static inline struct span span_text(const char *text)
{
    return (struct span){ (const uint8_t *)text, text != NULL ? strlen(text) : 0 };
}
#define SPAN_ARRAY(a) ((struct span){ (const uint8_t *)(a), sizeof(a) })
/* Not constant-time: never for secrets, MACs or fingerprints (secret_equal in secret.h is). */
bool span_equal(struct span a, struct span b);
bool span_equal_text(struct span a, const char *text);

struct buf {
    uint8_t *at;
    size_t len, cap, max;
};
/* Wiped before it is returned to the allocator. */
#define BUF_INIT(max_bytes) { .max = (max_bytes) }
void buf_free(struct buf *buf); /* idempotent; the form that CLEANUP wants */
void buf_clear(struct buf *buf);
struct fault buf_put(struct buf *buf, struct span bytes); /* TOO_LARGE beyond max */
struct fault buf_text(struct buf *buf, const char *text); /* without its NUL */
struct fault buf_printf(struct buf *buf, const char *format, ...) PRINTF(2, 3);
struct fault buf_u8(struct buf *buf, uint8_t value);
struct fault buf_u16(struct buf *buf, uint16_t value);
struct fault buf_u32(struct buf *buf, uint32_t value);
struct fault buf_u64(struct buf *buf, uint64_t value);
/* Room for `len` more bytes, uninitialised, counted as written: fill them at once. */
struct fault buf_reserve(struct buf *buf, size_t len, uint8_t **ret_at);
/* A NUL behind the content that is not counted; valid until the next change. */
struct fault buf_cstr(struct buf *buf, const char **ret_text);
static inline struct span buf_span(const struct buf *buf)
{
    return (struct span){ buf->at, buf->len };
}

struct reader {
    struct span rest;
};
struct fault reader_u8(struct reader *reader, uint8_t *ret_value); /* BAD_ARGUMENT when short, for all of these */
struct fault reader_u16(struct reader *reader, uint16_t *ret_value);
struct fault reader_u32(struct reader *reader, uint32_t *ret_value);
struct fault reader_u64(struct reader *reader, uint64_t *ret_value);
struct fault reader_bytes(struct reader *reader, size_t len, struct span *ret_bytes); /* borrows */
struct fault reader_end(const struct reader *reader); /* BAD_ARGUMENT when bytes are left */

#endif
