#include "appliance/machine/console.h"

#include "appliance/base/file.h"
#include "appliance/machine/console_session.h"
#include "appliance/machine/provision_store.h"
#include "appliance/stores/process.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define ACTIVE_FILE "/sys/class/tty/console/active"
#define LOOK_MS     1000 /* between two looks at the status */
#define GATHER_MS   10000
#define SCREEN_MAX  ((size_t)16 << 10)

struct fault console_start(struct op *op, pid_t *ret_pid)
{
    const char *const argv[] = { MACHINE_PROGRAM, "console", NULL };
    return process_spawn(op, &(struct process_spec){ .argv = argv, .death_signal = SIGTERM }, ret_pid);
}

void console_load_provision(struct console *console)
{
    CLEANUP(op_freep) struct op *op = NULL;
    if (console->has_provision || FAULTED(op_new("console", (struct tenant_id){ 0 }, GATHER_MS, &op)) ||
        FAULTED(provision_load(op, PROVISION_FILE, &console->provision))) {
        return;
    }
    console->has_provision = true;
    console->kept = TAKE(op);
}

void console_show_status(struct console *console, struct terminal *terminal)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf screen = BUF_INIT(SCREEN_MAX);
    struct console_view view;
    struct sha256 digest;
    if (FAULTED(op_new("console", (struct tenant_id){ 0 }, GATHER_MS, &op))) {
        return;
    }
    console_view_gather(op, console->has_provision ? &console->provision : NULL, &view);
    if (FAULTED(console_view_print(&view, &screen)) || FAULTED(sha256_of(buf_span(&screen), &digest))) {
        return;
    }
    if (terminal != NULL) {
        terminal_put(terminal, buf_span(&screen));
    } else if (memcmp(digest.at, console->shown.at, sizeof(digest.at)) != 0) {
        console->shown = digest;
        terminals_put(&console->terminals, buf_span(&screen));
    }
}

/* ---- the loop ---- */

static const char *prompt_of(const struct console *console)
{
    return console->phase == PHASE_LOCKED ? "PIN or recovery key, not shown: " : "svc> ";
}

static void prompt(struct console *console, struct terminal *terminal)
{
    terminal_set_echo(terminal, console->phase == PHASE_LOCKED ? TERMINAL_SILENT : TERMINAL_ECHO);
    terminal_prompt(terminal, prompt_of(console));
}

static void prompt_all(struct console *console)
{
    for (size_t i = 0; i < console->terminals.count; i++) {
        prompt(console, &console->terminals.at[i]);
    }
}

static void take_typed(struct console *console, struct terminal *terminal)
{
    char line[TERMINAL_LINE_MAX + 1];
    enum line_kind kind = terminal_line(terminal, line);
    if (kind == LINE_NONE) {
        return;
    }
    if (kind == LINE_REFUSED) {
        terminal_say(terminal, "that line is too long or not text");
    } else {
        console_take_line(console, terminal, line);
    }
    secret_wipe(line, sizeof(line));
    prompt(console, terminal);
}

/* What of the status a person would want to see again at once when it changes: a cheap look at every turn. */
struct glance {
    enum machine_phase phase;
    bool seal_has_pin;
    char text[512];
};

static bool glance(struct glance *ret_glance)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct status status = { 0 };
    if (FAULTED(op_new("console", (struct tenant_id){ 0 }, GATHER_MS, &op)) ||
        FAULTED(status_read(op, STATUS_FILE, &status))) {
        return false;
    }
    memset(ret_glance, 0, sizeof(*ret_glance));
    ret_glance->phase = status.phase;
    ret_glance->seal_has_pin = status.seal != NULL && strstr(status.seal, "pin") != NULL; /* "pin", "tpm2+pin" */
    (void)snprintf(ret_glance->text, sizeof(ret_glance->text), "%lld %lld %zu %d %s|%s|%s|%s|%s",
                   (long long)status.service_pid, (long long)status.service_restarts, status.address_count,
                   status.time_synchronised, status.seal, status.hostname, status.failure, status.refusal,
                   status.updated);
    return true;
}

/* One look at the machine, and what follows from it. */
static void look(struct console *console, struct glance *last)
{
    struct glance seen;
    if (!glance(&seen)) {
        return;
    }
    bool changed = seen.phase != last->phase || strcmp(seen.text, last->text) != 0; /* which names the seal, too */
    console->phase = seen.phase;
    console->seal_has_pin = seen.seal_has_pin;
    if (seen.phase >= PHASE_OPENING && seen.phase != PHASE_STOPPING) {
        console_load_provision(console);
        console_keep_new_pin(console);
        console_show_recovery(console);
    }
    if (!changed) {
        return;
    }
    *last = seen;
    console_show_status(console, NULL);
    if (seen.phase == PHASE_READY) {
        console_hand_over(console);
    }
    prompt_all(console);
}

int console_main(void)
{
    struct console console = { .phase = PHASE_STARTING };
    struct glance last = { .phase = PHASE_STARTING };
    CLEANUP(buf_free) struct buf active = BUF_INIT(256);
    process_undumpable();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)file_read(ACTIVE_FILE, &active).code; /* without it: /dev/console */
    terminals_open(buf_span(&active), &console.terminals);
    mono_ns next = 0;
    while (true) {
        if (clock_mono() >= next) {
            look(&console, &last);
            next = clock_mono() + LOOK_MS * NS_PER_MS;
        }
        terminals_wait(&console.terminals, clock_ms_left(next));
        for (size_t i = 0; i < console.terminals.count; i++) {
            take_typed(&console, &console.terminals.at[i]);
        }
    }
}
