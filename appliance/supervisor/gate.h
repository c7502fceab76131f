/* The power-on self-test gate: passed before anything of the appliance listens or is started. */
#ifndef APPLIANCE_SUPERVISOR_GATE_H
#define APPLIANCE_SUPERVISOR_GATE_H

#include "appliance/base/config.h"

/* Loads the FIPS module, runs its self-tests and ours, and logs the posture. On refusal `why` has one clear line. */
struct fault gate_pass(const struct config *config, struct buf *why);

#endif
