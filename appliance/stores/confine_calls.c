#include "appliance/base/alloc.h"
#include "appliance/stores/confine_internal.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILTER_MAX ((size_t)64 << 10)
#define LOW        ((uint64_t)UINT32_MAX) /* of a 32-bit argument; the kernel does not look at the rest */

/* Which of calls.def a kind may use all the same. */
enum group {
#define CALLS(group, who) GROUP_##group,
#define CALL(group, name)
#include "appliance/stores/calls.def"
#undef CALLS
#undef CALL
};

static const struct {
    enum group group;
    int number;
} refused[] = {
#define CALLS(group, who)
#define CALL(group, name) { GROUP_##group, SCMP_SYS(name) },
#include "appliance/stores/calls.def"
#undef CALLS
#undef CALL
};

static bool is_exempt(enum call_kind kind, size_t i)
{
    return (kind == CALLS_CLOCK && refused[i].group == GROUP_clock) ||
           (kind == CALLS_SUPERVISOR && refused[i].group == GROUP_mounts);
}

/* Refused when this holds for its argument: equal to `value`, of the bits in `mask`. */
static int refuse_when(scmp_filter_ctx filter, int call, unsigned argument, uint64_t mask, uint64_t value)
{
    const struct scmp_arg_cmp compare = {
        .arg = argument, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value
    };
    return seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), call, 1, &compare);
}

/* Any of the bits, each by a rule of its own. */
static int refuse_bits(scmp_filter_ctx filter, int call, unsigned argument, uint64_t bits)
{
    int rc = 0;
    for (uint64_t bit = 1; bit != 0 && bit <= bits && rc == 0; bit <<= 1) {
        rc = (bits & bit) != 0 ? refuse_when(filter, call, argument, bit, bit) : 0;
    }
    return rc;
}

#define NEW_NAMESPACES                                                                                       \
    ((uint64_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
                CLONE_NEWNET))
#define OTHERS_RIGHTS ((uint64_t)(S_ISUID | S_ISGID))

/* Sockets of these families only: a netlink socket is how the C library looks for the host's addresses. */
static int refuse_families(scmp_filter_ctx filter)
{
    static const int families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
    int rc = 0;
    for (int family = 0; family < AF_MAX && rc == 0; family++) {
        bool fine = false;
        for (size_t i = 0; i < COUNT_OF(families); i++) {
            fine = fine || family == families[i];
        }
        rc = fine ? 0 : refuse_when(filter, SCMP_SYS(socket), 0, LOW, (uint64_t)family);
    }
    /* Multipath TCP connects where Landlock's rules for TCP do not look; whoever asks falls back to TCP. */
    rc = rc != 0 ? rc : refuse_when(filter, SCMP_SYS(socket), 2, LOW, IPPROTO_MPTCP);
    const struct scmp_arg_cmp beyond = { .arg = 0, .op = SCMP_CMP_GE, .datum_a = AF_MAX };
    return rc != 0 ? rc : seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1, &beyond);
}

/* Namespaces by another call, keystrokes into a terminal, and files that lend their owner's rights. */
static int refuse_arguments(scmp_filter_ctx filter)
{
    static const int typing[] = { TIOCSTI, TIOCLINUX };
    int rc = refuse_bits(filter, SCMP_SYS(clone), 0, NEW_NAMESPACES);
    /* Its flags are in memory where no filter sees them; C libraries fall back to clone. */
    rc = rc != 0 ? rc : seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0, NULL);
    for (size_t i = 0; i < COUNT_OF(typing) && rc == 0; i++) {
        rc = refuse_when(filter, SCMP_SYS(ioctl), 1, LOW, (uint64_t)typing[i]);
    }
    rc = rc != 0 ? rc : refuse_bits(filter, SCMP_SYS(chmod), 1, OTHERS_RIGHTS);
    rc = rc != 0 ? rc : refuse_bits(filter, SCMP_SYS(fchmod), 1, OTHERS_RIGHTS);
    rc = rc != 0 ? rc : refuse_bits(filter, SCMP_SYS(fchmodat), 2, OTHERS_RIGHTS);
    rc = rc != 0 ? rc : refuse_bits(filter, SCMP_SYS(fchmodat2), 2, OTHERS_RIGHTS);
    return rc != 0 ? rc : refuse_families(filter);
}

static int refuse_new_code(scmp_filter_ctx filter)
{
    const uint64_t both = PROT_WRITE | PROT_EXEC;
    int rc = refuse_when(filter, SCMP_SYS(mmap), 2, both, both);
    /* A file of memory is written first, and mapped or executed as code then; no path rule sees it. */
    rc = rc != 0 ? rc : seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(memfd_create), 0, NULL);
    rc = rc != 0 ? rc : refuse_when(filter, SCMP_SYS(mprotect), 2, PROT_EXEC, PROT_EXEC);
    rc = rc != 0 ? rc : refuse_when(filter, SCMP_SYS(pkey_mprotect), 2, PROT_EXEC, PROT_EXEC);
    return rc != 0 ? rc : refuse_when(filter, SCMP_SYS(shmat), 2, SHM_EXEC, SHM_EXEC);
}

/* Threads are clones that share everything; a clone without CLONE_THREAD is a process. */
static int refuse_programs(scmp_filter_ctx filter)
{
    static const int calls[] = { SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork) };
    int rc = 0;
    for (size_t i = 0; i < COUNT_OF(calls) && rc == 0; i++) {
        rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), calls[i], 0, NULL);
    }
    return rc != 0 ? rc : refuse_when(filter, SCMP_SYS(clone), 0, CLONE_THREAD, 0);
}

static int build(scmp_filter_ctx filter, enum call_kind kind)
{
    int rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    rc = rc != 0 ? rc : seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
    for (size_t i = 0; i < COUNT_OF(refused) && rc == 0; i++) {
        rc = is_exempt(kind, i) ? 0 : seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), refused[i].number, 0, NULL);
    }
    if (kind == CALLS_SUPERVISOR) {
        return rc;
    }
    rc = rc != 0 ? rc : refuse_arguments(filter);
    if (kind == CALLS_SAME_CODE || kind == CALLS_SERVING) {
        rc = rc != 0 ? rc : refuse_new_code(filter);
    }
    return rc == 0 && kind == CALLS_SERVING ? refuse_programs(filter) : rc;
}

static struct fault export(scmp_filter_ctx filter, struct call_filter *ret_filter)
{
    CLEANUP(call_filter_clear) struct call_filter made = { .len = FILTER_MAX };
    TRY(mem_new(FILTER_MAX, 1, (void *)&made.code));
    REQUIRE(seccomp_export_bpf_mem(filter, made.code, &made.len) == 0, INTERNAL);
    *ret_filter = made;
    made.code = NULL;
    return OK;
}

struct fault call_filter_make(enum call_kind kind, struct call_filter *ret_filter)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    REQUIRE(filter != NULL, NO_MEMORY);
    struct fault made = build(filter, kind) == 0 ? export(filter, ret_filter) : FAULT(INTERNAL);
    seccomp_release(filter);
    return made;
}

void call_filter_clear(struct call_filter *filter)
{
    mem_free(TAKE(filter->code));
}

bool call_filter_enter(const struct call_filter *filter)
{
    struct sock_fprog program = {
        .len = (unsigned short)(filter->len / sizeof(struct sock_filter)),
        .filter = filter->code,
    };
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}
