#include "signer-pkcs11/broker/segment.h"

#include "appliance/base/file.h"
#include "signer-pkcs11/broker/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static const char file_magic[16] = { 's', 'v', 'c', '-', 's', 'i', 'g', 'n', 'e', 'r', '-', 'j', 'r', 'n', 'l', '1' };
#define RECORD_MAGIC 0x53564a52u /* "SVJR" */
#define CRC_AT       ((size_t)8)
#define COVERED_AT   ((size_t)12)

static size_t aligned(size_t size)
{
    return (size + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}

static void put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

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
    static const uint8_t zeros[RECORD_ALIGN];
    BUG_IF(record->signature.len > SIGNATURE_MAX || offset % RECORD_ALIGN != 0 || record->synced % RECORD_ALIGN != 0);
    size_t start = out->len, size = RECORD_FIXED + record->signature.len;
    TRY(buf_u32(out, RECORD_MAGIC));
    TRY(buf_u16(out, (uint16_t)record->kind));
    TRY(buf_u16(out, (uint16_t)size));
    TRY(buf_u32(out, 0));
    TRY(buf_u32(out, (uint32_t)(record->synced / RECORD_ALIGN)));
    TRY(buf_put(out, SPAN_ARRAY(record->op_id)));
    TRY(buf_put(out, SPAN_ARRAY(record->request.at)));
    TRY(buf_put(out, record->signature));
    put_u32(out->at + start + CRC_AT, record_crc(span_of(out->at + start, size), number, offset));
    return buf_put(out, span_of(zeros, aligned(size) - size));
}

static struct fault record_parse(struct span rest, struct record *ret_record, uint32_t *ret_crc, size_t *ret_size)
{
    struct reader reader = { rest };
    struct span op_id, request;
    uint32_t magic = 0, synced = 0;
    uint16_t kind = 0, size = 0;
    TRY(reader_u32(&reader, &magic));
    TRY(reader_u16(&reader, &kind));
    TRY(reader_u16(&reader, &size));
    TRY(reader_u32(&reader, ret_crc));
    TRY(reader_u32(&reader, &synced));
    TRY(reader_bytes(&reader, RECORD_ID_LEN, &op_id));
    TRY(reader_bytes(&reader, SHA256_LEN, &request));
    REQUIRE(magic == RECORD_MAGIC && (kind == RECORD_SIGNATURE || kind == RECORD_MARK), BAD_ARGUMENT);
    REQUIRE(size >= RECORD_FIXED && size <= RECORD_FIXED + SIGNATURE_MAX, BAD_ARGUMENT);
    TRY(reader_bytes(&reader, size - RECORD_FIXED, &ret_record->signature));
    ret_record->kind = (enum record_kind)kind;
    ret_record->synced = (size_t)synced * RECORD_ALIGN;
    memcpy(ret_record->op_id, op_id.at, op_id.len);
    memcpy(ret_record->request.at, request.at, request.len);
    *ret_size = size;
    return OK;
}

bool record_get(struct span rest, uint32_t number, size_t offset, struct record *ret_record, size_t *ret_size)
{
    struct record record;
    uint32_t crc = 0;
    size_t size = 0;
    if (FAULTED(record_parse(rest, &record, &crc, &size)) || aligned(size) > rest.len ||
        record_crc(span_of(rest.at, size), number, offset) != crc) {
        return false;
    }
    *ret_record = record;
    *ret_size = aligned(size);
    return true;
}

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

static void header_make(uint32_t number, uint8_t out[SEGMENT_HEADER])
{
    memset(out, 0, SEGMENT_HEADER);
    memcpy(out, file_magic, sizeof(file_magic));
    put_u32(out + 16, number);
    put_u32(out + 20, crc32c(0, span_of(out, 20)));
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

struct fault segment_read(struct span bytes, uint32_t number, segment_visit visit, void *arg,
                          struct segment_scan *ret_scan)
{
    struct segment_scan scan = { 0 };
    uint8_t header[SEGMENT_HEADER];
    header_make(number, header);
    if (bytes.len < SEGMENT_HEADER || memcmp(bytes.at, header, SEGMENT_HEADER) != 0) {
        scan.damaged = bytes.len > SEGMENT_HEADER; /* a header is on disk before the first record is written */
        *ret_scan = scan;
        return OK;
    }
    scan.end = SEGMENT_HEADER;
    struct record record;
    for (size_t size = 0;; scan.end += size) {
        struct span rest = span_of(bytes.at + scan.end, bytes.len - scan.end);
        if (!record_get(rest, number, scan.end, &record, &size)) {
            break;
        }
        scan.marked = record.kind == RECORD_MARK;
        if (record.kind == RECORD_SIGNATURE) {
            TRY(visit(arg, number, scan.end, &record));
        }
    }
    scan.damaged = proves_loss(bytes, number, scan.end);
    *ret_scan = scan;
    return OK;
}

static bool write_at(int fd, struct span bytes, size_t offset)
{
    while (bytes.len > 0) {
        ssize_t put = pwrite(fd, bytes.at, bytes.len, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        offset += (size_t)put;
        bytes = span_of(bytes.at + put, bytes.len - (size_t)put);
    }
    return true;
}

struct fault segment_begin(struct segment_writer *writer, uint32_t number)
{
    char name[SEGMENT_NAME_MAX];
    uint8_t header[SEGMENT_HEADER];
    segment_name(number, name);
    header_make(number, header);
    CLEANUP(fd_closep) int fd = openat(writer->folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    REQUIRE(fd >= 0 && ftruncate(fd, 0) == 0, SIGNER_JOURNAL);
    REQUIRE(write_at(fd, SPAN_ARRAY(header), 0) && fsync(fd) == 0 && fsync(writer->folder) == 0, SIGNER_JOURNAL);
    fd_close(writer->fd);
    writer->fd = fd;
    fd = -1;
    writer->number = number;
    writer->end = SEGMENT_HEADER;
    return OK;
}

struct fault segment_resume(struct segment_writer *writer, uint32_t number, size_t end)
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    CLEANUP(fd_closep) int fd = openat(writer->folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    REQUIRE(fd >= 0 && ftruncate(fd, (off_t)end) == 0 && fsync(fd) == 0, SIGNER_JOURNAL);
    writer->fd = fd;
    fd = -1;
    writer->number = number;
    writer->end = end;
    return OK;
}

struct fault segment_append(struct segment_writer *writer, struct span bytes)
{
    REQUIRE(!writer->broken, SIGNER_JOURNAL);
    if (!write_at(writer->fd, bytes, writer->end)) {
        /* Mostly a full disk: what did get in goes out again, and a later attempt may succeed. */
        writer->broken = ftruncate(writer->fd, (off_t)writer->end) != 0;
        return FAULT(SIGNER_JOURNAL);
    }
    if (fdatasync(writer->fd) != 0) {
        writer->broken = true; /* the kernel may have dropped the pages: asking again would lie */
        return FAULT(SIGNER_JOURNAL);
    }
    writer->end += bytes.len;
    return OK;
}
