/* The files of sealed keys. A name is the key's place; a new file gets its name when its bytes are on disk, and each
 * change of names is on disk before anything is said of it. Nothing here needs a call that the sandbox refuses. */
#include "signer-pkcs11/sealed/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/failpoint.h"
#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define END_KEY  ".key"
#define END_GONE ".gone"
#define END_NEW  ".new"

struct file_name {
    char text[160]; /* tenant 63, purpose, UUID 36 */
};

static struct file_name name_of(const struct key_ref *key, const char *end)
{
    struct file_name name;
    int len = snprintf(name.text, sizeof(name.text), "%s.%s.%s%s", key->tenant.text, key_purpose_text(key->purpose),
                       key->id.text, end);
    BUG_IF(len <= 0 || (size_t)len >= sizeof(name.text));
    return name;
}

static struct fault store_fault(struct op *op, const char *what)
{
    char reason[64];
    int number = errno;
    struct fault fault =
        op_fail(op, FAULT(SEALED_STORE), "the folder of sealed keys %s: %s", what,
                number == ENOSPC || number == EDQUOT ? "its disk is full; make room, then repeat the request"
                                                     : "look at its disk and rights, then repeat the request");
    if (op != NULL) {
        op_note_log(op, "%s", strerror_r(number, reason, sizeof(reason)));
    }
    return fault;
}

static bool is_there(struct sealed_keys *keys, const struct key_ref *key, const char *end, bool *ret_failed)
{
    struct stat status;
    struct file_name name = name_of(key, end);
    if (fstatat(keys->folder, name.text, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
    }
    *ret_failed = *ret_failed || errno != ENOENT;
    return false;
}

bool sealed_has(struct sealed_keys *keys, const struct key_ref *key)
{
    bool failed = false;
    if (key->purpose != KEY_PURPOSE_CODESIGN) {
        return false;
    }
    /* What cannot be told is there: the next step says why. */
    return is_there(keys, key, END_KEY, &failed) || is_there(keys, key, END_GONE, &failed) || failed;
}

struct fault sealed_folder_look(struct op *op, struct sealed_keys *keys, const struct key_ref *key,
                                enum sealed_file *ret_file)
{
    bool failed = false;
    enum sealed_file file = SEALED_FILE_NONE;
    if (is_there(keys, key, END_GONE, &failed)) {
        file = SEALED_FILE_GONE; /* also where a key was put back beside it: what is being destroyed stays so */
    } else if (is_there(keys, key, END_KEY, &failed)) {
        file = SEALED_FILE_KEY;
    }
    if (failed) {
        return store_fault(op, "cannot be read");
    }
    *ret_file = file;
    return OK;
}

static struct fault read_whole(struct op *op, int fd, struct buf *out)
{
    for (;;) {
        uint8_t *at = NULL;
        uint8_t chunk[1024];
        ssize_t got = read(fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return store_fault(op, "cannot be read");
        }
        if (got == 0) {
            return OK;
        }
        if (FAULTED(buf_reserve(out, (size_t)got, &at))) {
            return op_fail(op, FAULT(SEALED_KEY), "the file of the sealed key is longer than any: restore it");
        }
        memcpy(at, chunk, (size_t)got);
    }
}

struct fault sealed_folder_read(struct op *op, struct sealed_keys *keys, const struct key_ref *key, struct buf *out)
{
    struct file_name name = name_of(key, END_KEY);
    struct stat status;
    CLEANUP(fd_closep) int fd = openat(keys->folder, name.text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        return op_fail(op, FAULT(KEY_NOT_FOUND), "the signer holds no sealed key of this tenant, purpose and id");
    }
    if (fd < 0 && errno == ELOOP) {
        return op_fail(op, FAULT(SEALED_KEY), "a link stands where the sealed key should be: restore its file");
    }
    if (fd < 0 || fstat(fd, &status) != 0) {
        return store_fault(op, "cannot be read");
    }
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
        return op_fail(op, FAULT(SEALED_KEY),
                       "the file of the sealed key must be a regular file of the signer's user, mode 0600");
    }
    return read_whole(op, fd, out);
}

static struct fault sync_names(struct op *op, struct sealed_keys *keys)
{
    return fsync(keys->folder) == 0 ? OK : store_fault(op, "cannot be written");
}

static bool put_bytes(int fd, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(fd, bytes.at, bytes.len);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        bytes = span_of(bytes.at + put, bytes.len - (size_t)put);
    }
    return fsync(fd) == 0;
}

/* Of names that are not on disk yet nobody has heard: the caller is told that there is no key, so there must be none.
 */
static struct fault take_back(struct op *op, struct sealed_keys *keys, const struct file_name *name)
{
    struct fault fault = store_fault(op, "cannot be written");
    (void)unlinkat(keys->folder, name->text, 0);
    return fault;
}

struct fault sealed_folder_write(struct op *op, struct sealed_keys *keys, const struct key_ref *key, struct span bytes)
{
    struct file_name new = name_of(key, END_NEW), name = name_of(key, END_KEY);
    (void)unlinkat(keys->folder, new.text, 0);
    CLEANUP(fd_closep)
    int fd = openat(keys->folder, new.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return store_fault(op, "cannot be written");
    }
    if (!put_bytes(fd, bytes)) {
        return take_back(op, keys, &new);
    }
    FAILPOINT("sealed.before_name");
    if (renameat(keys->folder, new.text, keys->folder, name.text) != 0) {
        return take_back(op, keys, &new);
    }
    FAILPOINT("sealed.after_name");
    return fsync(keys->folder) == 0 ? OK : take_back(op, keys, &name);
}

struct fault sealed_folder_bury(struct op *op, struct sealed_keys *keys, const struct key_ref *key)
{
    struct file_name name = name_of(key, END_KEY), gone = name_of(key, END_GONE);
    if (renameat(keys->folder, name.text, keys->folder, gone.text) != 0) {
        return store_fault(op, "cannot be written");
    }
    return sync_names(op, keys);
}

struct fault sealed_folder_remove(struct op *op, struct sealed_keys *keys, const struct key_ref *key)
{
    struct file_name name = name_of(key, END_KEY), gone = name_of(key, END_GONE);
    if ((unlinkat(keys->folder, name.text, 0) != 0 && errno != ENOENT) ||
        (unlinkat(keys->folder, gone.text, 0) != 0 && errno != ENOENT)) {
        return store_fault(op, "cannot be written");
    }
    return sync_names(op, keys);
}

/* ---- the folder ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

/* Keys are counted; beginnings that never got a name are nobody's. */
static struct fault tidy(int folder, size_t *ret_count)
{
    CLEANUP(fd_closep) int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fd >= 0, SEALED_STORE);
    DIR *dir = fdopendir(fd);
    REQUIRE(dir != NULL, SEALED_STORE);
    fd = -1; /* dir has it */
    size_t count = 0;
    errno = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        count += ends_with(entry->d_name, END_KEY);
        if (ends_with(entry->d_name, END_NEW)) {
            (void)unlinkat(folder, entry->d_name, 0);
        }
        errno = 0;
    }
    bool whole = errno == 0;
    (void)closedir(dir);
    REQUIRE(whole, SEALED_STORE);
    *ret_count = count;
    return OK;
}

static struct fault refuse(struct buf *why, const char *folder, const char *what)
{
    if (why != NULL) {
        IGNORE(buf_printf(why, "the folder of sealed keys, %s, %s", folder, what));
    }
    return FAULT(SEALED_STORE);
}

struct fault sealed_keys_open(const char *folder, struct buf *why, size_t *ret_count, struct sealed_keys **ret_keys)
{
    CLEANUP(sealed_keys_closep) struct sealed_keys *keys = NULL;
    struct stat status;
    size_t count = 0;
    TRY(mem_new(1, sizeof(*keys), &keys));
    keys->folder = -1;
    pthread_condattr_t attr;
    BUG_IF(pthread_condattr_init(&attr) != 0 || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_mutex_init(&keys->lock, NULL) != 0 || pthread_cond_init(&keys->changed, &attr) != 0);
    (void)pthread_condattr_destroy(&attr);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return refuse(why, folder, "cannot be made: look at its disk and rights");
    }
    keys->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (keys->folder < 0 || fstat(keys->folder, &status) != 0) {
        return refuse(why, folder, "cannot be opened: it must be a folder, no link");
    }
    if (status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
        return refuse(why, folder, "must belong to the signer's user, mode 0700");
    }
    if (FAULTED(tidy(keys->folder, &count)) || fsync(keys->folder) != 0) {
        return refuse(why, folder, "cannot be read or written: look at its disk");
    }
    *ret_count = count;
    *ret_keys = TAKE(keys);
    return OK;
}

void sealed_keys_close(struct sealed_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    BUG_IF(keys->busy);
    fd_close(keys->folder);
    (void)pthread_cond_destroy(&keys->changed);
    (void)pthread_mutex_destroy(&keys->lock);
    mem_free(keys);
}
