/*
 * A backup of the event log as one file, written and read as a stream in constant memory. Numbers are big-endian.
 *
 *     "SVCLOG1\n"
 *     'H'  u32 length, JSON {"created_at","format","last_sequence","stream","version"}
 *     'M'  u64 sequence, u32 length, 32 bytes SHA-256(body), body         one for each message, 1, 2, 3 ...
 *     'R'  u16 length, subject, u32 length, 32 bytes SHA-256(body), body  what there is of rewritten history
 *     'E'  u64 messages, u64 replacements, 32 bytes SHA-256 over all that stands before this 'E'; then the file ends
 *
 * The digests tell damage, not forgery: whoever can write the file can make them anew. Note the last one when the
 * backup is made, and keep it elsewhere.
 */
#ifndef API_EVENTS_BACKUP_FILE_H
#define API_EVENTS_BACKUP_FILE_H

#include "appliance/base/op.h"

#define BACKUP_BODY_MAX    ((size_t)1 << 20)
#define BACKUP_SUBJECT_MAX 255
#define BACKUP_HEADER_MAX  4096

struct backup_totals {
    uint64_t messages, replacements;
    struct sha256 digest;
};

/* To a descriptor, which stays the caller's. */
struct backup_writer;
struct fault backup_writer_new(int fd, struct span header, struct backup_writer **ret_writer);
void backup_writer_free(struct backup_writer *writer);
DEFINE_FREEP(struct backup_writer, backup_writer_free)
struct fault backup_put_message(struct backup_writer *writer, uint64_t sequence, struct span body);
struct fault backup_put_replacement(struct backup_writer *writer, struct span subject, struct span body);
/* Writes the end and whatever is still in memory. IO. */
struct fault backup_writer_end(struct backup_writer *writer, struct backup_totals *ret_totals);

enum backup_kind { BACKUP_MESSAGE, BACKUP_REPLACEMENT, BACKUP_END };
struct backup_entry {
    enum backup_kind kind;
    uint64_t sequence;           /* BACKUP_MESSAGE */
    const char *subject;         /* BACKUP_REPLACEMENT */
    struct span body;            /* borrows until the next call */
    struct backup_totals totals; /* BACKUP_END */
};
struct backup_reader;
/* From where the descriptor stands. LOG_BACKUP with a note for everything that is not as it must be. */
struct fault backup_reader_new(struct op *op, int fd, struct backup_reader **ret_reader);
void backup_reader_free(struct backup_reader *reader);
DEFINE_FREEP(struct backup_reader, backup_reader_free)
/* The header, as it stands there. */
struct span backup_reader_header(const struct backup_reader *reader);
/* After BACKUP_END there is nothing more to ask for. */
struct fault backup_reader_next(struct op *op, struct backup_reader *reader, struct backup_entry *ret_entry);

#endif
