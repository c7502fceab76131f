/*
 * DER (X.690 10 and 11), strictly: definite minimal lengths, one-byte tags, minimal INTEGER, BOOLEAN 0x00 or 0xFF. Only
 * the encoding is judged here; what may stand where is the caller's. The reader consumes a span from its front; the
 * writer fills a fixed buffer from its end, so that a length is known when it is written:
 *
 *     struct der_writer w;
 *     der_writer_init(&w, bytes, sizeof(bytes));
 *     der_write_oid(&w, oid);                     -- last member first
 *     der_write_uint(&w, 1);
 *     der_wrap(&w, DER_SEQUENCE, 0);              -- header in front of all since mark 0
 *     TRY(der_written(&w, &ret_der));
 */
#ifndef APPLIANCE_BASE_DER_H
#define APPLIANCE_BASE_DER_H

#include "appliance/base/bytes.h"
#include "appliance/base/clock.h"

enum der_tag {
    DER_BOOLEAN = 0x01,
    DER_INTEGER = 0x02,
    DER_BIT_STRING = 0x03,
    DER_OCTET_STRING = 0x04,
    DER_NULL = 0x05,
    DER_OID = 0x06,
    DER_UTF8_STRING = 0x0c,
    DER_GENERALIZED_TIME = 0x18,
    DER_SEQUENCE = 0x30,
    DER_SET = 0x31,
};
#define DER_CONTEXT(n)             ((uint8_t)(0x80 | (n))) /* IMPLICIT over a primitive */
#define DER_CONTEXT_CONSTRUCTED(n) ((uint8_t)(0xa0 | (n)))

/* One element. `whole` is tag, length and body as they stand. */
struct der_element {
    uint8_t tag;
    struct span body, whole;
};

/* All of these: BAD_ARGUMENT when the bytes are not DER or not what was asked for; *rest is then unchanged. */
struct fault der_next(struct span *rest, struct der_element *ret_element);
struct fault der_take(struct span *rest, uint8_t tag, struct der_element *ret_element);
bool der_at(struct span rest, uint8_t tag); /* is the next tag this one? false at the end */
struct fault der_end(struct span rest);     /* refuses leftovers */

/* Bodies. */
struct fault der_integer_check(struct span body);             /* not empty, minimal */
struct fault der_uint(struct span body, uint64_t *ret_value); /* not negative, at most 64 bits */
struct fault der_boolean(struct span body, bool *ret_value);
struct fault der_oid_check(struct span body); /* complete, minimal subidentifiers */
#define DER_OID_TEXT_MAX 128
struct fault der_oid_print(struct span body, char out[DER_OID_TEXT_MAX]); /* "1.3.6.1.4"; BAD_ARGUMENT when too long */
/* Body of a dotted OID, appended to `out`. */
struct fault der_oid_parse(const char *text, struct buf *out);
/* GeneralizedTime "YYYYMMDDHHMMSS[.f...]Z", fraction without trailing zeros and at most six digits. */
struct fault der_time(struct span body, utc_us *ret_time);
#define DER_TIME_MAX 32
void der_time_print(utc_us time, unsigned digits, char out[DER_TIME_MAX]); /* cut to 0..6 digits, zeros dropped */

/* Writer: too small a buffer is sticky, der_written tells (TOO_LARGE). A mark is the number of bytes written so far. */
struct der_writer {
    uint8_t *at;
    size_t size, len; /* the last `len` bytes of `at` are written */
    bool full;
};
void der_writer_init(struct der_writer *writer, uint8_t *at, size_t size);
size_t der_mark(const struct der_writer *writer);
void der_write(struct der_writer *writer, struct span bytes); /* as they are, in front */
void der_wrap(struct der_writer *writer, uint8_t tag, size_t mark);
void der_write_element(struct der_writer *writer, uint8_t tag, struct span body);
void der_write_uint(struct der_writer *writer, uint8_t tag, uint64_t value);
struct fault der_written(const struct der_writer *writer, struct span *ret_der); /* borrows the buffer */

#endif
