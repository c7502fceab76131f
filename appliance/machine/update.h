/*
 * Updates of the machine: two root slots and one boot entry (UKI) on the EFI partition for each version.
 *
 * update_apply writes the slot that does not run, and only after everything was verified gives the new version one try
 * (EFI/Linux/svc-VERSION+1.efi: boot counting). A boot that does not become ready counts as failed, and the boot loader
 * takes the former version again. update_commit, called once the appliance is ready, keeps the new version for good
 * (svc-VERSION.efi), raises the version floor (/var/lib/svc/machine/versions.json), and removes older entries. A power
 * cut between any two steps leaves a machine that boots the version that ran before or the new one, complete.
 *
 * PID 1, after the state is open:
 *     TRY(update_admit(op));               -- an older version than the floor does not run: maintenance
 *     TRY(update_read_state(op, &state));  -- state.trial: not ready in time = reboot, which falls back
 *     TRY(update_before_service(op));      -- the database's way back, before anybody writes to it
 *     ...ready:
 *     TRY(update_commit(op));              -- at every boot; cheap when nothing is to be done; again after a failure
 *
 * Faults: RELEASE_FILE (malformed or damaged file), RELEASE_SIGNATURE, RELEASE_OTHER (another product or profile),
 * RELEASE_VERSION (downgrade, or too old a machine), RELEASE_SPACE, CONFLICT (the running version is on trial, or
 * another update is being written), UNSUPPORTED (this is not the appliance image), IO. Not thread-safe.
 */
#ifndef APPLIANCE_MACHINE_UPDATE_H
#define APPLIANCE_MACHINE_UPDATE_H

#include "appliance/base/op.h"
#include "appliance/release/version.h"

struct update_state {
    struct version running;
    char profile[16];
    char slot;      /* 'a', 'b'; 0 = not known */
    bool trial;     /* booted on trial: to be committed */
    bool has_floor; /* false before the first commit */
    struct version floor;
    bool has_failed; /* an update that was tried and did not become ready */
    struct version failed;
    bool has_waiting; /* an update that the next boot tries */
    struct version waiting;
};
struct fault update_read_state(struct op *op, struct update_state *ret_state);

/* RELEASE_VERSION when the running version is older than the floor: an old boot entry was brought back. */
struct fault update_admit(struct op *op);

/* Before the appliance starts: on trial, copies the embedded database (a newer version may migrate it); after a
 * fall-back, puts the copy in its place. When this fails on trial, the version must not be started. */
struct fault update_before_service(struct op *op);

/* The appliance is ready: keeps the running version. */
struct fault update_commit(struct op *op);

/* One line of progress, without a newline. NULL is fine. */
typedef void (*update_say_fn)(void *arg, const char *line);
/* Verifies the file and writes it; the next boot tries it. *ret_version is the new one. */
struct fault update_apply(struct op *op, const char *path, update_say_fn say, void *arg, struct version *ret_version);

/* `svc-machine update apply [FILE] | status [--json]`; argv[0] is "update". Without FILE: the one *.update on a medium
 * whose file system has the label SVC-UPDATE. Speaks on stdout, complains on stderr. Exit code 0, 1 failed, 2 refused.
 */
int update_command(int argc, char **argv);

#endif
