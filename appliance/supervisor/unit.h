/* One supervised process: for children.c and state.c only. */
#ifndef APPLIANCE_SUPERVISOR_UNIT_H
#define APPLIANCE_SUPERVISOR_UNIT_H

#include "appliance/base/clock.h"
#include "appliance/supervisor/children.h"

enum unit_state {
    UNIT_WAITING,  /* for its next start */
    UNIT_STARTING, /* runs, not ready yet */
    UNIT_READY,
    UNIT_STOPPED,
};

struct unit {
    const struct unit_row *row;
    enum unit_state state;
    pid_t pid; /* 0 = none */
    unsigned restarts, backoff_step;
    int refused; /* exit code of a refused start */
    unsigned refusals;
    bool was_ready;
    mono_ns started, next; /* next: start (WAITING) or probe (STARTING) */
    mono_ns next_complaint;
    mono_ns away_since; /* not ready since then */
    bool told_away;     /* row->presence knows */
};

/* How long to wait before the start after the `step`-th quick death: doubling, bounded, with jitter from `random`. */
int64_t unit_backoff_ns(unsigned step, uint32_t random);
void unit_start(struct unit *unit, const struct appliance *appliance);
void unit_probe(struct unit *unit, const struct appliance *appliance);
/* After waitpid. */
void unit_ended(struct unit *unit, const struct appliance *appliance, int status);
/* Tells row->presence when it is due. */
void unit_tell_away(struct unit *unit, const struct appliance *appliance, mono_ns now);
/* When unit_tell_away will have something to tell; INT64_MAX = it has none. */
mono_ns unit_away_due(const struct unit *unit);

#endif
