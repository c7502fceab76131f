/* svc-cli: the client, and the offline verifier. Exit codes: 0 fine, 1 failed, 2 refused. */
#include "api/cli/cli.h"
#include "api/cli/print.h"
#include "appliance/base/json.h"

#define ARENA_MAX                                                                                      \
    ((size_t)2 << 30) /* an export of the largest kind is looked at whole; memory grows as needed only \
                       */
#define RUN_LIMIT_MS (24 * 3600 * 1000)

static struct fault op_large(struct op **ret_op)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct arena *arena = NULL;
    TRY(op_new("svc-cli", (struct tenant_id){ 0 }, RUN_LIMIT_MS, &op));
    TRY(arena_new(ARENA_MAX, &arena));
    arena_free(op->arena);
    op->arena = arena;
    *ret_op = TAKE(op);
    return OK;
}

static void print_fault_json(const struct fault_row *row, const char *detail)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "code", row->text);
    jout_key_text(&jout, "title", row->title);
    jout_key_text(&jout, "detail", detail);
    jout_object_end(&jout);
    if (!FAULTED(jout_end(&jout))) {
        print_safe(stderr, buf_span(&out));
        (void)fputc('\n', stderr);
    }
}

static enum exit_code end(struct cli *cli, struct fault fault)
{
    const struct fault_row *row = fault_row(fault.code);
    if (!FAULTED(fault)) {
        return EXIT_FINE;
    }
    if (cli->said) {
        return cli->exit;
    }
    const char *detail = cli->op->note.detail;
    if (cli->json) {
        print_fault_json(row, detail[0] != '\0' ? detail : NULL);
    } else if (detail[0] != '\0') {
        say("%s: %s", row->text, detail);
    } else {
        say("%s: %s", row->text, row->title);
    }
    return row->http >= 500 ? EXIT_FAILED : EXIT_REFUSED;
}

static struct fault run(struct cli *cli, int argc, char **argv)
{
    TRY(options_read(cli, argc, argv));
    if (cli->version) {
        (void)printf("svc-cli %s\n", SVC_VERSION);
    } else if (cli->list_routes) {
        help_list_routes();
    } else if (cli->help) {
        help_print(stdout, cli);
    } else {
        TRY(cli->command->run(cli));
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return op_fail(cli->op, FAULT(IO), "stdout cannot be written");
    }
    return OK;
}

int main(int argc, char **argv)
{
    struct cli cli = { 0 };
    process_undumpable();
    if (FAULTED(op_large(&cli.op))) {
        say("out_of_memory: cannot start");
        return EXIT_FAILED;
    }
    if (argc < 2) {
        help_print(stderr, &cli);
        op_free(cli.op);
        return EXIT_REFUSED;
    }
    int code = (int)end(&cli, run(&cli, argc, argv));
    secret_free(TAKE(cli.token));
    op_free(TAKE(cli.op));
    return code;
}
