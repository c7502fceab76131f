#include "api/events/backup_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"

#include <errno.h>
#include <unistd.h>

struct backup_reader {
    int fd;
    EVP_MD_CTX *digest;
    struct buf chunk; /* what was read from the file and is not taken yet, from `at` on */
    size_t at;
    uint64_t taken; /* bytes of the file */
    uint64_t messages, replacements;
    struct buf header, body;
    char subject[BACKUP_SUBJECT_MAX + 1];
    bool ended;
};

struct fault backup_digest_new(EVP_MD_CTX **ret_digest)
{
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), "SHA256", NULL);
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *digest = EVP_MD_CTX_new();
    REQUIRE(md != NULL && digest != NULL && EVP_DigestInit_ex2(digest, md, NULL) == 1, CRYPTO);
    *ret_digest = TAKE(digest);
    return OK;
}

void backup_reader_free(struct backup_reader *reader)
{
    if (reader != NULL) {
        EVP_MD_CTX_free(reader->digest);
        buf_free(&reader->chunk);
        buf_free(&reader->header);
        buf_free(&reader->body);
        mem_free(reader);
    }
}

struct span backup_reader_header(const struct backup_reader *reader)
{
    return buf_span(&reader->header);
}

static struct fault bad(struct op *op, const struct backup_reader *reader, const char *what)
{
    return op_fail(op, FAULT(LOG_BACKUP), "the backup is damaged at byte %llu: %s", (unsigned long long)reader->taken,
                   what);
}

/* ---- bytes ---- */

/* *ret_more = false at the end of the file. */
static struct fault fill(struct op *op, struct backup_reader *reader, bool *ret_more)
{
    uint8_t *at = NULL;
    buf_clear(&reader->chunk);
    reader->at = 0;
    TRY(buf_reserve(&reader->chunk, BACKUP_CHUNK, &at));
    ssize_t got = 0;
    do {
        got = read(reader->fd, at, BACKUP_CHUNK);
    } while (got < 0 && errno == EINTR);
    reader->chunk.len = got > 0 ? (size_t)got : 0;
    if (got < 0) {
        return op_fail(op, FAULT(IO), "the backup cannot be read");
    }
    *ret_more = got > 0;
    return OK;
}

static struct fault take(struct op *op, struct backup_reader *reader, void *out, size_t len)
{
    uint8_t *to = out;
    while (len > 0) {
        bool more = true;
        if (reader->at == reader->chunk.len) {
            TRY(fill(op, reader, &more));
        }
        if (!more) {
            return bad(op, reader, "the file ends here");
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

static struct fault take_hashed(struct op *op, struct backup_reader *reader, void *out, size_t len)
{
    TRY(take(op, reader, out, len));
    REQUIRE(EVP_DigestUpdate(reader->digest, out, len) == 1, CRYPTO);
    return OK;
}

static struct fault take_number(struct op *op, struct backup_reader *reader, size_t bytes, bool hashed,
                                uint64_t *ret_number)
{
    uint8_t text[8] = { 0 };
    uint64_t number = 0;
    TRY(hashed ? take_hashed(op, reader, text, bytes) : take(op, reader, text, bytes));
    for (size_t i = 0; i < bytes; i++) {
        number = number << 8 | text[i];
    }
    *ret_number = number;
    return OK;
}

static struct fault take_block(struct op *op, struct backup_reader *reader, uint64_t len, struct buf *out)
{
    uint8_t *at = NULL;
    buf_clear(out);
    if (len == 0 || len > out->max) {
        return bad(op, reader, "a length that no backup has");
    }
    TRY(buf_reserve(out, (size_t)len, &at));
    return take_hashed(op, reader, at, (size_t)len);
}

/* ---- entries ---- */

struct fault backup_reader_new(struct op *op, int fd, struct backup_reader **ret_reader)
{
    CLEANUP(backup_reader_freep) struct backup_reader *made = NULL;
    char magic[sizeof(BACKUP_MAGIC) - 1], kind = 0;
    uint64_t len = 0;
    TRY(mem_new(1, sizeof(*made), &made));
    made->fd = fd;
    made->chunk = (struct buf)BUF_INIT(BACKUP_CHUNK);
    made->header = (struct buf)BUF_INIT(BACKUP_HEADER_MAX);
    made->body = (struct buf)BUF_INIT(BACKUP_BODY_MAX);
    TRY(backup_digest_new(&made->digest));
    TRY(take_hashed(op, made, magic, sizeof(magic)));
    if (memcmp(magic, BACKUP_MAGIC, sizeof(magic)) != 0) {
        return op_fail(op, FAULT(LOG_BACKUP), "this is no backup of an event log");
    }
    TRY(take_hashed(op, made, &kind, 1));
    if (kind != 'H') {
        return bad(op, made, "its header is missing");
    }
    TRY(take_number(op, made, 4, true, &len));
    TRY(take_block(op, made, len, &made->header));
    *ret_reader = TAKE(made);
    return OK;
}

static struct fault take_body(struct op *op, struct backup_reader *reader, struct span *ret_body)
{
    uint64_t len = 0;
    struct sha256 stated, digest;
    TRY(take_number(op, reader, 4, true, &len));
    TRY(take_hashed(op, reader, stated.at, sizeof(stated.at)));
    TRY(take_block(op, reader, len, &reader->body));
    TRY(sha256_of(buf_span(&reader->body), &digest));
    if (!span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(stated.at))) {
        return bad(op, reader, "a message is not the one that was written");
    }
    *ret_body = buf_span(&reader->body);
    return OK;
}

static struct fault take_message(struct op *op, struct backup_reader *reader, struct backup_entry *entry)
{
    TRY(take_number(op, reader, 8, true, &entry->sequence));
    if (reader->replacements > 0 || entry->sequence != reader->messages + 1) {
        return bad(op, reader, "a message is missing, doubled or out of order");
    }
    reader->messages++;
    return take_body(op, reader, &entry->body);
}

static struct fault take_replacement(struct op *op, struct backup_reader *reader, struct backup_entry *entry)
{
    uint64_t len = 0;
    TRY(take_number(op, reader, 2, true, &len));
    if (len == 0 || len > BACKUP_SUBJECT_MAX) {
        return bad(op, reader, "a length that no backup has");
    }
    TRY(take_hashed(op, reader, reader->subject, (size_t)len));
    reader->subject[len] = '\0';
    if (strlen(reader->subject) != len) {
        return bad(op, reader, "a subject that no backup has");
    }
    entry->subject = reader->subject;
    reader->replacements++;
    return take_body(op, reader, &entry->body);
}

static struct fault take_end(struct op *op, struct backup_reader *reader, struct backup_totals *totals)
{
    struct sha256 digest;
    bool more = false;
    REQUIRE(EVP_DigestFinal_ex(reader->digest, digest.at, NULL) == 1, CRYPTO);
    TRY(take_number(op, reader, 8, false, &totals->messages));
    TRY(take_number(op, reader, 8, false, &totals->replacements));
    TRY(take(op, reader, totals->digest.at, sizeof(totals->digest.at)));
    if (totals->messages != reader->messages || totals->replacements != reader->replacements ||
        !span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(totals->digest.at))) {
        return bad(op, reader, "its end does not fit what stands before it");
    }
    if (reader->at == reader->chunk.len) {
        TRY(fill(op, reader, &more));
    }
    if (more || reader->at != reader->chunk.len) {
        return bad(op, reader, "something stands behind its end");
    }
    reader->ended = true;
    return OK;
}

struct fault backup_reader_next(struct op *op, struct backup_reader *reader, struct backup_entry *ret_entry)
{
    BUG_IF(reader->ended);
    struct backup_entry entry = { 0 };
    char kind = 0;
    TRY(take(op, reader, &kind, 1));
    if (kind == 'E') {
        entry.kind = BACKUP_END;
        TRY(take_end(op, reader, &entry.totals));
        *ret_entry = entry;
        return OK;
    }
    REQUIRE(EVP_DigestUpdate(reader->digest, &kind, 1) == 1, CRYPTO);
    entry.kind = kind == 'M' ? BACKUP_MESSAGE : BACKUP_REPLACEMENT;
    if (kind != 'M' && kind != 'R') {
        return bad(op, reader, "an entry that no backup has");
    }
    TRY(kind == 'M' ? take_message(op, reader, &entry) : take_replacement(op, reader, &entry));
    *ret_entry = entry;
    return OK;
}
