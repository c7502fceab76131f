/*
 * Secrets (PIN, token text, MAC keys): a type of their own, kept in one locked, undumpable arena of this process
 * (memfd_secret where the kernel has it, else mlock + MADV_DONTDUMP; 1 MiB), wiped when freed. There is no printf,
 * log or JSON form. secret_arena_locked() says whether locking worked, for start-up to report.
 */
#ifndef APPLIANCE_BASE_SECRET_H
#define APPLIANCE_BASE_SECRET_H

#include "appliance/base/bytes.h"

#define SECRET_MAX 4096

struct secret; /* opaque */

struct fault secret_new(struct span bytes, struct secret **ret_secret); /* copies; wipe your own copy */
struct fault secret_random(size_t len, struct secret **ret_secret);
/* From a file that must be regular (no symbolic link), of 1 to SECRET_MAX bytes, owned by root or this uid, and not
 * readable by group or others (CONFIG otherwise). One trailing newline is dropped. */
struct fault secret_from_file(const char *path, struct secret **ret_secret);
void secret_free(struct secret *secret);
DEFINE_FREEP(struct secret, secret_free)
struct span secret_span(const struct secret *secret); /* borrow; valid until secret_free */
bool secret_equal(struct span a, struct span b);      /* constant time for equal lengths */
void secret_wipe(void *at, size_t len);
bool secret_arena_locked(void);
/* For the child of a fork that goes on without exec, in its handler: the arena may be shared with the parent, so the
 * child leaves it and begins another. Secrets made before are the parent's: using or freeing one here is a bug. */
void secret_forked(void);

/* PR_SET_DUMPABLE 0, RLIMIT_CORE 0: called first thing by every program that sees a secret. */
void process_undumpable(void);
/* Keeps whatever the process has in memory, now and later, from being swapped out (each page from its first use).
 * False: it may not lock that much, and then only the secrets' arena is; later allocations do not suffer from it. */
bool process_lock_memory(void);

#endif
