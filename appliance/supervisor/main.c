/* svc-appliance: starts and watches everything. Exit codes: 0, 1 failed, 2 refused, 3 self-test gate. */
#include "appliance/base/config.h"
#include "appliance/base/log.h"
#include "appliance/base/secret.h"
#include "appliance/supervisor/appliance.h"
#include "appliance/supervisor/hardening.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_CONFIG "/etc/svc/svc.yaml"
#define NO_CONFIG      "/dev/null" /* an empty file: every default */
#define WHY_MAX        ((size_t)64 << 10)
#define DOCS_MAX       ((size_t)256 << 10)

static const char usage[] =
    "usage: svc-appliance [COMMAND] [--config FILE] [--fips]\n"
    "\n"
    "  run                   start everything, watch it, stop it in order on SIGTERM (the default)\n"
    "  rebuild [--from-snapshot FILE|latest] [--json]\n"
    "                        empty the read model, or fill it from a snapshot, and replay the (rest of the) event log;\n"
    "                        the appliance must be stopped\n"
    "  snapshot [--json]     write a snapshot of the read model into snapshots.dir now; the stores must be running\n"
    "  repair-log --from SEQ [--yes]\n"
    "                        append a lost tail of the event log again, from the read model's verified copies; the\n"
    "                        appliance must be stopped\n"
    "  scrub                 take what is deleted out of the embedded database's files, after a privacy erasure; the\n"
    "                        appliance must be stopped\n"
    "  backup -o FILE [--json]\n"
    "                        the event log as a file; the appliance must be running\n"
    "  backup --list [--json]\n"
    "                        what else has to be kept, by this configuration, so that an empty machine can take over\n"
    "  restore [--continue] FILE [--json]\n"
    "                        fill an empty event log from a backup; the appliance must be stopped\n"
    "  token create --subject S --role R [--role R ...] [--ttl 720h] [--tenant T] [--json]\n"
    "  token list [--tenant T] [--subject S] [--json]\n"
    "  token revoke ID [--reason TEXT] [--tenant T] [--json]\n"
    "  tenant create ID | tenant list [--json]\n"
    "                        bearer tokens and tenants; the appliance must be running\n"
    "  hsm doctor [--token NAME | --module PATH --slot N --label L --pin-file F] [--json]\n"
    "  hsm doctor --explain [CKR_NAME | NUMBER] [--json]\n"
    "                        examines the PKCS#11 token step by step; hsm doctor --help tells more\n"
    "  hardening [--json]    what each process of the running appliance may do, what listens, which files lend rights\n"
    "  update apply FILE | update status [--json]\n"
    "                        updates of the appliance image: docs/updates.md\n"
    "  --check-config        print what resolved and whether the FIPS module is active, start nothing\n"
    "  --print-config-docs   print docs/configuration.md\n"
    "\n"
    "  --config FILE         the configuration; without it $SVC_CONFIG, then " DEFAULT_CONFIG ", if there is one\n"
    "  --fips                require the FIPS module (as SVC_FIPS=1 and fips.required do)\n"
    "  --json                --check-config prints JSON\n"
    "  --help, --version\n"
    "\n"
    "Exit codes: 0 fine, 1 failed, 2 configuration or arguments refused, 3 refused by the self-test gate.\n";

struct options {
    const char *config;
    bool fips, json, check, docs;
    const char *command; /* NULL = run */
    int rest;            /* argv from here on belongs to the command, which another program carries out; 0 = none */
};

static bool has_words_of_its_own(const char *word)
{
    return strcmp(word, "repair-log") == 0 || strcmp(word, "token") == 0 || strcmp(word, "tenant") == 0 ||
           strcmp(word, "hsm") == 0 || strcmp(word, "backup") == 0 || strcmp(word, "restore") == 0 ||
           strcmp(word, "rebuild") == 0 || strcmp(word, "snapshot") == 0 || strcmp(word, "update") == 0 ||
           strcmp(word, "hardening") == 0;
}

/* Takes "--config FILE" out of argv from `start` on, so that it may stand anywhere. */
static int take_config(int argc, char **argv, int start, struct options *options)
{
    int kept = start;
    for (int i = start; i < argc; i++) {
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
            options->config = argv[++i];
        } else if (strncmp(argv[i], "--config=", 9) == 0) {
            options->config = argv[i] + 9;
        } else {
            argv[kept++] = argv[i];
        }
    }
    argv[kept] = NULL;
    return kept;
}

static bool take_word(const char *word, struct options *options)
{
    if (strcmp(word, "--fips") == 0) {
        options->fips = true;
    } else if (strcmp(word, "--json") == 0) {
        options->json = true;
    } else if (strcmp(word, "--check-config") == 0) {
        options->check = true;
    } else if (strcmp(word, "--print-config-docs") == 0) {
        options->docs = true;
    } else if (options->command == NULL && (strcmp(word, "run") == 0 || strcmp(word, "scrub") == 0)) {
        options->command = word;
    } else {
        return false;
    }
    return true;
}

static bool read_options(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (options->command == NULL && has_words_of_its_own(argv[i])) {
            options->command = argv[i];
            options->rest = i;
            return true;
        }
        if (!take_word(argv[i], options)) {
            (void)fprintf(stderr, "svc-appliance: '%s' is not understood; svc-appliance --help lists what is\n",
                          argv[i]);
            return false;
        }
    }
    return true;
}

static const char *wanted_config(const struct options *options)
{
    const char *named = options->config != NULL ? options->config : getenv("SVC_CONFIG");
    return named != NULL ? named : access(DEFAULT_CONFIG, F_OK) == 0 ? DEFAULT_CONFIG : NO_CONFIG;
}

static enum exit_code load(const struct options *options, char *path, struct config **ret_config)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(WHY_MAX);
    const char *wanted = wanted_config(options);
    /* The programs that we start have another working directory. */
    if (realpath(wanted, path) == NULL) {
        (void)fprintf(stderr, "svc-appliance: %s: no such configuration file\n", wanted);
        return EXIT_REFUSED;
    }
    if (options->fips && setenv("SVC_FIPS", "true", 1) != 0) { /* reaches what we start, too */
        return EXIT_FAILED;
    }
    if (FAULTED(config_load(path, &why, ret_config))) {
        (void)fprintf(stderr, "svc-appliance: configuration refused\n%.*s\n", (int)why.len, (const char *)why.at);
        return EXIT_REFUSED;
    }
    enum log_level level = LOG_LEVEL_INFO;
    enum log_format format = LOG_FORMAT_JSON;
    IGNORE(log_level_parse((*ret_config)->log_level, &level));
    IGNORE(log_format_parse((*ret_config)->log_format, &format));
    log_setup("svc-appliance", level, format);
    return EXIT_FINE;
}

static enum exit_code print_docs(void)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(DOCS_MAX);
    if (FAULTED(config_print_docs(&out))) {
        return EXIT_FAILED;
    }
    return fwrite(out.at, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? EXIT_FINE : EXIT_FAILED;
}

static enum exit_code dispatch(const struct options *options, int argc, char **argv, const struct appliance *appliance)
{
    if (options->check) {
        return appliance_check_config(appliance, options->json);
    }
    if (options->command != NULL && strcmp(options->command, "hsm") == 0) {
        return appliance_hsm_command(appliance, argc - options->rest, argv + options->rest);
    }
    if (geteuid() != 0) {
        (void)fprintf(stderr, "svc-appliance: must be started as root: each part then runs as a user of its own\n");
        return EXIT_REFUSED;
    }
    if (options->command != NULL && strcmp(options->command, "repair-log") == 0) {
        return appliance_repair_log(appliance, argc - options->rest, argv + options->rest);
    }
    if (options->command != NULL && strcmp(options->command, "hardening") == 0) {
        return appliance_hardening(appliance, argc - options->rest, argv + options->rest);
    }
    if (options->command != NULL && strcmp(options->command, "restore") == 0) {
        return appliance_restore(appliance, argc - options->rest, argv + options->rest);
    }
    if (options->command != NULL && strcmp(options->command, "rebuild") == 0) {
        return appliance_rebuild(appliance, argc - options->rest, argv + options->rest);
    }
    if (options->rest > 0 && argc > options->rest + 1 && strcmp(argv[options->rest], "backup") == 0 &&
        strcmp(argv[options->rest + 1], "--list") == 0) {
        return appliance_backup_list(appliance, argc - options->rest, argv + options->rest);
    }
    if (options->rest > 0) {
        return appliance_api_command(appliance, argc - options->rest, argv + options->rest);
    }
    if (options->command != NULL && strcmp(options->command, "scrub") == 0) {
        return appliance_scrub(appliance);
    }
    return appliance_run(appliance);
}

int main(int argc, char **argv)
{
    process_undumpable();
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)fputs(usage, stdout);
        return EXIT_FINE;
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("svc-appliance %s\n", SVC_VERSION);
        return EXIT_FINE;
    }
    struct options options = { 0 };
    argc = take_config(argc, argv, 1, &options);
    if (!read_options(argc, argv, &options)) {
        return EXIT_REFUSED;
    }
    if (options.docs) {
        return (int)print_docs();
    }
    if (options.command != NULL && strcmp(options.command, "update") == 0) {
        return (int)appliance_update_command(argc - options.rest, argv + options.rest);
    }
    char path[PATH_MAX];
    CLEANUP(config_freep) struct config *config = NULL;
    enum exit_code loaded = load(&options, path, &config);
    if (loaded != EXIT_FINE) {
        return (int)loaded;
    }
    struct appliance appliance = { .config = config, .config_path = path };
    return (int)dispatch(&options, argc, argv, &appliance);
}
