/*
 * Other programs as children: started by fork and exec with nothing of ours but what is named here. A child runs as
 * its own user with no further groups and no way to gain privileges, in its own session, with an empty signal mask,
 * a clean environment, descriptors 0 (from /dev/null), 1 and 2 only (and a listener where one is handed over), no core
 * dumps, and a signal that it gets when we die. One with a user has no capability and cannot get one, and makes none of
 * the calls of calls.def; what else is taken from it `confine` says. Meant for a program without threads.
 *
 *     CLEANUP(buf_free) struct buf said = BUF_INIT(4096);
 *     const char *const argv[] = { "/usr/bin/true", NULL };
 *     TRY(process_check(op, &(struct process_spec){ .argv = argv, .user = "svc-pg" }, (struct span){ 0 }, &said));
 */
#ifndef APPLIANCE_STORES_PROCESS_H
#define APPLIANCE_STORES_PROCESS_H

#include "appliance/base/op.h"

#include <sys/types.h>

struct confine; /* appliance/stores/confine.h */

struct process_spec {
    const char *const *argv; /* NULL-terminated; argv[0] is the absolute path of the program */
    const char *const *env;  /* NULL-terminated "NAME=value" beyond the clean environment; NULL = none */
    const char *user;        /* NULL = as we are */
    int death_signal;        /* what the child gets when we die; 0 = SIGKILL */
    int listener;            /* a listening socket that it gets as descriptor 3, told by LISTEN_FDS and LISTEN_PID as
                                service managers do; 0 = none */
    int input;               /* a descriptor that becomes its stdin, where process_run gets none; 0 = none */
    const struct confine *confine; /* NULL = only what is said above */
    bool locks_memory;             /* it may lock all of its memory, where we may allow that */
    bool answer_only;              /* only stdout goes to the output of process_run; stderr stays ours */
};

/* The clean environment: PATH, LANG, HOME, TZ, and those SVC_ variables of ours that config.def names. */

/* Starts it and returns at once; the caller reaps *ret_pid. IO when it could not be executed, with the reason noted. */
struct fault process_spawn(struct op *op, const struct process_spec *spec, pid_t *ret_pid);

/* Runs it to its end. `input` is its stdin; stdout and stderr go to `output` (what exceeds its bound is dropped), or
 * to our stderr when `output` is NULL. *ret_code is the exit code, or 128 + signal. When op's deadline passes or the
 * interrupt arrives, it is killed: DEADLINE, CANCELLED. */
struct fault process_run(struct op *op, const struct process_spec *spec, struct span input, struct buf *output,
                         int *ret_code);
/* The same, and any exit code but 0 is IO with the last line of what it said. */
struct fault process_check(struct op *op, const struct process_spec *spec, struct span input, struct buf *output);

/* Runs `work` in a forked child with the rights of `user`, so that a folder of that user is only ever written with
 * that user's rights (no link planted there can be followed with ours). Its fault and note come back; anything else
 * that it changes in memory does not, except what it writes into the pipe behind `ret_output` (NULL = no pipe). */
typedef struct fault (*process_work_fn)(struct op *op, void *arg, int output);
struct fault process_as(struct op *op, const char *user, process_work_fn work, void *arg, struct buf *ret_output);

/* Becomes the program of `spec` for good (stdin, stdout and stderr kept). Returns on failure only. */
struct fault process_exec(struct op *op, const struct process_spec *spec);

/* Opens a regular file for reading with the rights of `user` (as we are when we are not root). */
struct fault process_open_as(struct op *op, const char *user, const char *path, int *ret_fd);

/* While `fd` is readable every run ends early with CANCELLED (a signalfd of the stop signals); -1 = none. */
void process_set_interrupt(int fd);

/* The user's uid and primary gid. CONFIG when there is no such user. */
struct fault process_user(struct op *op, const char *user, uid_t *ret_uid, gid_t *ret_gid);

#endif
