/* `svc-machine extension ...`. */
#include "appliance/base/json.h"
#include "appliance/machine/extension.h"
#include "appliance/machine/update_machine.h"

#include <stdio.h>

#define COMMAND_MS (900 * 1000)
#define PRINT_MAX  ((size_t)16384)

static const char usage[] =
    "usage: svc-machine extension add [FILE] | list [--json] | remove NAME\n"
    "  add [FILE]  keep an extension image; it is mounted at the next boot. Without FILE: the one *.svcext on a medium\n"
    "              labelled " UPDATE_LABEL "\n";

static int complain(const struct op *op, struct fault fault)
{
    const char *detail = op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title;
    (void)fprintf(stderr, "extension: refused: %s (%s)\n", detail, fault_row(fault.code)->text);
    return fault.code == FAULT_IO || fault.code == FAULT_NO_MEMORY || fault.code == FAULT_CRYPTO ? 1 : 2;
}

static struct fault run_add(struct op *op, const struct extension_trust *trust, const char *path)
{
    struct extension added;
    char version[VERSION_TEXT_MAX];
    TRY(update_private_mounts(op));
    if (path == NULL) {
        TRY(update_medium_file(op, ".svcext", &path));
    }
    TRY(extension_add(op, trust, path, &added));
    version_print(added.version, version);
    (void)printf("extension: %s %s is kept; it is mounted at the next boot\n", added.name, version);
    return OK;
}

static struct fault print_json(const struct extension *extensions, size_t count)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(PRINT_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    jout_array(&jout);
    for (size_t i = 0; i < count; i++) {
        char version[VERSION_TEXT_MAX];
        version_print(extensions[i].version, version);
        jout_object(&jout);
        jout_key_text(&jout, "name", extensions[i].name);
        jout_key_text(&jout, "version", extensions[i].refusal[0] == '\0' ? version : NULL);
        jout_key_bool(&jout, "mounted", extensions[i].mounted);
        jout_key_text(&jout, "refusal", extensions[i].refusal);
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    TRY(jout_end(&jout));
    TRY(buf_text(&out, "\n"));
    return fwrite(out.at, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? OK : FAULT(IO);
}

static struct fault run_list(struct op *op, const struct extension_trust *trust, bool json)
{
    struct extension extensions[EXTENSIONS_MAX];
    size_t count = 0;
    TRY(extension_list(op, trust, extensions, &count));
    if (json) {
        return print_json(extensions, count);
    }
    for (size_t i = 0; i < count; i++) {
        char version[VERSION_TEXT_MAX];
        version_print(extensions[i].version, version);
        (void)printf("%-32s %-12s %s\n", extensions[i].name, extensions[i].refusal[0] == '\0' ? version : "-",
                     extensions[i].refusal[0] != '\0' ? extensions[i].refusal
                     : extensions[i].mounted          ? "mounted"
                                                      : "kept; mounted at the next boot");
    }
    (void)printf("%zu extension%s\n", count, count == 1 ? "" : "s");
    return OK;
}

int extension_command(int argc, char **argv, const struct extension_trust *trust)
{
    CLEANUP(op_freep) struct op *op = NULL;
    const char *word = argc >= 2 ? argv[1] : "", *rest = argc == 3 ? argv[2] : NULL;
    bool add = strcmp(word, "add") == 0 && argc <= 3, json = rest != NULL && strcmp(rest, "--json") == 0;
    bool list = strcmp(word, "list") == 0 && (argc == 2 || json), drop = strcmp(word, "remove") == 0 && argc == 3;
    if (!add && !list && !drop) {
        (void)fputs(usage, stderr);
        return 2;
    }
    struct fault done = op_new("svc-machine", (struct tenant_id){ 0 }, COMMAND_MS, &op);
    done = FAULTED(done) ? done
                         : image_facts(op, IMAGE_FACTS, &(struct version){ 0 }, (char[RELEASE_PROFILE_MAX + 1]){ 0 });
    if (!FAULTED(done)) {
        done = add ? run_add(op, trust, rest) : list ? run_list(op, trust, json) : extension_remove(op, rest);
    }
    if (FAULTED(done)) {
        return complain(op, done);
    }
    if (drop) {
        (void)printf("extension: %s is removed; it stays mounted until the next boot\n", rest);
    }
    return 0;
}
