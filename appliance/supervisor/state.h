/* run_dir/state.json: what the supervisor tells the others, replaced whole at every change. */
#ifndef APPLIANCE_SUPERVISOR_STATE_H
#define APPLIANCE_SUPERVISOR_STATE_H

#include "appliance/base/fault.h"
#include "appliance/supervisor/unit.h"

/* {"api_restarts":0,"nats_restarts":0,"postgres_restarts":0,"signer_restarts":0,"started_at":"..."} */
struct fault state_write(const char *run_dir, utc_us started_at, const struct unit *units, size_t count);

#endif
