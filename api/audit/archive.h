/*
 * Retention of the audit trail: what is older than audit.retention leaves the served view, after it stands in a signed
 * file that was read back and verified. Nothing is ever deleted: records stay in the read model and events in the log,
 * so that a rebuild, a proof and a privacy rewrite have all they need. For each tenant, four steps in this order:
 *
 *     archive     the records behind the last checkpoint that are all older than the window, as an export of its own
 *                 (statement.h), to DIR/<tenant>/audit-<last sequence>.jws: 0600, temporary name, fsync, rename, fsync
 * of the folder. A segment is at most ARCHIVE_RECORDS_MAX records and ARCHIVE_BYTES_MAX bytes, so memory is bounded
 * whatever waits; further segments follow in the same run verify      the file as the disk gives it back, with the
 * tenant's verification keys, up to the chain head that the read model has; and the log still has every message.
 * Otherwise the run ends: nothing has moved checkpoint  the event audit.archived, appended only where the last
 * checkpoint is still the last retire      its projection: the checkpoint is the chain anchor of what is served from
 * then on
 *
 * Whoever dies in between is continued: a file without its checkpoint is found, verified and taken as it is.
 */
#ifndef API_AUDIT_ARCHIVE_H
#define API_AUDIT_ARCHIVE_H

#include "api/audit/internal.h"

#define ARCHIVE_EVENT       "audit.archived"
#define ARCHIVE_VERSION     2
#define ARCHIVE_LANE        "audit-archive" /* holds nothing else: its last message is the last checkpoint */
#define ARCHIVE_WORKER      "system:worker:audit-archive"
#define ARCHIVE_RECORDS_MAX 20000
#define ARCHIVE_BYTES_MAX   ((int64_t)32 << 20) /* of records */
#define ARCHIVE_FILE_MAX    ((size_t)96 << 20)  /* of a file: base64 and chain values on top */
#define ARCHIVE_NAME_MAX    64
#define ARCHIVE_LOCATOR_MAX 160

/* ---- archive_choose.c: which records make the next segment; pure ---- */

struct archive_row {
    int64_t sequence, stream_seq, bytes;
    utc_us time;
    bool own; /* recorded by archiving itself: alone it is no reason for a segment */
};
/* How many of the rows, which follow the last checkpoint in sequence: all older than `cutoff`, never a part of a
 * message, within the limits. 0 = nothing is to be archived. */
size_t archive_choose(const struct archive_row *rows, size_t count, utc_us cutoff);
/* "audit-<sequence>.jws", and back; false for any other name. */
void archive_name(int64_t sequence, char out[ARCHIVE_NAME_MAX]);
bool archive_name_read(const char *name, int64_t *ret_sequence);

/* ---- archive_file.c: the folder and its files ---- */

/* The folder of a tenant, made (0700) when missing. AUDIT_ARCHIVE_DIR when it, or the one above it, is not a folder of
 * our own that nobody else may write to. */
struct fault archive_folder_check(struct op *op, const char *dir);
struct fault archive_folder_open(struct op *op, const char *dir, int *ret_fd);
/* Removes what writers who died left behind; for whoever holds the lock of the archive. */
struct fault archive_folder_sweep(struct op *op, int folder);
/* The lowest sequence above `after` of which there is a file; 0 = none. */
struct fault archive_file_find(struct op *op, int folder, int64_t after, int64_t *ret_sequence);
/* AUDIT_ARCHIVE_DIR: nothing of that name is there then, and nothing else of it either. */
struct fault archive_file_write(struct op *op, int folder, const char *name, struct span bytes);
/* From the disk, not from memory where that can be had. AUDIT_ARCHIVE_INVALID when it is missing, no file of ours, or
 * too large. */
struct fault archive_file_read(struct op *op, int folder, const char *name, struct buf *out);
/* "present", "missing", "size_differs" or "unknown" (the folder is not this host's). */
const char *archive_file_state(const char *dir, const char *locator, int64_t bytes);

/* ---- archive_checkpoint.c: events and read model ---- */

struct archive_checkpoint {
    int64_t number, generation;
    int64_t first_sequence, last_sequence; /* last: also the tenant's records from the first one on */
    uint64_t stream_seq;                   /* the message of the last record */
    uint64_t event_seq;                    /* the message of the checkpoint; 0 = not yet */
    struct sha256 seed, head;
    char locator[ARCHIVE_LOCATOR_MAX];
    int64_t bytes;
    struct sha256 sha256;
    utc_us archived;
};
/* The tenant's newest checkpoint; all zero when there is none. */
struct fault archive_last(struct op *op, struct tx *tx, struct archive_checkpoint *ret_checkpoint);
/* Newest first, below `before`. */
struct fault archive_list(struct op *op, struct tx *tx, int64_t before, int64_t limit,
                          struct archive_checkpoint **ret_list, size_t *ret_count);
/* Appends the checkpoint behind the one whose event is `previous` and waits until it is projected. LOG_CONFLICT when
 * another one came first. */
struct fault archive_append(struct op *op, struct services *services, const struct archive_checkpoint *checkpoint,
                            uint64_t previous);
struct fault project_audit_archived(struct projection *projection, const struct event_view *event);
/* The claim of such an event, for whoever checks it against the log. LOG_DECODE. */
struct fault archive_checkpoint_read(struct op *op, const struct event_view *event,
                                     struct archive_checkpoint *ret_checkpoint);

/* ---- archive_segment.c: the four steps, once ---- */

/* For op's tenant, whose folder is open and swept, by whoever holds the lock. *ret_records: 0 = nothing is due. */
struct fault archive_segment(struct op *op, struct services *services, int folder, utc_us cutoff,
                             struct archive_checkpoint *ret_made, int64_t *ret_records);

/* ---- archive.c: runs ---- */

struct archive_run {
    int64_t segments, records, first_sequence, last_sequence; /* first and last of all; 0 = nothing was archived */
    bool more;                                                /* the time was over before the work was */
};
bool archive_is_on(const struct config *config);
/* For op's tenant, as op's principal. CONFLICT when retention is off or another run is on. */
struct fault archive_run(struct op *op, struct services *services, struct archive_run *ret_run);

struct archive_plan {
    int64_t archived_through, first_sequence, last_sequence, records; /* the latter three 0 = nothing is due */
    utc_us cutoff, oldest;                                            /* oldest: of what is served; 0 = nothing is */
};
struct fault archive_plan(struct op *op, struct services *services, struct archive_plan *ret_plan);

/* The rows of the feature (api/audit/feature.c). */
#define ARCHIVE_METRICS 5
extern const struct metric archive_metrics[ARCHIVE_METRICS];
struct fault archive_start(struct op *op, struct services *services);
struct fault archive_work(struct op *op, struct services *services);
struct fault archive_ready(struct op *op, struct services *services);

/* ---- archive_routes.c ---- */

#define ARCHIVE_ROUTES 3
extern const struct route archive_routes[ARCHIVE_ROUTES];

#endif
