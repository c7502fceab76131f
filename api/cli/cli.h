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

#define ARGUMENTS_MAX 64 /* as many files as one batch may sign */
#define FLAGS_MAX     20
#define REPEATS_MAX   8
#define ROUTES_MAX    8

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
/* By index, in the order of the help; NULL behind the last. */
const struct command *command_at(size_t index);

struct cli {
    struct op *op;
    const struct command *command;
    const char *values[FLAGS_MAX]; /* by row of command->flags; "" for a switch that was given */
    const char *repeats[REPEATS_MAX];
    size_t repeat_count;
    const char *arguments[ARGUMENTS_MAX];
    size_t argument_count;

    /* options of every command */
    bool json, help, version, list_routes, no_wait;
    const char *base_url, *ca_file, *token_file, *idempotency_key, *timeout;
    int64_t timeout_ns;
    int64_t patience_ns;  /* what is left to wait for a server that is busy */
    struct secret *token; /* NULL = none given */

    bool said;           /* the failure is on stderr already */
    enum exit_code exit; /* then */
};

/* A flag's value; NULL when it was not given. The name must be one of the command's. */
const char *cli_flag(const struct cli *cli, const char *name);

/* The same for code that several commands share: NULL, too, when the command has no such flag. */
const char *cli_flag_if(const struct cli *cli, const char *name);
bool cli_has_flag(const struct cli *cli, const char *name);
/* A flag that is a span of time ("30s", "2h"); `otherwise` when it was not given. BAD_ARGUMENT. */
struct fault cli_span(struct cli *cli, const char *name, int64_t otherwise_ns, int64_t *ret_ns);

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
struct fault run_keys_activate(struct cli *cli);
struct fault run_keys_retire(struct cli *cli);
struct fault run_keys_destroy(struct cli *cli);
struct fault run_keys_rotate_seal(struct cli *cli);
struct fault run_keys_csr(struct cli *cli);
struct fault run_keys_certify(struct cli *cli);
struct fault run_codesign_preview(struct cli *cli);
struct fault run_codesign_sign(struct cli *cli);
struct fault run_codesign_keyless_preview(struct cli *cli);
struct fault run_codesign_keyless(struct cli *cli);
struct fault run_codesign_bundle(struct cli *cli);
struct fault run_codesign_verify(struct cli *cli);
struct fault run_codesign_verify_long_term(struct cli *cli);
struct fault run_codesign_verify_remote(struct cli *cli);
struct fault run_codesign_trusted_root(struct cli *cli);
struct fault run_codesign_operations(struct cli *cli);
struct fault run_codesign_operation(struct cli *cli);
struct fault run_transparency_list(struct cli *cli);
struct fault run_policy_explain(struct cli *cli);
struct fault run_policy_show(struct cli *cli);
struct fault run_approvals_list(struct cli *cli);
struct fault run_approvals_get(struct cli *cli);
struct fault run_approvals_approve(struct cli *cli);
struct fault run_approvals_deny(struct cli *cli);
struct fault run_tokens_create(struct cli *cli);
struct fault run_tokens_list(struct cli *cli);
struct fault run_tokens_revoke(struct cli *cli);
struct fault run_tsa_stamp(struct cli *cli);
struct fault run_tsa_inspect(struct cli *cli);
struct fault run_tsa_verify(struct cli *cli);
struct fault run_tsa_chain(struct cli *cli);
struct fault run_tsa_qualify(struct cli *cli);
struct fault run_tsa_units_list(struct cli *cli);
struct fault run_tsa_units_prepare(struct cli *cli);
struct fault run_tsa_units_csr(struct cli *cli);
struct fault run_tsa_units_import(struct cli *cli);
struct fault run_tsa_units_activate(struct cli *cli);
struct fault run_tsa_units_retire(struct cli *cli);
struct fault run_audit_records(struct cli *cli);
struct fault run_certificates_list(struct cli *cli);
struct fault run_certificates_show(struct cli *cli);
struct fault run_certificates_record(struct cli *cli);
struct fault run_certificates_custody(struct cli *cli);
struct fault run_credentials_list(struct cli *cli);
struct fault run_credentials_owner(struct cli *cli);
struct fault run_reviews_open(struct cli *cli);
struct fault run_reviews_decide(struct cli *cli);
struct fault run_reviews_complete(struct cli *cli);
struct fault run_reviews_list(struct cli *cli);
struct fault run_reviews_show(struct cli *cli);
struct fault run_erasures_preview(struct cli *cli);
struct fault run_erasures_create(struct cli *cli);
struct fault run_erasures_list(struct cli *cli);
struct fault run_erasures_get(struct cli *cli);
struct fault run_attestations_create(struct cli *cli);
struct fault run_attestations_list(struct cli *cli);
struct fault run_audit_history(struct cli *cli);
/* crypto.c */
struct fault run_statements_record(struct cli *cli);
struct fault run_statements_withdraw(struct cli *cli);
struct fault run_statements_list(struct cli *cli);
struct fault run_cbom(struct cli *cli);
struct fault run_readiness(struct cli *cli);
struct fault run_readiness_action(struct cli *cli);
struct fault run_editions(struct cli *cli);
struct fault run_scale_orchestration(struct cli *cli);
struct fault run_scale_ha_issuance(struct cli *cli);
struct fault run_outbox_list(struct cli *cli);
struct fault run_outbox_show(struct cli *cli);
struct fault run_outbox_requeue(struct cli *cli);
struct fault run_adcs_observe(struct cli *cli);
struct fault run_adcs_list(struct cli *cli);
struct fault run_adcs_get(struct cli *cli);
struct fault run_adcs_drift(struct cli *cli);

/* verification_keys.c: of audit and of compliance */
struct fault run_verification_keys(struct cli *cli);
struct fault run_rotate_verification_key(struct cli *cli);

/* evidence.c, evidence_verify.c */
struct fault run_evidence_pack(struct cli *cli);
struct fault run_evidence_verify(struct cli *cli);
struct fault run_evidence_render(struct cli *cli);
struct fault run_compliance_sample(struct cli *cli);

/* schedules.c */
struct fault run_inventory_report(struct cli *cli);
struct fault run_schedules_preview(struct cli *cli);
struct fault run_schedules_create(struct cli *cli);
struct fault run_schedules_list(struct cli *cli);
struct fault run_schedules_show(struct cli *cli);
struct fault run_schedules_switch(struct cli *cli);
struct fault run_reports_list(struct cli *cli);
struct fault run_reports_get(struct cli *cli);
struct fault run_feeds_list(struct cli *cli);
struct fault run_feeds_preview(struct cli *cli);
struct fault run_feeds_apply(struct cli *cli);
struct fault run_feeds_switch(struct cli *cli);
struct fault run_audit_export(struct cli *cli);
struct fault run_audit_verify(struct cli *cli);
struct fault run_audit_compare(struct cli *cli);
struct fault run_audit_archives_list(struct cli *cli);
struct fault run_audit_archives_preview(struct cli *cli);
struct fault run_audit_archives_run(struct cli *cli);
struct fault run_audit_head(struct cli *cli);
struct fault run_audit_prove(struct cli *cli);
struct fault run_audit_prove_consistency(struct cli *cli);
struct fault run_audit_verify_proof(struct cli *cli);

#endif
