/* Files: whole reads with a bound, atomic durable writes (temporary name, fsync, rename, fsync of the folder). */
#ifndef APPLIANCE_BASE_FILE_H
#define APPLIANCE_BASE_FILE_H

#include "appliance/base/bytes.h"

#include <sys/types.h>

struct fault file_read(const char *path, struct buf *out); /* NOT_FOUND, TOO_LARGE (out->max), IO */
/* IO when a device, pipe or folder stands at `path`: it would be replaced, not written to. */
struct fault file_write(const char *path, struct span bytes, mode_t mode);
/* Each missing part of the path is made with `mode`; an existing folder is fine. */
struct fault file_make_dirs(const char *path, mode_t mode);
static inline void fd_closep(int *fd);
void fd_close(int fd); /* a negative one is fine */
static inline void fd_closep(int *fd)
{
    int old = *fd;
    *fd = -1;
    fd_close(old);
}

#endif
