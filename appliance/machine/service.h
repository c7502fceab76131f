/*
 * The processes that PID 1 keeps: the console, chrony, and the machine's purpose, `svc-appliance run`. One that ends is
 * started again, with a pause that doubles up to a minute and starts over once it ran for a minute. The appliance that
 * refuses its start (exit code 2 or 3, twice) is not tried again by itself: the console says why, and `restart` tries.
 * One that fails otherwise, twice quickly in a row, is tried on, and the console says why too.
 */
#ifndef APPLIANCE_MACHINE_SERVICE_H
#define APPLIANCE_MACHINE_SERVICE_H

#include "appliance/machine/machine.h"

/* Fills machine->keepers; starts none. */
void keepers_setup(struct machine *machine);
void keeper_want(struct machine *machine, size_t keeper);
/* Reaps every child that ended, ours and orphans. */
void keepers_reap(struct machine *machine);
/* Starts what is due. */
void keepers_tick(struct machine *machine);
/* SIGTERM to what is kept, the appliance first, and waits (bounded by `ms`) until it ended; SIGKILL then. */
void keepers_stop(struct machine *machine, int ms);

/* Looks whether the appliance became ready or stopped being so, and what that means (update commit, trial). */
void service_watch(struct machine *machine);
/* Stops and starts the appliance: `control restart`. */
void service_restart(struct machine *machine);
/* The pause before the next start after `quick` quick deaths in a row, in ms. */
int service_backoff_ms(unsigned quick);
/* {"ready":true,...} of the supervisor's state.json. */
bool service_state_ready(struct span json);
/* The last line of the log that svc-appliance wrote before it ended, without control characters. */
void service_last_words(struct span log, char *out, size_t size);

#endif
