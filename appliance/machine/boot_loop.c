#include "appliance/machine/machine.h"

#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "appliance/machine/clock.h"
#include "appliance/machine/modules.h"
#include "appliance/machine/service.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_   768
#define TICK_MS     500
#define LOG_TURN_AT ((off_t)8 << 20)

void machine_say(struct machine *machine, const char *format, ...)
{
    char line[LINE_MAX_];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (len < 0) {
        return;
    }
    log_write(INFO, "machine", LOG_TEXT("said", line));
    if (machine->console >= 0) {
        (void)dprintf(machine->console, "\rsvc: %s\r\n", line);
    }
}

void machine_publish(struct machine *machine)
{
    machine->status.failure = machine->failure;
    machine->status.refusal = machine->refusal;
    struct keeper *service = &machine->keepers[KEEPER_SERVICE];
    machine->status.service_pid = service->pid;
    machine->status.service_restarts = service->restarts;
    if (FAULTED(status_write(&machine->status, STATUS_FILE))) {
        log_write(ERROR, "machine", LOG_TEXT("said", "cannot write " STATUS_FILE));
    }
}

void machine_phase(struct machine *machine, enum machine_phase phase)
{
    if (machine->status.phase != phase) {
        machine->status.since = clock_utc();
    }
    machine->status.phase = phase;
    machine_publish(machine);
}

void machine_complain(struct machine *machine, const char *what, struct fault fault)
{
    const struct fault_note *note = &machine->op->note;
    log_fault(LOG_LEVEL_ERROR, "machine_failed", machine->op, fault);
    (void)snprintf(machine->failure, sizeof(machine->failure), "%s: %s", what,
                   note->set && note->detail[0] != '\0' ? note->detail : fault_row(fault.code)->title);
    machine->op->note = (struct fault_note){ 0 };
    machine_say(machine, "%s", machine->failure);
    machine_publish(machine);
}

struct op *machine_op(struct machine *machine, int ms)
{
    machine->op->note = (struct fault_note){ 0 };
    machine->op->deadline = clock_mono() + ms * NS_PER_MS;
    return machine->op;
}

/* ---- one step ---- */

static void take_signals(struct machine *machine)
{
    struct signalfd_siginfo info;
    while (read(machine->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        enum power_action action = power_of_signal(info.ssi_signo);
        if (action != POWER_NONE && machine->wanted == POWER_NONE) {
            machine->wanted = action;
        }
    }
    keepers_reap(machine);
}

/* The log's file system is small: at its bound the file becomes the former one. Writers append, so they go on at its
 * new start; a line that is written in between is lost. */
static void turn_log(void)
{
    struct stat now;
    if (fstat(STDERR_FILENO, &now) != 0 || now.st_size < LOG_TURN_AT) {
        return;
    }
    CLEANUP(buf_free) struct buf kept = BUF_INIT((size_t)LOG_TURN_AT * 2);
    if (!FAULTED(file_read(MACHINE_LOG_FILE, &kept))) {
        IGNORE(file_write(MACHINE_LOG_FILE ".1", buf_span(&kept), 0600));
    }
    if (ftruncate(STDERR_FILENO, 0) != 0) {
        (void)unlink(MACHINE_LOG_FILE); /* rather no log than a full file system */
    }
}

static void tick(struct machine *machine)
{
    machine->next_tick = clock_mono() + TICK_MS * NS_PER_MS;
    turn_log();
    keepers_tick(machine);
    service_watch(machine);
    bool synchronised = clock_synchronised();
    if (synchronised != machine->status.time_synchronised) {
        machine->status.time_synchronised = synchronised;
        machine_publish(machine);
    }
}

static void take_devices(struct machine *machine)
{
    if (modules_take_events(machine->uevents)) {
        power_buttons_open(&machine->buttons);
    }
}

static void take_buttons(struct machine *machine)
{
    if (power_buttons_pressed(&machine->buttons) && machine->wanted == POWER_NONE) {
        machine_say(machine, "the power button was pressed");
        machine->wanted = POWER_OFF;
    }
}

void machine_step(struct machine *machine, int max_ms)
{
    struct pollfd fds[3 + POWER_BUTTONS_MAX] = {
        { .fd = machine->signals, .events = POLLIN },
        { .fd = machine->listener, .events = POLLIN },
        { .fd = machine->uevents, .events = POLLIN },
    };
    nfds_t count = 3;
    for (size_t i = 0; i < machine->buttons.count; i++) {
        fds[count++] = (struct pollfd){ .fd = machine->buttons.fds[i], .events = POLLIN };
    }
    int to_tick = clock_ms_left(machine->next_tick);
    int ready = poll(fds, count, max_ms < to_tick ? max_ms : to_tick);
    if (ready > 0 && fds[0].revents != 0) {
        take_signals(machine);
    }
    if (ready > 0 && fds[1].revents != 0) {
        control_serve(machine->listener, machine_serve, machine);
    }
    if (ready > 0 && fds[2].revents != 0) {
        take_devices(machine);
    }
    take_buttons(machine);
    if (clock_ms_left(machine->next_tick) == 0) {
        tick(machine);
    }
}

void machine_pause(struct machine *machine, int ms)
{
    mono_ns deadline = clock_mono() + ms * NS_PER_MS;
    while (clock_ms_left(deadline) > 0 && machine->wanted == POWER_NONE) {
        machine_step(machine, clock_ms_left(deadline));
    }
}
