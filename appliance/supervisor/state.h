/* run_dir/state.json: what the supervisor tells the others, replaced whole at every change. */
#ifndef APPLIANCE_SUPERVISOR_STATE_H
#define APPLIANCE_SUPERVISOR_STATE_H

#include "appliance/base/fault.h"
#include "appliance/supervisor/unit.h"

/* {"postgres_restarts":0,"nats_restarts":0,"signer_restarts":0,"api_restarts":0,"ready":true,"started_at":"..."};
 * ready: the whole start is done, client.env included. */
struct state {
    utc_us started_at;
    bool ready;
    const struct unit *units;
    size_t count;
};
struct fault state_write(const char *run_dir, const struct state *state);

#endif
