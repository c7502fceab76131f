/* svc-api backup, restore, check-log. */
#include "api/audit/backup.h"
#include "api/commands.h"
#include "api/progress.h"
#include "api/start.h"

#include "api/audit/source.h"
#include "appliance/base/codec.h"
#include "appliance/base/failpoint.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIMIT_MS  (24 * 3600 * 1000)
#define PATH_ROOM 4096

/* What these commands work on. */
struct hands {
    struct op *op;
    struct store *store;
    struct event_log *log;
};

static void put_down(struct hands *hands)
{
    event_log_close(hands->log);
    store_close(hands->store);
    op_free(hands->op);
}

/* The operation's arena has room for the largest message. */
static struct fault take_up(const struct config *config, bool with_store, struct buf *why, struct hands *hands)
{
    struct arena *arena = NULL;
    TRY(op_new("system:backup", (struct tenant_id){ 0 }, LIMIT_MS, &hands->op));
    TRY(arena_new((size_t)64 << 20, &arena));
    arena_free(hands->op->arena);
    hands->op->arena = arena;
    if (with_store) {
        TRY(store_open(services_local_config(config), why, &hands->store));
    }
    return event_log_open(config, why, &hands->log);
}

static int say_fault(const char *what, const struct hands *hands, const struct buf *why, struct fault fault)
{
    const struct op *op = hands->op;
    const char *detail = op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title;
    (void)fprintf(stderr, "svc-api: %s: %s: %.*s%s\n", what, fault_row(fault.code)->text, (int)why->len,
                  why->len > 0 ? (const char *)why->at : "", why->len > 0 ? "" : detail);
    bool refused = fault.code == FAULT_LOG_BACKUP || fault.code == FAULT_AUDIT_SOURCE_GAP ||
                   fault.code == FAULT_CONFLICT || fault.code == FAULT_BAD_ARGUMENT ||
                   fault.code == FAULT_RESTORE_UNFINISHED;
    return refused ? 2 : 1;
}

struct words {
    const char *file;
    bool json, resume;
};

static void say_totals(const char *what, const struct words *words, const struct backup_totals *totals, FILE *out)
{
    char digest[2 * SHA256_LEN + 1];
    CLEANUP(buf_free) struct buf json = BUF_INIT((size_t)PATH_ROOM * 8);
    struct jout jout;
    hex_text(SPAN_ARRAY(totals->digest.at), digest, sizeof(digest));
    if (!words->json) {
        (void)fprintf(out, "%s: %llu messages, %llu replacements, digest %s\n", what,
                      (unsigned long long)totals->messages, (unsigned long long)totals->replacements, digest);
        return;
    }
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "digest", digest);
    jout_key_text(&jout, "file", words->file);
    jout_key_int(&jout, "messages", (int64_t)totals->messages);
    jout_key_int(&jout, "replacements", (int64_t)totals->replacements);
    jout_object_end(&jout);
    if (!FAULTED(jout_end(&jout))) {
        (void)fprintf(out, "%.*s\n", (int)json.len, (const char *)json.at);
    }
}

/* The file behind `-o`, or as a word of its own. */
static bool read_words(int argc, char **argv, bool restores, struct words *words)
{
    for (int i = 1; i < argc; i++) {
        bool output = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--output") == 0;
        if (strcmp(argv[i], "--json") == 0) {
            words->json = true;
        } else if (restores && strcmp(argv[i], "--continue") == 0) {
            words->resume = true;
        } else if (!restores && output && i + 1 < argc && words->file == NULL) {
            words->file = argv[++i];
        } else if (restores && argv[i][0] != '-' && words->file == NULL) {
            words->file = argv[i];
        } else {
            return false;
        }
    }
    return words->file != NULL;
}

/* ---- backup ---- */

struct target {
    const char *path; /* NULL = stdout */
    char temporary[PATH_ROOM];
    int fd;
};

static struct fault refuse_path(struct op *op, const char *path, const char *what)
{
    return op_fail(op, FAULT(IO), "%s: %s: %s (this program runs as the user of svc-api)", path, what,
                   strerrordesc_np(errno));
}

static struct fault target_open(struct op *op, struct target *target)
{
    if (target->path == NULL) {
        target->fd = STDOUT_FILENO;
        return OK;
    }
    if (target->path[0] != '/') {
        return op_fail(op, FAULT(BAD_ARGUMENT), "%s: must be an absolute path, or - for stdout", target->path);
    }
    if (access(target->path, F_OK) == 0) {
        return op_fail(op, FAULT(CONFLICT), "%s is there already: a backup is never written over", target->path);
    }
    int len = snprintf(target->temporary, sizeof(target->temporary), "%s.new", target->path);
    REQUIRE(len > 0 && (size_t)len < sizeof(target->temporary), TOO_LARGE);
    (void)unlink(target->temporary);
    target->fd = open(target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return target->fd >= 0 ? OK : refuse_path(op, target->path, "cannot be written");
}

static struct fault sync_folder(struct op *op, const char *path)
{
    char folder[PATH_ROOM];
    (void)snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    slash[slash == folder ? 1 : 0] = '\0';
    CLEANUP(fd_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd >= 0 && fsync(fd) == 0 ? OK : refuse_path(op, path, "its folder cannot be synced");
}

static struct fault target_keep(struct op *op, struct target *target)
{
    BUG_IF(target->fd < 0); /* it was opened */
    if (target->path == NULL) {
        return fsync(target->fd) == 0 || errno == EINVAL || errno == EROFS
                   ? OK
                   : refuse_path(op, "stdout", "cannot be synced");
    }
    if (fsync(target->fd) != 0 || rename(target->temporary, target->path) != 0) {
        return refuse_path(op, target->path, "cannot be written");
    }
    return sync_folder(op, target->path);
}

static void target_close(struct target *target, bool kept)
{
    if (target->path != NULL && target->fd >= 0) {
        fd_close(target->fd);
        if (!kept) {
            (void)unlink(target->temporary);
        }
    }
}

static struct fault backup_to(const struct config *config, struct hands *hands, struct target *target,
                              struct backup_totals *ret_totals)
{
    struct fault fault = target_open(hands->op, target);
    if (!FAULTED(fault)) {
        fault = log_backup(hands->op, hands->log, hands->store, config->nats_stream, target->fd,
                           &(struct transfer_options){ .on_progress = progress_tell }, ret_totals);
    }
    if (!FAULTED(fault)) {
        fault = target_keep(hands->op, target);
    }
    target_close(target, !FAULTED(fault));
    return fault;
}

int command_backup(const struct config *config, int argc, char **argv)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct hands hands = { 0 };
    struct target target = { .fd = -1 };
    struct words words = { .json = false };
    struct backup_totals totals = { 0 };
    if (!read_words(argc, argv, false, &words)) {
        (void)fprintf(stderr, "usage: backup -o FILE (an absolute path, or - for stdout) [--json]\n");
        return 2;
    }
    target.path = strcmp(words.file, "-") == 0 ? NULL : words.file;
    struct fault fault = services_restored(config, &why);
    fault = FAULTED(fault) ? fault : take_up(config, true, &why, &hands);
    if (!FAULTED(fault)) {
        fault = backup_to(config, &hands, &target, &totals);
    }
    int code = FAULTED(fault) ? say_fault("backup", &hands, &why, fault) : 0;
    if (code == 0) {
        say_totals("backed up", &words, &totals, target.path == NULL ? stderr : stdout);
    }
    put_down(&hands);
    return code;
}

/* ---- restore ---- */

/* From the first message on until the last one is stored, nothing may serve from the log (services_restored). */
static struct fault mark(struct op *op, void *arg)
{
    const struct config *config = arg;
    CLEANUP(buf_free) struct buf path = BUF_INIT(PATH_ROOM);
    const char *text = NULL;
    TRY(buf_printf(&path, "%s/" RESTORE_MARK, config->data_dir));
    TRY(buf_cstr(&path, &text));
    struct fault fault = file_write(text, span_text("a restore of the event log began and did not end\n"), 0600);
    return FAULTED(fault) ? refuse_path(op, text, "cannot be written") : OK;
}

static struct fault unmark(struct op *op, const struct config *config)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(PATH_ROOM);
    const char *text = NULL;
    TRY(buf_printf(&path, "%s/" RESTORE_MARK, config->data_dir));
    TRY(buf_cstr(&path, &text));
    if (unlink(text) != 0 && errno != ENOENT) {
        return refuse_path(op, text, "cannot be removed");
    }
    return sync_folder(op, text);
}

static struct fault restore_from(const struct config *config, struct hands *hands, const struct words *words,
                                 struct backup_totals *ret_totals)
{
    const char *path = words->file;
    const struct transfer_options options = {
        .resume = words->resume, .before_first = mark, .arg = (void *)config, .on_progress = progress_tell
    };
    CLEANUP(fd_closep) int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
    if (path[0] != '/') {
        return op_fail(hands->op, FAULT(BAD_ARGUMENT), "%s: must be an absolute path", path);
    }
    if (fd < 0) {
        return refuse_path(hands->op, path, "cannot be read");
    }
    TRY(log_restore(hands->op, hands->log, fd, &options, ret_totals));
    FAILPOINT("restore.before_unmark");
    return unmark(hands->op, config);
}

int command_restore(const struct config *config, int argc, char **argv)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct hands hands = { 0 };
    struct words words = { .json = false };
    struct backup_totals totals = { 0 };
    if (!read_words(argc, argv, true, &words)) {
        (void)fprintf(stderr, "usage: restore [--continue] FILE (an absolute path) [--json]\n");
        return 2;
    }
    struct fault fault = take_up(config, false, &why, &hands);
    if (!FAULTED(fault)) {
        fault = restore_from(config, &hands, &words, &totals);
    }
    int code = FAULTED(fault) ? say_fault("restore", &hands, &why, fault) : 0;
    if (code == 0) {
        say_totals("restored", &words, &totals, stdout);
    }
    put_down(&hands);
    return code;
}

/* ---- check-log ---- */

int command_check_log(const struct config *config, int argc, char **argv)
{
    (void)argv;
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct hands hands = { 0 };
    size_t checkpoints = 0;
    if (argc != 1) {
        (void)fprintf(stderr, "usage: check-log\n");
        return 2;
    }
    struct fault fault = take_up(config, true, &why, &hands);
    if (!FAULTED(fault)) {
        fault = source_check(hands.op, hands.log, hands.store, &checkpoints);
    }
    int code = FAULTED(fault) ? say_fault("check-log", &hands, &why, fault) : 0;
    if (code == 0) {
        (void)printf("checked: %zu checkpoints, each with its whole source\n", checkpoints);
    }
    put_down(&hands);
    return code;
}
