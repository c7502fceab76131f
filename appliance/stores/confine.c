#include "appliance/stores/confine.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/stores/confine_internal.h"

#include <errno.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned available; /* set once, before anything is started */

static const struct {
    enum confine_part part;
    const char *name;
} parts[] = {
    { CONFINE_RIGHTS, "bounding set of capabilities" },
    { CONFINE_VIEW, "mount namespace" },
    { CONFINE_FILES, "Landlock" },
    { CONFINE_NETWORK, "network namespace" },
    { CONFINE_IPC, "IPC namespace" },
};

unsigned confine_available(void)
{
    return available;
}

void confine_allow(unsigned as_if)
{
    available = as_if;
}

struct fault confine_text(unsigned which, struct buf *out)
{
    const char *between = "";
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if ((which & parts[i].part) != 0) {
            TRY(buf_printf(out, "%s%s", between, parts[i].name));
            between = ", ";
        }
    }
    return OK;
}

/* ---- what there is ---- */

/* Each part for itself and in a process of its own: none is undone by another. */
static bool try_part(enum confine_part part)
{
    static const char *const nothing[] = { NULL };
    const struct confine confine = { .write = nothing, .flags = CONFINE_NO_NETWORK | CONFINE_OWN_IPC };
    switch (part) {
    case CONFINE_RIGHTS:
        return rights_drop(65534, 65534, 0, true);
    case CONFINE_FILES:
        return files_abi() > 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && files_enter(&confine);
    case CONFINE_VIEW:
    case CONFINE_NETWORK:
    case CONFINE_IPC:
        return view_enter(&confine, part);
    }
    return false;
}

static bool there_is(enum confine_part part)
{
    pid_t pid = fork();
    if (pid == 0) {
        _exit(try_part(part) ? 0 : 1);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct fault confine_establish(struct op *op, bool required, unsigned *ret_missing)
{
    available = 0;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        available |= there_is(parts[i].part) ? (unsigned)parts[i].part : 0u;
    }
    unsigned missing = CONFINE_ALL & ~available;
    if (required && missing != 0) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(256);
        const char *names = "";
        TRY(confine_text(missing, &text));
        TRY(buf_cstr(&text, &names));
        return op_fail(op, FAULT(CONFIG), "hardening.required: this machine does not allow: %s", names);
    }
    *ret_missing = missing;
    return OK;
}

/* ---- ourselves ---- */

static struct fault filter_here(enum call_kind kind)
{
    CLEANUP(call_filter_clear) struct call_filter filter = { 0 };
    TRY(call_filter_make(kind, &filter));
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && call_filter_enter(&filter), INTERNAL);
    return OK;
}

struct fault confine_self(struct op *op, uint64_t keep)
{
    struct fault filtered = filter_here(CALLS_SUPERVISOR);
    if (FAULTED(filtered)) {
        return op_fail(op, filtered, "cannot enter the system call filter: %s", strerrordesc_np(errno));
    }
    if ((available & CONFINE_RIGHTS) != 0 && !rights_keep(keep)) {
        return op_fail(op, FAULT(IO), "cannot give up capabilities: %s", strerrordesc_np(errno));
    }
    return OK;
}

struct fault confine_serving(struct buf *why)
{
    struct fault filtered = filter_here(CALLS_SERVING);
    if (FAULTED(filtered)) {
        IGNORE(buf_printf(why, "cannot enter the system call filter: %s", strerrordesc_np(errno)));
    }
    return filtered;
}
