#include "api/cli/signing.h"

#include "api/cli/print.h"

#include <sys/stat.h>

#define LIST_MAX ((size_t)1 << 20)

static const char *const suffixes[] = { ".sig", ".tsr", ".sigstore.json" };

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static struct fault add_path(struct cli *cli, struct signing *signing, const char *path)
{
    if (signing->count == SIGNING_MANY) {
        return op_fail(cli->op, FAULT(TOO_LARGE), "at most %d files can be signed at once", SIGNING_MANY);
    }
    if (signing->batch && strcmp(path, "-") == 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "stdin cannot be one of several files");
    }
    signing->files[signing->count++].path = path;
    return OK;
}

static struct fault read_list(struct cli *cli, struct signing *signing, const char *list)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(LIST_MAX);
    const char *text = NULL;
    TRY(files_read(cli->op, list, &bytes));
    if (FAULTED(arena_text(cli->op->arena, buf_span(&bytes), &text))) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: is no text of one path a line", list);
    }
    while (*text != '\0') {
        size_t len = strcspn(text, "\r\n");
        const char *path = NULL;
        if (len > 0) {
            TRY(arena_text(cli->op->arena, span_of(text, len), &path));
            TRY(add_path(cli, signing, path));
        }
        text += len + strspn(text + len, "\r\n");
    }
    if (signing->count == 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: there is no path in it", list);
    }
    return OK;
}

static struct fault gather_paths(struct cli *cli, struct signing *signing)
{
    const char *list = cli_flag_if(cli, "batch-file");
    TRY(arena_take(cli->op->arena, SIGNING_MANY, sizeof(*signing->files), &signing->files));
    signing->batch = list != NULL || cli->argument_count > 1;
    if (list != NULL && cli->argument_count > 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "give either files or --batch-file");
    }
    for (size_t i = 0; i < cli->argument_count; i++) {
        TRY(add_path(cli, signing, cli->arguments[i]));
    }
    return list != NULL ? read_list(cli, signing, list) : OK;
}

/* One file: where the option says. Several: in the folder that the option says, under the file's own name. Without the
 * option beside the file. */
static struct fault name_output(struct cli *cli, const struct signing *signing, const struct signing_file *file,
                                const char *flag, const char *suffix, const char **ret_name)
{
    const char *given = cli_flag_if(cli, flag), *slash = strrchr(file->path, '/');
    const char *base = slash != NULL ? slash + 1 : file->path;
    if (given == NULL) {
        if (strcmp(file->path, "-") == 0) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "stdin has no name: say with --%s where it goes", flag);
        }
        return arena_printf(cli->op->arena, ret_name, "%s%s", file->path, suffix);
    }
    if (!signing->batch) {
        *ret_name = given;
        return OK;
    }
    if (!is_folder(given)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--%s %s: with several files this names a folder that is there",
                       flag, given);
    }
    return arena_printf(cli->op->arena, ret_name, "%s/%s%s", given, base, suffix);
}

static struct fault name_outputs(struct cli *cli, const struct signing *signing, struct signing_file *file)
{
    TRY(name_output(cli, signing, file, "output", suffixes[0], &file->signature_out));
    TRY(files_check_writable(cli->op, file->signature_out));
    if (cli_flag_if(cli, "timestamp") != NULL) {
        if (strcmp(file->signature_out, "-") == 0) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "with --timestamp the signature needs a file of its own");
        }
        TRY(arena_printf(cli->op->arena, &file->stamp_out, "%s%s", file->signature_out, suffixes[1]));
        TRY(files_check_writable(cli->op, file->stamp_out));
    }
    if (cli_flag_if(cli, "bundle") != NULL) {
        TRY(name_output(cli, signing, file, "bundle", suffixes[2], &file->bundle_out));
        TRY(files_check_writable(cli->op, file->bundle_out));
    }
    return OK;
}

/* Two results in one file would leave one of them. */
static struct fault check_distinct(struct cli *cli, const struct signing *signing)
{
    const char *names[3 * SIGNING_MANY];
    size_t count = 0;
    for (size_t i = 0; i < signing->count; i++) {
        const struct signing_file *file = &signing->files[i];
        const char *const own[] = { file->signature_out, file->stamp_out, file->bundle_out };
        for (size_t j = 0; j < COUNT_OF(own); j++) {
            for (size_t k = 0; own[j] != NULL && k < count; k++) {
                if (strcmp(own[j], names[k]) == 0 && strcmp(own[j], "/dev/null") != 0) {
                    return op_fail(cli->op, FAULT(BAD_ARGUMENT), "%s: two results would go there", own[j]);
                }
            }
            if (own[j] != NULL) {
                names[count++] = own[j];
            }
        }
    }
    return OK;
}

struct fault signing_gather(struct cli *cli, struct signing *signing)
{
    const char *hash = cli_flag(cli, "digest-algorithm"), *certificate = cli_flag_if(cli, "certificate");
    TRY(gather_paths(cli, signing));
    for (size_t i = 0; cli_has_flag(cli, "output") && i < signing->count; i++) {
        TRY(name_outputs(cli, signing, &signing->files[i]));
    }
    TRY(check_distinct(cli, signing));
    if (certificate != NULL) {
        TRY(files_check_writable(cli->op, certificate));
    }
    for (size_t i = 0; i < signing->count; i++) {
        TRY(files_digest(cli->op, signing->files[i].path, hash != NULL ? hash : "sha256", &signing->files[i].digest));
    }
    return OK;
}
