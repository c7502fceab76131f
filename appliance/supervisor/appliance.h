/*
 * The appliance as a whole: self-test gate, stores, schema, signer, API, first tokens, in this order; then watching;
 * then the way back.
 */
#ifndef APPLIANCE_SUPERVISOR_APPLIANCE_H
#define APPLIANCE_SUPERVISOR_APPLIANCE_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

/* Exit codes of every program of the appliance. */
enum exit_code { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_REFUSED = 2, EXIT_GATE = 3 };

struct signer_door;

struct appliance {
    const struct config *config;
    const char *config_path;  /* absolute */
    struct signer_door *door; /* NULL: no svc-signer of this host */
};

/* Runs until a stop signal and drains. Says why on stderr, in one line, when it refuses or fails. */
enum exit_code appliance_run(const struct appliance *appliance);
/* `rebuild [--from-snapshot FILE|latest] [--json]`: starts the embedded stores, empties the read model or fills it from
 * a snapshot, and replays the (rest of the) event log (svc-api rebuild), stops them. Refused while the appliance runs.
 */
enum exit_code appliance_rebuild(const struct appliance *appliance, int count, char *const *args);
/* Starts the embedded stores and runs `svc-api <args>`, args[0] being "repair-log", between them. */
enum exit_code appliance_repair_log(const struct appliance *appliance, int count, char *const *args);
/* `restore [--continue] FILE [--json]`: starts the embedded stores and fills the empty event log from a backup (svc-api
 * restore), stops them. */
enum exit_code appliance_restore(const struct appliance *appliance, int count, char *const *args);
/* `backup --list [--json]`: what of this installation a backup of the event log does not hold. */
enum exit_code appliance_backup_list(const struct appliance *appliance, int count, char *const *args);
/* Starts the embedded database alone, has it write its files anew without what is deleted, stops it. Refused while the
 * appliance runs, and for a database of somebody else's. */
enum exit_code appliance_scrub(const struct appliance *appliance);
/* Becomes `svc-api <args>` as its user, with our configuration. Returns on failure only. */
enum exit_code appliance_api_command(const struct appliance *appliance, int count, char *const *args);
/* `update apply FILE | status`: becomes `svc-machine update ...`; refused outside the appliance image. Needs no
 * configuration. Returns on failure only. */
enum exit_code appliance_update_command(int count, char *const *args);
/* `hsm doctor ...`: becomes `svc-signer --doctor ...` as its user (as we are when not root), with our configuration.
 * Returns on failure only. */
enum exit_code appliance_hsm_command(const struct appliance *appliance, int count, char *const *args);
/* What resolved, and whether the FIPS module is active. */
enum exit_code appliance_check_config(const struct appliance *appliance, bool json);

/* One clear line on stderr: "svc-appliance: <what>: <detail of op's note, else the fault's title>". */
void appliance_complain(const char *what, const struct op *op, struct fault fault);

#endif
