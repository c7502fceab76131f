/* What the files of api/snapshot/ share. */
#ifndef API_SNAPSHOT_INTERNAL_H
#define API_SNAPSHOT_INTERNAL_H

#include "api/snapshot/snapshot.h"

#define SNAPSHOT_FILE_NAME_MAX 64

/* ---- folder.c ---- */

/* The folder, of our own and writable by nobody else. SNAPSHOT_DIR. */
struct fault snapshot_folder_open(struct op *op, const struct config *config, int *ret_fd);
/* The same, and ours alone until it is closed: whoever writes or removes. CONFLICT. Sweeps what a writer who died
 * left behind. */
struct fault snapshot_folder_lock(struct op *op, const struct config *config, int *ret_fd);
/* "read-model-<checkpoint, 20 digits>.snapshot". */
void snapshot_name(uint64_t checkpoint, char out[SNAPSHOT_FILE_NAME_MAX]);
/* Checkpoints of the files that are there, newest first, in op's arena. */
struct fault snapshot_folder_list(struct op *op, int folder, uint64_t **ret_checkpoints, size_t *ret_count);
struct fault snapshot_temporary(struct op *op, int folder, int *ret_fd);
/* The temporary file becomes the one of `checkpoint`; or nothing of it is left. */
struct fault snapshot_keep(struct op *op, int folder, int fd, uint64_t checkpoint);
void snapshot_drop(int folder);
/* Overwritten, then removed. */
struct fault snapshot_remove(struct op *op, int folder, uint64_t checkpoint);
/* When it was written; 0 = it is not there. */
utc_us snapshot_time(int folder, uint64_t checkpoint);

/* ---- worker.c ---- */

extern const struct metric snapshot_metrics[4];
struct fault snapshot_start(struct op *op, struct services *services);
void snapshot_stop(struct services *services);
struct fault snapshot_sweep(struct op *op, struct services *services);
struct fault snapshot_ready(struct op *op, struct services *services);

#endif
