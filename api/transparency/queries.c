#include "api/transparency/internal.h"

#include <stdio.h>

#define COLUMNS                                                                                            \
    "operation_id, log, state, failure_code, entry_id, kind, version, log_id, log_index, integrated_time," \
    " entry_timestamp, body, proof_index, tree_size, root_hash, hashes, checkpoint, queued_us, ended_us, sequence, round"

static const struct sql SQL_GET = {
    "transparency_get",
    "SELECT " COLUMNS " FROM svc.transparency_entries WHERE operation_id = $1",
    1,
};
static const struct sql SQL_LIST = {
    "transparency_list",
    "SELECT " COLUMNS " FROM svc.transparency_entries WHERE (sequence, operation_id) < ($1, $2)"
    " AND ($3::text IS NULL OR state = $3) AND ($4::text IS NULL OR log = $4)"
    " ORDER BY sequence DESC, operation_id DESC LIMIT $5",
    5,
};

static struct fault text_at(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    *ret_text = NULL;
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault bytes_at(struct op *op, const struct rows *rows, size_t row, size_t column, struct span *ret_bytes)
{
    return arena_copy(op->arena, rows_bytes(rows, row, column), ret_bytes);
}

static struct fault read_hashes(struct op *op, struct span bytes, struct tlog_entry *entry)
{
    struct span copy;
    size_t count = bytes.len / SHA256_LEN;
    TRY(arena_copy(op->arena, bytes, &copy));
    TRY(arena_take(op->arena, count + 1, sizeof(*entry->hashes), &entry->hashes));
    for (size_t i = 0; i < count; i++) {
        entry->hashes[i] = span_of(copy.at + i * SHA256_LEN, SHA256_LEN);
    }
    entry->hash_count = count;
    return OK;
}

static struct fault read_entry(struct op *op, const struct rows *rows, size_t row, struct tlog_entry *entry)
{
    TRY(text_at(op, rows, row, 5, &entry->kind));
    TRY(text_at(op, rows, row, 6, &entry->version));
    TRY(bytes_at(op, rows, row, 7, &entry->log_id));
    entry->log_index = rows_int(rows, row, 8);
    entry->integrated_time = rows_int(rows, row, 9);
    TRY(bytes_at(op, rows, row, 10, &entry->set));
    TRY(bytes_at(op, rows, row, 11, &entry->body));
    entry->proof_index = rows_int(rows, row, 12);
    entry->tree_size = rows_int(rows, row, 13);
    TRY(bytes_at(op, rows, row, 14, &entry->root_hash));
    TRY(read_hashes(op, rows_bytes(rows, row, 15), entry));
    return text_at(op, rows, row, 16, &entry->checkpoint);
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct evidence *ret_evidence)
{
    struct evidence evidence = { .queued = rows_int(rows, row, 17),
                                 .ended = rows_int(rows, row, 18),
                                 .sequence = rows_int(rows, row, 19),
                                 .round = rows_int(rows, row, 20) };
    TRY(text_at(op, rows, row, 0, &evidence.operation_id));
    TRY(text_at(op, rows, row, 1, &evidence.log));
    TRY(text_at(op, rows, row, 2, &evidence.state));
    TRY(text_at(op, rows, row, 3, &evidence.failure_code));
    TRY(text_at(op, rows, row, 4, &evidence.entry_id));
    TRY(read_entry(op, rows, row, &evidence.entry));
    *ret_evidence = evidence;
    return OK;
}

struct fault evidence_get(struct op *op, struct services *services, struct uuid operation_id,
                          struct evidence *ret_evidence)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_GET, (struct sql_arg[]){ SQL_TEXT(operation_id.text) }, 1, &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    return read_row(op, rows, 0, ret_evidence);
}

struct fault evidence_list(struct op *op, struct services *services, const struct evidence_filter *filter,
                           struct evidence **ret_evidence, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_INT(filter->before_sequence), SQL_TEXT(filter->before_id),
                                    filter->state != NULL ? SQL_TEXT(filter->state) : SQL_NONE,
                                    filter->log != NULL ? SQL_TEXT(filter->log) : SQL_NONE, SQL_INT(filter->limit) };
    struct evidence *list = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_LIST, args, COUNT_OF(args), &rows));
    size_t count = rows_count(rows);
    TRY(arena_take(op->arena, count + 1, sizeof(*list), &list));
    for (size_t i = 0; i < count; i++) {
        TRY(read_row(op, rows, i, &list[i]));
    }
    *ret_evidence = list;
    *ret_count = count;
    return OK;
}

void evidence_print(struct jout *jout, const struct evidence *evidence)
{
    jout_key_text(jout, "state", evidence->state);
    jout_key_text(jout, "log", evidence->log);
    jout_key_time(jout, "queued_at", evidence->queued);
    if (evidence->failure_code != NULL) {
        jout_key_text(jout, "failure_code", evidence->failure_code);
    }
    if (evidence->ended != 0) {
        jout_key_time(jout, "ended_at", evidence->ended);
    }
    if (evidence->entry_id == NULL) {
        return;
    }
    jout_key_hex(jout, "log_id", evidence->entry.log_id);
    jout_key_int(jout, "log_index", evidence->entry.log_index);
    if (evidence->entry.integrated_time > 0) {
        jout_key_time(jout, "integrated_at", evidence->entry.integrated_time * US_PER_S);
    }
    jout_key_text(jout, "entry_id", evidence->entry_id);
    jout_key(jout, "entry");
    tlog_entry_print(jout, &evidence->entry);
}

struct fault transparency_evidence(struct op *op, struct services *services, struct uuid operation_id,
                                   struct span *ret_json)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(TLOG_EVENT_MAX);
    struct evidence evidence;
    struct fault fault = evidence_get(op, services, operation_id, &evidence);
    if (fault.code == FAULT_NOT_FOUND) {
        *ret_json = (struct span){ 0 };
        return OK;
    }
    TRY(fault);
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    evidence_print(&jout, &evidence);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return arena_copy(op->arena, buf_span(&json), ret_json);
}
