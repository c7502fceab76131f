/* The system calls of the filter, by table: each forbidden one is tried in a child, and the list of what is let through
 * is written down here a second time, so that nothing joins it unseen. */
#include "sandboxed.h"

#include <linux/keyctl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>

#define DEATH (128 + SIGSYS)
#define AT(x) ((long)(uintptr_t)(x))

struct attempt {
    const char *what;
    long number;
    long args[6];
    int ends; /* the child's result: DEATH, or 0 for a refusal with EPERM */
};

static pid_t bystander; /* a process of the same user, which somebody may want to signal or trace */
static uint8_t page[4096] __attribute__((aligned(4096)));
static char *const no_args[] = { NULL };
static const struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "/tmp/x" };
static const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
static struct clone_args thread_args = { .flags = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND };
#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

static const struct attempt *trying;

static int try_it(void)
{
    const long *a = trying->args;
    errno = 0;
    return refused(syscall(trying->number, a[0], a[1], a[2], a[3], a[4], a[5]), EPERM);
}

static void assert_all_refused(enum sandbox_profile profile, const struct attempt *attempts, size_t count)
{
    int wrong = 0;
    for (size_t i = 0; i < count; i++) {
        trying = &attempts[i];
        int got = inside(profile, try_it);
        if (got != trying->ends) {
            print_error("%s: %d instead of %d\n", trying->what, got, trying->ends);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

#define CALL(name, ends, ...) { #name, SYS_##name, { __VA_ARGS__ }, ends }

static void taking_the_process_over_ends_it(void **state)
{
    (void)state;
    const struct attempt attempts[] = {
        CALL(execve, DEATH, AT("/bin/true"), AT(no_args), AT(no_args)),
        CALL(execveat, DEATH, AT_FDCWD, AT("/bin/true"), AT(no_args), AT(no_args), 0),
        CALL(ptrace, DEATH, PTRACE_ATTACH, bystander),
        CALL(ptrace, DEATH, PTRACE_TRACEME),
        CALL(process_vm_readv, DEATH, bystander),
        CALL(process_vm_writev, DEATH, bystander),
        CALL(process_madvise, DEATH, 0),
        CALL(pidfd_open, DEATH, bystander, 0),
        CALL(pidfd_getfd, DEATH, 0),
        CALL(pidfd_send_signal, DEATH, 0),
        CALL(kcmp, DEATH, bystander, bystander),
        CALL(bpf, DEATH, 0),
        CALL(perf_event_open, DEATH, 0),
        CALL(userfaultfd, DEATH, 0),
        CALL(io_uring_setup, DEATH, 1, AT(page)),
        CALL(io_uring_enter, DEATH, 0),
        CALL(io_uring_register, DEATH, 0),
        CALL(memfd_create, DEATH, AT("x"), 0),
        CALL(personality, DEATH, READ_IMPLIES_EXEC),
        CALL(keyctl, DEATH, KEYCTL_GET_KEYRING_ID, KEY_SPEC_PROCESS_KEYRING, 0),
        CALL(add_key, DEATH, AT("user"), AT("x"), AT("y"), 1, KEY_SPEC_PROCESS_KEYRING),
        CALL(request_key, DEATH, AT("user"), AT("x")),
        CALL(init_module, DEATH, 0),
        CALL(finit_module, DEATH, -1),
        CALL(kexec_load, DEATH, 0),
        CALL(reboot, DEATH, 0),
        CALL(mount, DEATH, AT("x"), AT("/tmp"), AT("tmpfs"), 0, 0),
        CALL(umount2, DEATH, AT("/no/such"), 0),
        CALL(pivot_root, DEATH, AT("/no/such"), AT("/no/such")),
        CALL(chroot, DEATH, AT("/")),
        CALL(open_tree, DEATH, AT_FDCWD, AT("/"), 0),
        CALL(fsopen, DEATH, AT("tmpfs"), 0),
        CALL(move_mount, DEATH, 0),
        CALL(mount_setattr, DEATH, 0),
        CALL(unshare, DEATH, CLONE_NEWUSER),
        CALL(setns, DEATH, -1, 0),
        CALL(name_to_handle_at, DEATH, AT_FDCWD, AT("/")),
        CALL(open_by_handle_at, DEATH, AT_FDCWD, AT(page), O_RDONLY),
        CALL(fanotify_init, DEATH, 0),
        CALL(swapon, DEATH, AT("/no/such")),
        CALL(acct, DEATH, AT("/no/such")),
        CALL(clock_settime, DEATH, 0),
        CALL(settimeofday, DEATH, 0),
        CALL(setuid, DEATH, 0),
        CALL(setresuid, DEATH, 0),
        CALL(setresgid, DEATH, 0),
        CALL(setgroups, DEATH, 0),
        CALL(setfsuid, DEATH, 0),
        CALL(capset, DEATH, 0),
        CALL(syslog, DEATH, 0),
    };
    assert_all_refused(SANDBOX_SOFTHSM, attempts, COUNT_OF(attempts));
    assert_all_refused(SANDBOX_MODULE, attempts, COUNT_OF(attempts));
}

static void what_reaches_beyond_the_process_is_refused(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    const struct attempt attempts[] = {
        CALL(kill, 0, bystander, 0),
        CALL(kill, 0, bystander, SIGTERM),
        CALL(tkill, 0, bystander, SIGTERM),
        CALL(tgkill, 0, bystander, bystander, SIGTERM),
        CALL(rt_sigqueueinfo, 0, bystander, SIGTERM, AT(page)),
        CALL(rt_tgsigqueueinfo, 0, bystander, bystander, SIGTERM, AT(page)),
        CALL(prlimit64, 0, 0, RLIMIT_CORE, AT(&unlimited), 0),
        CALL(prlimit64, 0, bystander, RLIMIT_CORE, AT(&unlimited), 0),
        CALL(setrlimit, 0, RLIMIT_CORE, AT(&unlimited)),
        CALL(setpriority, 0, PRIO_PROCESS, bystander, 0),
        CALL(prctl, 0, PR_SET_DUMPABLE, 1),
        CALL(prctl, 0, PR_SET_PDEATHSIG, 0),
        CALL(prctl, 0, PR_SET_SECCOMP, 0),
        CALL(prctl, 0, PR_SET_MM, 0),
        CALL(seccomp, 0, 0),
        CALL(clone, 0, SIGCHLD),
        CALL(clone, 0, CLONE_VM | CLONE_VFORK | SIGCHLD),
        CALL(clone, 0, THREAD | CLONE_NEWNET),
        CALL(clone, 0, THREAD | CLONE_NEWUSER),
        CALL(clone, 0, THREAD | CLONE_UNTRACED),
        CALL(fork, 0, 0),
        CALL(vfork, 0, 0),
        CALL(mknodat, 0, AT_FDCWD, AT("/tmp/x"), S_IFIFO | 0600, 0),
        CALL(symlinkat, 0, AT("x"), AT_FDCWD, AT("/tmp/x")),
        CALL(linkat, 0, AT_FDCWD, AT("/etc/passwd"), AT_FDCWD, AT("/tmp/x"), 0),
        CALL(copy_file_range, 0, -1, 0, -1, 0, 1, 0),
        CALL(splice, 0, -1, 0, -1, 0, 1, 0),
        CALL(timer_create, 0, 0),
        CALL(sched_setscheduler, 0, 0),
        CALL(inotify_init1, 0, 0),
    };
    assert_all_refused(SANDBOX_SOFTHSM, attempts, COUNT_OF(attempts));
    assert_all_refused(SANDBOX_MODULE, attempts, COUNT_OF(attempts));
    const struct attempt narrow[] = {
        CALL(clone, 0, THREAD | CLONE_SYSVSEM | CLONE_SETTLS),
        CALL(socket, 0, AF_UNIX, SOCK_STREAM, 0),
        CALL(socket, 0, AF_INET, SOCK_STREAM, 0),
        CALL(socket, 0, AF_INET6, SOCK_DGRAM, 0),
        CALL(socket, 0, AF_NETLINK, SOCK_RAW, 0),
        CALL(socketpair, 0, AF_UNIX, SOCK_STREAM, 0, AT(page)),
        CALL(connect, 0, fds[0], AT(&address), sizeof(address)),
        CALL(bind, 0, fds[0], AT(&address), sizeof(address)),
        CALL(listen, 0, fds[0], 1),
        CALL(setsockopt, 0, fds[0], SOL_SOCKET, SO_REUSEADDR, AT(page), 4),
        CALL(sendmsg, 0, fds[0], AT(page), 0),            /* no descriptor leaves */
        CALL(recvmsg, 0, fds[0], AT(page), MSG_DONTWAIT), /* and none comes */
        CALL(fcntl, 0, fds[0], F_SETOWN, bystander),
        CALL(fcntl, 0, fds[0], F_SETSIG, SIGTERM),
        CALL(fcntl, 0, fds[0], F_SETLEASE, F_RDLCK),
        CALL(ioctl, 0, 0, TIOCSTI, AT("x")),
        CALL(ioctl, 0, fds[0], FIOASYNC, AT(page)),
        CALL(mmap, 0, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        CALL(mmap, 0, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        CALL(mprotect, 0, AT(page), sizeof(page), PROT_READ | PROT_EXEC),
        CALL(pkey_mprotect, 0, AT(page), sizeof(page), PROT_READ | PROT_EXEC, -1),
        CALL(remap_file_pages, 0, AT(page), sizeof(page), 0, 0, 0),
        CALL(shmat, 0, 0, 0, SHM_EXEC),
        CALL(dup2, 0, fds[0], 0),
        CALL(munlock, 0, AT(page), sizeof(page)),
        CALL(munlockall, 0, 0),
    };
    assert_all_refused(SANDBOX_SOFTHSM, narrow, COUNT_OF(narrow));
    fd_closep(&fds[0]);
    fd_closep(&fds[1]);
}

static void a_module_gets_no_writable_code_raw_sockets_or_typing(void **state)
{
    (void)state;
    const long high = (long)0xdeadbeef00000000ul; /* of an argument of which the kernel sees 32 bits */
    const struct attempt attempts[] = {
        CALL(mmap, 0, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        CALL(mprotect, 0, AT(page), sizeof(page), PROT_WRITE | PROT_EXEC),
        CALL(pkey_mprotect, 0, AT(page), sizeof(page), PROT_READ | PROT_EXEC, -1),
        CALL(ioctl, 0, 0, TIOCSTI, AT("x")),
        CALL(ioctl, 0, 0, high | TIOCSTI, AT("x")),
        CALL(ioctl, 0, 0, high | TIOCLINUX, AT(page)),
        CALL(socket, 0, AF_PACKET, SOCK_RAW, 0),
        CALL(socket, 0, AF_ALG, SOCK_SEQPACKET, 0),
        CALL(socket, 0, AF_VSOCK, SOCK_STREAM, 0),
        CALL(bind, 0, 0, AT(&address), sizeof(address)),
        CALL(listen, 0, 0, 1),
    };
    assert_all_refused(SANDBOX_MODULE, attempts, COUNT_OF(attempts));
}

static int clone3_is_unknown(void)
{
    return refused(syscall(SYS_clone3, &thread_args, sizeof(thread_args)), ENOSYS);
}

/* Its flags are in memory where no filter sees them. */
static void threads_of_the_newer_kind_are_not_there(void **state)
{
    (void)state;
    assert_int_equal(inside(SANDBOX_SOFTHSM, clone3_is_unknown), 0);
    assert_int_equal(inside(SANDBOX_MODULE, clone3_is_unknown), 0);
}

static int aborts(void)
{
    abort();
}

/* A broken invariant ends the process by abort(), which signals its own thread. */
static void the_process_may_still_end_itself(void **state)
{
    (void)state;
    assert_int_equal(inside(SANDBOX_SOFTHSM, aborts), 128 + SIGABRT);
    assert_int_equal(inside(SANDBOX_MODULE, aborts), 128 + SIGABRT);
}

#ifdef __x86_64__
static int calls_by_the_32_bit_door(void)
{
    long rc = 20; /* getpid there, writev here */
    __asm__ volatile("int $0x80" : "+a"(rc) : : "memory", "r8", "r9", "r10", "r11");
    return 1;
}

static int calls_with_the_x32_bit(void)
{
    (void)syscall(0x40000000 | SYS_getpid);
    return 1;
}

static void the_other_numberings_of_calls_are_closed(void **state)
{
    (void)state;
    int got = inside(SANDBOX_SOFTHSM, calls_by_the_32_bit_door);
    assert_true(got == DEATH || got == 128 + SIGSEGV); /* a kernel without that door ends it, too */
    assert_int_equal(inside(SANDBOX_SOFTHSM, calls_with_the_x32_bit), DEATH);
    got = inside(SANDBOX_MODULE, calls_by_the_32_bit_door);
    assert_true(got == DEATH || got == 128 + SIGSEGV);
}

#define N(name) SYS_##name
/* What gets through with all arguments 0. */
static const long let_through[] = {
    N(read),
    N(readv),
    N(pread64),
    N(write),
    N(writev),
    N(pwrite64),
    N(lseek),
    N(close),
    N(fstat),
    N(newfstatat),
    N(stat),
    N(lstat),
    N(statx),
    N(open),
    N(openat),
    N(fcntl),
    N(flock),
    N(ftruncate),
    N(fsync),
    N(fdatasync),
    N(getdents64),
    N(rename),
    N(renameat),
    N(renameat2),
    N(unlink),
    N(unlinkat),
    N(mkdir),
    N(mkdirat),
    N(rmdir),
    N(access),
    N(faccessat),
    N(faccessat2),
    N(readlink),
    N(readlinkat),
    N(getcwd),
    N(umask),
    N(fstatfs),
    N(accept4),
    N(recvfrom),
    N(sendto),
    N(shutdown),
    N(getsockopt),
    N(poll),
    N(ppoll),
    N(mmap),
    N(mprotect),
    N(munmap),
    N(mremap),
    N(madvise),
    N(brk),
    N(mlock),
    N(mlock2),
    N(membarrier),
    N(futex),
    N(set_robust_list),
    N(rseq),
    N(sched_yield),
    N(sched_getaffinity),
    N(gettid),
    N(getpid),
    N(exit),
    N(exit_group),
    N(restart_syscall),
    N(rt_sigaction),
    N(rt_sigprocmask),
    N(rt_sigreturn),
    N(sigaltstack),
    N(clock_gettime),
    N(clock_getres),
    N(clock_nanosleep),
    N(nanosleep),
    N(gettimeofday),
    N(time),
    N(getrusage),
    N(getrandom),
    N(getuid),
    N(geteuid),
    N(getgid),
    N(getegid),
    N(getppid),
    N(uname),
    N(sysinfo),
    N(prlimit64),
};
static const long let_through_module[] = {
    N(connect),    N(getsockname), N(getpeername), N(setsockopt), N(sendmsg),     N(recvmsg),   N(sendmmsg),
    N(recvmmsg),   N(select),      N(pselect6),    N(epoll_wait), N(epoll_pwait), N(epoll_ctl), N(epoll_create1),
    N(eventfd2),   N(pipe),        N(pipe2),       N(dup),        N(dup2),        N(dup3),      N(ioctl),
    N(shmget),     N(shmat),       N(shmdt),       N(shmctl),     N(semget),      N(semop),     N(semctl),
    N(semtimedop), N(chmod),       N(fchmod),      N(getgroups),  N(munlock),
};
/* Kernels let no filter see these: return points of probes that they plant themselves, deadly from anywhere else. */
static const long never_filtered[] = { 335, 336 };
static bool through[512];

static int knocks_at_every_other_door(void)
{
    int wrong = 0;
    for (long number = 0; number < (long)COUNT_OF(through); number++) {
        if (!through[number]) {
            int rc = refused(syscall(number, 0, 0, 0, 0, 0, 0), number == SYS_clone3 ? ENOSYS : EPERM);
            wrong += rc != 0;
            if (rc != 0) {
                (void)dprintf(2, "call %ld: %s\n", number, rc == 1 ? "let through" : strerrorname_np(errno));
            }
        }
    }
    return wrong > 0;
}

/* The deadly ones first find their end one by one; then all the rest in one child. */
static void nothing_but_the_list_gets_through(void **state)
{
    (void)state;
    for (int profile = SANDBOX_SOFTHSM; profile <= SANDBOX_MODULE; profile++) {
        memset(through, 0, sizeof(through));
        for (size_t i = 0; i < COUNT_OF(let_through); i++) {
            through[let_through[i]] = true;
        }
        for (size_t i = 0; profile == SANDBOX_MODULE && i < COUNT_OF(let_through_module); i++) {
            through[let_through_module[i]] = true;
        }
        for (size_t i = 0; i < COUNT_OF(never_filtered); i++) {
            through[never_filtered[i]] = true;
        }
        unsigned deaths = 0;
        for (long number = 0; number < (long)COUNT_OF(through); number++) {
            const struct attempt attempt = { "", number, { 0 }, 0 };
            trying = &attempt;
            if (!through[number] && number != SYS_clone3 && inside((enum sandbox_profile)profile, try_it) == DEATH) {
                through[number] = true;
                deaths++;
            }
        }
        assert_true(deaths >= 60);
        assert_int_equal(inside((enum sandbox_profile)profile, knocks_at_every_other_door), 0);
    }
}
#endif

static int group_setup(void **state)
{
    bystander = fork();
    if (bystander == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            (void)pause();
        }
    }
    return setup(state);
}

static int group_teardown(void **state)
{
    assert_int_equal(kill(bystander, SIGKILL), 0);
    assert_int_equal(result_of(bystander), 128 + SIGKILL); /* nobody else ended it */
    return teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taking_the_process_over_ends_it),
        cmocka_unit_test(what_reaches_beyond_the_process_is_refused),
        cmocka_unit_test(a_module_gets_no_writable_code_raw_sockets_or_typing),
        cmocka_unit_test(threads_of_the_newer_kind_are_not_there),
        cmocka_unit_test(the_process_may_still_end_itself),
#ifdef __x86_64__
        cmocka_unit_test(the_other_numberings_of_calls_are_closed),
        cmocka_unit_test(nothing_but_the_list_gets_through),
#endif
    };
    return cmocka_run_group_tests_name("sandbox_calls", tests, group_setup, group_teardown);
}
