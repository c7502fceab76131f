#include "signer-pkcs11/broker/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a running signer does: frames, journal, token files, threads, memory, time. */
static const int allowed[] = {
    /* files that are open, and files of journal and token */
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(pwrite64),
    SCMP_SYS(lseek),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(statx),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(flock),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(getdents64),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(rmdir),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(umask),
    SCMP_SYS(fstatfs),
    /* the listening socket and its connections */
    SCMP_SYS(accept4),
    SCMP_SYS(recvfrom),
    SCMP_SYS(sendto),
    SCMP_SYS(shutdown),
    SCMP_SYS(getsockopt),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    /* memory; making it executable is decided below */
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(mlock),
    SCMP_SYS(mlock2),
    SCMP_SYS(membarrier),
    /* threads, which are all made before, and signals */
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(gettid),
    SCMP_SYS(getpid),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    /* time, randomness, who am I */
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrandom),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getppid),
    SCMP_SYS(uname),
    SCMP_SYS(sysinfo),
};

/* What the client libraries of network and card HSMs do beside that. */
static const int allowed_module[] = {
    SCMP_SYS(connect),       SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(setsockopt), SCMP_SYS(sendmsg),
    SCMP_SYS(recvmsg),       SCMP_SYS(sendmmsg),    SCMP_SYS(recvmmsg),    SCMP_SYS(select),     SCMP_SYS(pselect6),
    SCMP_SYS(epoll_wait),    SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_ctl),   SCMP_SYS(eventfd2),   SCMP_SYS(pipe),
    SCMP_SYS(pipe2),         SCMP_SYS(dup),         SCMP_SYS(dup2),        SCMP_SYS(dup3),       SCMP_SYS(ioctl),
    SCMP_SYS(mmap),          SCMP_SYS(mprotect),    SCMP_SYS(shmget),      SCMP_SYS(shmat),      SCMP_SYS(shmdt),
    SCMP_SYS(shmctl),        SCMP_SYS(semget),      SCMP_SYS(semop),       SCMP_SYS(semctl),     SCMP_SYS(semtimedop),
    SCMP_SYS(chmod),         SCMP_SYS(fchmod),      SCMP_SYS(getgroups),   SCMP_SYS(munlock),    SCMP_SYS(fcntl),
    SCMP_SYS(epoll_create1),
};
/* Of these families only; a netlink socket is how the C library looks for the host's addresses. */
static const int families_module[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };

/* Nothing in this process ever wants these: whoever calls them has taken it over. */
static const int deadly[] = {
    /* other programs and other processes' memory */
    SCMP_SYS(execve),
    SCMP_SYS(execveat),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    SCMP_SYS(process_madvise),
    SCMP_SYS(process_mrelease),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_getfd),
    SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(kcmp),
    /* the kernel's wider surfaces */
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(io_uring_enter),
    SCMP_SYS(io_uring_register),
    SCMP_SYS(memfd_create),
    SCMP_SYS(personality),
    SCMP_SYS(modify_ldt),
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(syslog),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
    /* the machine, its mounts, clock and names */
    SCMP_SYS(reboot),
    SCMP_SYS(mount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(chroot),
    SCMP_SYS(open_tree),
    SCMP_SYS(move_mount),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount),
    SCMP_SYS(fspick),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(acct),
    SCMP_SYS(quotactl),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(name_to_handle_at),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(fanotify_init),
    /* who it is, and where */
    SCMP_SYS(setns),
    SCMP_SYS(unshare),
    SCMP_SYS(setuid),
    SCMP_SYS(setgid),
    SCMP_SYS(setreuid),
    SCMP_SYS(setregid),
    SCMP_SYS(setresuid),
    SCMP_SYS(setresgid),
    SCMP_SYS(setfsuid),
    SCMP_SYS(setfsgid),
    SCMP_SYS(setgroups),
    SCMP_SYS(capset),
};

/* PR_SET_VMA names memory (malloc and sanitizers do); its number is newer than some headers. */
#define PRCTL_SET_VMA 0x53564d41

static int add_all(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t count)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = seccomp_rule_add_array(filter, action, calls[i], 0, NULL);
    }
    return rc;
}

/* The call is allowed when this holds for its argument number `argument`: equal to `value`, of the bits in `mask`. */
static int add_when(scmp_filter_ctx filter, int call, unsigned argument, uint64_t mask, uint64_t value)
{
    const struct scmp_arg_cmp compare = {
        .arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value
    };
    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &compare);
}

#define WHOLE UINT64_MAX
#define LOW   ((uint64_t)UINT32_MAX) /* of a 32-bit argument; the kernel does not look at the rest */

/* A thread of a module's, as the C library makes one: with everything of this process, and nothing of its own. */
#define THREAD_FLAGS ((uint64_t)(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD))
#define FOREIGN_FLAGS                                                                                        \
    ((uint64_t)(CLONE_PTRACE | CLONE_VFORK | CLONE_UNTRACED | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | \
                CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_IO | CLONE_PIDFD | CLONE_PARENT))

/* Of fcntl: flags, locks and copies; no signals to others, no leases, no pipes of other sizes. */
static const int fcntl_commands[] = { F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD,  F_SETFD,     F_GETFL,     F_SETFL,
                                      F_GETLK, F_SETLK,         F_SETLKW, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW };
static const int prctl_options[] = { PR_SET_NAME, PR_GET_NAME, PRCTL_SET_VMA };

static int add_values(scmp_filter_ctx filter, int call, unsigned argument, const int *values, size_t count)
{
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = add_when(filter, call, argument, LOW, (uint64_t)(uint32_t)values[i]);
    }
    return rc;
}

/* Calls that are fine with some arguments only. */
static int add_conditional(scmp_filter_ctx filter, enum sandbox_profile profile)
{
    /* Its flags are in memory where no filter sees them; the C library falls back to clone. */
    int rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0, NULL);
    rc = rc != 0 ? rc : add_values(filter, SCMP_SYS(prctl), 0, prctl_options, COUNT_OF(prctl_options));
    rc = rc != 0 ? rc : add_when(filter, SCMP_SYS(prlimit64), 2, WHOLE, 0);             /* asking, not setting */
    rc = rc != 0 ? rc : add_when(filter, SCMP_SYS(tgkill), 0, LOW, (uint64_t)getpid()); /* abort() */
    if (profile == SANDBOX_SOFTHSM) {
        rc = rc != 0 ? rc : add_values(filter, SCMP_SYS(fcntl), 1, fcntl_commands, COUNT_OF(fcntl_commands));
        rc = rc != 0 ? rc : add_when(filter, SCMP_SYS(mmap), 2, PROT_EXEC, 0);
        rc = rc != 0 ? rc : add_when(filter, SCMP_SYS(mprotect), 2, PROT_EXEC, 0);
    } else {
        rc = rc != 0 ? rc : add_when(filter, SCMP_SYS(clone), 0, THREAD_FLAGS | FOREIGN_FLAGS, THREAD_FLAGS);
        rc = rc != 0 ? rc : add_values(filter, SCMP_SYS(socket), 0, families_module, COUNT_OF(families_module));
        rc = rc != 0 ? rc : add_when(filter, SCMP_SYS(socketpair), 0, LOW, AF_UNIX);
    }
    return rc;
}

static int build(scmp_filter_ctx filter, enum sandbox_profile profile)
{
    int rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    rc = rc != 0 ? rc : seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    rc = rc != 0 ? rc : seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
    rc = rc != 0 ? rc : add_all(filter, SCMP_ACT_ALLOW, allowed, COUNT_OF(allowed));
    rc = rc != 0 ? rc : add_all(filter, SCMP_ACT_KILL_PROCESS, deadly, COUNT_OF(deadly));
    if (profile == SANDBOX_MODULE) {
        rc = rc != 0 ? rc : add_all(filter, SCMP_ACT_ALLOW, allowed_module, COUNT_OF(allowed_module));
    }
    return rc != 0 ? rc : add_conditional(filter, profile);
}

static int refuse_when(scmp_filter_ctx filter, int call, unsigned argument, uint64_t mask, uint64_t value)
{
    const struct scmp_arg_cmp compare = {
        .arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value
    };
    return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), call, 1, &compare);
}

/* Some arguments of calls that the list above allows as a whole, in a filter of its own: the stricter of two counts. No
 * memory is writable and code at once, and nothing is typed into a terminal. */
static int build_refusals(scmp_filter_ctx filter)
{
    static const int typing[] = { TIOCSTI, TIOCLINUX };
    const uint64_t both = PROT_WRITE | PROT_EXEC;
    int rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    for (size_t i = 0; i < COUNT_OF(typing) && rc == 0; i++) {
        rc = refuse_when(filter, SCMP_SYS(ioctl), 1, LOW, (uint64_t)typing[i]);
    }
    rc = rc != 0 ? rc : refuse_when(filter, SCMP_SYS(mmap), 2, both, both);
    return rc != 0 ? rc : refuse_when(filter, SCMP_SYS(mprotect), 2, both, both);
}

static int load(uint32_t otherwise, enum sandbox_profile profile, bool refusals)
{
    scmp_filter_ctx filter = seccomp_init(otherwise);
    int rc = filter == NULL ? -ENOMEM : 0;
    if (rc == 0) {
        rc = refusals ? build_refusals(filter) : build(filter, profile);
    }
    rc = rc != 0 ? rc : seccomp_load(filter);
    seccomp_release(filter);
    return rc;
}

struct fault sandbox_calls(enum sandbox_profile profile, struct buf *why)
{
    int rc = profile == SANDBOX_MODULE ? load(SCMP_ACT_ALLOW, profile, true) : 0;
    rc = rc != 0 ? rc : load(SCMP_ACT_ERRNO(EPERM), profile, false);
    if (rc != 0) {
        char reason[64];
        if (why != NULL) {
            IGNORE(buf_printf(why, "cannot enter the system call filter: %s", strerror_r(-rc, reason, sizeof(reason))));
        }
        return FAULT(INTERNAL);
    }
    return OK;
}
