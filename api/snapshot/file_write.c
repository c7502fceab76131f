#include "api/snapshot/file_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/json.h"

#include <stdio.h>

struct snapshot_writer {
    struct hashed_writer file;
    EVP_MD_CTX *table; /* the digest of the table's data */
    struct buf piece;  /* of data */
    struct snapshot_table tables[SNAPSHOT_TABLES_MAX];
    size_t count;
    bool in_section;
};

struct fault snapshot_mac(struct span key, const struct sha256 *digest, struct sha256 *ret_mac)
{
    static const char domain[] = SNAPSHOT_FORMAT; /* with its NUL */
    const struct span parts[] = { SPAN_ARRAY(domain), SPAN_ARRAY(digest->at) };
    return hmac_sha256(key, parts, COUNT_OF(parts), ret_mac);
}

void snapshot_writer_free(struct snapshot_writer *writer)
{
    if (writer != NULL) {
        hashed_writer_close(&writer->file);
        EVP_MD_CTX_free(writer->table);
        buf_free(&writer->piece);
        mem_free(writer);
    }
}

static struct fault put_block(struct snapshot_writer *writer, char kind, struct span bytes)
{
    size_t from = writer->file.waiting.len;
    TRY(buf_u8(&writer->file.waiting, (uint8_t)kind));
    TRY(buf_u32(&writer->file.waiting, (uint32_t)bytes.len));
    TRY(buf_put(&writer->file.waiting, bytes));
    return hashed_settle(&writer->file, from);
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
    TRY(hashed_writer_open(fd, SNAPSHOT_PIECE_MAX + SNAPSHOT_MANIFEST_MAX + 65536, &made->file));
    made->piece = (struct buf)BUF_INIT(SNAPSHOT_PIECE_MAX);
    TRY(print_header(header, &text));
    TRY(buf_text(&made->file.waiting, SNAPSHOT_MAGIC));
    TRY(hashed_settle(&made->file, 0));
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
    TRY(sha256_begin(&writer->table));
    struct snapshot_table *table = &writer->tables[writer->count++];
    *table = (struct snapshot_table){ 0 };
    (void)snprintf(table->name, sizeof(table->name), "%s", name);
    return OK;
}

struct fault snapshot_put_section(struct snapshot_writer *writer, const char *table, const char *tenant,
                                  const char *columns)
{
    BUG_IF(writer->in_section);
    size_t from = writer->file.waiting.len;
    struct buf *out = &writer->file.waiting;
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
    return hashed_settle(&writer->file, from);
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
    size_t from = writer->file.waiting.len;
    TRY(buf_u8(&writer->file.waiting, 'Z'));
    TRY(buf_u64(&writer->file.waiting, rows));
    writer->tables[writer->count - 1].rows += rows;
    writer->in_section = false;
    return hashed_settle(&writer->file, from);
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
    TRY(hashed_writer_digest(&writer->file, &totals.digest));
    TRY(snapshot_mac(key, &totals.digest, &totals.mac));
    TRY(buf_u8(&writer->file.waiting, 'E'));
    TRY(buf_put(&writer->file.waiting, SPAN_ARRAY(totals.digest.at)));
    TRY(buf_put(&writer->file.waiting, SPAN_ARRAY(totals.mac.at)));
    TRY(hashed_flush(&writer->file));
    for (size_t i = 0; i < writer->count; i++) {
        totals.rows += writer->tables[i].rows;
    }
    totals.bytes = writer->file.written + 1 + 2 * SHA256_LEN;
    *ret_totals = totals;
    return OK;
}
