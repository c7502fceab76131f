/* What must be in place before anything is started: the lock on the data, folders with their owners, free ports. */
#ifndef APPLIANCE_SUPERVISOR_PREPARE_H
#define APPLIANCE_SUPERVISOR_PREPARE_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

/* Makes data_dir and takes its lock for as long as *ret_lock is open. CONFLICT when another appliance has it. */
struct fault prepare_lock(struct op *op, const struct config *config, int *ret_lock);
/* run_dir anew: nothing of an earlier run is left in it. Writes appliance.pid. */
struct fault prepare_run_dir(struct op *op, const struct config *config);
/* CONFLICT, naming the setting, when a port that svc-api will listen on is taken. */
struct fault prepare_ports(struct op *op, const struct config *config);
/* data_dir/api with the fingerprint key (32 random bytes as hex, kept for ever). */
struct fault prepare_api_dir(struct op *op, const struct config *config);

#endif
