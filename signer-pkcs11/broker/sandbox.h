/*
 * What svc-signer gives up before it accepts its first connection.
 *
 * Files (Landlock, best effort: a kernel without it is logged, not refused): reading below a few system folders and the
 * signer's own, writing below the journal and the token only. Applied before any thread exists, because it binds the
 * calling thread and those that it makes later.
 * Calls (seccomp, required): an allow-list for all threads. What is not on it fails with EPERM; what only an intruder
 * would try (execve, ptrace, module loading ...) ends the process. No socket is made, no process or thread is made,
 * and memory does not become executable.
 *
 * Modules of other makers bring libraries that need more; profile MODULE lets them make threads and sockets (local
 * and IP), map code that is not writable, and read everywhere, and write below /dev /run /tmp /var.
 */
#ifndef SIGNER_BROKER_SANDBOX_H
#define SIGNER_BROKER_SANDBOX_H

#include "appliance/base/bytes.h"

enum sandbox_profile { SANDBOX_SOFTHSM, SANDBOX_MODULE };

#define SANDBOX_READ_MAX 6
struct sandbox_files {
    enum sandbox_profile profile;
    const char *journal;                /* read and write below */
    const char *token;                  /* the same; NULL = none */
    const char *socket;                 /* a socket may be removed below; NULL = none */
    const char *read[SANDBOX_READ_MAX]; /* read below, beside the system's folders; NULL-terminated unless full */
    const char *const *more_read, *const *more_write; /* the same, and read and write below; NULL-terminated or NULL */
};

/* No new privileges, then Landlock. *ret_abi: its version, 0 = the kernel has none. INTERNAL, and `why` gets a line. */
struct fault sandbox_files(const struct sandbox_files *files, struct buf *why, int *ret_abi);
/* The filter, for every thread. INTERNAL, and `why` gets a line. */
struct fault sandbox_calls(enum sandbox_profile profile, struct buf *why);

#endif
