/*
 * How the processes of the appliance are confined: put on at every start, and read back from the running system.
 */
#ifndef APPLIANCE_SUPERVISOR_HARDENING_H
#define APPLIANCE_SUPERVISOR_HARDENING_H

#include "appliance/supervisor/appliance.h"

/* Before anything is started: what this machine allows, said in the log; then our own capabilities and calls, of which
 * only those stay that starting and stopping the others takes. CONFIG where hardening.required is set and something is
 * missing. */
struct fault hardening_establish(struct op *op, const struct config *config);
/* run_dir/hardening.json: what was established, for what cannot be read from a process (Landlock). */
struct fault hardening_record(struct op *op, const struct config *config);
/* `hardening [--json]`: what the running appliance's processes may do. */
enum exit_code appliance_hardening(const struct appliance *appliance, int count, char *const *args);

#endif
