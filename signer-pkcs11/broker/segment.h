/*
 * The journal's files: format and the one writer. All numbers big-endian.
 *
 *   file    "svc-signer-jrnl1", u32 number, u32 CRC-32C of the 20 bytes before, zeros up to 64 bytes; then records
 *   record  u32 magic, u16 kind, u16 size, u32 CRC-32C, u32 synced/16, op_id[16], request[32], signature; zeros up to a
 *           multiple of 16. `size` counts without them. The CRC covers file number, offset, and the record without its
 *           first 12 bytes.
 *
 * `synced` is how much of the file was on disk for certain when the record was written. So a reader that finds damage
 * at an offset, and behind it a record that was written when that offset was certain, knows that something was lost
 * that a caller may have been told; otherwise the damage is a tail that power loss tore. Records of kind MARK say no
 * more than that; one is written at each open and close.
 */
#ifndef SIGNER_BROKER_SEGMENT_H
#define SIGNER_BROKER_SEGMENT_H

#include "appliance/base/id.h"
#include "signer-pkcs11/protocol/key.h"

#define SEGMENT_HEADER   ((size_t)64)
#define SEGMENT_BYTES    ((size_t)64 << 20)
#define SEGMENTS_MAX     1024u
#define RECORD_ALIGN     ((size_t)16)
#define RECORD_ID_LEN    16
#define RECORD_FIXED     ((size_t)64)
#define RECORD_SIZE_MAX  ((RECORD_FIXED + SIGNATURE_MAX + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN)
#define SEGMENT_NAME_MAX 32

enum record_kind { RECORD_SIGNATURE = 1, RECORD_MARK = 2 };
struct record {
    enum record_kind kind;
    uint8_t op_id[RECORD_ID_LEN];
    struct sha256 request;
    struct span signature;
    size_t synced;
};

/* Appends the record as it stands at `offset` of file `number`. */
struct fault record_put(struct buf *out, uint32_t number, size_t offset, const struct record *record);
/* The record at the start of `rest`; borrows the signature. False: there is none that is whole. */
bool record_get(struct span rest, uint32_t number, size_t offset, struct record *ret_record, size_t *ret_size);

void segment_name(uint32_t number, char out[SEGMENT_NAME_MAX]);
bool segment_number(const char *name, uint32_t *ret_number);

/* Called for each signature found. */
typedef struct fault (*segment_visit)(void *arg, uint32_t number, size_t offset, const struct record *record);
struct segment_scan {
    size_t end;   /* behind the last whole record; 0: not even the header was finished */
    bool damaged; /* what begins at `end` is damage that cannot be a torn tail */
    bool marked;  /* the last record is a mark */
};
struct fault segment_read(struct span bytes, uint32_t number, segment_visit visit, void *arg,
                          struct segment_scan *ret_scan);

/* The one that is written. */
struct segment_writer {
    int folder, fd; /* fd owned, folder borrowed */
    uint32_t number;
    size_t end;   /* where the next record goes */
    size_t limit; /* size at which the next file is begun */
    bool broken;  /* what is on disk is not known any more */
};
/* Begins file `number`, durably. SIGNER_JOURNAL. */
struct fault segment_begin(struct segment_writer *writer, uint32_t number);
/* Goes on in an existing file behind `end`; what stands there is cut. */
struct fault segment_resume(struct segment_writer *writer, uint32_t number, size_t end);
/* Writes `bytes` at the end and waits until they are on disk. On SIGNER_JOURNAL they are not in the file, or `broken`
 * is set. */
struct fault segment_append(struct segment_writer *writer, struct span bytes);

#endif
