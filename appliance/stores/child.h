/* The child's side of process.h, for its siblings in this folder only. Between fork and exec nothing allocates. */
#ifndef APPLIANCE_STORES_CHILD_H
#define APPLIANCE_STORES_CHILD_H

#include "appliance/stores/confine_internal.h"
#include "appliance/stores/process.h"

enum child_step {
    CHILD_STEP_NONE,
    CHILD_STEP_STDIO,
    CHILD_STEP_LIMITS,
    CHILD_STEP_VIEW,
    CHILD_STEP_FILES,
    CHILD_STEP_USER,
    CHILD_STEP_CALLS,
    CHILD_STEP_ORPHAN,
    CHILD_STEP_EXEC,
};

struct child_failure {
    enum child_step step;
    int error; /* errno */
};
const char *child_step_text(enum child_step step);

/* Everything that the child needs, made before the fork. */
struct child_plan {
    const struct process_spec *spec;
    char **env; /* owned, with its strings */
    size_t env_count;
    char *listen_pid; /* among them: the child writes its number in; NULL = none */
    bool change_user;
    uid_t uid;
    gid_t gid;
    struct call_filter filter; /* owned; of every child with a user */
    char oom_score_adj[24];    /* text; "" = as ours */
    int input, output;         /* -1 = /dev/null, our stderr */
    int report;                /* where a failure is written; closed by exec */
};
struct fault child_plan_fill(struct op *op, const struct process_spec *spec, struct child_plan *plan);
void child_plan_clear(struct child_plan *plan); /* idempotent */

/* In the forked child: never returns; a failure goes to plan->report. */
[[noreturn]] void child_become(const struct child_plan *plan, pid_t parent);
/* In place, keeping stdio, session and parent: returns on failure only. */
struct child_failure child_replace(const struct child_plan *plan);
/* In a forked child that stays our program: the rights of `user`, nothing else. */
struct fault child_drop(struct op *op, const char *user);

#endif
