/*
 * What a child of the appliance may do, beyond being its own user. Put on between fork and exec, so that it holds from
 * the program's first instruction on, and outlives every exec.
 *
 *   rights   every set of capabilities empty, the bounding set with them, and securebits locked, so that neither an id
 *            nor a file brings one back. Of every child that has a user.
 *   calls    a filter that refuses the calls of calls.def. Of every child that has a user.
 *   view     a mount namespace in which all is read-only but the folders named, what belongs to other parts is empty,
 *            and /proc shows the child's own processes only.
 *   files    Landlock: the same by the kernel's other way, so that either of the two suffices; which programs may be
 *            executed; which TCP ports may be listened at; no signals to others.
 *   network  no network at all; ipc: System V memory and queues of its own.
 *
 * Rights, view, network and ipc need what root has and some containers lack, files a kernel with Landlock. What there
 * is is found out once, by trying, in confine_establish; a child whose confinement then fails is not started.
 */
#ifndef APPLIANCE_STORES_CONFINE_H
#define APPLIANCE_STORES_CONFINE_H

#include "appliance/base/op.h"

#include <sys/types.h>

enum confine_part {
    CONFINE_RIGHTS = 1,
    CONFINE_VIEW = 2,
    CONFINE_FILES = 4,
    CONFINE_NETWORK = 8,
    CONFINE_IPC = 16,
};
#define CONFINE_ALL 31u

enum confine_flag {
    CONFINE_NO_NETWORK = 1,   /* its own, empty one */
    CONFINE_NO_CONNECT = 2,   /* makes no TCP connection */
    CONFINE_OWN_IPC = 4,      /* System V memory and queues, which it must not need to find again after a restart */
    CONFINE_OWN_SHM = 8,      /* writes an empty /dev/shm of its own */
    CONFINE_NO_NEW_CODE = 16, /* no memory is writable and code at once, and none becomes code later */
    CONFINE_SETS_CLOCK = 32,  /* the one thing of calls.def that it may */
};

#define CONFINE_PORTS_MAX 8
struct confine {
    const char *const *write;          /* folders and files; NULL-terminated; what is not there is left out */
    const char *const *read;           /* the same; NULL = all that its user may */
    const char *const *hide;           /* folders that it sees empty; NULL = none */
    const char *const *run;            /* programs that it may execute; NULL = all that its user may */
    uint16_t ports[CONFINE_PORTS_MAX]; /* TCP, at which it may listen, when port_count > 0 or it makes no connection */
    size_t port_count;
    unsigned flags;        /* of enum confine_flag */
    uint64_t capabilities; /* that it keeps, by bits; 0 = none */
    int oom_score_adj;     /* added to ours: who has to go first when memory ends */
};

/* Tries what this machine allows, in a child, and remembers it for every later one. *ret_missing: of enum confine_part.
 * CONFIG when something is missing that is `required`, with what and why noted. */
struct fault confine_establish(struct op *op, bool required, unsigned *ret_missing);
/* "capabilities, mount namespace": for people; "" for none. */
struct fault confine_text(unsigned parts, struct buf *out);
unsigned confine_available(void); /* of enum confine_part; 0 before confine_establish */

/* For a program that confines itself (svc-appliance): of its capabilities it keeps those in `keep`, and cannot get
 * others; the calls of calls.def that it does not need itself are refused. What the machine refuses is left out. */
struct fault confine_self(struct op *op, uint64_t keep);
/* For a program of ours that serves: from now on it executes nothing, makes threads but no processes, and beside that
 * what CONFINE_NO_NEW_CODE says. Irrevocable; before threads. */
struct fault confine_serving(struct buf *why);

#endif
