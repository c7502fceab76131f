#include "api/policy/internal.h"

#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 4096u /* of any name, before the folder is taken for another one */

struct names {
    char at[POLICY_FILES_MAX][POLICY_FILE_NAME_MAX + 1];
    size_t count;
};

static struct fault refuse_file(struct buf *why, const char *name, const char *what)
{
    if (why != NULL) {
        IGNORE(buf_printf(why, "%s: %s\n", name, what));
    }
    return FAULT(CONFIG);
}

static void closedirp(DIR **folder)
{
    if (*folder != NULL) {
        (void)closedir(*folder);
    }
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

/* Hidden files and files of other kinds (README, *.yaml.bak) are not rules. One that somebody may take for rules must
 * not be passed over in silence. */
static struct fault take_name(struct buf *why, const char *name, struct names *names)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    if (name[0] == '.' || (!ends_with(name, ".yaml") && !ends_with(name, ".yml") && !ends_with(name, ".YAML"))) {
        return OK;
    }
    if (!ends_with(name, ".yaml")) {
        return refuse_file(why, "codesign", "a file ends with .yml or .YAML, and would not be read: name it *.yaml");
    }
    size_t len = strlen(name);
    if (len > POLICY_FILE_NAME_MAX || strspn(name, letters) != len) {
        return refuse_file(why, "codesign", "a file's name must be 1 to 128 of a-z, A-Z, 0-9, '-', '_' and '.'");
    }
    if (names->count == POLICY_FILES_MAX) {
        return refuse_file(why, name, "is one file too many: at most 64");
    }
    (void)snprintf(names->at[names->count++], sizeof(names->at[0]), "%s", name);
    return OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static struct fault list_files(int folder_fd, const char *folder_name, struct buf *why, struct names *ret_names)
{
    CLEANUP(closedirp) DIR *folder = NULL;
    int copy = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    folder = copy >= 0 ? fdopendir(copy) : NULL;
    if (folder == NULL) {
        fd_close(copy);
        return refuse_file(why, folder_name, "cannot be read");
    }
    for (unsigned seen = 0; seen < ENTRIES_MAX; seen++) {
        errno = 0;
        const struct dirent *entry = readdir(folder); /* of this thread alone */
        if (entry == NULL) {
            if (errno != 0) {
                return refuse_file(why, folder_name, "cannot be read");
            }
            qsort(ret_names->at, ret_names->count, sizeof(ret_names->at[0]), compare_names);
            return OK;
        }
        TRY(take_name(why, entry->d_name, ret_names));
    }
    return refuse_file(why, folder_name, "holds too many files");
}

/* A regular file, also behind a link; anything else could block or never end. */
static struct fault read_file(int folder_fd, const char *name, struct buf *why, struct buf *out)
{
    CLEANUP(fd_closep) int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        return refuse_file(why, name, "cannot be read");
    }
    if (!S_ISREG(status.st_mode)) {
        return refuse_file(why, name, "is no regular file");
    }
    for (;;) {
        uint8_t *at = NULL;
        size_t room = POLICY_FILE_MAX + 1 - out->len, before = out->len;
        if (room == 0) {
            return refuse_file(why, name, "is larger than 256 KiB");
        }
        TRY(buf_reserve(out, room, &at));
        ssize_t got = read(fd, at, room);
        out->len = before + (got > 0 ? (size_t)got : 0);
        if (got < 0 && errno != EINTR) {
            return refuse_file(why, name, "cannot be read");
        }
        if (got == 0) {
            return OK;
        }
    }
}

static struct fault add_files(struct policy *policy, int folder_fd, const struct names *names, struct buf *why)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(POLICY_FILE_MAX + 1);
    size_t total = 0;
    for (size_t i = 0; i < names->count; i++) {
        buf_clear(&text);
        TRY(read_file(folder_fd, names->at[i], why, &text));
        total += text.len;
        if (total > POLICY_TOTAL_MAX) {
            return refuse_file(why, names->at[i], "makes the files larger than 1 MiB in all");
        }
        TRY(policy_add(policy, names->at[i], buf_span(&text), why));
    }
    return OK;
}

struct fault policy_load(const struct config *config, struct buf *why, struct policy **ret_policy)
{
    CLEANUP(policy_freep) struct policy *made = NULL;
    CLEANUP(buf_free) struct buf path = BUF_INIT(4096);
    struct names names = { 0 };
    const char *folder = NULL;
    TRY(buf_printf(&path, "%s/codesign", config->policy_dir));
    TRY(buf_cstr(&path, &folder));
    CLEANUP(fd_closep) int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd < 0) {
        return refuse_file(why, folder, "cannot be read; ca.policy.enabled needs the rules of signing there");
    }
    TRY(policy_new(&made));
    TRY(list_files(folder_fd, folder, why, &names));
    TRY(add_files(made, folder_fd, &names, why));
    TRY(policy_seal(made, folder, why));
    *ret_policy = TAKE(made);
    return OK;
}
