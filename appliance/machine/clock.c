#include "appliance/machine/clock.h"

#include "appliance/base/file.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/process.h"

#include <sys/timex.h>
#include <unistd.h>

#define CHRONY_USER "_chrony"
#define CHRONY_CONF MACHINE_RUN_DIR "/chrony.conf"
#define CHRONY_RUN  "/run/chrony"
#define CHRONY_DATA STATE_DIR "/chrony"
#define HOST_CLOCK  "/dev/ptp0"
#define CONF_MAX    16384
#define STEP_LIMIT  "1.0 3" /* larger than a second: within the first three updates only */

struct fault clock_print(const struct provision *provision, bool host_clock, struct buf *out)
{
    for (size_t i = 0; i < provision->time.servers.count; i++) {
        TRY(buf_printf(out, "server %s iburst\n", provision->time.servers.at[i]));
    }
    if (host_clock) {
        TRY(buf_text(out, "refclock PHC " HOST_CLOCK " poll 3 dpoll -2 offset 0 stratum 2\n"));
    }
    return buf_text(out, "driftfile " CHRONY_DATA "/drift\n"
                         "makestep " STEP_LIMIT "\n"
                         "rtcsync\n"
                         "cmdport 0\n"
                         "port 0\n"
                         "bindcmdaddress /\n"
                         "pidfile " CHRONY_RUN "/chronyd.pid\n");
}

static bool has_host_clock(const struct provision *provision)
{
    return provision->time.trust_host && access(HOST_CLOCK, F_OK) == 0;
}

bool clock_wants_chrony(const char *source, const struct provision *provision)
{
    return strcmp(source, "ntp") == 0 || has_host_clock(provision);
}

struct fault clock_prepare(struct op *op, const struct provision *provision, const char **ret_source)
{
    bool host_clock = has_host_clock(provision);
    if (provision->time.servers.count == 0 && !host_clock) {
        *ret_source = provision->time.trust_host ? "host" : "none";
        return OK;
    }
    CLEANUP(buf_free) struct buf text = BUF_INIT(CONF_MAX);
    TRY(clock_print(provision, host_clock, &text));
    TRY(folder_own(op, CHRONY_RUN, CHRONY_USER, NULL, 0750));
    TRY(folder_own(op, CHRONY_DATA, CHRONY_USER, NULL, 0750));
    TRY(file_write(CHRONY_CONF, buf_span(&text), 0644));
    *ret_source = provision->time.servers.count > 0 ? "ntp" : "host";
    return OK;
}

struct fault clock_start(struct op *op, pid_t *ret_pid)
{
    /* It starts as root, keeps the right to set the clock, and becomes its user by itself. */
    const char *const argv[] = { "/usr/sbin/chronyd", "-d", "-F", "1", "-u", CHRONY_USER, "-f", CHRONY_CONF, NULL };
    return process_spawn(op, &(struct process_spec){ .argv = argv }, ret_pid);
}

bool clock_synchronised(void)
{
    struct timex state = { 0 };
    int told = adjtimex(&state);
    return told >= 0 && told != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
}
