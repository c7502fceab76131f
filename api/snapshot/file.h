/*
 * A snapshot of the read model as one file, written and read as a stream in constant memory. Numbers are big-endian.
 *
 *     "SVCRMS1\n"
 *     'H'  u32 length, JSON: what it is of (struct snapshot_header)
 *     'T'  u16 length, table; u16 length, tenant ("" = all at once); u32 length, its columns      a section begins
 *     'D'  u32 length, bytes of PostgreSQL's binary COPY                                         as many as it takes
 *     'Z'  u64 rows                                                                             the section ends
 *     'M'  u32 length, JSON {"tables":[{"bytes","name","rows","sha256"}...]}                   the manifest
 *     'E'  32 bytes SHA-256 over all that stands before this 'E', 32 bytes HMAC-SHA-256; then the file ends
 *
 * The sections of a table follow one another; its row of the manifest counts and digests the data of all of them. The
 * HMAC, over "svc.read-model.snapshot.v1" 0x00 and that digest, tells who wrote the file: its key is the installation's
 * own (data_dir/api/fingerprint.key).
 */
#ifndef API_SNAPSHOT_FILE_H
#define API_SNAPSHOT_FILE_H

#include "appliance/base/op.h"

#define SNAPSHOT_FORMAT      "svc.read-model.snapshot.v1"
#define SNAPSHOT_HEADER_MAX  4096
#define SNAPSHOT_NAME_MAX    63
#define SNAPSHOT_COLUMNS_MAX 8192
#define SNAPSHOT_PIECE_MAX   ((size_t)1 << 18)
#define SNAPSHOT_TABLES_MAX  256

struct snapshot_header {
    utc_us created_at;
    const char *stream;    /* of the event log */
    const char *version;   /* of the program */
    struct sha256 schema;  /* store_schema_digest */
    uint64_t checkpoint;   /* the last message that is applied */
    struct sha256 rolling; /* over the log up to there */
    uint64_t activated;    /* the newest applied activation of a rewritten history, 0 = none */
};
struct snapshot_totals {
    uint64_t tables, rows, bytes; /* bytes: of the file */
    struct sha256 digest, mac;
};

struct snapshot_writer;
/* To a descriptor, which stays the caller's. */
struct fault snapshot_writer_new(int fd, const struct snapshot_header *header, struct snapshot_writer **ret_writer);
void snapshot_writer_free(struct snapshot_writer *writer);
DEFINE_FREEP(struct snapshot_writer, snapshot_writer_free)
struct fault snapshot_put_section(struct snapshot_writer *writer, const char *table, const char *tenant,
                                  const char *columns);
struct fault snapshot_put_data(struct snapshot_writer *writer, struct span bytes);
struct fault snapshot_put_section_end(struct snapshot_writer *writer, uint64_t rows);
/* Writes manifest and end, and whatever is still in memory. IO. */
struct fault snapshot_writer_end(struct snapshot_writer *writer, struct span key, struct snapshot_totals *ret_totals);

enum snapshot_kind { SNAPSHOT_SECTION, SNAPSHOT_DATA, SNAPSHOT_SECTION_END, SNAPSHOT_END };
struct snapshot_entry {
    enum snapshot_kind kind;
    const char *table, *tenant, *columns; /* SNAPSHOT_SECTION; borrow until the next one */
    struct span data;                     /* SNAPSHOT_DATA; borrows until the next call */
    uint64_t rows;                        /* SNAPSHOT_SECTION_END */
    struct snapshot_totals totals;        /* SNAPSHOT_END */
};
struct snapshot_reader;
/* From where the descriptor stands. SNAPSHOT_INVALID with a note for everything that is not as it must be; the header
 * is not believed before SNAPSHOT_END came, and not at all before the HMAC was compared (snapshot_mac). The header's
 * texts live as long as the reader. */
struct fault snapshot_reader_new(struct op *op, int fd, struct snapshot_reader **ret_reader);
void snapshot_reader_free(struct snapshot_reader *reader);
DEFINE_FREEP(struct snapshot_reader, snapshot_reader_free)
const struct snapshot_header *snapshot_reader_header(const struct snapshot_reader *reader);
struct fault snapshot_reader_next(struct op *op, struct snapshot_reader *reader, struct snapshot_entry *ret_entry);

struct fault snapshot_mac(struct span key, const struct sha256 *digest, struct sha256 *ret_mac);

#endif
