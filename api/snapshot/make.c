/* The read model into a file. */
#include "api/snapshot/internal.h"

#include "api/store/copy.h"
#include "appliance/base/failpoint.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define STATEMENT_MAX 65536

/* What a projection writes into an open row of the outbox: a dispatcher's lease and its tries are no part of it. When
 * a row was due that was tried before is not known any more: at once. */
static const struct {
    const char *column, *as;
} outbox_columns[] = {
    { "state", "CASE WHEN state = 'processing' THEN 'pending' ELSE state END" },
    { "worker_id", "''" },
    { "lease_until_us", "0::bigint" },
    { "attempts", "0::bigint" },
    { "due_us", "CASE WHEN attempts = 0 OR (state = 'processing' AND attempts = 1) THEN due_us ELSE 0::bigint END" },
};

static const char standing_text[] =
    "SELECT stream_seq, rolling, (SELECT coalesce(max(stream_seq), 0) FROM svc.audit_generations)"
    " FROM svc.projection_checkpoint";
/* Whoever has an event has copies; walked from tenant to tenant by the index. */
static const char tenants_text[] =
    "WITH RECURSIVE t AS (SELECT (SELECT min(tenant_id) FROM svc.event_envelopes) AS id UNION ALL"
    " SELECT (SELECT min(tenant_id) FROM svc.event_envelopes WHERE tenant_id > t.id) FROM t WHERE t.id IS NOT NULL)"
    " SELECT id FROM t WHERE id IS NOT NULL";

struct making {
    struct op *op;
    struct copy *copy;
    struct snapshot_writer *writer;
    snapshot_pace_fn pace;
    void *arg;
    size_t since; /* bytes since the last pace */
    const struct copy_table *tables;
    size_t table_count;
    const struct tenant_id *tenants;
    size_t tenant_count;
};

static struct fault take(void *arg, struct span bytes)
{
    struct making *making = arg;
    TRY(snapshot_put_data(making->writer, bytes));
    making->since += bytes.len;
    if (making->since < SNAPSHOT_PIECE_MAX || making->pace == NULL) {
        return OK;
    }
    making->since = 0;
    FAILPOINT("snapshot.while_writing");
    return making->pace(making->arg);
}

static const char *outbox_column(const char *name, size_t len)
{
    for (size_t i = 0; i < COUNT_OF(outbox_columns); i++) {
        if (strlen(outbox_columns[i].column) == len && strncmp(outbox_columns[i].column, name, len) == 0) {
            return outbox_columns[i].as;
        }
    }
    return NULL;
}

static struct fault print_columns(const struct copy_table *table, struct buf *out)
{
    if (strcmp(table->name, "outbox") != 0) {
        return buf_text(out, table->columns);
    }
    for (const char *at = table->columns; *at != '\0';) {
        size_t len = strcspn(at, ",");
        const char *as = outbox_column(at, len);
        TRY(as != NULL ? buf_text(out, as) : buf_put(out, span_of(at, len)));
        at += len;
        at += *at == ',' ? 1 : 0;
        at += *at == ' ' ? 1 : 0;
        TRY(buf_text(out, *at != '\0' ? ", " : ""));
    }
    return OK;
}

static struct fault write_section(struct making *making, const struct copy_table *table, const char *tenant)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(STATEMENT_MAX);
    const char *statement = NULL;
    uint64_t rows = 0;
    TRY(buf_text(&text, "COPY (SELECT "));
    TRY(print_columns(table, &text));
    TRY(buf_printf(&text, " FROM svc.%s) TO STDOUT (FORMAT binary)", table->name));
    TRY(buf_cstr(&text, &statement));
    TRY(snapshot_put_section(making->writer, table->name, tenant, table->columns));
    TRY(copy_out_table(making->op, making->copy, statement, take, making, &rows));
    return snapshot_put_section_end(making->writer, rows);
}

static struct fault write_tables(struct making *making)
{
    for (size_t i = 0; i < making->table_count; i++) {
        const struct copy_table *table = &making->tables[i];
        if (table->scope != COPY_TENANT) {
            TRY(write_section(making, table, ""));
            continue;
        }
        for (size_t j = 0; j < making->tenant_count; j++) {
            TRY(copy_out_tenant(making->op, making->copy, making->tenants[j]));
            TRY(write_section(making, table, making->tenants[j].text));
        }
    }
    return OK;
}

static struct fault read_tenants(struct making *making)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct tenant_id *tenants = NULL;
    TRY(copy_query(making->op, making->copy, tenants_text, &rows));
    making->tenant_count = rows_count(rows);
    TRY(arena_take(making->op->arena, making->tenant_count + 1, sizeof(*tenants), &tenants));
    for (size_t i = 0; i < making->tenant_count; i++) {
        TRY(tenant_id_parse(rows_bytes(rows, i, 0), &tenants[i]));
    }
    making->tenants = tenants;
    return OK;
}

/* Where the read model stands, as of the transaction. */
static struct fault read_header(struct making *making, const struct config *config, struct snapshot_header *header)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    *header =
        (struct snapshot_header){ .created_at = clock_utc(), .stream = config->nats_stream, .version = SVC_VERSION };
    TRY(store_schema_digest(&header->schema));
    TRY(copy_query(making->op, making->copy, standing_text, &rows));
    if (rows_count(rows) != 1 || rows_int(rows, 0, 0) == 0 || rows_bytes(rows, 0, 1).len != SHA256_LEN) {
        return op_fail(making->op, FAULT(CONFLICT), "the read model is empty: there is nothing to keep");
    }
    header->checkpoint = (uint64_t)rows_int(rows, 0, 0);
    memcpy(header->rolling.at, rows_bytes(rows, 0, 1).at, SHA256_LEN);
    header->activated = (uint64_t)rows_int(rows, 0, 2);
    return OK;
}

static struct fault write_file(struct making *making, const struct snapshot_header *header, struct span key, int fd,
                               struct snapshot_totals *totals)
{
    TRY(snapshot_writer_new(fd, header, &making->writer));
    TRY(write_tables(making));
    return snapshot_writer_end(making->writer, key, totals);
}

/* The oldest ones beyond what is kept. */
static struct fault thin_out(struct op *op, const struct config *config, int folder)
{
    uint64_t *there = NULL;
    size_t count = 0;
    TRY(snapshot_folder_list(op, folder, &there, &count));
    for (size_t i = (size_t)config->snapshots_keep; i < count; i++) {
        TRY(snapshot_remove(op, folder, there[i]));
    }
    return OK;
}

static struct fault make_in(struct making *making, const struct config *config, struct event_log *log, struct span key,
                            int folder, struct snapshot_made *made)
{
    struct snapshot_header header;
    char name[SNAPSHOT_FILE_NAME_MAX];
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    TRY(copy_out_begin(making->op, config, &why, &making->copy));
    struct copy_table *tables = NULL;
    TRY(copy_tables(making->op, making->copy, &tables, &making->table_count));
    making->tables = tables;
    TRY(read_header(making, config, &header));
    TRY(read_tenants(making));
    snapshot_name(header.checkpoint, name);
    (void)snprintf(made->path, sizeof(made->path), "%s/%s", config->snapshots_dir, name);
    made->checkpoint = header.checkpoint;
    if (snapshot_time(folder, header.checkpoint) != 0) {
        return OK;
    }
    TRY(snapshot_temporary(making->op, folder, &fd));
    TRY(write_file(making, &header, key, fd, &made->totals));
    if (event_log_activated(log) > header.checkpoint) {
        return op_fail(making->op, FAULT(CONFLICT), "an erasure was activated while the snapshot was written");
    }
    TRY(snapshot_keep(making->op, folder, fd, header.checkpoint));
    made->fresh = true;
    return thin_out(making->op, config, folder);
}

struct fault snapshot_make(struct op *op, const struct config *config, struct event_log *log, struct span key,
                           snapshot_pace_fn pace, void *arg, struct snapshot_made *ret_made)
{
    CLEANUP(fd_closep) int folder = -1;
    struct making making = { .op = op, .pace = pace, .arg = arg };
    struct snapshot_made made = { .fresh = false };
    TRY(snapshot_folder_lock(op, config, &folder));
    struct fault fault = make_in(&making, config, log, key, folder, &made);
    snapshot_writer_free(making.writer);
    copy_free(making.copy);
    if (FAULTED(fault)) {
        snapshot_drop(folder);
        if (fault.code == FAULT_IO) {
            return op_fail(op, FAULT(SNAPSHOT_DIR), "snapshots.dir: the snapshot cannot be written: is space left?");
        }
        return fault;
    }
    *ret_made = made;
    return OK;
}

struct fault snapshot_forget(struct op *op, const struct config *config, struct event_log *log, unsigned *ret_gone)
{
    uint64_t *there = NULL, activated = event_log_activated(log);
    size_t count = 0;
    CLEANUP(fd_closep) int folder = -1;
    *ret_gone = 0;
    if (config->snapshots_dir == NULL || config->snapshots_dir[0] == '\0' || activated == 0) {
        return OK;
    }
    if (access(config->snapshots_dir, F_OK) != 0 && errno == ENOENT) {
        return OK; /* what is not there holds nothing */
    }
    TRY(snapshot_folder_lock(op, config, &folder));
    TRY(snapshot_folder_list(op, folder, &there, &count));
    for (size_t i = 0; i < count; i++) {
        if (there[i] < activated) {
            TRY(snapshot_remove(op, folder, there[i]));
            (*ret_gone)++;
        }
    }
    return OK;
}
