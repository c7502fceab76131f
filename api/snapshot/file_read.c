#include "api/snapshot/file_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/json.h"

struct snapshot_reader {
    struct hashed_reader file;
    EVP_MD_CTX *table; /* the digest of the table at hand */
    struct buf block;
    struct op *op; /* its arena holds the header's texts */
    struct snapshot_header header;
    struct snapshot_table tables[SNAPSHOT_TABLES_MAX]; /* as counted */
    size_t count;
    char tenant[SNAPSHOT_NAME_MAX + 1];
    struct buf columns;
    bool in_section, ended;
};

void snapshot_reader_free(struct snapshot_reader *reader)
{
    if (reader != NULL) {
        hashed_reader_close(&reader->file);
        EVP_MD_CTX_free(reader->table);
        buf_free(&reader->block);
        buf_free(&reader->columns);
        op_free(reader->op);
        mem_free(reader);
    }
}

const struct snapshot_header *snapshot_reader_header(const struct snapshot_reader *reader)
{
    return &reader->header;
}

static struct fault take_block(struct op *op, struct snapshot_reader *reader, size_t most, struct buf *out)
{
    uint64_t len = 0;
    TRY(hashed_take_number(op, &reader->file, 4, &len));
    return hashed_take_block(op, &reader->file, len, most, out);
}

/* A name: [a-z0-9_.-], as tables and tenants have. */
static struct fault take_name(struct op *op, struct snapshot_reader *reader, size_t least,
                              char out[SNAPSHOT_NAME_MAX + 1])
{
    uint64_t len = 0;
    TRY(hashed_take_number(op, &reader->file, 2, &len));
    if (len < least || len > SNAPSHOT_NAME_MAX) {
        return hashed_bad(op, &reader->file, "a length that no snapshot has");
    }
    TRY(hashed_take(op, &reader->file, out, (size_t)len));
    out[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        char c = out[i];
        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.') {
            return hashed_bad(op, &reader->file, "a name that no snapshot has");
        }
    }
    return OK;
}

/* ---- the header ---- */

struct header_text {
    const char *format, *stream, *version;
    utc_us created_at;
    int64_t activated, checkpoint;
    struct span rolling, schema;
};
static const struct jin_field header_fields[] = {
    JIN_INT(struct header_text, activated, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct header_text, checkpoint, JIN_REQUIRED, 1, INT64_MAX),
    JIN_TIME(struct header_text, created_at, JIN_REQUIRED),
    JIN_TEXT(struct header_text, format, JIN_REQUIRED, 1, 64),
    JIN_HEX(struct header_text, rolling, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_HEX(struct header_text, schema, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct header_text, stream, JIN_REQUIRED, 1, 255),
    JIN_TEXT(struct header_text, version, JIN_REQUIRED, 1, 64),
};

static struct fault read_header(struct op *op, struct snapshot_reader *reader)
{
    struct header_text text = { 0 };
    struct fault fault =
        jin_decode(reader->op, buf_span(&reader->block), header_fields, COUNT_OF(header_fields), &text);
    if (FAULTED(fault) || strcmp(text.format, SNAPSHOT_FORMAT) != 0) {
        REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
        return op_fail(op, FAULT(SNAPSHOT_INVALID), "the snapshot is none of format " SNAPSHOT_FORMAT);
    }
    struct snapshot_header *header = &reader->header;
    *header = (struct snapshot_header){ .created_at = text.created_at,
                                        .stream = text.stream,
                                        .version = text.version,
                                        .checkpoint = (uint64_t)text.checkpoint,
                                        .activated = (uint64_t)text.activated };
    memcpy(header->rolling.at, text.rolling.at, SHA256_LEN);
    memcpy(header->schema.at, text.schema.at, SHA256_LEN);
    return OK;
}

struct fault snapshot_reader_new(struct op *op, int fd, struct snapshot_reader **ret_reader)
{
    CLEANUP(snapshot_reader_freep) struct snapshot_reader *made = NULL;
    char magic[sizeof(SNAPSHOT_MAGIC) - 1], kind = 0;
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(hashed_reader_open(fd, FAULT_SNAPSHOT_INVALID, "snapshot", &made->file));
    made->block = (struct buf)BUF_INIT(SNAPSHOT_PIECE_MAX);
    made->columns = (struct buf)BUF_INIT(SNAPSHOT_COLUMNS_MAX + 1);
    TRY(op_new("system:snapshot", (struct tenant_id){ 0 }, 1000, &made->op));
    TRY(hashed_take(op, &made->file, magic, sizeof(magic)));
    if (memcmp(magic, SNAPSHOT_MAGIC, sizeof(magic)) != 0) {
        return op_fail(op, FAULT(SNAPSHOT_INVALID), "this is no snapshot of a read model");
    }
    TRY(hashed_take(op, &made->file, &kind, 1));
    if (kind != 'H') {
        return hashed_bad(op, &made->file, "its header is missing");
    }
    TRY(take_block(op, made, SNAPSHOT_HEADER_MAX, &made->block));
    TRY(read_header(op, made));
    *ret_reader = TAKE(made);
    return OK;
}

/* ---- sections ---- */

static struct fault close_table(struct snapshot_reader *reader)
{
    if (reader->table == NULL) {
        return OK;
    }
    REQUIRE(EVP_DigestFinal_ex(reader->table, reader->tables[reader->count - 1].sha256.at, NULL) == 1, CRYPTO);
    EVP_MD_CTX_free(TAKE(reader->table));
    return OK;
}

static struct fault open_table(struct op *op, struct snapshot_reader *reader, const char *name)
{
    for (size_t i = 0; i < reader->count; i++) {
        if (strcmp(reader->tables[i].name, name) == 0) {
            return i + 1 == reader->count ? OK : hashed_bad(op, &reader->file, "a table comes twice");
        }
    }
    if (reader->count == SNAPSHOT_TABLES_MAX) {
        return hashed_bad(op, &reader->file, "more tables than a snapshot has");
    }
    TRY(close_table(reader));
    TRY(sha256_begin(&reader->table));
    struct snapshot_table *table = &reader->tables[reader->count++];
    *table = (struct snapshot_table){ 0 };
    memcpy(table->name, name, strlen(name) + 1);
    return OK;
}

static struct fault take_section(struct op *op, struct snapshot_reader *reader, struct snapshot_entry *entry)
{
    char name[SNAPSHOT_NAME_MAX + 1];
    const char *columns = NULL;
    if (reader->in_section) {
        return hashed_bad(op, &reader->file, "a section within another one");
    }
    TRY(take_name(op, reader, 1, name));
    TRY(take_name(op, reader, 0, reader->tenant));
    TRY(take_block(op, reader, SNAPSHOT_COLUMNS_MAX, &reader->columns));
    if (memchr(reader->columns.at, 0, reader->columns.len) != NULL) {
        return hashed_bad(op, &reader->file, "columns that no snapshot has");
    }
    TRY(buf_cstr(&reader->columns, &columns));
    TRY(open_table(op, reader, name));
    reader->in_section = true;
    entry->table = reader->tables[reader->count - 1].name;
    entry->tenant = reader->tenant;
    entry->columns = columns;
    return OK;
}

static struct fault take_data(struct op *op, struct snapshot_reader *reader, struct snapshot_entry *entry)
{
    if (!reader->in_section) {
        return hashed_bad(op, &reader->file, "data outside of a section");
    }
    TRY(take_block(op, reader, SNAPSHOT_PIECE_MAX, &reader->block));
    entry->data = buf_span(&reader->block);
    REQUIRE(EVP_DigestUpdate(reader->table, entry->data.at, entry->data.len) == 1, CRYPTO);
    reader->tables[reader->count - 1].bytes += entry->data.len;
    return OK;
}

static struct fault take_section_end(struct op *op, struct snapshot_reader *reader, struct snapshot_entry *entry)
{
    struct snapshot_table *table = &reader->tables[reader->count > 0 ? reader->count - 1 : 0];
    TRY(hashed_take_number(op, &reader->file, 8, &entry->rows));
    if (!reader->in_section || entry->rows > INT64_MAX / 2 || table->rows > INT64_MAX / 2) {
        return hashed_bad(op, &reader->file, "the end of no section");
    }
    table->rows += entry->rows;
    reader->in_section = false;
    return OK;
}

/* ---- the end ---- */

struct table_text {
    const char *name;
    int64_t bytes, rows;
    struct span sha256;
};
static const struct jin_field table_fields[] = {
    JIN_INT(struct table_text, bytes, JIN_REQUIRED, 0, INT64_MAX),
    JIN_TEXT(struct table_text, name, JIN_REQUIRED, 1, SNAPSHOT_NAME_MAX),
    JIN_INT(struct table_text, rows, JIN_REQUIRED, 0, INT64_MAX),
    JIN_HEX(struct table_text, sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
};
struct manifest_text {
    struct span tables;
};
static const struct jin_field manifest_fields[] = {
    JIN_RAW(struct manifest_text, tables, JIN_REQUIRED, 2, (int64_t)SNAPSHOT_MANIFEST_MAX),
};

static struct fault compare_manifest(struct op *op, struct snapshot_reader *reader, struct snapshot_totals *totals)
{
    struct manifest_text text = { 0 };
    struct span *items = NULL;
    size_t count = 0;
    struct fault fault =
        jin_decode(reader->op, buf_span(&reader->block), manifest_fields, COUNT_OF(manifest_fields), &text);
    fault = FAULTED(fault) ? fault : jin_array(reader->op, text.tables, SNAPSHOT_TABLES_MAX, &items, &count);
    if (FAULTED(fault) || count != reader->count) {
        return hashed_bad(op, &reader->file, "its manifest does not fit what stands before it");
    }
    for (size_t i = 0; i < count; i++) {
        struct table_text row = { 0 };
        const struct snapshot_table *table = &reader->tables[i];
        if (FAULTED(jin_decode(reader->op, items[i], table_fields, COUNT_OF(table_fields), &row)) ||
            strcmp(row.name, table->name) != 0 || (uint64_t)row.rows != table->rows ||
            (uint64_t)row.bytes != table->bytes || !span_equal(row.sha256, SPAN_ARRAY(table->sha256.at))) {
            return hashed_bad(op, &reader->file, "its manifest does not fit what stands before it");
        }
        totals->rows += table->rows;
    }
    totals->tables = count;
    return OK;
}

static struct fault take_end(struct op *op, struct snapshot_reader *reader, struct snapshot_totals *totals)
{
    struct sha256 digest;
    char kind = 0;
    if (reader->in_section) {
        return hashed_bad(op, &reader->file, "a section does not end");
    }
    TRY(close_table(reader));
    TRY(take_block(op, reader, SNAPSHOT_MANIFEST_MAX, &reader->block));
    TRY(compare_manifest(op, reader, totals));
    TRY(hashed_reader_digest(&reader->file, &digest));
    TRY(hashed_take_raw(op, &reader->file, &kind, 1));
    TRY(hashed_take_raw(op, &reader->file, totals->digest.at, sizeof(totals->digest.at)));
    TRY(hashed_take_raw(op, &reader->file, totals->mac.at, sizeof(totals->mac.at)));
    if (kind != 'E' || !span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(totals->digest.at))) {
        return hashed_bad(op, &reader->file, "its end does not fit what stands before it");
    }
    TRY(hashed_reader_end(op, &reader->file));
    totals->bytes = reader->file.taken;
    reader->ended = true;
    return OK;
}

struct fault snapshot_reader_next(struct op *op, struct snapshot_reader *reader, struct snapshot_entry *ret_entry)
{
    BUG_IF(reader->ended);
    struct snapshot_entry entry = { 0 };
    struct fault fault = OK;
    char kind = 0;
    TRY(hashed_take(op, &reader->file, &kind, 1));
    switch (kind) {
    case 'T':
        entry.kind = SNAPSHOT_SECTION;
        fault = take_section(op, reader, &entry);
        break;
    case 'D':
        entry.kind = SNAPSHOT_DATA;
        fault = take_data(op, reader, &entry);
        break;
    case 'Z':
        entry.kind = SNAPSHOT_SECTION_END;
        fault = take_section_end(op, reader, &entry);
        break;
    case 'M':
        entry.kind = SNAPSHOT_END;
        fault = take_end(op, reader, &entry.totals);
        break;
    default:
        return hashed_bad(op, &reader->file, "an entry that no snapshot has");
    }
    TRY(fault);
    *ret_entry = entry;
    return OK;
}
