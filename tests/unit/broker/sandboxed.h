/* Children inside svc-signer's sandbox, and the folders that it knows: what a signer may write, and what it may not. */
#ifndef TESTS_UNIT_BROKER_SANDBOXED_H
#define TESTS_UNIT_BROKER_SANDBOXED_H

#include "signer-pkcs11/broker/sandbox.h"
#include "testlib.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64], journal[96], token[96], sockets[96], other[96], read_only[96];
static int landlock; /* the kernel's version; less than 1 = it has none */

static inline void folder(char out[96], const char *name)
{
    (void)snprintf(out, 96, "%s/%s", root, name);
    assert_int_equal(mkdir(out, 0700), 0);
}

static inline const char *below(const char *where, const char *name)
{
    static _Thread_local char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s", where, name);
    return path;
}

static inline int opens(const char *where, const char *name, int flags)
{
    CLEANUP(fd_closep) int fd = open(below(where, name), flags | O_CLOEXEC, 0600);
    return fd;
}

static inline int setup(void **state)
{
    (void)state;
    const struct rlimit none = { 0 };
    (void)setrlimit(RLIMIT_CORE, &none); /* children die here */
    (void)snprintf(root, sizeof(root), "/tmp/svc-sandbox-XXXXXX");
    assert_non_null(mkdtemp(root));
    folder(journal, "journal");
    folder(token, "token");
    folder(sockets, "sockets");
    folder(other, "other");
    folder(read_only, "read-only");
    assert_true(opens(other, "old", O_WRONLY | O_CREAT) >= 0);
    assert_true(opens(read_only, "old", O_WRONLY | O_CREAT) >= 0);
    landlock = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* ask for the version */);
    if (landlock < 1) {
        print_message("this kernel has no Landlock: what it would refuse is not tested\n");
    }
    return 0;
}

static inline int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline int teardown(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static inline bool sandbox(enum sandbox_profile profile)
{
    int abi = 0;
    const struct sandbox_files files = {
        .profile = profile, .journal = journal, .token = token, .socket = sockets, .read = { read_only, "/no/such" }
    };
    return !FAULTED(sandbox_files(&files, NULL, &abi)) && !FAULTED(sandbox_calls(profile, NULL));
}

/* The result of a child, or 128 + the signal that ended it. */
static inline int result_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs `body` in a child inside the sandbox, with its result_of. 99: no sandbox. */
static inline int inside(enum sandbox_profile profile, int (*body)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static const int caught[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS }; /* by cmocka */
        for (size_t i = 0; i < COUNT_OF(caught); i++) {
            (void)signal(caught[i], SIG_DFL);
        }
        (void)alarm(60); /* a call that was let through and waits */
        _exit(sandbox(profile) ? body() : 99);
    }
    return result_of(pid);
}

/* 0: refused with this errno. 1: not refused. 2: refused otherwise. */
static inline int refused(long rc, int with)
{
    return rc >= 0 ? 1 : errno == with ? 0 : 2;
}

#endif
