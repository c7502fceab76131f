/*
 * First tenant and first tokens of the embedded profile, and client.env that tells a client how to use them. Runs when
 * the API is ready. May be interrupted and run again: tokens that are in client.env are kept while they last.
 */
#ifndef APPLIANCE_SUPERVISOR_BOOTSTRAP_H
#define APPLIANCE_SUPERVISOR_BOOTSTRAP_H

#include "appliance/supervisor/appliance.h"

/* The embedded profile: PostgreSQL and the event log are our own. */
bool bootstrap_applies(const struct config *config);
struct fault bootstrap_run(struct op *op, const struct appliance *appliance);

#endif
