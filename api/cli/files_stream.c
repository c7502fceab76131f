#include "api/cli/files.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct file_stream {
    int fd;
    const char *path;      /* in op's arena */
    const char *temporary; /* NULL: what is written stands at once */
};

void files_stream_free(struct file_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    fd_close(stream->fd);
    if (stream->temporary != NULL) {
        (void)unlink(stream->temporary);
    }
    mem_free(stream);
}

static struct fault open_it(struct op *op, struct file_stream *stream, mode_t mode)
{
    struct stat info;
    if (strcmp(stream->path, "-") == 0) {
        stream->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    } else if (stat(stream->path, &info) == 0 && !S_ISREG(info.st_mode)) {
        stream->fd = open(stream->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    } else {
        const char *temporary = NULL;
        TRY(arena_printf(op->arena, &temporary, "%s.part.%ld", stream->path, (long)getpid()));
        (void)unlink(temporary);
        stream->fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
        stream->temporary = stream->fd >= 0 ? temporary : NULL;
    }
    return stream->fd >= 0 ? OK : op_fail(op, FAULT(IO), "%s: cannot be written: look at its folder", stream->path);
}

struct fault files_stream_new(struct op *op, const char *path, unsigned mode, struct file_stream **ret_stream)
{
    CLEANUP(files_stream_freep) struct file_stream *stream = NULL;
    TRY(mem_new(1, sizeof(*stream), &stream));
    stream->fd = -1;
    TRY(arena_text(op->arena, span_text(path), &stream->path));
    TRY(open_it(op, stream, (mode_t)mode));
    *ret_stream = TAKE(stream);
    return OK;
}

struct fault files_stream_put(struct op *op, struct file_stream *stream, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(stream->fd, bytes.at, bytes.len);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return op_fail(op, FAULT(IO), "%s: cannot be written: look at the space left",
                           strcmp(stream->path, "-") == 0 ? "stdout" : stream->path);
        }
        bytes = span_of(bytes.at + put, bytes.len - (size_t)put);
    }
    return OK;
}

static struct fault sync_folder(struct op *op, const char *path)
{
    const char *slash = strrchr(path, '/'), *folder = ".";
    if (slash != NULL) {
        TRY(arena_printf(op->arena, &folder, "%.*s", slash == path ? 1 : (int)(slash - path), path));
    }
    CLEANUP(fd_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fd >= 0 && fsync(fd) == 0, IO);
    return OK;
}

struct fault files_stream_keep(struct op *op, struct file_stream *stream)
{
    if (stream->temporary == NULL) {
        return OK;
    }
    if (fsync(stream->fd) != 0 || rename(stream->temporary, stream->path) != 0) {
        return op_fail(op, FAULT(IO), "%s: cannot be written: look at its folder and the space left", stream->path);
    }
    stream->temporary = NULL;
    return sync_folder(op, stream->path);
}
