/* What processes may do, as /proc tells it; for hardening*.c only. All memory is of the operation's arena. */
#ifndef APPLIANCE_SUPERVISOR_HARDENING_FACTS_H
#define APPLIANCE_SUPERVISOR_HARDENING_FACTS_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#include <sys/types.h>

#define TEXTS_MAX 256
struct texts {
    const char **at; /* NULL while there are none */
    size_t count;
};
/* A copy of it; beyond TEXTS_MAX it is TOO_LARGE. */
struct fault texts_add(struct op *op, struct texts *texts, const char *text);
/* Takes the next word off *rest, which is written into; NULL = there is none. */
char *word_next(char **rest);
bool texts_equal(const struct texts *a, const struct texts *b);

/* In the order of /proc/PID/status. */
enum capability_set { CAPS_INHERITABLE, CAPS_PERMITTED, CAPS_EFFECTIVE, CAPS_BOUNDING, CAPS_AMBIENT, CAPS_COUNT };

struct process_facts {
    pid_t pid, parent;
    const char *name, *user, *root;
    uid_t uid;
    gid_t gid;
    struct texts groups;
    uint64_t caps[CAPS_COUNT];
    bool no_new_privs, dumpable, is_root;
    int64_t seccomp, filters, oom_score_adj; /* seccomp: 0 none, 2 filter */
    const char *core, *memlock, *nofile;     /* soft limits, as text */
    struct texts namespaces;                 /* other than those of `reference` */
    struct texts mounts;                     /* writable mount points */
    struct texts folders;                    /* of the known ones: writable for its user, through its mounts */
    struct texts listens;
};

/* NOT_FOUND when it is gone. `reference`: whose namespaces are the usual ones. */
struct fault process_facts_read(struct op *op, pid_t pid, pid_t reference, struct process_facts *ret_facts);
/* Of `folders`, which facts->user may write into, seen through its root and mounts. */
struct fault process_facts_folders(struct op *op, const struct texts *folders, struct process_facts *facts);
/* Its listening sockets. */
struct fault process_facts_listens(struct op *op, struct process_facts *facts);
/* The same in all but number. */
bool process_facts_equal(const struct process_facts *a, const struct process_facts *b);
/* "cap_chown", or "cap_42". */
struct fault capability_text(struct op *op, unsigned capability, const char **ret_text);

/* Files that lend rights (set-user-ID, set-group-ID, capabilities) below `root`, without other mounts in it. */
struct fault privileged_files(struct op *op, const char *root, struct texts *files);

/* ---- all of them ---- */

#define KINDS_MAX 128
/* Processes that are the same in all but number. */
struct kind {
    struct process_facts facts;
    size_t count;
};

struct report {
    const struct config *config;
    pid_t supervisor;
    bool whole_machine;
    struct kind kinds[KINDS_MAX];
    size_t kind_count;
    struct texts folders, files;
    struct buf established; /* JSON of run_dir/hardening.json */
};
struct fault report_print_json(struct op *op, const struct report *report, struct buf *out);
struct fault report_print_text(struct op *op, const struct report *report, struct buf *out);

#endif
