#include "appliance/machine/service.h"

#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/base/log.h"
#include "appliance/machine/clock.h"
#include "appliance/machine/console.h"
#include "appliance/machine/update.h"
#include "appliance/stores/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACKOFF_FIRST_MS 500
#define BACKOFF_MOST_MS  60000
#define STABLE_NS        (60 * NS_PER_S)
#define START_MS         10000
#define STOP_POLL_MS     100
#define KILL_MS          5000
#define COMMIT_MS        60000
#define COMMIT_AGAIN_NS  (60 * NS_PER_S)
#define STATE_FILE       PRODUCT_RUN_DIR "/state.json"
#define STATE_MAX        8192
#define WORDS_TAIL       4096
#define CODE_SIGNAL      128 /* and the signal's number */
#define FAILURES_TOLD    2   /* quick ends in a row after which the cause is shown */

int service_backoff_ms(unsigned quick)
{
    int ms = BACKOFF_FIRST_MS;
    for (unsigned i = 1; i < quick && ms < BACKOFF_MOST_MS; i++) {
        ms *= 2;
    }
    return ms < BACKOFF_MOST_MS ? ms : BACKOFF_MOST_MS;
}

static struct fault service_start(struct op *op, pid_t *ret_pid)
{
    const char *const argv[] = { APPLIANCE_PROGRAM, "run", "--config", PRODUCT_CONFIG, NULL };
    (void)unlink(STATE_FILE); /* of an earlier run */
    return process_spawn(op, &(struct process_spec){ .argv = argv, .death_signal = SIGTERM }, ret_pid);
}

void keepers_setup(struct machine *machine)
{
    machine->keepers[KEEPER_CONSOLE] = (struct keeper){ .name = "console", .start = console_start, .last_code = -1 };
    machine->keepers[KEEPER_CHRONY] = (struct keeper){ .name = "chronyd", .start = clock_start, .last_code = -1 };
    machine->keepers[KEEPER_SERVICE] =
        (struct keeper){ .name = "svc-appliance", .start = service_start, .last_code = -1 };
}

static void keeper_start(struct machine *machine, struct keeper *keeper)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault started = op_new("machine", (struct tenant_id){ 0 }, START_MS, &op);
    keeper->started = clock_mono();
    if (!FAULTED(started)) {
        started = keeper->start(op, &keeper->pid);
    }
    if (FAULTED(started)) {
        keeper->quick++;
        keeper->next = clock_mono() + service_backoff_ms(keeper->quick) * NS_PER_MS;
        log_fault(LOG_LEVEL_ERROR, "start_failed", op, started);
    }
    machine_publish(machine);
}

void keeper_want(struct machine *machine, size_t keeper)
{
    machine->keepers[keeper].wanted = true;
    machine->keepers[keeper].quick = 0;
    machine->keepers[keeper].next = 0;
    keepers_tick(machine);
}

void keepers_tick(struct machine *machine)
{
    for (size_t i = 0; i < KEEPER_COUNT; i++) {
        struct keeper *keeper = &machine->keepers[i];
        if (keeper->wanted && keeper->pid == 0 && clock_mono() >= keeper->next) {
            keeper_start(machine, keeper);
        }
    }
}

/* ---- ends ---- */

void service_last_words(struct span log, char *out, size_t size)
{
    static const char mark[] = "svc-appliance: ";
    size_t at = 0, len = 0;
    for (size_t i = 0; i < log.len; i++) {
        bool line_start = i == 0 || log.at[i - 1] == '\n';
        if (line_start && log.len - i > sizeof(mark) - 1 && memcmp(log.at + i, mark, sizeof(mark) - 1) == 0) {
            at = i + sizeof(mark) - 1;
            const uint8_t *end = memchr(log.at + at, '\n', log.len - at);
            len = end != NULL ? (size_t)(end - log.at) - at : log.len - at;
        }
    }
    len = len < size - 1 ? len : size - 1;
    for (size_t i = 0; i < len; i++) {
        out[i] = log.at[at + i] >= 0x20 && log.at[at + i] < 0x7f ? (char)log.at[at + i] : '?';
    }
    out[len] = '\0';
}

static bool is_refusal(int code)
{
    return code == 2 || code == 3;
}

static void take_refusal(struct machine *machine, int code)
{
    CLEANUP(fd_closep) int fd = open(MACHINE_LOG_FILE, O_RDONLY | O_CLOEXEC);
    char tail[WORDS_TAIL];
    off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = end > WORDS_TAIL ? end - WORDS_TAIL : 0;
    ssize_t got = fd >= 0 ? pread(fd, tail, sizeof(tail), from) : 0;
    char words[FAILURE_MAX - 64];
    service_last_words(span_of(tail, got > 0 ? (size_t)got : 0), words, sizeof(words));
    char text[FAILURE_MAX];
    if (words[0] == '\0' || code >= CODE_SIGNAL) { /* who was killed said nothing about it */
        (void)snprintf(text, sizeof(text), is_refusal(code) ? "refused to start (code %d)" : "ended with code %d",
                       code);
    } else {
        (void)snprintf(text, sizeof(text), "%s%s", words, code == 3 ? " (self-test gate)" : "");
    }
    if (strcmp(text, machine->refusal) != 0) { /* once, not at every try */
        (void)snprintf(machine->refusal, sizeof(machine->refusal), "%s", text);
        machine_say(machine, "svc-appliance: %s", text);
    }
}

static void keeper_ended(struct machine *machine, struct keeper *keeper, int status)
{
    bool service = keeper == &machine->keepers[KEEPER_SERVICE];
    bool refused_before = is_refusal(keeper->last_code);
    keeper->pid = 0;
    keeper->last_code = WIFEXITED(status) ? WEXITSTATUS(status) : CODE_SIGNAL + WTERMSIG(status);
    keeper->quick = clock_mono() - keeper->started >= STABLE_NS ? 1 : keeper->quick + 1;
    keeper->next = clock_mono() + service_backoff_ms(keeper->quick) * NS_PER_MS;
    if (machine->wanted != POWER_NONE || !keeper->wanted) {
        return;
    }
    keeper->restarts++;
    if (service && is_refusal(keeper->last_code)) {
        take_refusal(machine, keeper->last_code);
        keeper->wanted = !refused_before; /* once more, then `restart` is for a person to say */
    } else if (service && keeper->last_code != 0 && keeper->quick >= FAILURES_TOLD) {
        take_refusal(machine, keeper->last_code); /* it goes on trying */
    }
    log_write(WARN, "ended", LOG_TEXT("what", keeper->name), LOG_INT("code", keeper->last_code));
    if (service) {
        machine_phase(machine, keeper->wanted ? PHASE_RUNNING : PHASE_MAINTENANCE);
    }
}

void keepers_reap(struct machine *machine)
{
    for (;;) {
        int status = 0;
        pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended <= 0) {
            return;
        }
        for (size_t i = 0; i < KEEPER_COUNT; i++) {
            if (machine->keepers[i].pid == ended) {
                keeper_ended(machine, &machine->keepers[i], status);
            }
        }
    }
}

static void keeper_stop(struct machine *machine, struct keeper *keeper, int ms)
{
    keeper->wanted = false;
    mono_ns deadline = clock_mono() + ms * NS_PER_MS;
    for (int signal = SIGTERM; keeper->pid > 0; signal = 0) {
        if (clock_mono() >= deadline) {
            signal = SIGKILL;
            deadline = clock_mono() + KILL_MS * NS_PER_MS;
            log_write(WARN, "killed", LOG_TEXT("what", keeper->name));
        }
        if (signal != 0) {
            (void)kill(keeper->pid, signal);
        }
        machine_step(machine, STOP_POLL_MS);
    }
}

void keepers_stop(struct machine *machine, int ms)
{
    keeper_stop(machine, &machine->keepers[KEEPER_SERVICE], ms);
    keeper_stop(machine, &machine->keepers[KEEPER_CHRONY], KILL_MS);
    keeper_stop(machine, &machine->keepers[KEEPER_CONSOLE], KILL_MS);
}

void service_restart(struct machine *machine)
{
    struct keeper *service = &machine->keepers[KEEPER_SERVICE];
    machine->refusal[0] = '\0';
    service->last_code = -1;
    service->quick = 0;
    service->wanted = true;
    service->next = 0;
    if (service->pid > 0) {
        (void)kill(service->pid, SIGTERM); /* it starts again once it has ended in order */
    }
    machine_phase(machine, PHASE_RUNNING);
}

/* ---- readiness ---- */

bool service_state_ready(struct span json)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct jin_member *members = NULL;
    size_t count = 0;
    if (FAULTED(op_new("machine", (struct tenant_id){ 0 }, START_MS, &op)) ||
        FAULTED(jin_members(op, json, 64, &members, &count))) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, "ready") == 0) {
            return members[i].type == JIN_TYPE_BOOL && span_equal_text(members[i].value, "true");
        }
    }
    return false;
}

static bool is_ready(void)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(STATE_MAX);
    return !FAULTED(file_read(STATE_FILE, &text)) && service_state_ready(buf_span(&text));
}

/* The version that runs is kept for good. */
static void commit(struct machine *machine)
{
    struct op *op = machine_op(machine, COMMIT_MS);
    struct fault done = update_commit(op);
    machine->committed = !FAULTED(done);
    machine->next_commit = clock_mono() + COMMIT_AGAIN_NS;
    if (FAULTED(done)) {
        machine_complain(machine, "the version that runs could not be kept", done);
        return;
    }
    if (machine->trial) {
        machine->trial = false;
        machine->status.updated = "committed";
        machine_say(machine, "version %s runs and is kept", machine->status.version);
    }
}

void service_watch(struct machine *machine)
{
    if (machine->keepers[KEEPER_SERVICE].pid == 0) {
        return;
    }
    bool was = machine->status.phase == PHASE_READY, is = is_ready();
    if (is && !machine->committed && clock_mono() >= machine->next_commit) {
        commit(machine);
    }
    if (is && !was && machine->status.phase == PHASE_RUNNING) {
        machine->refusal[0] = '\0';
        machine_phase(machine, PHASE_READY);
        machine_say(machine, "ready");
    } else if (!is && was) {
        machine_phase(machine, PHASE_RUNNING);
    }
}
