#include "api/events/backup_internal.h"

#include "appliance/base/alloc.h"

struct backup_writer {
    struct hashed_writer file;
    uint64_t messages, replacements;
};

void backup_writer_free(struct backup_writer *writer)
{
    if (writer != NULL) {
        hashed_writer_close(&writer->file);
        mem_free(writer);
    }
}

struct fault backup_writer_new(int fd, struct span header, struct backup_writer **ret_writer)
{
    CLEANUP(backup_writer_freep) struct backup_writer *made = NULL;
    REQUIRE(header.len <= BACKUP_HEADER_MAX, TOO_LARGE);
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(hashed_writer_open(fd, BACKUP_BODY_MAX + BACKUP_HEADER_MAX, &made->file));
    TRY(buf_text(&made->file.waiting, BACKUP_MAGIC));
    TRY(buf_u8(&made->file.waiting, 'H'));
    TRY(buf_u32(&made->file.waiting, (uint32_t)header.len));
    TRY(buf_put(&made->file.waiting, header));
    TRY(hashed_settle(&made->file, 0));
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
    struct buf *out = &writer->file.waiting;
    size_t from = out->len;
    REQUIRE(body.len > 0 && body.len <= BACKUP_BODY_MAX, TOO_LARGE);
    TRY(buf_u8(out, 'M'));
    TRY(buf_u64(out, sequence));
    TRY(put_body(out, body));
    writer->messages++;
    return hashed_settle(&writer->file, from);
}

struct fault backup_put_replacement(struct backup_writer *writer, struct span subject, struct span body)
{
    struct buf *out = &writer->file.waiting;
    size_t from = out->len;
    REQUIRE(body.len > 0 && body.len <= BACKUP_BODY_MAX && subject.len > 0 && subject.len <= BACKUP_SUBJECT_MAX,
            TOO_LARGE);
    TRY(buf_u8(out, 'R'));
    TRY(buf_u16(out, (uint16_t)subject.len));
    TRY(buf_put(out, subject));
    TRY(put_body(out, body));
    writer->replacements++;
    return hashed_settle(&writer->file, from);
}

struct fault backup_writer_end(struct backup_writer *writer, struct backup_totals *ret_totals)
{
    struct backup_totals totals = { .messages = writer->messages, .replacements = writer->replacements };
    struct buf *out = &writer->file.waiting;
    TRY(hashed_writer_digest(&writer->file, &totals.digest));
    TRY(buf_u8(out, 'E'));
    TRY(buf_u64(out, totals.messages));
    TRY(buf_u64(out, totals.replacements));
    TRY(buf_put(out, SPAN_ARRAY(totals.digest.at)));
    TRY(hashed_flush(&writer->file));
    *ret_totals = totals;
    return OK;
}
