/*
 * The processes that the appliance keeps running. A unit is started, asked until it is ready, watched, and started
 * again when it ends: with exponential backoff and jitter, which starts over after a stable minute. Nothing is killed
 * for being slow or not ready; that would turn a busy store into a restarting one. One thread; everything happens
 * inside children_step.
 *
 * A unit that says, before it was ever ready, that its self-test (exit code 3) or, twice, that its configuration (2) is
 * refused, is not tried again: children_refused tells.
 */
#ifndef APPLIANCE_SUPERVISOR_CHILDREN_H
#define APPLIANCE_SUPERVISOR_CHILDREN_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#include <sys/types.h>

#define CHILDREN_MAX 4

struct appliance; /* what start and probe are given (appliance.h) */

/* For callers of a unit, who would rather wait a moment than be turned away. */
enum unit_presence {
    UNIT_PRESENT, /* it is ready */
    UNIT_LATE,    /* not ready for UNIT_PATIENCE, though it runs */
    UNIT_ABSENT,  /* the same, and there is none; or its start failed */
};
#define UNIT_PATIENCE_S 3

struct unit_row {
    const char *name; /* "signer": also the stem of its counter in state.json */
    /* NULL: it runs elsewhere, and is only asked. */
    struct fault (*start)(struct op *op, const struct appliance *appliance, pid_t *ret_pid);
    struct fault (*probe)(struct op *op, const struct appliance *appliance); /* OK = ready; short, bounded by op */
    /* NULL, or told of each change. */
    void (*presence)(const struct appliance *appliance, enum unit_presence presence);
    int stop_signal, force_signal;
    int stop_ms; /* from stop_signal to force_signal */
};

struct children;

/* Takes over SIGCHLD, and SIGTERM, SIGINT and SIGHUP as stop signals (by signalfd), and adopts orphans. */
struct fault children_new(const struct appliance *appliance, struct children **ret_children);
void children_free(struct children *children); /* all must be stopped */
DEFINE_FREEP(struct children, children_free)

/* Adds and starts it. `row` is borrowed. Returns its index. */
struct fault children_add(struct children *children, const struct unit_row *row, size_t *ret_unit);
/* Waits at most `max_ms` for something to happen and deals with it. */
struct fault children_step(struct children *children, int max_ms);
/* Steps until the unit is ready. CANCELLED when a stop signal came, CONFIG when the unit refused its start. */
struct fault children_wait_ready(struct children *children, size_t unit);
/* Steps for `ms` (a pause that goes on supervising). CANCELLED when a stop signal came. */
struct fault children_pause(struct children *children, int ms);
/* Tells in state.json that the whole start is done. */
void children_all_ready(struct children *children);
/* Readable while a stop signal waits to be taken: for process_set_interrupt. */
int children_stop_fd(const struct children *children);
unsigned children_stop_signals(const struct children *children);
/* The exit code of a unit that refused its start, or 0. */
int children_refused(const struct children *children, const char **ret_name);
/* Stops all in reverse order of their adding, each bounded; a second stop signal forces what is left. */
void children_drain(struct children *children);

#endif
