/* Before and after a boot: which version may run, which is on trial, and which is kept. */
#include "appliance/machine/esp.h"
#include "appliance/machine/update_keep.h"
#include "appliance/machine/update_machine.h"
#include "appliance/machine/update_versions.h"

#include <stdio.h>

static void step(const struct update_machine *machine, const char *name)
{
    if (machine->step != NULL) {
        machine->step(machine->step_arg, name);
    }
}

/* The entries of the running version: kept (no counting) and on trial; NULL = there is none. */
static void mine(const struct update_machine *machine, const struct esp_entries *entries,
                 const struct esp_entry **ret_kept, const struct esp_entry **ret_trial)
{
    *ret_kept = NULL;
    *ret_trial = NULL;
    for (size_t i = 0; i < entries->count; i++) {
        const struct esp_entry *entry = &entries->at[i];
        if (version_compare(entry->version, machine->running) == 0) {
            *(entry->counted ? ret_trial : ret_kept) = entry;
        }
    }
}

struct fault update_machine_state(struct op *op, const struct update_machine *machine, struct update_state *ret_state)
{
    struct update_state made = { .running = machine->running, .slot = SLOT_LETTER(machine->slot) };
    const struct esp_entry *kept = NULL, *trial = NULL;
    struct versions versions;
    struct esp_entries entries;
    (void)snprintf(made.profile, sizeof(made.profile), "%s", machine->profile);
    TRY(versions_load(op, machine->versions, &versions));
    TRY(esp_list(op, machine->entries, &entries));
    mine(machine, &entries, &kept, &trial);
    made.trial = trial != NULL && kept == NULL;
    made.has_floor = versions.has_floor;
    made.floor = versions.floor;
    for (size_t i = 0; i < entries.count; i++) {
        const struct esp_entry *entry = &entries.at[i];
        if (version_compare(entry->version, machine->running) > 0 && entry->counted) {
            *(entry->left == 0 ? &made.has_failed : &made.has_waiting) = true;
            *(entry->left == 0 ? &made.failed : &made.waiting) = entry->version;
        }
    }
    *ret_state = made;
    return OK;
}

struct fault update_machine_admit(struct op *op, const struct update_machine *machine)
{
    struct versions versions;
    char floor[VERSION_TEXT_MAX], running[VERSION_TEXT_MAX];
    TRY(versions_load(op, machine->versions, &versions));
    if (versions.has_floor && version_compare(machine->running, versions.floor) < 0) {
        version_print(versions.floor, floor);
        version_print(machine->running, running);
        return op_fail(op, FAULT(RELEASE_VERSION), "version %s is older than %s, below which this machine does not go",
                       running, floor);
    }
    return OK;
}

struct fault update_machine_before_service(struct op *op, const struct update_machine *machine)
{
    struct update_state state;
    TRY(update_machine_state(op, machine, &state));
    if (!state.trial) {
        return update_keep_settle(op, machine->data, machine->running);
    }
    /* The floor is the version that was kept last: the one that the machine falls back to. */
    return state.has_floor && version_compare(state.floor, machine->running) < 0
               ? update_keep_database(op, machine->data, state.floor)
               : OK;
}

struct fault update_machine_commit(struct op *op, const struct update_machine *machine)
{
    const struct esp_entry *kept = NULL, *trial = NULL;
    struct versions versions;
    struct esp_entries entries;
    TRY(update_machine_admit(op, machine));
    TRY(versions_load(op, machine->versions, &versions));
    TRY(esp_list(op, machine->entries, &entries));
    mine(machine, &entries, &kept, &trial);
    if (trial != NULL && kept == NULL) {
        TRY(esp_keep(op, machine->entries, trial));
        step(machine, "kept");
    }
    /* Only after the entry: a floor above the one version that can boot would be the end of the machine. */
    if (!versions.has_floor || version_compare(versions.floor, machine->running) < 0) {
        versions.has_floor = true;
        versions.floor = machine->running;
        TRY(versions_save(op, machine->versions, &versions));
        step(machine, "floor-raised");
    }
    for (size_t i = 0; i < entries.count; i++) {
        if (version_compare(entries.at[i].version, machine->running) < 0) {
            TRY(esp_remove(op, machine->entries, entries.at[i].name));
            step(machine, "old-removed");
        }
    }
    TRY(esp_tidy(op, machine->entries));
    return machine->data != NULL ? update_keep_drop(op, machine->data, machine->running) : OK;
}
