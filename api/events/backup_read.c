#include "api/events/backup_internal.h"

#include "appliance/base/alloc.h"

struct backup_reader {
    struct hashed_reader file;
    uint64_t messages, replacements;
    struct buf header, body;
    char subject[BACKUP_SUBJECT_MAX + 1];
    bool ended;
};

void backup_reader_free(struct backup_reader *reader)
{
    if (reader != NULL) {
        hashed_reader_close(&reader->file);
        buf_free(&reader->header);
        buf_free(&reader->body);
        mem_free(reader);
    }
}

struct span backup_reader_header(const struct backup_reader *reader)
{
    return buf_span(&reader->header);
}

/* ---- entries ---- */

struct fault backup_reader_new(struct op *op, int fd, struct backup_reader **ret_reader)
{
    CLEANUP(backup_reader_freep) struct backup_reader *made = NULL;
    char magic[sizeof(BACKUP_MAGIC) - 1], kind = 0;
    uint64_t len = 0;
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(hashed_reader_open(fd, FAULT_LOG_BACKUP, "backup", &made->file));
    made->header = (struct buf)BUF_INIT(BACKUP_HEADER_MAX);
    made->body = (struct buf)BUF_INIT(BACKUP_BODY_MAX);
    TRY(hashed_take(op, &made->file, magic, sizeof(magic)));
    if (memcmp(magic, BACKUP_MAGIC, sizeof(magic)) != 0) {
        return op_fail(op, FAULT(LOG_BACKUP), "this is no backup of an event log");
    }
    TRY(hashed_take(op, &made->file, &kind, 1));
    if (kind != 'H') {
        return hashed_bad(op, &made->file, "its header is missing");
    }
    TRY(hashed_take_number(op, &made->file, 4, &len));
    TRY(hashed_take_block(op, &made->file, len, BACKUP_HEADER_MAX, &made->header));
    *ret_reader = TAKE(made);
    return OK;
}

static struct fault take_body(struct op *op, struct backup_reader *reader, struct span *ret_body)
{
    uint64_t len = 0;
    struct sha256 stated, digest;
    TRY(hashed_take_number(op, &reader->file, 4, &len));
    TRY(hashed_take(op, &reader->file, stated.at, sizeof(stated.at)));
    TRY(hashed_take_block(op, &reader->file, len, BACKUP_BODY_MAX, &reader->body));
    TRY(sha256_of(buf_span(&reader->body), &digest));
    if (!span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(stated.at))) {
        return hashed_bad(op, &reader->file, "a message is not the one that was written");
    }
    *ret_body = buf_span(&reader->body);
    return OK;
}

static struct fault take_message(struct op *op, struct backup_reader *reader, struct backup_entry *entry)
{
    TRY(hashed_take_number(op, &reader->file, 8, &entry->sequence));
    if (reader->replacements > 0 || entry->sequence != reader->messages + 1) {
        return hashed_bad(op, &reader->file, "a message is missing, doubled or out of order");
    }
    reader->messages++;
    return take_body(op, reader, &entry->body);
}

static struct fault take_replacement(struct op *op, struct backup_reader *reader, struct backup_entry *entry)
{
    uint64_t len = 0;
    TRY(hashed_take_number(op, &reader->file, 2, &len));
    if (len == 0 || len > BACKUP_SUBJECT_MAX) {
        return hashed_bad(op, &reader->file, "a length that no backup has");
    }
    TRY(hashed_take(op, &reader->file, reader->subject, (size_t)len));
    reader->subject[len] = '\0';
    if (strlen(reader->subject) != len) {
        return hashed_bad(op, &reader->file, "a subject that no backup has");
    }
    entry->subject = reader->subject;
    reader->replacements++;
    return take_body(op, reader, &entry->body);
}

/* Behind the digest, so it is no part of it. */
static struct fault take_number_raw(struct op *op, struct backup_reader *reader, uint64_t *ret_number)
{
    uint8_t text[8];
    TRY(hashed_take_raw(op, &reader->file, text, sizeof(text)));
    struct reader bytes = { .rest = SPAN_ARRAY(text) };
    return reader_u64(&bytes, ret_number);
}

static struct fault take_end(struct op *op, struct backup_reader *reader, struct backup_totals *totals)
{
    struct sha256 digest;
    TRY(hashed_reader_digest(&reader->file, &digest));
    TRY(take_number_raw(op, reader, &totals->messages));
    TRY(take_number_raw(op, reader, &totals->replacements));
    TRY(hashed_take_raw(op, &reader->file, totals->digest.at, sizeof(totals->digest.at)));
    if (totals->messages != reader->messages || totals->replacements != reader->replacements ||
        !span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(totals->digest.at))) {
        return hashed_bad(op, &reader->file, "its end does not fit what stands before it");
    }
    TRY(hashed_reader_end(op, &reader->file));
    reader->ended = true;
    return OK;
}

struct fault backup_reader_next(struct op *op, struct backup_reader *reader, struct backup_entry *ret_entry)
{
    BUG_IF(reader->ended);
    struct backup_entry entry = { 0 };
    char kind = 0;
    TRY(hashed_take_raw(op, &reader->file, &kind, 1));
    if (kind == 'E') {
        entry.kind = BACKUP_END;
        TRY(take_end(op, reader, &entry.totals));
        *ret_entry = entry;
        return OK;
    }
    REQUIRE(EVP_DigestUpdate(reader->file.digest, &kind, 1) == 1, CRYPTO);
    entry.kind = kind == 'M' ? BACKUP_MESSAGE : BACKUP_REPLACEMENT;
    if (kind != 'M' && kind != 'R') {
        return hashed_bad(op, &reader->file, "an entry that no backup has");
    }
    TRY(kind == 'M' ? take_message(op, reader, &entry) : take_replacement(op, reader, &entry));
    *ret_entry = entry;
    return OK;
}
