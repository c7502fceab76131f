/*
 * The journal's files: format, and the one writer (segment_writer.c). All numbers big-endian.
 *
 *   file    "svc-signer-jrnl2", u32 number, u32 end of the file before / 16 (0: there was none), u64 age, u64 time,
 *           zeros up to byte 60, u32 CRC-32C of the 60 bytes before; then records; then zeros
 *   record  u32 magic, u16 kind, u16 size, u32 CRC-32C, u32 synced/16, op_id[16], request[32], signature; zeros up to a
 *           multiple of 16. `size` counts without them. The CRC covers file number, offset, and the record without its
 *           first 12 bytes. A MARK has u64 age, u64 time in place of a signature.
 *
 * `synced` is how much of the file was on disk for certain when the record was written. So a reader that finds damage
 * at an offset, and behind it a record that was written when that offset was certain, knows that something was lost
 * that a caller may have been told; otherwise the damage is a tail that power loss tore. A MARK says no more than that,
 * and what time it is; one is written at each open and close, and now and then.
 *
 * `age` is how many milliseconds the journal was open so far, over all processes that ever had it: it only grows, and
 * no clock that somebody can set has a part in it. `time` is the wall clock's, for people to read.
 *
 * Zeros are written ahead of the records (SEGMENT_FILL at a time), so that writing a record changes nothing but its
 * blocks: no allocation, no new size. That makes its fdatasync cheaper, and finds a full disk before a record is begun.
 *
 * Version 1 ("svc-signer-jrnl1", u32 number, u32 CRC of the 20 bytes before, zeros; marks without age and time) is
 * read and never written.
 */
#ifndef SIGNER_BROKER_SEGMENT_H
#define SIGNER_BROKER_SEGMENT_H

#include "appliance/base/clock.h"
#include "appliance/base/id.h"
#include "signer-pkcs11/protocol/key.h"

#define SEGMENT_HEADER   ((size_t)64)
#define SEGMENT_BYTES    ((size_t)64 << 20)
#define SEGMENT_FILL     ((size_t)1 << 20)
#define SEGMENTS_MAX     1024u
#define SEGMENT_AGE_MAX  ((uint64_t)100 * 365 * 24 * 3600 * 1000)
#define RECORD_ALIGN     ((size_t)16)
#define RECORD_ID_LEN    16
#define RECORD_FIXED     ((size_t)64)
#define RECORD_MARK_SIZE (RECORD_FIXED + 16)
#define RECORD_SIZE_MAX  ((RECORD_FIXED + SIGNATURE_MAX + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN)
#define SEGMENT_NAME_MAX 32

static_assert(RECORD_FIXED + SIGNATURE_MAX <= UINT16_MAX, "a record's size is a u16");
static_assert(SEGMENT_BYTES / RECORD_ALIGN <= 1u << 22, "an offset fits the index's place");

struct segment_time {
    uint64_t age_ms;
    utc_us wall;
};

struct segment_header {
    unsigned version;
    uint32_t number;
    size_t previous_end; /* 0: there was none, or it is not known */
    struct segment_time begun;
};

enum record_kind { RECORD_SIGNATURE = 1, RECORD_MARK = 2 };
struct record {
    enum record_kind kind;
    uint8_t op_id[RECORD_ID_LEN];
    struct sha256 request;
    struct span signature;
    struct segment_time time; /* of a mark; zeros in version 1 */
    size_t synced;
};

/* What a record takes in the file. */
static inline size_t record_size(size_t signature_len)
{
    return (RECORD_FIXED + signature_len + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
}
/* Appends the record as it stands at `offset` of file `number`. */
struct fault record_put(struct buf *out, uint32_t number, size_t offset, const struct record *record);
/* The record at the start of `rest`; borrows the signature. False: there is none that is whole. */
bool record_get(struct span rest, uint32_t number, size_t offset, struct record *ret_record, size_t *ret_size);

void segment_name(uint32_t number, char out[SEGMENT_NAME_MAX]);
bool segment_number(const char *name, uint32_t *ret_number); /* false: not the name of a file of the journal */

void segment_header_put(const struct segment_header *header, uint8_t out[SEGMENT_HEADER]);
/* False: there is none of that number. */
bool segment_header_get(struct span bytes, uint32_t number, struct segment_header *ret_header);

/* Called for each signature found. */
typedef struct fault (*segment_visit)(void *arg, uint32_t number, size_t offset, const struct record *record);
struct segment_scan {
    struct segment_header header;
    size_t end;               /* behind the last whole record; 0: not even the header was finished */
    bool damaged;             /* what begins at `end` is damage that cannot be a torn tail */
    bool clean;               /* nothing but zeros from `end` on */
    bool marked;              /* the last record is a mark */
    struct segment_time last; /* the greatest that the header and the marks tell */
    uint64_t signatures, marks;
};
struct fault segment_read(struct span bytes, uint32_t number, segment_visit visit, void *arg,
                          struct segment_scan *ret_scan);

/* ---- segment_writer.c ---- */

/* The one that is written. */
struct segment_writer {
    int folder, fd; /* fd owned, folder borrowed; fd -1: only segment_begin may be called */
    uint32_t number;
    size_t end;    /* where the next record goes */
    size_t filled; /* zeros stand from `end` to here */
    size_t limit;  /* size at which the next file is begun */
    int error;     /* errno of the last failure */
    bool broken;   /* what is on disk is not known any more */
};
/* Begins the next file, durably; what was written before keeps its place when that fails. SIGNER_JOURNAL. */
struct fault segment_begin(struct segment_writer *writer, struct segment_time now);
/* Goes on in an existing file behind `end`; what stands there is cut. */
struct fault segment_resume(struct segment_writer *writer, uint32_t number, size_t end);
/* Zeros for at least `need` bytes behind the end. On SIGNER_JOURNAL nothing changed. */
struct fault segment_fill(struct segment_writer *writer, size_t need);
/* Writes `bytes` at the end and waits until they are on disk. On SIGNER_JOURNAL they are not in the file, or `broken`
 * is set. */
struct fault segment_append(struct segment_writer *writer, struct span bytes);

#endif
