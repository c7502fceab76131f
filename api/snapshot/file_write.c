#include "api/snapshot/file_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct snapshot_writer {
    int fd;
    EVP_MD_CTX *digest; /* of the file */
    EVP_MD_CTX *table;  /* of the table's data */
    struct buf waiting; /* for the file; hashed already */
    struct buf piece;   /* of data */
    uint64_t written;
    struct snapshot_table tables[SNAPSHOT_TABLES_MAX];
    size_t count;
    bool in_section;
};

struct fault snapshot_digest_new(EVP_MD_CTX **ret_digest)
{
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), "SHA256", NULL);
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *digest = EVP_MD_CTX_new();
    REQUIRE(md != NULL && digest != NULL && EVP_DigestInit_ex2(digest, md, NULL) == 1, CRYPTO);
    *ret_digest = TAKE(digest);
    return OK;
}

struct fault snapshot_mac(struct span key, const struct sha256 *digest, struct sha256 *ret_mac)
{
    static const char domain[] = SNAPSHOT_FORMAT; /* with its NUL */
    const struct span parts[] = { SPAN_ARRAY(domain), SPAN_ARRAY(digest->at) };
    return hmac_sha256(key, parts, COUNT_OF(parts), ret_mac);
}

void snapshot_writer_free(struct snapshot_writer *writer)
{
    if (writer != NULL) {
        EVP_MD_CTX_free(writer->digest);
        EVP_MD_CTX_free(writer->table);
        buf_free(&writer->waiting);
        buf_free(&writer->piece);
        mem_free(writer);
    }
}

static struct fault flush(struct snapshot_writer *writer)
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
static struct fault settle(struct snapshot_writer *writer, size_t from)
{
    struct span fresh = span_of(writer->waiting.at + from, writer->waiting.len - from);
    REQUIRE(EVP_DigestUpdate(writer->digest, fresh.at, fresh.len) == 1, CRYPTO);
    writer->written += fresh.len;
    return writer->waiting.len >= SNAPSHOT_CHUNK ? flush(writer) : OK;
}

static struct fault put_block(struct snapshot_writer *writer, char kind, struct span bytes)
{
    size_t from = writer->waiting.len;
    TRY(buf_u8(&writer->waiting, (uint8_t)kind));
    TRY(buf_u32(&writer->waiting, (uint32_t)bytes.len));
    TRY(buf_put(&writer->waiting, bytes));
    return settle(writer, from);
}

static struct fault print_header(const struct snapshot_header *header, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_int(&jout, "activated", (int64_t)header->activated);
    jout_key_int(&jout, "checkpoint", (int64_t)header->checkpoint);
    jout_key_time(&jout, "created_at", header->created_at);
    jout_key_text(&jout, "format", SNAPSHOT_FORMAT);
    jout_key_hex(&jout, "rolling", SPAN_ARRAY(header->rolling.at));
    jout_key_hex(&jout, "schema", SPAN_ARRAY(header->schema.at));
    jout_key_text(&jout, "stream", header->stream);
    jout_key_text(&jout, "version", header->version);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault snapshot_writer_new(int fd, const struct snapshot_header *header, struct snapshot_writer **ret_writer)
{
    CLEANUP(snapshot_writer_freep) struct snapshot_writer *made = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT(SNAPSHOT_HEADER_MAX);
    TRY(mem_new(1, sizeof(*made), &made));
    made->fd = fd;
    made->waiting = (struct buf)BUF_INIT(SNAPSHOT_CHUNK + SNAPSHOT_PIECE_MAX + SNAPSHOT_MANIFEST_MAX + 65536);
    made->piece = (struct buf)BUF_INIT(SNAPSHOT_PIECE_MAX);
    TRY(snapshot_digest_new(&made->digest));
    TRY(print_header(header, &text));
    TRY(buf_text(&made->waiting, SNAPSHOT_MAGIC));
    TRY(settle(made, 0));
    TRY(put_block(made, 'H', buf_span(&text)));
    *ret_writer = TAKE(made);
    return OK;
}

/* The digest of the table at hand is complete. */
static struct fault close_table(struct snapshot_writer *writer)
{
    if (writer->count == 0) {
        return OK;
    }
    REQUIRE(EVP_DigestFinal_ex(writer->table, writer->tables[writer->count - 1].sha256.at, NULL) == 1, CRYPTO);
    EVP_MD_CTX_free(TAKE(writer->table));
    return OK;
}

static struct fault open_table(struct snapshot_writer *writer, const char *name)
{
    if (writer->count > 0 && strcmp(writer->tables[writer->count - 1].name, name) == 0) {
        return OK;
    }
    REQUIRE(writer->count < SNAPSHOT_TABLES_MAX, TOO_LARGE);
    TRY(close_table(writer));
    TRY(snapshot_digest_new(&writer->table));
    struct snapshot_table *table = &writer->tables[writer->count++];
    *table = (struct snapshot_table){ 0 };
    (void)snprintf(table->name, sizeof(table->name), "%s", name);
    return OK;
}

struct fault snapshot_put_section(struct snapshot_writer *writer, const char *table, const char *tenant,
                                  const char *columns)
{
    BUG_IF(writer->in_section);
    size_t from = writer->waiting.len;
    struct buf *out = &writer->waiting;
    struct span texts[] = { span_text(table), span_text(tenant), span_text(columns) };
    REQUIRE(texts[0].len > 0 && texts[0].len <= SNAPSHOT_NAME_MAX && texts[1].len <= SNAPSHOT_NAME_MAX &&
                texts[2].len > 0 && texts[2].len <= SNAPSHOT_COLUMNS_MAX,
            TOO_LARGE);
    TRY(open_table(writer, table));
    TRY(buf_u8(out, 'T'));
    TRY(buf_u16(out, (uint16_t)texts[0].len));
    TRY(buf_put(out, texts[0]));
    TRY(buf_u16(out, (uint16_t)texts[1].len));
    TRY(buf_put(out, texts[1]));
    TRY(buf_u32(out, (uint32_t)texts[2].len));
    TRY(buf_put(out, texts[2]));
    writer->in_section = true;
    return settle(writer, from);
}

static struct fault put_piece(struct snapshot_writer *writer)
{
    struct span piece = buf_span(&writer->piece);
    if (piece.len == 0) {
        return OK;
    }
    REQUIRE(EVP_DigestUpdate(writer->table, piece.at, piece.len) == 1, CRYPTO);
    writer->tables[writer->count - 1].bytes += piece.len;
    TRY(put_block(writer, 'D', piece));
    buf_clear(&writer->piece);
    return OK;
}

struct fault snapshot_put_data(struct snapshot_writer *writer, struct span bytes)
{
    BUG_IF(!writer->in_section);
    while (bytes.len > 0) {
        size_t room = SNAPSHOT_PIECE_MAX - writer->piece.len, part = bytes.len < room ? bytes.len : room;
        TRY(buf_put(&writer->piece, span_of(bytes.at, part)));
        bytes = span_of(bytes.at + part, bytes.len - part);
        if (writer->piece.len == SNAPSHOT_PIECE_MAX) {
            TRY(put_piece(writer));
        }
    }
    return OK;
}

struct fault snapshot_put_section_end(struct snapshot_writer *writer, uint64_t rows)
{
    BUG_IF(!writer->in_section);
    TRY(put_piece(writer));
    size_t from = writer->waiting.len;
    TRY(buf_u8(&writer->waiting, 'Z'));
    TRY(buf_u64(&writer->waiting, rows));
    writer->tables[writer->count - 1].rows += rows;
    writer->in_section = false;
    return settle(writer, from);
}

static struct fault print_manifest(const struct snapshot_writer *writer, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key(&jout, "tables");
    jout_array(&jout);
    for (size_t i = 0; i < writer->count; i++) {
        jout_object(&jout);
        jout_key_int(&jout, "bytes", (int64_t)writer->tables[i].bytes);
        jout_key_text(&jout, "name", writer->tables[i].name);
        jout_key_int(&jout, "rows", (int64_t)writer->tables[i].rows);
        jout_key_hex(&jout, "sha256", SPAN_ARRAY(writer->tables[i].sha256.at));
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault snapshot_writer_end(struct snapshot_writer *writer, struct span key, struct snapshot_totals *ret_totals)
{
    BUG_IF(writer->in_section);
    struct snapshot_totals totals = { .tables = writer->count };
    CLEANUP(buf_free) struct buf manifest = BUF_INIT(SNAPSHOT_MANIFEST_MAX);
    TRY(close_table(writer));
    TRY(print_manifest(writer, &manifest));
    TRY(put_block(writer, 'M', buf_span(&manifest)));
    REQUIRE(EVP_DigestFinal_ex(writer->digest, totals.digest.at, NULL) == 1, CRYPTO);
    TRY(snapshot_mac(key, &totals.digest, &totals.mac));
    TRY(buf_u8(&writer->waiting, 'E'));
    TRY(buf_put(&writer->waiting, SPAN_ARRAY(totals.digest.at)));
    TRY(buf_put(&writer->waiting, SPAN_ARRAY(totals.mac.at)));
    TRY(flush(writer));
    for (size_t i = 0; i < writer->count; i++) {
        totals.rows += writer->tables[i].rows;
    }
    totals.bytes = writer->written + 1 + 2 * SHA256_LEN;
    *ret_totals = totals;
    return OK;
}
