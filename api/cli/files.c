#include "api/cli/files.h"

#include "appliance/base/crypto.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK         ((size_t)256 << 10)
#define PROGRESS_STEP ((int64_t)256 << 20)

static bool is_dash(const char *path)
{
    return strcmp(path, "-") == 0;
}

struct fault files_open(struct op *op, const char *path, int *ret_fd)
{
    struct stat info;
    int fd = is_dash(path) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR ? op_fail(op, FAULT(NOT_FOUND), "%s: no such file", path)
                                                   : op_fail(op, FAULT(IO), "%s: cannot be opened", path);
    }
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        fd_close(fd);
        return op_fail(op, FAULT(BAD_ARGUMENT), "%s: is a folder; name a file", path);
    }
    *ret_fd = fd;
    return OK;
}

struct progress {
    int64_t total, next;
    bool shown;
};

static struct progress progress_of(int fd)
{
    struct stat info;
    bool worth = isatty(STDERR_FILENO) == 1 && fstat(fd, &info) == 0 && info.st_size >= 2 * PROGRESS_STEP;
    return (struct progress){ .total = worth ? info.st_size : 0, .next = PROGRESS_STEP };
}

static void progress_tell(struct progress *progress, const char *path, int64_t done)
{
    if (progress->total > 0 && done >= progress->next) {
        (void)fprintf(stderr, "\r  hashing %s: %d %%", path, (int)(done * 100 / progress->total));
        progress->next = done + PROGRESS_STEP;
        progress->shown = true;
    }
}

static struct fault digest_fd(struct op *op, int fd, const char *path, EVP_MD_CTX *ctx, int64_t *ret_bytes)
{
    uint8_t *chunk = NULL;
    struct progress progress = progress_of(fd);
    int64_t done = 0;
    TRY(arena_take(op->arena, CHUNK, 1, &chunk));
    for (;;) {
        ssize_t got = read(fd, chunk, CHUNK);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return op_fail(op, FAULT(IO), "%s: cannot be read", path);
        }
        if (got == 0) {
            break;
        }
        if (EVP_DigestUpdate(ctx, chunk, (size_t)got) != 1) {
            return crypto_fail(op, "the file cannot be hashed");
        }
        done += got;
        progress_tell(&progress, path, done);
    }
    if (progress.shown) {
        (void)fprintf(stderr, "\r\033[K");
    }
    *ret_bytes = done;
    return OK;
}

static const char *hash_named(const char *name)
{
    static const char *const known[] = { "sha256", "sha384", "sha512" };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(known[i], name) == 0) {
            return known[i];
        }
    }
    return NULL;
}

struct fault files_digest(struct op *op, const char *path, const char *hash, struct file_digest *ret_digest)
{
    struct file_digest digest = { .hash = hash_named(hash) };
    unsigned len = 0;
    CLEANUP(fd_closep) int fd = -1;
    if (digest.hash == NULL) {
        return op_fail(op, FAULT(UNSUPPORTED), "%s: use sha256, sha384 or sha512", hash);
    }
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), digest.hash, NULL);
    TRY(files_open(op, path, &fd));
    BUG_IF(fd < 0);
    if (ctx == NULL || md == NULL || EVP_DigestInit_ex2(ctx, md, NULL) != 1) {
        return crypto_fail(op, "the hash algorithm is not available");
    }
    TRY(digest_fd(op, fd, path, ctx, &digest.bytes));
    if (EVP_DigestFinal_ex(ctx, digest.at, &len) != 1) {
        return crypto_fail(op, "the file cannot be hashed");
    }
    digest.len = len;
    *ret_digest = digest;
    return OK;
}

struct fault files_read(struct op *op, const char *path, struct buf *out)
{
    CLEANUP(fd_closep) int fd = -1;
    TRY(files_open(op, path, &fd));
    char fd_path[64];
    (void)snprintf(fd_path, sizeof(fd_path), "/proc/self/fd/%d", fd);
    struct fault fault = is_dash(path) ? file_read(fd_path, out) : file_read(path, out);
    if (fault.code == FAULT_TOO_LARGE) {
        return op_fail(op, fault, "%s: larger than %zu bytes", path, out->max);
    }
    return FAULTED(fault) ? op_fail(op, fault, "%s: cannot be read", path) : OK;
}

struct fault files_check_writable(struct op *op, const char *path)
{
    struct stat info;
    const char *slash = strrchr(path, '/'), *folder = ".";
    if (is_dash(path)) {
        return OK;
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return S_ISDIR(info.st_mode) ? op_fail(op, FAULT(BAD_ARGUMENT), "%s: is a folder; name a file", path) : OK;
    }
    if (slash != NULL) {
        TRY(arena_printf(op->arena, &folder, "%.*s", slash == path ? 1 : (int)(slash - path), path));
    }
    if (access(folder, W_OK | X_OK) != 0) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "%s: the folder %s is missing or cannot be written", path, folder);
    }
    return OK;
}

/* A device, a pipe: written to, never replaced by a file. */
static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static struct fault write_through(struct op *op, const char *path, struct span bytes)
{
    FILE *out = fopen(path, "we");
    bool fine = out != NULL && fwrite(bytes.at, 1, bytes.len, out) == bytes.len;
    fine = out != NULL && fclose(out) == 0 && fine;
    return fine ? OK : op_fail(op, FAULT(IO), "%s: cannot be written", path);
}

struct fault files_write(struct op *op, const char *path, struct span bytes, unsigned mode)
{
    if (is_dash(path)) {
        if (fwrite(bytes.at, 1, bytes.len, stdout) != bytes.len || fflush(stdout) != 0) {
            return op_fail(op, FAULT(IO), "stdout cannot be written");
        }
        return OK;
    }
    if (is_special(path)) {
        return write_through(op, path, bytes);
    }
    struct fault fault = file_write(path, bytes, (mode_t)mode);
    return FAULTED(fault) ? op_fail(op, fault, "%s: cannot be written: look at its folder and the space left", path)
                          : OK;
}
