/*
 * Folders of the data and run directories. data_dir and run_dir belong to root; each child folder belongs to the user
 * that works in it, and root writes nothing inside (process_as does, with that user's rights).
 */
#ifndef APPLIANCE_STORES_FOLDER_H
#define APPLIANCE_STORES_FOLDER_H

#include "appliance/base/op.h"

#include <sys/types.h>

/* <parent>/<name> in the arena. */
struct fault folder_path(struct op *op, const char *parent, const char *name, const char **ret_path);
/* Makes `path` (its parent exists) or takes it as it is, and sets owner, group and mode. A link or a file in its place
 * is CONFIG. user NULL = root; group NULL = the user's primary group. */
struct fault folder_own(struct op *op, const char *path, const char *user, const char *group, mode_t mode);
/* Removes `path` and all below it, with the rights of `user` for what is inside. Nothing there is fine. */
struct fault folder_remove(struct op *op, const char *path, const char *user);
/* Makes `from` appear as `to`, durably. */
struct fault folder_rename(struct op *op, const char *from, const char *to);
bool path_exists(const char *path);

#endif
