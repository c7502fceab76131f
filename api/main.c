/* svc-api: the control plane, and the local commands that use its stores. Exit codes: 0, 1 failed, 2 refused, 3 gate.
 */
#include "api/commands.h"
#include "appliance/base/config.h"
#include "appliance/base/failpoint.h"
#include "appliance/base/log.h"
#include "appliance/base/secret.h"
#include "appliance/stores/confine.h"
#include "fips/fence.h"
#include "fips/fips.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: svc-api COMMAND --config FILE [ARG...]\n"
    "  serve            serve the API until SIGTERM\n"
    "  migrate          apply missing schema migrations (as the schema's owner)\n"
    "  empty            empty the read model before a rebuild (as the schema's owner; nothing may serve)\n"
    "  rebuild          replay the event log into the emptied read model (nothing may serve)\n"
    "  repair-log ...   append a lost tail of the event log again, from the copies (nothing may serve)\n"
    "  backup -o FILE   write the event log to a file (absolute path, - = stdout); may run beside serve\n"
    "  restore FILE     fill an empty event log from a backup (nothing may serve)\n"
    "  snapshot [--json]                  write a snapshot of the read model into snapshots.dir, beside serve\n"
    "  check-snapshot FILE|latest [--json] is it whole, ours, and of this event log?\n"
    "  load-snapshot --digest HEX < FILE  put a checked one into the read model (as the schema's owner)\n"
    "  check-log        does every audit checkpoint have its whole source in the event log?\n"
    "  token ...        create, list or revoke bearer tokens\n"
    "  tenant ...       create or list tenants\n"
    "  openapi          print the OpenAPI document\n"
    "  docs             print docs/api.md\n"
    "  metrics          print docs/metrics.md\n"
    "  --help, --version\n";

struct command {
    const char *name;
    int (*run)(const struct config *config, int argc, char **argv);
    bool needs_config; /* reads the file and passes the self-test gate */
};

static const struct command commands[] = {
    { "serve", command_serve, true },
    { "migrate", command_migrate, true },
    { "empty", command_empty, true },
    { "repair-log", command_repair_log, true },
    { "backup", command_backup, true },
    { "restore", command_restore, true },
    { "check-log", command_check_log, true },
    { "rebuild", command_rebuild, true },
    { "snapshot", command_snapshot, true },
    { "check-snapshot", command_check_snapshot, true },
    { "load-snapshot", command_load_snapshot, true },
    { "token", command_token, true },
    { "tenant", command_tenant, true },
    { "openapi", command_openapi, false },
    { "docs", command_docs, false },
    { "metrics", command_metrics, false },
};

static void print_why(const struct buf *why, const char *fallback)
{
    (void)fprintf(stderr, "svc-api: %.*s\n", why->len > 0 ? (int)why->len : (int)strlen(fallback),
                  why->len > 0 ? (const char *)why->at : fallback);
}

/* Takes "--config FILE" out of argv; the rest is the command's. */
static const char *take_config(int *argc, char **argv)
{
    for (int i = 1; i + 1 < *argc; i++) {
        if (strcmp(argv[i], "--config") == 0) {
            const char *path = argv[i + 1];
            memmove(&argv[i], &argv[i + 2], sizeof(*argv) * (size_t)(*argc - i - 1));
            *argc -= 2;
            return path;
        }
    }
    return NULL;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    if (!command->needs_config) {
        return command->run(NULL, argc, argv);
    }
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    CLEANUP(config_freep) struct config *config = NULL;
    const char *path = take_config(&argc, argv);
    if (FAULTED(config_load(path, &why, &config))) {
        print_why(&why, "configuration refused");
        return 2;
    }
    enum log_level level = LOG_LEVEL_INFO;
    enum log_format format = LOG_FORMAT_JSON;
    IGNORE(log_level_parse(config->log_level, &level));
    IGNORE(log_format_parse(config->log_format, &format));
    log_setup("svc-api", level, format);
    if (FAULTED(fips_start(config, &why)) || FAULTED(fence_start(fence_of(config), &why))) {
        print_why(&why, "the power-on self-test refused the start");
        return 3;
    }
    if (FAULTED(confine_serving(&why))) {
        print_why(&why, "cannot be confined");
        return 1;
    }
    return command->run(config, argc, argv);
}

int main(int argc, char **argv)
{
    process_undumpable();
    failpoint_open();
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("svc-api %s\n", SVC_VERSION);
        return 0;
    }
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)fputs(usage, stdout);
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return run_command(&commands[i], argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr, "svc-api: %s\n%s", argc < 2 ? "a command is needed" : "no such command", usage);
    return 2;
}
