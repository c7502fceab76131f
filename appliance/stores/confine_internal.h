/* The parts of confine.h, for its siblings in this folder only. What is called in the forked child ("enter") allocates
 * nothing and takes no lock; false = errno says why. */
#ifndef APPLIANCE_STORES_CONFINE_INTERNAL_H
#define APPLIANCE_STORES_CONFINE_INTERNAL_H

#include "appliance/stores/confine.h"

/* ---- calls ---- */
enum call_kind {
    CALLS_CHILD,      /* calls.def */
    CALLS_CLOCK,      /* the same, but for the clock */
    CALLS_SAME_CODE,  /* the same as CHILD, and CONFINE_NO_NEW_CODE */
    CALLS_SERVING,    /* the same, and no programs and processes */
    CALLS_SUPERVISOR, /* what prepares children: it mounts, and it ends nothing but them */
};
/* The filter as the kernel takes it. */
struct call_filter {
    void *code; /* owned; NULL = none */
    size_t len; /* bytes */
};
struct fault call_filter_make(enum call_kind kind, struct call_filter *ret_filter);
void call_filter_clear(struct call_filter *filter);
bool call_filter_enter(const struct call_filter *filter); /* no new privileges must be set */

/* ---- rights ---- */
/* Becomes uid and gid for good, with `keep` of its capabilities. The bounding set and securebits are wishes unless
 * `must`. */
bool rights_drop(uid_t uid, gid_t gid, uint64_t keep, bool must);
/* Of what this process has it keeps `keep`, its bounding set included. */
bool rights_keep(uint64_t keep);

/* ---- view, network, ipc ---- */
bool view_enter(const struct confine *confine, unsigned parts);

/* ---- files ---- */
int files_abi(void); /* of Landlock, that is of use to us; 0 = none */
bool files_enter(const struct confine *confine);

/* For tests: as if confine_establish had found these. */
void confine_allow(unsigned as_if);

#endif
