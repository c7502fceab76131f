#include "api/events/backup_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"

#include <errno.h>
#include <unistd.h>

struct backup_writer {
    int fd;
    EVP_MD_CTX *digest;
    struct buf waiting;
    uint64_t messages, replacements;
};

void backup_writer_free(struct backup_writer *writer)
{
    if (writer != NULL) {
        EVP_MD_CTX_free(writer->digest);
        buf_free(&writer->waiting);
        mem_free(writer);
    }
}

static struct fault flush(struct backup_writer *writer)
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

/* What was put since `from` is hashed; much of it goes to the file. */
static struct fault settle(struct backup_writer *writer, size_t from)
{
    struct span fresh = span_of(writer->waiting.at + from, writer->waiting.len - from);
    REQUIRE(EVP_DigestUpdate(writer->digest, fresh.at, fresh.len) == 1, CRYPTO);
    return writer->waiting.len >= BACKUP_CHUNK ? flush(writer) : OK;
}

struct fault backup_writer_new(int fd, struct span header, struct backup_writer **ret_writer)
{
    CLEANUP(backup_writer_freep) struct backup_writer *made = NULL;
    REQUIRE(header.len <= BACKUP_HEADER_MAX, TOO_LARGE);
    TRY(mem_new(1, sizeof(*made), &made));
    made->fd = fd;
    made->waiting = (struct buf)BUF_INIT(BACKUP_CHUNK + BACKUP_BODY_MAX + BACKUP_HEADER_MAX);
    TRY(backup_digest_new(&made->digest));
    TRY(buf_text(&made->waiting, BACKUP_MAGIC));
    TRY(buf_u8(&made->waiting, 'H'));
    TRY(buf_u32(&made->waiting, (uint32_t)header.len));
    TRY(buf_put(&made->waiting, header));
    TRY(settle(made, 0));
    *ret_writer = TAKE(made);
    return OK;
}

static struct fault put_body(struct buf *out, struct span body)
{
    struct sha256 digest;
    TRY(sha256_of(body, &digest));
    TRY(buf_u32(out, (uint32_t)body.len));
    TRY(buf_put(out, SPAN_ARRAY(digest.at)));
    return buf_put(out, body);
}

struct fault backup_put_message(struct backup_writer *writer, uint64_t sequence, struct span body)
{
    struct buf *out = &writer->waiting;
    size_t from = out->len;
    REQUIRE(body.len > 0 && body.len <= BACKUP_BODY_MAX, TOO_LARGE);
    TRY(buf_u8(out, 'M'));
    TRY(buf_u64(out, sequence));
    TRY(put_body(out, body));
    writer->messages++;
    return settle(writer, from);
}

struct fault backup_put_replacement(struct backup_writer *writer, struct span subject, struct span body)
{
    struct buf *out = &writer->waiting;
    size_t from = out->len;
    REQUIRE(body.len > 0 && body.len <= BACKUP_BODY_MAX && subject.len > 0 && subject.len <= BACKUP_SUBJECT_MAX,
            TOO_LARGE);
    TRY(buf_u8(out, 'R'));
    TRY(buf_u16(out, (uint16_t)subject.len));
    TRY(buf_put(out, subject));
    TRY(put_body(out, body));
    writer->replacements++;
    return settle(writer, from);
}

struct fault backup_writer_end(struct backup_writer *writer, struct backup_totals *ret_totals)
{
    struct backup_totals totals = { .messages = writer->messages, .replacements = writer->replacements };
    struct buf *out = &writer->waiting;
    REQUIRE(EVP_DigestFinal_ex(writer->digest, totals.digest.at, NULL) == 1, CRYPTO);
    TRY(buf_u8(out, 'E'));
    TRY(buf_u64(out, totals.messages));
    TRY(buf_u64(out, totals.replacements));
    TRY(buf_put(out, SPAN_ARRAY(totals.digest.at)));
    TRY(flush(writer));
    *ret_totals = totals;
    return OK;
}
