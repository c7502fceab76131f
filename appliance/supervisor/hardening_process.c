#include "appliance/base/file.h"
#include "appliance/stores/process.h"
#include "appliance/supervisor/hardening_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROC_FILE_MAX ((size_t)1 << 20)
#define NAME_SPACE    4096

struct fault texts_add(struct op *op, struct texts *texts, const char *text)
{
    REQUIRE(texts->count < TEXTS_MAX, TOO_LARGE);
    if (texts->at == NULL) {
        TRY(arena_take(op->arena, TEXTS_MAX, sizeof(char *), (void *)&texts->at));
    }
    TRY(arena_text(op->arena, span_text(text), &texts->at[texts->count]));
    texts->count++;
    return OK;
}

char *word_next(char **rest)
{
    char *at = *rest + strspn(*rest, " ");
    size_t len = strcspn(at, " ");
    *rest = at + len + (at[len] != '\0' ? 1 : 0);
    at[len] = '\0';
    return len > 0 ? at : NULL;
}

bool texts_equal(const struct texts *a, const struct texts *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        same = strcmp(a->at[i], b->at[i]) == 0;
    }
    return same;
}

/* ---- /proc ---- */

static void proc_path(char path[64], pid_t pid, const char *name)
{
    (void)snprintf(path, 64, "/proc/%d/%s", (int)pid, name);
}

/* A process that ended meanwhile has no files any more. */
static struct fault proc_text(pid_t pid, const char *name, struct buf *out, const char **ret_text)
{
    char path[64];
    proc_path(path, pid, name);
    REQUIRE(!FAULTED(file_read(path, out)), NOT_FOUND);
    return buf_cstr(out, ret_text);
}

/* Behind "Key:" at the start of a line; NULL = there is none. */
static const char *value_of(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0) {
            line += len;
            return line + strspn(line, " \t");
        }
    }
    return NULL;
}

static uint64_t number_of(const char *text, const char *key, int base)
{
    const char *value = value_of(text, key);
    return value != NULL ? strtoull(value, NULL, base) : 0;
}

static struct fault word_of(struct op *op, const char *text, const char *key, const char **ret_word)
{
    const char *value = value_of(text, key);
    return arena_text(op->arena, value != NULL ? span_of(value, strcspn(value, " \t\n")) : span_text("?"), ret_word);
}

static struct fault user_text(struct op *op, uid_t uid, const char **ret_text)
{
    struct passwd entry, *found = NULL;
    char space[NAME_SPACE];
    bool known = getpwuid_r(uid, &entry, space, sizeof(space), &found) == 0 && found != NULL;
    return known ? arena_text(op->arena, span_text(found->pw_name), ret_text)
                 : arena_printf(op->arena, ret_text, "%u", (unsigned)uid);
}

static struct fault group_add(struct op *op, gid_t gid, struct texts *groups)
{
    struct group entry, *found = NULL;
    char space[NAME_SPACE], number[16];
    (void)snprintf(number, sizeof(number), "%u", (unsigned)gid);
    bool known = getgrgid_r(gid, &entry, space, sizeof(space), &found) == 0 && found != NULL;
    return texts_add(op, groups, known ? found->gr_name : number);
}

static struct fault groups_read(struct op *op, const char *status, struct process_facts *facts)
{
    TRY(group_add(op, facts->gid, &facts->groups));
    const char *at = value_of(status, "Groups:");
    while (at != NULL && *at >= '0' && *at <= '9') {
        char *end = NULL;
        gid_t gid = (gid_t)strtoul(at, &end, 10);
        if (gid != facts->gid) {
            TRY(group_add(op, gid, &facts->groups));
        }
        at = end + strspn(end, " ");
    }
    return OK;
}

static struct fault status_read(struct op *op, struct process_facts *facts)
{
    static const char *const sets[CAPS_COUNT] = { "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:" };
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROC_FILE_MAX);
    const char *status = NULL;
    TRY(proc_text(facts->pid, "status", &text, &status));
    TRY(word_of(op, status, "Name:", &facts->name));
    facts->parent = (pid_t)number_of(status, "PPid:", 10);
    facts->uid = (uid_t)number_of(status, "Uid:", 10);
    facts->gid = (gid_t)number_of(status, "Gid:", 10);
    for (size_t i = 0; i < CAPS_COUNT; i++) {
        facts->caps[i] = number_of(status, sets[i], 16);
    }
    facts->no_new_privs = number_of(status, "NoNewPrivs:", 10) != 0;
    facts->seccomp = (int64_t)number_of(status, "Seccomp:", 10);
    facts->filters = (int64_t)number_of(status, "Seccomp_filters:", 10);
    TRY(user_text(op, facts->uid, &facts->user));
    return groups_read(op, status, facts);
}

static struct fault limits_read(struct op *op, struct process_facts *facts)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROC_FILE_MAX), score = BUF_INIT(64);
    const char *limits = NULL, *adjusted = NULL;
    TRY(proc_text(facts->pid, "limits", &text, &limits));
    TRY(word_of(op, limits, "Max core file size", &facts->core));
    TRY(word_of(op, limits, "Max locked memory", &facts->memlock));
    TRY(word_of(op, limits, "Max open files", &facts->nofile));
    TRY(proc_text(facts->pid, "oom_score_adj", &score, &adjusted));
    facts->oom_score_adj = strtol(adjusted, NULL, 10);
    return OK;
}

static bool read_link(pid_t pid, const char *name, char out[256])
{
    char path[64];
    proc_path(path, pid, name);
    ssize_t len = readlink(path, out, 255);
    out[len > 0 ? len : 0] = '\0';
    return len > 0;
}

static struct fault links_read(struct op *op, pid_t reference, struct process_facts *facts)
{
    static const char *const spaces[] = { "cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts" };
    char own[256], usual[256], name[16];
    struct stat about;
    for (size_t i = 0; i < COUNT_OF(spaces); i++) {
        (void)snprintf(name, sizeof(name), "ns/%s", spaces[i]);
        if (read_link(facts->pid, name, own) && read_link(reference, name, usual) && strcmp(own, usual) != 0) {
            TRY(texts_add(op, &facts->namespaces, spaces[i]));
        }
    }
    REQUIRE(read_link(facts->pid, "root", own), NOT_FOUND);
    TRY(arena_text(op->arena, span_text(own), &facts->root));
    /* Of one that may not be dumped the files in /proc are root's. */
    char path[64];
    proc_path(path, facts->pid, "environ");
    facts->is_root = facts->uid == 0;
    facts->dumpable = stat(path, &about) == 0 && about.st_uid == facts->uid;
    return OK;
}

static bool is_writable(const char *options)
{
    return strncmp(options, "rw", 2) == 0 &&
           (options[2] == ',' || options[2] == ' ' || options[2] == '\n' || options[2] == '\0');
}

/* "36 35 98:0 /from /at rw,noatime shared:1 - ext4 /dev/x rw,errors=continue" */
static struct fault mount_add(struct op *op, char *line, struct texts *mounts)
{
    char *words[6] = { 0 }, *end = strstr(line, " - ");
    REQUIRE(end != NULL, INTERNAL);
    char *options = strrchr(end + 3, ' ');
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        words[i] = word_next(&line);
        REQUIRE(words[i] != NULL, INTERNAL);
    }
    bool both = is_writable(words[5]) && options != NULL && is_writable(options + 1);
    return both && mounts->count < TEXTS_MAX ? texts_add(op, mounts, words[4]) : OK;
}

static struct fault mounts_read(struct op *op, struct process_facts *facts)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROC_FILE_MAX);
    const char *lines = NULL;
    TRY(proc_text(facts->pid, "mountinfo", &text, &lines));
    char *rest = (char *)lines, *line = NULL; /* the buffer is ours */
    while ((line = strsep(&rest, "\n")) != NULL && *line != '\0') {
        TRY(mount_add(op, line, &facts->mounts));
    }
    return OK;
}

struct fault process_facts_read(struct op *op, pid_t pid, pid_t reference, struct process_facts *ret_facts)
{
    struct process_facts facts = { .pid = pid };
    TRY(status_read(op, &facts));
    TRY(limits_read(op, &facts));
    TRY(links_read(op, reference, &facts));
    TRY(mounts_read(op, &facts));
    *ret_facts = facts;
    return OK;
}

/* ---- what its user may write ---- */

struct look {
    const struct texts *folders;
    int root;
};

/* As its user, below its root: a digit for each folder. */
static struct fault look_work(struct op *op, void *arg, int output)
{
    (void)op;
    const struct look *look = arg;
    for (size_t i = 0; i < look->folders->count; i++) {
        const char *below = look->folders->at[i] + strspn(look->folders->at[i], "/");
        bool may = faccessat(look->root, *below != '\0' ? below : ".", W_OK, AT_EACCESS) == 0;
        REQUIRE(write(output, may ? "1" : "0", 1) == 1, IO);
    }
    return OK;
}

struct fault process_facts_folders(struct op *op, const struct texts *folders, struct process_facts *facts)
{
    char path[64];
    CLEANUP(buf_free) struct buf said = BUF_INIT(TEXTS_MAX);
    proc_path(path, facts->pid, "root");
    CLEANUP(fd_closep) int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(root >= 0, NOT_FOUND);
    struct look look = { .folders = folders, .root = root };
    if (facts->is_root) {
        return OK; /* it may all */
    }
    TRY(process_as(op, facts->user, look_work, &look, &said));
    for (size_t i = 0; i < said.len && i < folders->count; i++) {
        if (said.at[i] == '1') {
            TRY(texts_add(op, &facts->folders, folders->at[i]));
        }
    }
    return OK;
}

bool process_facts_equal(const struct process_facts *a, const struct process_facts *b)
{
    return strcmp(a->name, b->name) == 0 && a->uid == b->uid && a->gid == b->gid &&
           texts_equal(&a->groups, &b->groups) && memcmp(a->caps, b->caps, sizeof(a->caps)) == 0 &&
           a->no_new_privs == b->no_new_privs && a->dumpable == b->dumpable && a->seccomp == b->seccomp &&
           a->filters == b->filters && a->oom_score_adj == b->oom_score_adj && strcmp(a->core, b->core) == 0 &&
           strcmp(a->memlock, b->memlock) == 0 && strcmp(a->nofile, b->nofile) == 0 && strcmp(a->root, b->root) == 0 &&
           texts_equal(&a->namespaces, &b->namespaces) && texts_equal(&a->mounts, &b->mounts) &&
           texts_equal(&a->folders, &b->folders) && texts_equal(&a->listens, &b->listens);
}
