#include "appliance/stores/confine_internal.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CAPABILITIES_MAX 64

#define LOCKED                                                                                        \
    (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | \
     SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

static bool set_capabilities(uint64_t effective, uint64_t permitted, uint64_t inheritable)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    for (size_t i = 0; i < 2; i++) {
        data[i].effective = (uint32_t)(effective >> (32 * i));
        data[i].permitted = (uint32_t)(permitted >> (32 * i));
        data[i].inheritable = (uint32_t)(inheritable >> (32 * i));
    }
    return syscall(SYS_capset, &header, data) == 0;
}

static bool get_permitted(uint64_t *ret_permitted)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) != 0) {
        return false;
    }
    *ret_permitted = data[0].permitted | ((uint64_t)data[1].permitted << 32);
    return true;
}

/* The kernel knows fewer than 64; it says EINVAL at the first that it does not know. */
static bool drop_bounding(uint64_t keep)
{
    for (unsigned long i = 0; i < CAPABILITIES_MAX; i++) {
        int has = prctl(PR_CAPBSET_READ, i, 0, 0, 0);
        if (has < 0) {
            return errno == EINVAL && i > 0;
        }
        if (has > 0 && (keep >> i & 1) == 0 && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) != 0) {
            return false;
        }
    }
    return true;
}

static bool raise_ambient(uint64_t keep)
{
    for (unsigned long i = 0; i < CAPABILITIES_MAX; i++) {
        if ((keep >> i & 1) != 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0) != 0) {
            return false;
        }
    }
    return true;
}

static bool become(uid_t uid, gid_t gid)
{
    return setgroups(0, NULL) == 0 && setresgid(gid, gid, gid) == 0 && setresuid(uid, uid, uid) == 0;
}

/* Through the change of user, and by way of the ambient set through exec. What locks the securebits is given up last.
 */
static bool become_keeping(uid_t uid, gid_t gid, uint64_t keep)
{
    const uint64_t locker = UINT64_C(1) << CAP_SETPCAP;
    return prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && become(uid, gid) &&
           set_capabilities(keep | locker, keep | locker, keep) && raise_ambient(keep) &&
           prctl(PR_SET_SECUREBITS, LOCKED, 0, 0, 0) == 0 && set_capabilities(keep, keep, keep);
}

/* No way back: saved ids change too, and no_new_privs outlives every exec. */
bool rights_drop(uid_t uid, gid_t gid, uint64_t keep, bool must)
{
    if (getuid() == uid && geteuid() == uid && getgid() == gid && uid != 0) {
        return true;
    }
    bool bounded = drop_bounding(keep);
    if (keep != 0) {
        return bounded && become_keeping(uid, gid, keep);
    }
    bool locked = prctl(PR_SET_SECUREBITS, LOCKED, 0, 0, 0) == 0;
    if (must && (!bounded || !locked)) {
        return false;
    }
    return become(uid, gid);
}

bool rights_keep(uint64_t keep)
{
    uint64_t permitted = 0;
    if (!get_permitted(&permitted)) {
        return false;
    }
    keep &= permitted;
    return drop_bounding(keep) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 &&
           set_capabilities(keep, keep, 0);
}
