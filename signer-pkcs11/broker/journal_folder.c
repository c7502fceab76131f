#include "signer-pkcs11/broker/journal_internal.h"

#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct fault journal_file_refuse(struct journal_folder *folder, uint32_t number, const char *what, uint64_t offset)
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    folder->bad_number = number;
    folder->bad_what = what;
    folder->bad_offset = offset;
    if (folder->why != NULL) {
        IGNORE(buf_printf(folder->why, "%s/%s: %s at offset %llu: restore the journal from a copy", folder->path, name,
                          what, (unsigned long long)offset));
    }
    return FAULT(SIGNER_JOURNAL);
}

struct fault journal_folder_refuse(struct journal_folder *folder, const char *what)
{
    char reason[64];
    int error = errno;
    if (folder->why != NULL) {
        IGNORE(buf_printf(folder->why, "%s: %s (%s)", folder->path, what, strerror_r(error, reason, sizeof(reason))));
    }
    return FAULT(SIGNER_JOURNAL);
}

/* Whoever else may write here could make the signer repeat signatures of theirs. */
static bool is_private(const struct journal_folder *folder, const struct stat *status)
{
    return folder->of_others || (status->st_uid == geteuid() && (status->st_mode & (S_IWGRP | S_IWOTH)) == 0);
}

struct fault journal_folder_open(struct journal_folder *folder, int lock, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        return journal_folder_refuse(folder, "the journal's folder cannot be opened");
    }
    if (!is_private(folder, &status)) {
        errno = EPERM;
        return journal_folder_refuse(folder, "the journal's folder must be the signer's user's, with mode 0700");
    }
    if (flock(fd, lock | LOCK_NB) != 0) {
        return journal_folder_refuse(folder, "another signer uses this journal");
    }
    folder->fd = *ret_fd = fd;
    fd = -1;
    return OK;
}

/* ---- its files ---- */

static void closedirp(DIR **dir)
{
    if (*dir != NULL) {
        (void)closedir(*dir);
    }
}

static struct fault add(struct journal_folder *folder, uint32_t number)
{
    if (folder->count == SEGMENTS_MAX) {
        errno = EMFILE;
        return journal_folder_refuse(folder, "the journal has more files than it can use: move the oldest away");
    }
    size_t at = folder->count++;
    for (; at > 0 && folder->numbers[at - 1] > number; at--) {
        folder->numbers[at] = folder->numbers[at - 1];
    }
    folder->numbers[at] = number;
    return OK;
}

struct fault journal_folder_list(struct journal_folder *folder)
{
    CLEANUP(closedirp) DIR *dir = opendir(folder->path);
    if (dir == NULL) {
        return journal_folder_refuse(folder, "the journal's folder cannot be read");
    }
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        uint32_t number = 0;
        if (segment_number(entry->d_name, &number)) { /* the PIN's file lives here too */
            TRY(add(folder, number));
        }
    }
    for (size_t i = 1; i < folder->count; i++) {
        if (folder->numbers[i] != folder->numbers[i - 1] + 1) {
            return journal_file_refuse(folder, folder->numbers[i - 1] + 1, "the file is missing", 0);
        }
    }
    return OK;
}

static struct fault open_file(struct journal_folder *folder, uint32_t number, int *ret_fd, size_t *ret_size)
{
    char name[SEGMENT_NAME_MAX];
    segment_name(number, name);
    /* without waiting for the other end, should it be a pipe */
    CLEANUP(fd_closep) int fd = openat(folder->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        return journal_file_refuse(folder, number, "the file cannot be opened", 0);
    }
    if (!S_ISREG(status.st_mode)) {
        return journal_file_refuse(folder, number, "something else than a file stands here", 0);
    }
    if (!is_private(folder, &status)) {
        return journal_file_refuse(folder, number, "the file must be the signer's user's, with mode 0600,", 0);
    }
    *ret_size = (size_t)status.st_size;
    *ret_fd = fd;
    fd = -1;
    return OK;
}

struct fault journal_folder_read(struct journal_folder *folder, uint32_t number, struct buf *bytes)
{
    CLEANUP(fd_closep) int fd = -1;
    uint8_t *at = NULL;
    size_t size = 0;
    TRY(open_file(folder, number, &fd, &size));
    if (size > bytes->max) {
        return journal_file_refuse(folder, number, "the file is too large", bytes->max);
    }
    buf_clear(bytes);
    TRY(buf_reserve(bytes, size, &at));
    for (size_t have = 0; have < size;) {
        ssize_t got = pread(fd, at + have, size - have, (off_t)have);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            return journal_file_refuse(folder, number, "the file cannot be read", have);
        }
        have += got > 0 ? (size_t)got : 0;
    }
    return OK;
}
