/* The state partition: found, made at first boot, opened. */
#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "appliance/machine/disks.h"
#include "appliance/machine/machine.h"
#include "appliance/machine/mounts.h"
#include "appliance/seal/seal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATE_LABEL      "svc-state"
#define STATE_PATH       "/dev/mapper/" STATE_MAPPED
#define DISK_WAIT_MS     60000
#define DISK_STEP_MS     500
#define MEDIUM_EVERY_MS  3000
#define MEDIUM_LIMIT_MS  30000
#define MAKE_LIMIT_MS    600000
#define OPEN_LIMIT_MS    120000
#define RECOVERY_WAIT_MS 15000
#define WHY_MAX          ((size_t)16 << 10)

static struct fault find_device(struct machine *machine, const char **ret_device)
{
    mono_ns deadline = clock_mono() + DISK_WAIT_MS * NS_PER_MS;
    for (;;) {
        struct fault found = disk_by_partlabel(machine_op(machine, DISK_STEP_MS), STATE_LABEL, ret_device);
        if (found.code != FAULT_NOT_FOUND || clock_mono() >= deadline || machine->wanted != POWER_NONE) {
            return found;
        }
        machine_step(machine, DISK_STEP_MS);
    }
}

/* ---- provisioning ---- */

static void forget_found(struct machine *machine)
{
    provision_found_clear(&machine->found);
    op_free(TAKE(machine->found_op));
}

/* Says each different refusal once, not every few seconds. */
static void tell_refusal(struct machine *machine, const struct op *op, struct fault fault, const struct buf *why)
{
    char text[FAILURE_MAX];
    const char *detail = op->note.detail[0] != '\0' ? op->note.detail : fault_row(fault.code)->title;
    (void)snprintf(text, sizeof(text), "the provisioning is refused: %s", detail);
    if (strcmp(text, machine->failure) != 0) {
        (void)snprintf(machine->failure, sizeof(machine->failure), "%s", text);
        machine_say(machine, "%s", text);
        if (machine->console >= 0 && why->len > 0) {
            (void)dprintf(machine->console, "\r%.*s\r\n", (int)why->len, (const char *)why->at);
        }
        machine_publish(machine);
    }
}

static void look_for_medium(struct machine *machine)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(WHY_MAX);
    if (FAULTED(op_new("machine", (struct tenant_id){ 0 }, MEDIUM_LIMIT_MS, &op))) {
        return;
    }
    struct fault found = provision_find_and_read(op, &why, &machine->found);
    if (!FAULTED(found)) {
        machine->found_op = TAKE(op);
    } else if (found.code != FAULT_NOT_FOUND) {
        tell_refusal(machine, op, found, &why);
    }
}

static struct fault wait_for_provisioning(struct machine *machine)
{
    mono_ns next = 0;
    while (machine->found_op == NULL) {
        if (machine->wanted != POWER_NONE) {
            return FAULT(CANCELLED);
        }
        if (clock_mono() >= next) {
            look_for_medium(machine);
            next = clock_mono() + MEDIUM_EVERY_MS * NS_PER_MS;
        }
        if (machine->found_op == NULL) {
            if (machine->status.phase != PHASE_PROVISIONING) {
                machine_phase(machine, PHASE_PROVISIONING);
                machine_say(machine,
                            "not provisioned: waiting for a medium labelled " PROVISION_LABEL ", or for answers here");
            }
            machine_step(machine, MEDIUM_EVERY_MS);
        }
    }
    machine->failure[0] = '\0';
    machine_say(machine, "provisioning taken from %s",
                machine->found.device[0] != '\0' ? machine->found.device : "the console");
    return OK;
}

/* ---- making ---- */

static struct fault choose_mode(struct op *op, const struct provision_found *found, enum seal_mode *ret_mode)
{
    bool measured = false, pin = found->state_pin != NULL;
    enum provision_seal wanted = found->provision.state.seal;
    bool tpm = (wanted == PROVISION_SEAL_AUTO || wanted == PROVISION_SEAL_TPM2) &&
               seal_tpm_usable(op, SEAL_TPM_DEVICE, &measured);
    if (tpm && !measured) {
        log_write(WARN, "tpm_unmeasured", LOG_TEXT("what", "the firmware does not measure into PCR 7"));
    }
    if (wanted == PROVISION_SEAL_TPM2 && !tpm) {
        return op_fail(op, FAULT(CONFIG), "state.seal is tpm2, and this machine has no usable TPM 2.0");
    }
    if (wanted == PROVISION_SEAL_PIN && !pin) {
        return op_fail(op, FAULT(CONFIG), "state.seal is pin, and there is no PIN");
    }
    if (tpm) {
        *ret_mode = pin ? SEAL_TPM2_PIN : SEAL_TPM2;
    } else {
        *ret_mode = pin && wanted != PROVISION_SEAL_NONE ? SEAL_PIN : SEAL_NONE;
    }
    return OK;
}

/* It is shown before the state counts as made: nobody ends up with a state whose recovery key was never seen. */
static void show_recovery(struct machine *machine)
{
    char text[SEAL_RECOVERY_TEXT];
    mono_ns deadline = clock_mono() + RECOVERY_WAIT_MS * NS_PER_MS;
    while (!machine->recovery_fetched && clock_mono() < deadline && machine->wanted == POWER_NONE) {
        machine_step(machine, DISK_STEP_MS); /* the console process asks for it */
    }
    if (!machine->recovery_fetched && machine->console >= 0) {
        seal_recovery_print(machine->recovery, text);
        (void)dprintf(machine->console, "\r\nsvc: recovery key of the state, shown once: %s\r\n\r\n", text);
        secret_wipe(text, sizeof(text));
    }
}

static void set_seal(struct machine *machine, enum seal_mode mode)
{
    machine->status.seal = seal_mode_text(mode);
    machine->status.seal_text = seal_mode_meaning(mode);
    machine_say(machine, "state: %s", seal_mode_meaning(mode));
}

static struct fault make_state(struct machine *machine, const char *device)
{
    struct op *op = machine_op(machine, MAKE_LIMIT_MS);
    struct seal_request request = { .device = device, .tcti = SEAL_TPM_DEVICE, .pin = machine->found.state_pin };
    TRY(choose_mode(op, &machine->found, &request.mode));
    machine_phase(machine, PHASE_OPENING);
    machine_say(machine, "making the state");
    TRY(seal_create(op, &request, &machine->recovery));
    bool recovered = false;
    TRY(seal_open(op, device, STATE_MAPPED, &(struct seal_key){ .typed = secret_span(machine->recovery) }, &recovered));
    TRY(mounts_state(op, STATE_PATH, true));
    TRY(provision_save(op, &machine->found));
    sync();
    set_seal(machine, request.mode);
    machine_publish(machine);
    show_recovery(machine);
    return seal_finish(op, device);
}

static struct fault first_boot(struct machine *machine, const char *device)
{
    for (;;) {
        TRY(wait_for_provisioning(machine));
        struct fault made = make_state(machine, device);
        if (made.code == FAULT_CONFIG || made.code == FAULT_BAD_ARGUMENT) { /* what a better provisioning can mend */
            machine_complain(machine, "the state was not made", made);
            forget_found(machine);
            machine_phase(machine, PHASE_PROVISIONING);
            machine_pause(machine, MEDIUM_EVERY_MS);
            continue;
        }
        forget_found(machine);
        return made;
    }
}

/* ---- opening ---- */

bool machine_waits_for_key(const struct machine *machine, bool has_pin, mono_ns waited)
{
    return !machine->trial || (has_pin && waited < machine->trial_ns);
}

static struct fault wait_for_key(struct machine *machine, const char *device, bool has_pin)
{
    mono_ns since = clock_mono();
    machine->state_device = device;
    machine_phase(machine, PHASE_LOCKED);
    while (!machine->unlocked) {
        if (machine->wanted != POWER_NONE) {
            return FAULT(CANCELLED);
        }
        if (!machine_waits_for_key(machine, has_pin, clock_mono() - since)) {
            return op_fail(machine_op(machine, OPEN_LIMIT_MS), FAULT(UNSEAL),
                           "nobody opened the state in the time that a version on trial has");
        }
        machine_step(machine, MEDIUM_EVERY_MS);
    }
    machine->failure[0] = '\0';
    return OK;
}

static struct fault open_state(struct machine *machine, const char *device, enum seal_mode mode)
{
    bool recovered = false;
    machine_phase(machine, PHASE_OPENING);
    set_seal(machine, mode);
    struct op *op = machine_op(machine, OPEN_LIMIT_MS);
    struct fault opened =
        seal_open(op, device, STATE_MAPPED, &(struct seal_key){ .tcti = SEAL_TPM_DEVICE }, &recovered);
    bool has_pin = seal_mode_has_pin(mode);
    if (opened.code == FAULT_UNSEAL && machine_waits_for_key(machine, has_pin, 0)) {
        machine_complain(machine, "the state is locked", opened);
        opened = wait_for_key(machine, device, has_pin);
    }
    TRY(opened);
    machine_phase(machine, PHASE_OPENING);
    return mounts_state(machine_op(machine, OPEN_LIMIT_MS), STATE_PATH, false);
}

struct fault machine_state(struct machine *machine)
{
    const char *device = NULL;
    struct seal_look look;
    TRY(find_device(machine, &device));
    TRY(seal_look(machine_op(machine, OPEN_LIMIT_MS), device, &look));
    switch (look.content) {
    case SEAL_COMPLETE:
        TRY(open_state(machine, device, look.mode));
        break;
    case SEAL_EMPTY:
    case SEAL_UNFINISHED:
        TRY(first_boot(machine, device));
        break;
    case SEAL_FOREIGN:
        return op_fail(machine->op, FAULT(CONFLICT),
                       "the partition svc-state holds something else; it is not overwritten: erase its first and last "
                       "MiB to begin anew");
    }
    return provision_load(machine_op(machine, OPEN_LIMIT_MS), PROVISION_FILE, &machine->provision);
}
