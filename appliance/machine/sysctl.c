#include "appliance/machine/sysctl.h"

#include "appliance/base/file.h"

#include <fcntl.h>
#include <unistd.h>

static const struct {
    const char *path, *value;
} HARDENED[] = {
    { "/proc/sys/kernel/printk", "3 3 1 3" }, /* the console is the operator's */
    { "/proc/sys/kernel/panic", "10" },
    { "/proc/sys/kernel/panic_on_oops", "1" },
    { "/proc/sys/kernel/sysrq", "0" },
    { "/proc/sys/kernel/core_pattern", "|/nonexistent" },
    { "/proc/sys/kernel/kptr_restrict", "2" },
    { "/proc/sys/kernel/dmesg_restrict", "1" },
    { "/proc/sys/kernel/perf_event_paranoid", "3" },
    { "/proc/sys/kernel/yama/ptrace_scope", "2" },
    { "/proc/sys/kernel/unprivileged_bpf_disabled", "1" },
    { "/proc/sys/kernel/kexec_load_disabled", "1" },
    { "/proc/sys/kernel/io_uring_disabled", "2" },
    { "/proc/sys/dev/tty/ldisc_autoload", "0" },
    { "/proc/sys/user/max_user_namespaces", "0" },
    { "/proc/sys/vm/unprivileged_userfaultfd", "0" },
    { "/proc/sys/vm/mmap_rnd_bits", "32" },
    { "/proc/sys/fs/suid_dumpable", "0" },
    { "/proc/sys/fs/protected_symlinks", "1" },
    { "/proc/sys/fs/protected_hardlinks", "1" },
    { "/proc/sys/fs/protected_fifos", "2" },
    { "/proc/sys/fs/protected_regular", "2" },
    { "/proc/sys/net/core/bpf_jit_harden", "2" },
    { "/proc/sys/net/ipv4/ip_forward", "0" },
    { "/proc/sys/net/ipv4/tcp_syncookies", "1" },
    { "/proc/sys/net/ipv4/tcp_rfc1337", "1" },
    { "/proc/sys/net/ipv4/conf/all/rp_filter", "1" },
    { "/proc/sys/net/ipv4/conf/default/rp_filter", "1" },
    { "/proc/sys/net/ipv4/conf/all/arp_ignore", "1" },
    { "/proc/sys/net/ipv4/conf/all/arp_announce", "2" },
    { "/proc/sys/net/ipv4/icmp_echo_ignore_broadcasts", "1" },
    { "/proc/sys/net/ipv6/conf/all/forwarding", "0" },
};

void sysctl_put(const char *path, const char *value)
{
    CLEANUP(fd_closep) int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t put = write(fd, value, strlen(value));
        (void)put; /* a kernel that does not take it keeps its own */
    }
}

void sysctl_harden(void)
{
    for (size_t i = 0; i < COUNT_OF(HARDENED); i++) {
        sysctl_put(HARDENED[i].path, HARDENED[i].value);
    }
}
