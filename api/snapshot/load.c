/* A snapshot looked through, and put into the read model. */
#include "api/snapshot/internal.h"

#include "api/store/copy.h"
#include "appliance/base/failpoint.h"
#include "appliance/base/file.h"
#include "appliance/base/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ---- */

static struct fault latest(struct op *op, const struct config *config, char *path)
{
    CLEANUP(fd_closep) int folder = -1;
    char name[SNAPSHOT_FILE_NAME_MAX];
    uint64_t *there = NULL;
    size_t count = 0;
    TRY(snapshot_folder_open(op, config, &folder));
    TRY(snapshot_folder_list(op, folder, &there, &count));
    if (count == 0) {
        return op_fail(op, FAULT(NOT_FOUND), "there is no snapshot in %s", config->snapshots_dir);
    }
    snapshot_name(there[0], name);
    int len = snprintf(path, SNAPSHOT_PATH_MAX, "%s/%s", config->snapshots_dir, name);
    REQUIRE(len > 0 && len < SNAPSHOT_PATH_MAX, TOO_LARGE);
    return OK;
}

static struct fault find_file(struct op *op, const struct config *config, const char *file, char *path)
{
    if (strcmp(file, "latest") == 0) {
        return latest(op, config, path);
    }
    if (file[0] != '/' || strpbrk(file, "\r\n") != NULL) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "a snapshot is named by an absolute path, or as latest");
    }
    int len = snprintf(path, SNAPSHOT_PATH_MAX, "%s", file);
    REQUIRE(len > 0 && len < SNAPSHOT_PATH_MAX, TOO_LARGE);
    return OK;
}

static struct fault open_file(struct op *op, const char *path, int *ret_fd)
{
    struct stat status;
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &status) != 0) {
        return op_fail(op, FAULT(SNAPSHOT_INVALID), "%s: cannot be read by this user: %s", path,
                       strerrordesc_np(errno));
    }
    if (!S_ISREG(status.st_mode)) {
        return op_fail(op, FAULT(SNAPSHOT_INVALID), "%s: is no file", path);
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}

/* ---- check ---- */

static struct fault mismatch(struct op *op, const char *what)
{
    return op_fail(op, FAULT(SNAPSHOT_MISMATCH), "%s: rebuild without it", what);
}

static struct fault read_whole(struct op *op, struct snapshot_reader *reader, struct snapshot_totals *ret_totals)
{
    struct snapshot_entry entry = { 0 };
    do {
        TRY(snapshot_reader_next(op, reader, &entry));
    } while (entry.kind != SNAPSHOT_END);
    *ret_totals = entry.totals;
    return OK;
}

static struct fault compare_header(struct op *op, const struct snapshot_header *header, const struct config *config,
                                   struct event_log *log)
{
    struct sha256 schema;
    TRY(store_schema_digest(&schema));
    if (strcmp(header->version, SVC_VERSION) != 0 ||
        !span_equal(SPAN_ARRAY(schema.at), SPAN_ARRAY(header->schema.at))) {
        return mismatch(op, "the snapshot was made by another version of this program");
    }
    if (strcmp(header->stream, config->nats_stream) != 0) {
        return mismatch(op, "the snapshot is of another event log");
    }
    if (event_log_activated(log) > header->checkpoint) {
        return mismatch(op, "the snapshot was made before a privacy erasure, and holds what was erased; remove the "
                            "file");
    }
    if (header->activated != event_log_activated(log)) {
        return mismatch(op, "the snapshot is of another generation of the history");
    }
    return OK;
}

static struct fault check_with(struct op *op, const struct projector_config *projector, const struct config *config,
                               struct span key, struct snapshot_reader *reader, struct snapshot_checked *checked)
{
    struct sha256 mac;
    struct event_log_state state;
    const struct snapshot_header *header = snapshot_reader_header(reader);
    TRY(read_whole(op, reader, &checked->totals));
    TRY(snapshot_mac(key, &checked->totals.digest, &mac));
    if (!secret_equal(SPAN_ARRAY(mac.at), SPAN_ARRAY(checked->totals.mac.at))) {
        return op_fail(op, FAULT(SNAPSHOT_INVALID),
                       "the snapshot was not written by this installation (the key in "
                       "data_dir/api/fingerprint.key is another one): rebuild without it");
    }
    TRY(compare_header(op, header, config, projector->log));
    checked->checkpoint = header->checkpoint;
    TRY(projection_prove(op, projector, header->checkpoint, &header->rolling, &checked->copies));
    TRY(event_log_state_now(op, projector->log, &state));
    checked->log_last = state.last_seq;
    return OK;
}

struct fault snapshot_check(struct op *op, const struct projector_config *projector, const struct config *config,
                            struct span key, const char *file, struct snapshot_checked *ret_checked)
{
    struct snapshot_checked checked = { .copies = 0 };
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(snapshot_reader_freep) struct snapshot_reader *reader = NULL;
    TRY(find_file(op, config, file, checked.path));
    TRY(open_file(op, checked.path, &fd));
    TRY(snapshot_reader_new(op, fd, &reader));
    TRY(check_with(op, projector, config, key, reader, &checked));
    *ret_checked = checked;
    return OK;
}

/* ---- load ---- */

struct loading {
    struct op *op;
    struct copy *copy;
    struct copy_table *tables;
    size_t count;
    bool seen[SNAPSHOT_TABLES_MAX];
};

/* A table of the present registry, with exactly its columns: what a file says reaches no statement otherwise. */
static struct fault begin_section(struct loading *loading, const struct snapshot_entry *entry)
{
    for (size_t i = 0; i < loading->count; i++) {
        const struct copy_table *table = &loading->tables[i];
        if (strcmp(table->name, entry->table) == 0 && strcmp(table->columns, entry->columns) == 0) {
            loading->seen[i] = true;
            return copy_in_table(loading->op, loading->copy, table);
        }
    }
    return op_fail(loading->op, FAULT(SNAPSHOT_MISMATCH), "the database has no table %s of these columns",
                   entry->table);
}

static struct fault end_section(struct loading *loading, uint64_t wanted)
{
    uint64_t rows = 0;
    TRY(copy_in_end(loading->op, loading->copy, &rows));
    return rows == wanted
               ? OK
               : op_fail(loading->op, FAULT(SNAPSHOT_INVALID), "a section has other rows than the snapshot says");
}

static struct fault load_entries(struct loading *loading, struct snapshot_reader *reader,
                                 struct snapshot_totals *ret_totals)
{
    for (;;) {
        struct snapshot_entry entry = { 0 };
        TRY(snapshot_reader_next(loading->op, reader, &entry));
        switch (entry.kind) {
        case SNAPSHOT_SECTION:
            TRY(begin_section(loading, &entry));
            break;
        case SNAPSHOT_DATA:
            TRY(copy_in_put(loading->op, loading->copy, entry.data));
            break;
        case SNAPSHOT_SECTION_END:
            TRY(end_section(loading, entry.rows));
            FAILPOINT("snapshot.load_section");
            break;
        case SNAPSHOT_END:
            *ret_totals = entry.totals;
            return OK;
        }
    }
}

static struct fault load_with(struct loading *loading, struct snapshot_reader *reader, const struct sha256 *digest,
                              struct snapshot_totals *totals)
{
    TRY(copy_tables(loading->op, loading->copy, &loading->tables, &loading->count));
    REQUIRE(loading->count <= SNAPSHOT_TABLES_MAX, STORE_SCHEMA);
    TRY(load_entries(loading, reader, totals));
    for (size_t i = 0; i < loading->count; i++) {
        /* A table of tenants' rows of which no tenant has one has no section at all. */
        if (!loading->seen[i] && loading->tables[i].scope != COPY_TENANT) {
            return op_fail(loading->op, FAULT(SNAPSHOT_MISMATCH), "the snapshot lacks the table %s",
                           loading->tables[i].name);
        }
    }
    if (!span_equal(SPAN_ARRAY(totals->digest.at), SPAN_ARRAY(digest->at))) {
        return op_fail(loading->op, FAULT(SNAPSHOT_INVALID), "the file is not the one that was checked");
    }
    FAILPOINT("snapshot.before_loaded");
    TRY(copy_in_commit(loading->op, loading->copy));
    FAILPOINT("snapshot.after_loaded");
    return OK;
}

struct fault snapshot_load(struct op *op, const struct config *config, int fd, const struct sha256 *digest,
                           struct buf *why, struct snapshot_totals *ret_totals)
{
    CLEANUP(snapshot_reader_freep) struct snapshot_reader *reader = NULL;
    struct loading loading = { .op = op };
    struct snapshot_totals totals = { 0 };
    TRY(snapshot_reader_new(op, fd, &reader));
    TRY(copy_in_begin(op, config, why, &loading.copy));
    struct fault fault = load_with(&loading, reader, digest, &totals);
    copy_free(loading.copy);
    TRY(fault);
    *ret_totals = totals;
    return OK;
}
