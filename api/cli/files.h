/* The user's files: "-" is stdin or stdout. Faults carry a note that names the file. */
#ifndef API_CLI_FILES_H
#define API_CLI_FILES_H

#include "appliance/base/op.h"

#define HASH_LEN_MAX 64

struct file_digest {
    const char *hash; /* "sha256" ... */
    uint8_t at[HASH_LEN_MAX];
    size_t len;
    int64_t bytes; /* size of the file */
};
static inline struct span file_digest_span(const struct file_digest *digest)
{
    return span_of(digest->at, digest->len);
}

/* In one pass, whatever the size; large files show progress on a terminal. UNSUPPORTED for another hash. */
struct fault files_digest(struct op *op, const char *path, const char *hash, struct file_digest *ret_digest);
/* Whole, into `out` up to its bound. */
struct fault files_read(struct op *op, const char *path, struct buf *out);
/* Could it be written? For asking before something is done whose result would go there. */
struct fault files_check_writable(struct op *op, const char *path);
/* Whole and durable, or not at all. */
struct fault files_write(struct op *op, const char *path, struct span bytes, unsigned mode);

#endif
