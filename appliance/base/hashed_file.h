/*
 * Files that are written and read once, from front to back, every byte hashed by SHA-256 on the way, in constant
 * memory: backups of the event log, snapshots of the read model. What stands in them, and the digest at their end, is
 * their owners' (api/events/backup_*.c, api/snapshot/file_*.c); numbers are big-endian. Not thread-safe; the descriptor
 * is the caller's.
 */
#ifndef APPLIANCE_BASE_HASHED_FILE_H
#define APPLIANCE_BASE_HASHED_FILE_H

#include "appliance/base/crypto.h"

#define HASHED_CHUNK ((size_t)1 << 18)

/* A running SHA-256. */
struct fault sha256_begin(EVP_MD_CTX **ret_digest);

struct hashed_reader {
    int fd;
    enum fault_code damaged; /* the fault of a file that is not as it has to be */
    const char *noun;        /* "backup": the file, in words */
    EVP_MD_CTX *digest;
    struct buf chunk; /* what was read from the file and is not taken yet, from `at` on */
    size_t at;
    uint64_t taken; /* bytes of the file */
};
/* noun is a constant. */
struct fault hashed_reader_open(int fd, enum fault_code damaged, const char *noun, struct hashed_reader *ret_reader);
void hashed_reader_close(struct hashed_reader *reader); /* idempotent; the form that CLEANUP wants */
/* The fault `damaged`: "the backup is damaged at byte N: what". */
struct fault hashed_bad(struct op *op, const struct hashed_reader *reader, const char *what);
/* The next `len` bytes; a file that ends before is damaged. IO when it cannot be read. */
struct fault hashed_take(struct op *op, struct hashed_reader *reader, void *out, size_t len);
struct fault hashed_take_raw(struct op *op, struct hashed_reader *reader, void *out, size_t len); /* not hashed */
/* A number of 1 to 8 bytes. */
struct fault hashed_take_number(struct op *op, struct hashed_reader *reader, size_t bytes, uint64_t *ret_number);
/* `len` bytes in place of what `out` holds; none, or more than `most`, is damage. */
struct fault hashed_take_block(struct op *op, struct hashed_reader *reader, uint64_t len, size_t most, struct buf *out);
/* The digest of all that was hashed; nothing is hashed after it. */
struct fault hashed_reader_digest(struct hashed_reader *reader, struct sha256 *ret_digest);
/* Something behind the end is damage. */
struct fault hashed_reader_end(struct op *op, struct hashed_reader *reader);

struct hashed_writer {
    int fd;
    EVP_MD_CTX *digest;
    struct buf waiting; /* for the file, hashed already: put there, then settle */
    uint64_t written;   /* bytes that were settled */
};
/* most: the largest piece that is put between two settlements. */
struct fault hashed_writer_open(int fd, size_t most, struct hashed_writer *ret_writer);
void hashed_writer_close(struct hashed_writer *writer); /* idempotent */
/* What was put since `from` is hashed; when much waits, it goes to the file. */
struct fault hashed_settle(struct hashed_writer *writer, size_t from);
struct fault hashed_writer_digest(struct hashed_writer *writer, struct sha256 *ret_digest);
/* What waits goes to the file. IO. */
struct fault hashed_flush(struct hashed_writer *writer);

#endif
