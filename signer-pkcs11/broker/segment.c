#include "signer-pkcs11/broker/segment.h"

#include "signer-pkcs11/broker/crc32c.h"

#include <stdio.h>

static const char magic_v1[16] = { 's', 'v', 'c', '-', 's', 'i', 'g', 'n', 'e', 'r', '-', 'j', 'r', 'n', 'l', '1' };
static const char magic_v2[16] = { 's', 'v', 'c', '-', 's', 'i', 'g', 'n', 'e', 'r', '-', 'j', 'r', 'n', 'l', '2' };
#define RECORD_MAGIC 0x53564a52u /* "SVJR" */
#define CRC_AT       ((size_t)8)
#define COVERED_AT   ((size_t)12)
#define TIME_LEN     ((size_t)16)
#define HEADER_CRC   (SEGMENT_HEADER - 4)

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static void put_u64(uint8_t *at, uint64_t value)
{
    put_u32(at, (uint32_t)(value >> 32));
    put_u32(at + 4, (uint32_t)value);
}

static uint32_t get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static uint64_t get_u64(const uint8_t *at)
{
    return (uint64_t)get_u32(at) << 32 | get_u32(at + 4);
}

static void time_put(uint8_t *at, struct segment_time time)
{
    put_u64(at, time.age_ms);
    put_u64(at + 8, (uint64_t)time.wall);
}

/* False: no journal gets that old. */
static bool time_get(const uint8_t *at, struct segment_time *ret_time)
{
    *ret_time = (struct segment_time){ .age_ms = get_u64(at), .wall = (utc_us)get_u64(at + 8) };
    return ret_time->age_ms <= SEGMENT_AGE_MAX;
}

/* ---- records ---- */

/* Place and content: a record that was copied to another place is none. */
static uint32_t record_crc(struct span record, uint32_t number, size_t offset)
{
    uint8_t place[8];
    put_u32(place, number);
    put_u32(place + 4, (uint32_t)offset);
    uint32_t crc = crc32c(0, SPAN_ARRAY(place));
    return crc32c(crc, span_of(record.at + COVERED_AT, record.len - COVERED_AT));
}

struct fault record_put(struct buf *out, uint32_t number, size_t offset, const struct record *record)
{
    bool mark = record->kind == RECORD_MARK;
    BUG_IF(record->signature.len > SIGNATURE_MAX || offset % RECORD_ALIGN != 0 || record->synced % RECORD_ALIGN != 0 ||
           (mark && record->signature.len != 0));
    size_t content = mark ? TIME_LEN : record->signature.len, size = RECORD_FIXED + content;
    uint8_t *at = NULL;
    TRY(buf_reserve(out, record_size(content), &at));
    put_u32(at, RECORD_MAGIC);
    put_u32(at + 4, (uint32_t)record->kind << 16 | (uint32_t)size);
    put_u32(at + 12, (uint32_t)(record->synced / RECORD_ALIGN));
    memcpy(at + 16, record->op_id, RECORD_ID_LEN);
    memcpy(at + 32, record->request.at, SHA256_LEN);
    if (mark) {
        time_put(at + RECORD_FIXED, record->time);
    } else if (content > 0) {
        memcpy(at + RECORD_FIXED, record->signature.at, content);
    }
    memset(at + size, 0, record_size(content) - size);
    put_u32(at + CRC_AT, record_crc(span_of(at, size), number, offset));
    return OK;
}

bool record_get(struct span rest, uint32_t number, size_t offset, struct record *ret_record, size_t *ret_size)
{
    const uint8_t *at = rest.at;
    if (rest.len < RECORD_FIXED || get_u32(at) != RECORD_MAGIC) {
        return false;
    }
    uint32_t kind = get_u32(at + 4) >> 16;
    size_t size = get_u32(at + 4) & 0xffff, content = size - RECORD_FIXED;
    bool known = kind == RECORD_SIGNATURE || (kind == RECORD_MARK && (content == 0 || content == TIME_LEN));
    if (!known || size < RECORD_FIXED || content > SIGNATURE_MAX || record_size(content) > rest.len ||
        record_crc(span_of(at, size), number, offset) != get_u32(at + CRC_AT)) {
        return false;
    }
    bool mark = kind == RECORD_MARK;
    *ret_record = (struct record){ .kind = (enum record_kind)kind,
                                   .signature = span_of(at + RECORD_FIXED, mark ? 0 : content),
                                   .synced = (size_t)get_u32(at + 12) * RECORD_ALIGN };
    memcpy(ret_record->op_id, at + 16, RECORD_ID_LEN);
    memcpy(ret_record->request.at, at + 32, SHA256_LEN);
    *ret_size = record_size(content);
    return !mark || content == 0 || time_get(at + RECORD_FIXED, &ret_record->time);
}

/* ---- files ---- */

void segment_name(uint32_t number, char out[SEGMENT_NAME_MAX])
{
    (void)snprintf(out, SEGMENT_NAME_MAX, "%08u.journal", (unsigned)number);
}

bool segment_number(const char *name, uint32_t *ret_number)
{
    uint32_t number = 0;
    for (size_t i = 0; i < 8; i++) {
        if (name[i] < '0' || name[i] > '9') {
            return false;
        }
        number = number * 10 + (uint32_t)(name[i] - '0');
    }
    char again[SEGMENT_NAME_MAX];
    segment_name(number, again);
    *ret_number = number;
    return strcmp(name, again) == 0 && number > 0;
}

void segment_header_put(const struct segment_header *header, uint8_t out[SEGMENT_HEADER])
{
    memset(out, 0, SEGMENT_HEADER);
    memcpy(out, magic_v2, sizeof(magic_v2));
    put_u32(out + 16, header->number);
    put_u32(out + 20, (uint32_t)(header->previous_end / RECORD_ALIGN));
    time_put(out + 24, header->begun);
    put_u32(out + HEADER_CRC, crc32c(0, span_of(out, HEADER_CRC)));
}

static bool all_zeros(struct span bytes)
{
    return bytes.len == 0 || (bytes.at[0] == 0 && memcmp(bytes.at, bytes.at + 1, bytes.len - 1) == 0);
}

bool segment_header_get(struct span bytes, uint32_t number, struct segment_header *ret_header)
{
    const uint8_t *at = bytes.at;
    if (bytes.len < SEGMENT_HEADER || get_u32(at + 16) != number) {
        return false;
    }
    if (memcmp(at, magic_v1, sizeof(magic_v1)) == 0) {
        *ret_header = (struct segment_header){ .version = 1, .number = number };
        return get_u32(at + 20) == crc32c(0, span_of(at, 20)) && all_zeros(span_of(at + 24, SEGMENT_HEADER - 24));
    }
    *ret_header = (struct segment_header){ .version = 2,
                                           .number = number,
                                           .previous_end = (size_t)get_u32(at + 20) * RECORD_ALIGN };
    return time_get(at + 24, &ret_header->begun) && memcmp(at, magic_v2, sizeof(magic_v2)) == 0 &&
           get_u32(at + HEADER_CRC) == crc32c(0, span_of(at, HEADER_CRC));
}

/* Is there a record behind `bad` that was written when `bad` was on disk for certain? */
static bool proves_loss(struct span bytes, uint32_t number, size_t bad)
{
    for (size_t at = bad + RECORD_ALIGN; at + RECORD_FIXED <= bytes.len; at += RECORD_ALIGN) {
        struct record record;
        size_t size = 0;
        if (record_get(span_of(bytes.at + at, bytes.len - at), number, at, &record, &size) && record.synced > bad) {
            return true;
        }
    }
    return false;
}

static void later(struct segment_time *time, struct segment_time other)
{
    time->age_ms = other.age_ms > time->age_ms ? other.age_ms : time->age_ms;
    time->wall = other.wall > time->wall ? other.wall : time->wall;
}

struct fault segment_read(struct span bytes, uint32_t number, segment_visit visit, void *arg,
                          struct segment_scan *ret_scan)
{
    struct segment_scan scan = { 0 };
    if (!segment_header_get(bytes, number, &scan.header)) {
        /* The header is on disk before the first record is written: without one there is nothing but zeros. */
        scan.damaged =
            bytes.len > SEGMENT_HEADER && !all_zeros(span_of(bytes.at + SEGMENT_HEADER, bytes.len - SEGMENT_HEADER));
        scan.clean = all_zeros(bytes);
        *ret_scan = scan;
        return OK;
    }
    scan.end = SEGMENT_HEADER;
    scan.last = scan.header.begun;
    struct record record;
    for (size_t size = 0;; scan.end += size) {
        struct span rest = span_of(bytes.at + scan.end, bytes.len - scan.end);
        if (!record_get(rest, number, scan.end, &record, &size)) {
            break;
        }
        scan.marked = record.kind == RECORD_MARK;
        later(&scan.last, record.time);
        if (scan.marked) {
            scan.marks++;
            continue;
        }
        scan.signatures++;
        TRY(visit(arg, number, scan.end, &record));
    }
    scan.clean = all_zeros(span_of(bytes.at + scan.end, bytes.len - scan.end));
    scan.damaged = !scan.clean && proves_loss(bytes, number, scan.end);
    *ret_scan = scan;
    return OK;
}
