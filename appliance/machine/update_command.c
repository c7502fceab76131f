/* `svc-machine update ...`. */
#include "appliance/base/json.h"
#include "appliance/machine/update_machine.h"

#include <stdio.h>
#include <unistd.h>

#define APPLY_MS  (3600 * 1000)
#define STATUS_MS (60 * 1000)
#define PRINT_MAX ((size_t)8192)

static const char usage[] =
    "usage: svc-machine update apply [FILE] | status [--json]\n"
    "  apply [FILE]  write the update into the slot that does not run; the next boot tries it.\n"
    "                Without FILE: the one *.update on a medium labelled " UPDATE_LABEL "\n"
    "  status        the versions: running, waiting, failed, and the floor\n";

static int complain(const struct op *op, struct fault fault)
{
    const char *detail = op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title;
    (void)fprintf(stderr, "update: refused: %s (%s)\n", detail, fault_row(fault.code)->text);
    bool failed = fault.code == FAULT_IO || fault.code == FAULT_NO_MEMORY || fault.code == FAULT_CRYPTO ||
                  fault.code == FAULT_DEADLINE;
    return failed ? 1 : 2;
}

static void print_line(void *arg, const char *line)
{
    (void)arg;
    (void)printf("%s\n", line);
    (void)fflush(stdout);
}

static struct fault run_apply(struct op *op, const char *path)
{
    struct version version;
    TRY(update_private_mounts(op));
    if (path == NULL) {
        TRY(update_medium_file(op, ".update", &path));
    }
    return update_apply(op, path, print_line, NULL, &version);
}

static void put_version(struct jout *jout, const char *key, bool there, struct version version)
{
    char text[VERSION_TEXT_MAX];
    version_print(version, text);
    jout_key_text(jout, key, there ? text : NULL);
}

static struct fault print_json(const struct update_state *state)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(PRINT_MAX);
    struct jout jout;
    char slot[2] = { state->slot, '\0' };
    jout_init(&jout, &out);
    jout_object(&jout);
    put_version(&jout, "running", true, state->running);
    jout_key_text(&jout, "profile", state->profile);
    jout_key_text(&jout, "slot", slot);
    jout_key_bool(&jout, "trial", state->trial);
    put_version(&jout, "floor", state->has_floor, state->floor);
    put_version(&jout, "waiting", state->has_waiting, state->waiting);
    put_version(&jout, "failed", state->has_failed, state->failed);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(buf_text(&out, "\n"));
    return fwrite(out.at, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? OK : FAULT(IO);
}

static void print_row(const char *what, bool there, struct version version, const char *more)
{
    char text[VERSION_TEXT_MAX];
    version_print(version, text);
    if (there) {
        (void)printf("%-8s %s%s\n", what, text, more);
    }
}

static struct fault run_status(struct op *op, bool json)
{
    struct update_state state;
    TRY(update_private_mounts(op));
    TRY(update_read_state(op, &state));
    if (json) {
        return print_json(&state);
    }
    print_row("running", true, state.running, state.trial ? " (on trial)" : "");
    (void)printf("slot     %c\nprofile  %s\n", state.slot, state.profile);
    print_row("floor", state.has_floor, state.floor, " (nothing older runs)");
    print_row("waiting", state.has_waiting, state.waiting, " (the next boot tries it)");
    print_row("failed", state.has_failed, state.failed, " (did not become ready)");
    return fflush(stdout) == 0 ? OK : FAULT(IO);
}

int update_command(int argc, char **argv)
{
    CLEANUP(op_freep) struct op *op = NULL;
    bool apply = argc >= 2 && argc <= 3 && strcmp(argv[1], "apply") == 0;
    bool json = argc == 3 && strcmp(argv[2], "--json") == 0;
    bool status = argc >= 2 && strcmp(argv[1], "status") == 0 && (argc == 2 || json);
    if ((!apply && !status) || (apply && json)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    struct fault done = op_new("svc-machine", (struct tenant_id){ 0 }, apply ? APPLY_MS : STATUS_MS, &op);
    done = FAULTED(done) ? done
                         : image_facts(op, IMAGE_FACTS, &(struct version){ 0 }, (char[RELEASE_PROFILE_MAX + 1]){ 0 });
    done = FAULTED(done) ? done : apply ? run_apply(op, argc == 3 ? argv[2] : NULL) : run_status(op, json);
    return FAULTED(done) ? complain(op, done) : 0;
}
