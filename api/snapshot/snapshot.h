/*
 * Snapshots of the read model: every table that projections write, as of one message of the log, in one file
 * (file.h), so that a rebuild replays only what came after it. The event log stays the truth: a snapshot is a
 * cache that is verified before it is used, and thrown away without loss.
 *
 * Written by the leader every snapshots.interval into snapshots.dir, on a connection and a thread of its own, at a
 * pace that leaves the other half of the time to others; under a temporary name, synced, 0600. What dispatchers wrote
 * into open rows of the outbox is left out, as a replay leaves it out.
 *
 * Used by `svc-appliance rebuild --from-snapshot`, in three runs:
 *   check   (svc-api)     the file is whole and of this installation (HMAC), of this schema and version, of no older
 *                         history than the present one; the log up to its message has its rolling digest; copies that
 *                         are missing are written
 *   load    (svc_owner)   one transaction: the tables are emptied and filled from it, if its digest is the checked one
 *   replay  (svc-api)     the rest of the log
 *
 * A snapshot that was made before a privacy erasure holds the erased bytes: it is overwritten and removed as soon as
 * the erasure is activated, before the erasure counts as completed, and refused by `check` wherever a copy is left.
 */
#ifndef API_SNAPSHOT_SNAPSHOT_H
#define API_SNAPSHOT_SNAPSHOT_H

#include "api/feature.h"
#include "api/services.h"
#include "api/snapshot/file.h"

extern const struct feature snapshot_feature;

#define SNAPSHOT_PATH_MAX 1024

struct snapshot_made {
    char path[SNAPSHOT_PATH_MAX];
    uint64_t checkpoint;
    struct snapshot_totals totals;
    bool fresh; /* false: there was one of this checkpoint already, and it was left as it is */
};
/* Called between pieces; a fault ends the snapshot with it. */
typedef struct fault (*snapshot_pace_fn)(void *arg);
/* Writes one of the read model as it is now. CONFLICT: somebody else writes one at this moment, or an erasure was
 * activated meanwhile; SNAPSHOT_DIR: no folder is set, or it cannot be used. */
struct fault snapshot_make(struct op *op, const struct config *config, struct event_log *log, struct span key,
                           snapshot_pace_fn pace, void *arg, struct snapshot_made *ret_made);
/* Removes those that were made before the newest activation that this process knows. After it, none of this folder
 * holds what was erased. CONFLICT: one is being written. */
struct fault snapshot_forget(struct op *op, const struct config *config, struct event_log *log, unsigned *ret_gone);

struct snapshot_checked {
    char path[SNAPSHOT_PATH_MAX];
    uint64_t checkpoint, log_last;
    uint64_t copies; /* that were written */
    struct snapshot_totals totals;
};
/* `file`: an absolute path, or "latest". */
struct fault snapshot_check(struct op *op, const struct projector_config *projector, const struct config *config,
                            struct span key, const char *file, struct snapshot_checked *ret_checked);
/* As svc_owner, from a descriptor that reads from the beginning. */
struct fault snapshot_load(struct op *op, const struct config *config, int fd, const struct sha256 *digest,
                           struct buf *why, struct snapshot_totals *ret_totals);

#endif
