/* What callers of control.h get. */
#include "appliance/base/log.h"
#include "appliance/machine/machine.h"
#include "appliance/machine/mounts.h"
#include "appliance/machine/service.h"
#include "appliance/seal/seal.h"

#include <string.h>

#define WHY_MAX    ((size_t)16 << 10)
#define ANSWERS_MS 60000

static struct fault ask_end(struct op *op, struct machine *machine, enum power_action action)
{
    if (machine->wanted != POWER_NONE) {
        return op_fail(op, FAULT(CONFLICT), "the machine is %s already", power_action_text(machine->wanted));
    }
    machine->wanted = action;
    return OK;
}

/* The recovery key opened what the TPM or the PIN should have: keyslot 0 is made anew, where that can be done. */
static void renew(struct machine *machine, struct op *op, const struct seal_key *key, struct span new_pin)
{
    bool wants_pin = strcmp(machine->status.seal, "tpm2") != 0;
    CLEANUP(secret_freep) struct secret *pin = NULL;
    if (strcmp(machine->status.seal, "none") == 0) {
        machine_say(machine, "the state was opened by its recovery key; its seal stays as it is");
        return;
    }
    if (wants_pin && (new_pin.len == 0 || FAULTED(secret_new(new_pin, &pin)))) {
        machine_say(machine, "the state was opened by its recovery key, and is not sealed anew: there is no new PIN");
        return;
    }
    struct fault renewed = seal_renew(op, machine->state_device, key, pin);
    if (FAULTED(renewed)) {
        log_fault(LOG_LEVEL_WARN, "seal_not_renewed", op, renewed);
        op->note = (struct fault_note){ 0 };
    }
    machine_say(machine, FAULTED(renewed) ? "the state was opened by its recovery key, and is not sealed anew"
                                          : "the state was opened by its recovery key, and is sealed anew");
}

static struct fault unlock(struct op *op, struct machine *machine, struct span body)
{
    if (machine->status.phase != PHASE_LOCKED || machine->unlocked) {
        return op_fail(op, FAULT(CONFLICT), "the state is not locked");
    }
    const uint8_t *line = body.len > 0 ? memchr(body.at, '\n', body.len) : NULL;
    size_t len = line != NULL ? (size_t)(line - body.at) : body.len;
    struct seal_key key = { .tcti = SEAL_TPM_DEVICE, .typed = span_of(body.at, len) };
    bool recovered = false;
    TRY(seal_open(op, machine->state_device, STATE_MAPPED, &key, &recovered));
    machine->unlocked = true;
    if (recovered) {
        renew(machine, op, &key, line != NULL ? span_of(line + 1, body.len - len - 1) : (struct span){ 0 });
    }
    return OK;
}

static struct fault provision(struct op *op, struct machine *machine, struct span body, struct buf *answer)
{
    if (machine->status.phase != PHASE_PROVISIONING || machine->found_op != NULL) {
        return op_fail(op, FAULT(CONFLICT), "the machine does not wait for a provisioning");
    }
    CLEANUP(op_freep) struct op *kept = NULL; /* what was found outlives this call */
    CLEANUP(buf_free) struct buf why = BUF_INIT(WHY_MAX);
    TRY(op_new("machine", (struct tenant_id){ 0 }, ANSWERS_MS, &kept));
    struct fault found = provision_read_answers(kept, body, &why, &machine->found);
    if (FAULTED(found)) {
        return op_fail(op, found, "%s", kept->note.detail[0] != '\0' ? kept->note.detail : "the answers are refused");
    }
    machine->found_op = TAKE(kept);
    return buf_text(answer, "accepted");
}

static struct fault recovery(struct op *op, struct machine *machine, struct buf *answer)
{
    char text[SEAL_RECOVERY_TEXT];
    if (machine->recovery == NULL) {
        return op_fail(op, FAULT(NOT_FOUND), "there is no recovery key to be shown");
    }
    seal_recovery_print(machine->recovery, text);
    machine->recovery_fetched = true;
    struct fault put = buf_text(answer, text);
    secret_wipe(text, sizeof(text));
    return put;
}

static struct fault restart(struct op *op, struct machine *machine)
{
    enum machine_phase phase = machine->status.phase;
    bool running = phase == PHASE_RUNNING || phase == PHASE_READY;
    if (!running && (phase != PHASE_MAINTENANCE || !machine->prepared)) {
        return op_fail(op, FAULT(CONFLICT), "the machine is not ready for the appliance; reboot starts it again");
    }
    TRY(provision_write_svc_yaml(op, &machine->provision, PRODUCT_CONFIG));
    if (!running) {
        machine->failure[0] = '\0'; /* what kept it from starting */
    }
    service_restart(machine);
    return OK;
}

struct fault machine_serve(struct op *op, void *arg, enum control_verb verb, struct span body, struct buf *answer)
{
    struct machine *machine = arg;
    switch (verb) {
    case CONTROL_REBOOT:
        return ask_end(op, machine, POWER_REBOOT);
    case CONTROL_POWEROFF:
        return ask_end(op, machine, POWER_OFF);
    case CONTROL_UNLOCK:
        return unlock(op, machine, body);
    case CONTROL_PROVISION:
        return provision(op, machine, body, answer);
    case CONTROL_RECOVERY:
        return recovery(op, machine, answer);
    case CONTROL_RECOVERY_SHOWN:
        secret_freep(&machine->recovery);
        return OK;
    case CONTROL_RESTART:
        return restart(op, machine);
    case CONTROL_VERB_COUNT:
        break;
    }
    return FAULT(BAD_ARGUMENT);
}
