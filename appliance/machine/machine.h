/*
 * PID 1 of the appliance image: its one thread, its one loop. For siblings in this folder only.
 *
 * `svc-machine boot` mounts, loads modules, opens the state (made at first boot), sets up network and clock, starts
 * `svc-appliance run` and keeps it running, and ends in order. It never exits: a fatal failure is one line on the
 * console and in status.json, then a reboot after a pause (so that boot counting can fall back), or a wait in which the
 * console offers what may mend it when a reboot would not help.
 */
#ifndef APPLIANCE_MACHINE_MACHINE_H
#define APPLIANCE_MACHINE_MACHINE_H

#include "appliance/base/secret.h"
#include "appliance/machine/control.h"
#include "appliance/machine/power.h"
#include "appliance/machine/provision.h"
#include "appliance/machine/status.h"

#include <sys/types.h>

#define FAILURE_MAX 512

/* A process that PID 1 keeps running. */
struct keeper {
    const char *name;
    struct fault (*start)(struct op *op, pid_t *ret_pid);
    pid_t pid; /* 0 = none */
    bool wanted;
    unsigned restarts, quick; /* quick: deaths in a row before it ran for long */
    mono_ns started, next;    /* next: when it may be started */
    int last_code;            /* exit code, or 128 + signal; -1 = it never ended */
};

enum { KEEPER_CONSOLE, KEEPER_CHRONY, KEEPER_SERVICE, KEEPER_COUNT };

struct machine {
    struct op *op; /* of the boot; what is kept for ever lies in its arena */
    struct status status;
    char failure[FAILURE_MAX], refusal[FAILURE_MAX];
    int console, signals, listener, uevents;
    struct power_buttons buttons;
    struct keeper keepers[KEEPER_COUNT];
    enum power_action wanted;
    mono_ns next_tick;
    /* what control.h's callers brought */
    struct op *found_op; /* holds `found`; NULL = nothing was found yet */
    struct provision_found found;
    const char *state_device; /* while PHASE_LOCKED */
    bool unlocked;
    struct secret *recovery; /* made at this boot, not written down yet; NULL = none */
    bool recovery_fetched;
    struct provision provision;
    bool prepared; /* all that svc-appliance needs is there, but for a configuration that it takes */
    bool trial;    /* this version runs on trial: not ready in time = reboot */
    mono_ns trial_ns, trial_end;
    bool committed;
    mono_ns next_commit;
};

/* One line on the console and in the log. */
void machine_say(struct machine *machine, const char *format, ...) PRINTF(2, 3);
void machine_phase(struct machine *machine, enum machine_phase phase);
/* Writes status.json. */
void machine_publish(struct machine *machine);
/* "<what>: <detail of op's note, else the fault's title>" into status.failure, and said. The note is cleared. */
void machine_complain(struct machine *machine, const char *what, struct fault fault);

/* Waits at most `max_ms` for something to happen and deals with it: children, callers, devices, buttons, the log. */
void machine_step(struct machine *machine, int max_ms);
/* Steps for `ms`, or until the end is asked for. */
void machine_pause(struct machine *machine, int ms);
/* What a caller of control.h asks for. */
struct fault machine_serve(struct op *op, void *machine, enum control_verb verb, struct span body, struct buf *answer);
/* The state partition opened and mounted, after it was made at first boot; machine->provision is filled. Waits for
 * people where it has to. CANCELLED: the end was asked for meanwhile. */
struct fault machine_state(struct machine *machine);
/* Does a state that is locked go on waiting for a person after `waited`? A version on trial waits only where a PIN is
 * expected, and as long as its trial: what it fails at is undone by the version before it. */
bool machine_waits_for_key(const struct machine *machine, bool has_pin, mono_ns waited);
/* Readies op for the next part of the work. */
struct op *machine_op(struct machine *machine, int ms);

#endif
