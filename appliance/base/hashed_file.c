#include "appliance/base/hashed_file.h"

#include <errno.h>
#include <unistd.h>

struct fault sha256_begin(EVP_MD_CTX **ret_digest)
{
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), "SHA256", NULL);
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *digest = EVP_MD_CTX_new();
    REQUIRE(md != NULL && digest != NULL && EVP_DigestInit_ex2(digest, md, NULL) == 1, CRYPTO);
    *ret_digest = TAKE(digest);
    return OK;
}

/* ---- reading ---- */

struct fault hashed_reader_open(int fd, enum fault_code damaged, const char *noun, struct hashed_reader *ret_reader)
{
    EVP_MD_CTX *digest = NULL;
    TRY(sha256_begin(&digest));
    *ret_reader = (struct hashed_reader){
        .fd = fd, .damaged = damaged, .noun = noun, .digest = digest, .chunk = BUF_INIT(HASHED_CHUNK)
    };
    return OK;
}

void hashed_reader_close(struct hashed_reader *reader)
{
    EVP_MD_CTX_free(TAKE(reader->digest));
    buf_free(&reader->chunk);
}

struct fault hashed_bad(struct op *op, const struct hashed_reader *reader, const char *what)
{
    return op_fail(op, (struct fault){ reader->damaged }, "the %s is damaged at byte %llu: %s", reader->noun,
                   (unsigned long long)reader->taken, what);
}

/* *ret_more = false at the end of the file. */
static struct fault fill(struct op *op, struct hashed_reader *reader, bool *ret_more)
{
    uint8_t *at = NULL;
    buf_clear(&reader->chunk);
    reader->at = 0;
    TRY(buf_reserve(&reader->chunk, HASHED_CHUNK, &at));
    ssize_t got = 0;
    do {
        got = read(reader->fd, at, HASHED_CHUNK);
    } while (got < 0 && errno == EINTR);
    reader->chunk.len = got > 0 ? (size_t)got : 0;
    if (got < 0) {
        return op_fail(op, FAULT(IO), "the %s cannot be read", reader->noun);
    }
    *ret_more = got > 0;
    return OK;
}

struct fault hashed_take_raw(struct op *op, struct hashed_reader *reader, void *out, size_t len)
{
    uint8_t *to = out;
    while (len > 0) {
        bool more = true;
        if (reader->at == reader->chunk.len) {
            TRY(fill(op, reader, &more));
        }
        if (!more) {
            return hashed_bad(op, reader, "the file ends here");
        }
        size_t here = reader->chunk.len - reader->at, part = len < here ? len : here;
        memcpy(to, reader->chunk.at + reader->at, part);
        reader->at += part;
        reader->taken += part;
        to += part;
        len -= part;
    }
    return OK;
}

struct fault hashed_take(struct op *op, struct hashed_reader *reader, void *out, size_t len)
{
    TRY(hashed_take_raw(op, reader, out, len));
    REQUIRE(EVP_DigestUpdate(reader->digest, out, len) == 1, CRYPTO);
    return OK;
}

struct fault hashed_take_number(struct op *op, struct hashed_reader *reader, size_t bytes, uint64_t *ret_number)
{
    uint8_t text[8] = { 0 };
    uint64_t number = 0;
    BUG_IF(bytes > sizeof(text));
    TRY(hashed_take(op, reader, text, bytes));
    for (size_t i = 0; i < bytes; i++) {
        number = number << 8 | text[i];
    }
    *ret_number = number;
    return OK;
}

struct fault hashed_take_block(struct op *op, struct hashed_reader *reader, uint64_t len, size_t most, struct buf *out)
{
    uint8_t *at = NULL;
    if (len == 0 || len > most) {
        return hashed_bad(op, reader, "a length that none has");
    }
    buf_clear(out);
    TRY(buf_reserve(out, (size_t)len, &at));
    return hashed_take(op, reader, at, (size_t)len);
}

struct fault hashed_reader_digest(struct hashed_reader *reader, struct sha256 *ret_digest)
{
    REQUIRE(EVP_DigestFinal_ex(reader->digest, ret_digest->at, NULL) == 1, CRYPTO);
    return OK;
}

struct fault hashed_reader_end(struct op *op, struct hashed_reader *reader)
{
    bool more = false;
    if (reader->at == reader->chunk.len) {
        TRY(fill(op, reader, &more));
    }
    return more || reader->at != reader->chunk.len ? hashed_bad(op, reader, "something stands behind its end") : OK;
}

/* ---- writing ---- */

struct fault hashed_writer_open(int fd, size_t most, struct hashed_writer *ret_writer)
{
    EVP_MD_CTX *digest = NULL;
    TRY(sha256_begin(&digest));
    *ret_writer = (struct hashed_writer){ .fd = fd, .digest = digest, .waiting = BUF_INIT(HASHED_CHUNK + most) };
    return OK;
}

void hashed_writer_close(struct hashed_writer *writer)
{
    EVP_MD_CTX_free(TAKE(writer->digest));
    buf_free(&writer->waiting);
}

struct fault hashed_flush(struct hashed_writer *writer)
{
    struct span left = buf_span(&writer->waiting);
    while (left.len > 0) {
        ssize_t put = write(writer->fd, left.at, left.len);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        REQUIRE(put > 0, IO);
        left = span_of(left.at + put, left.len - (size_t)put);
    }
    buf_clear(&writer->waiting);
    return OK;
}

struct fault hashed_settle(struct hashed_writer *writer, size_t from)
{
    struct span fresh = span_of(writer->waiting.at + from, writer->waiting.len - from);
    REQUIRE(EVP_DigestUpdate(writer->digest, fresh.at, fresh.len) == 1, CRYPTO);
    writer->written += fresh.len;
    return writer->waiting.len >= HASHED_CHUNK ? hashed_flush(writer) : OK;
}

struct fault hashed_writer_digest(struct hashed_writer *writer, struct sha256 *ret_digest)
{
    REQUIRE(EVP_DigestFinal_ex(writer->digest, ret_digest->at, NULL) == 1, CRYPTO);
    return OK;
}
