/*
 * svc-cli inside: one run of one command. main.c reads the arguments by the command's row (commands.c) into a struct
 * cli, the row's function does the work, and a fault becomes one line on stderr and an exit code: 0 fine, 1 failed,
 * 2 refused. Results go to stdout; plans, progress, hints and failures go to stderr. The client holds no key and
 * trusts nothing that it can check: signatures and time stamps that it fetched are verified before they are written.
 */
#ifndef API_CLI_CLI_H
#define API_CLI_CLI_H

#include "appliance/base/op.h"
#include "appliance/base/secret.h"

#include <stdio.h>

#define ARGUMENTS_MAX 4
#define FLAGS_MAX     12
#define REPEATS_MAX   8
#define ROUTES_MAX    3

enum exit_code { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_REFUSED = 2 };

struct cli;

/* An option of a command: "--name VALUE" or, without a value's name, a switch. */
struct flag {
    const char *name;  /* without dashes */
    const char *value; /* what the value is called; NULL = a switch */
    const char *doc;
    char letter; /* short form; 0 = none */
    bool required, repeats;
};

/* What a command asks of the server: its contract, printed by --list-routes and checked against the server's document.
 */
struct route_use {
    const char *method, *path;
};

struct command {
    const char *words;     /* "keys create" */
    const char *arguments; /* "FILE"; NULL = none */
    unsigned least, most;  /* how many */
    const struct route_use routes[ROUTES_MAX];
    const struct flag *flags;
    size_t flag_count;
    struct fault (*run)(struct cli *cli);
    const char *help;    /* one line */
    const char *more;    /* what else to know; NULL = nothing */
    const char *example; /* without "svc-cli " */
};
const struct command *commands_all(size_t *ret_count);

struct cli {
    struct op *op;
    const struct command *command;
    const char *values[FLAGS_MAX]; /* by row of command->flags; "" for a switch that was given */
    const char *repeats[REPEATS_MAX];
    size_t repeat_count;
    const char *arguments[ARGUMENTS_MAX];
    size_t argument_count;

    /* options of every command */
    bool json, help, version, list_routes;
    const char *base_url, *ca_file, *token_file, *idempotency_key, *timeout;
    int64_t timeout_ns;
    struct secret *token; /* NULL = none given */

    bool said;           /* the failure is on stderr already */
    enum exit_code exit; /* then */
};

/* A flag's value; NULL when it was not given. The name must be one of the command's. */
const char *cli_flag(const struct cli *cli, const char *name);

/* ---- options.c ---- */
/* Reads argv and the environment. BAD_ARGUMENT with a note. */
struct fault options_read(struct cli *cli, int argc, char **argv);

/* ---- help.c ---- */
void help_print(FILE *out, const struct cli *cli);
void help_list_routes(void);

/* ---- the commands ---- */
struct fault run_health(struct cli *cli);
struct fault run_keys_create(struct cli *cli);
struct fault run_keys_list(struct cli *cli);
struct fault run_keys_get(struct cli *cli);
struct fault run_keys_destroy(struct cli *cli);
struct fault run_codesign_preview(struct cli *cli);
struct fault run_codesign_sign(struct cli *cli);
struct fault run_codesign_verify(struct cli *cli);
struct fault run_codesign_operations(struct cli *cli);
struct fault run_codesign_operation(struct cli *cli);
struct fault run_tokens_create(struct cli *cli);
struct fault run_tokens_list(struct cli *cli);
struct fault run_tokens_revoke(struct cli *cli);
struct fault run_tsa_stamp(struct cli *cli);
struct fault run_tsa_inspect(struct cli *cli);
struct fault run_tsa_verify(struct cli *cli);
struct fault run_tsa_chain(struct cli *cli);
struct fault run_audit_records(struct cli *cli);
struct fault run_audit_export(struct cli *cli);
struct fault run_audit_keys(struct cli *cli);
struct fault run_audit_verify(struct cli *cli);

#endif
