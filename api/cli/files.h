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
/* For reading, piece by piece; the caller closes it. */
struct fault files_open(struct op *op, const char *path, int *ret_fd);
/* Whole, into `out` up to its bound. */
struct fault files_read(struct op *op, const char *path, struct buf *out);
/* Could it be written? For asking before something is done whose result would go there. */
struct fault files_check_writable(struct op *op, const char *path);
/* Whole and durable, or not at all. */
struct fault files_write(struct op *op, const char *path, struct span bytes, unsigned mode);

/* A file of any size that is written piece by piece and is there when it is whole: until files_stream_keep another
 * name stands for it, PATH.part.PID, which files_stream_free removes. "-", a device, a pipe: written to as it comes. */
struct file_stream;
struct fault files_stream_new(struct op *op, const char *path, unsigned mode, struct file_stream **ret_stream);
struct fault files_stream_put(struct op *op, struct file_stream *stream, struct span bytes);
struct fault files_stream_keep(struct op *op, struct file_stream *stream); /* whole and durable */
void files_stream_free(struct file_stream *stream);
DEFINE_FREEP(struct file_stream, files_stream_free)

#endif
