/* An update, step by step. Each step is on disk before the next begins; update.h says what a cut in between leaves. */
#include "appliance/machine/esp.h"
#include "appliance/machine/update_keep.h"
#include "appliance/machine/update_machine.h"
#include "appliance/machine/update_versions.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/statvfs.h>

#define STATE_SPARE ((uint64_t)64 << 20)

struct applying {
    const struct update_machine *machine;
    const struct release_file *file;
    const struct release_manifest *manifest;
    update_say_fn say;
    void *say_arg;
    char version[VERSION_TEXT_MAX], other; /* other: the slot that is written */
};

static void say(const struct applying *applying, const char *format, ...) PRINTF(2, 3);
static void say(const struct applying *applying, const char *format, ...)
{
    char line[192];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (applying->say != NULL) {
        applying->say(applying->say_arg, line);
    }
}

static void step(const struct applying *applying, const char *name)
{
    if (applying->machine->step != NULL) {
        applying->machine->step(applying->machine->step_arg, name);
    }
}

struct fault update_judge(struct op *op, const struct update_machine *machine, const struct release_manifest *manifest)
{
    struct versions versions;
    char version[VERSION_TEXT_MAX], mine[VERSION_TEXT_MAX], least[VERSION_TEXT_MAX];
    version_print(manifest->version, version);
    version_print(machine->running, mine);
    version_print(manifest->min_version, least);
    if (manifest->kind != RELEASE_UPDATE) {
        return op_fail(op, FAULT(RELEASE_OTHER), "this is an extension, not an update: extension add takes it");
    }
    if (strcmp(manifest->profile, machine->profile) != 0) {
        return op_fail(op, FAULT(RELEASE_OTHER), "the update is for the profile %s, and this machine has %s",
                       manifest->profile, machine->profile);
    }
    if (version_compare(manifest->version, machine->running) <= 0) {
        return op_fail(op, FAULT(RELEASE_VERSION), "the update's version %s is not newer than %s, which runs: refused",
                       version, mine);
    }
    if (version_compare(manifest->min_version, machine->running) > 0) {
        return op_fail(op, FAULT(RELEASE_VERSION), "the update needs version %s first, and %s runs", least, mine);
    }
    TRY(versions_load(op, machine->versions, &versions));
    if (versions.has_floor && version_compare(manifest->version, versions.floor) <= 0) {
        version_print(versions.floor, least);
        return op_fail(op, FAULT(RELEASE_VERSION), "the update's version %s is not above the floor %s: refused",
                       version, least);
    }
    return OK;
}

static struct fault nothing(void *arg, struct op *op, struct span bytes)
{
    (void)arg;
    (void)bytes;
    return op_expired(op) ? FAULT(DEADLINE) : OK;
}

/* While the running version is on trial, the other slot is the way back. */
static struct fault check_not_on_trial(struct op *op, const struct update_machine *machine,
                                       const struct esp_entries *entries)
{
    bool kept = false, trial = false;
    for (size_t i = 0; i < entries->count; i++) {
        bool mine = version_compare(entries->at[i].version, machine->running) == 0;
        kept = kept || (mine && !entries->at[i].counted);
        trial = trial || (mine && entries->at[i].counted);
    }
    if (trial && !kept) {
        return op_fail(op, FAULT(CONFLICT),
                       "the version that runs is still on trial: wait until the appliance is ready");
    }
    return kept ? OK : op_fail(op, FAULT(CONFLICT), "the version that runs has no boot entry: there is no way back");
}

/* The first boot of the new version copies the database, for the way back. */
static struct fault check_state_room(struct op *op, const char *data)
{
    struct statvfs room;
    uint64_t size = 0;
    if (data == NULL) {
        return OK;
    }
    TRY(update_keep_size(op, data, &size));
    REQUIRE(statvfs(data, &room) == 0, IO);
    if ((uint64_t)room.f_bavail * room.f_frsize < size + STATE_SPARE) {
        return op_fail(op, FAULT(RELEASE_SPACE),
                       "the state has no room for a copy of the database (%llu MiB): no way back",
                       (unsigned long long)(size >> 20));
    }
    return OK;
}

/* Everything that can be found out without changing anything. */
static struct fault check_all(struct op *op, const struct applying *applying, const struct slot_writer *slot,
                              const struct esp_entries *entries)
{
    const struct release_manifest *manifest = applying->manifest;
    TRY(check_not_on_trial(op, applying->machine, entries));
    if (manifest->parts[RELEASE_PART_ROOT].size > slot->size - RELEASE_FOOTER) {
        return op_fail(op, FAULT(RELEASE_SPACE), "the update's root has %llu bytes, and a slot has room for %llu",
                       (unsigned long long)manifest->parts[RELEASE_PART_ROOT].size,
                       (unsigned long long)(slot->size - RELEASE_FOOTER));
    }
    TRY(esp_check_room(op, applying->machine->entries, entries, applying->machine->running,
                       manifest->parts[RELEASE_PART_UKI].size));
    TRY(check_state_room(op, applying->machine->data));
    for (size_t i = 0; i < manifest->part_count; i++) {
        TRY(release_read_part(op, applying->file, i, nothing, NULL));
    }
    return OK;
}

/* Nothing may lead into the slot that is about to change. */
static struct fault remove_entries(struct op *op, const struct applying *applying, const struct esp_entries *entries)
{
    const struct update_machine *machine = applying->machine;
    for (size_t i = 0; i < entries->count; i++) {
        if (version_compare(entries->at[i].version, machine->running) != 0) {
            TRY(esp_remove(op, machine->entries, entries->at[i].name));
        }
    }
    TRY(esp_tidy(op, machine->entries));
    step(applying, "entries-removed");
    return OK;
}

static void said(void *arg, uint64_t done, uint64_t size)
{
    const struct applying *applying = arg;
    say(applying, "update: %s: slot %c: %llu of %llu KiB", applying->version, applying->other,
        (unsigned long long)(done >> 10), (unsigned long long)(size >> 10));
    step(applying, "root-partly-written");
}

static struct fault write_slot(struct op *op, struct applying *applying, const struct slot_writer *slot)
{
    struct release_footer footer = { .version = applying->manifest->version, .tree = applying->manifest->tree };
    TRY(slot_erase_footer(op, slot));
    step(applying, "footer-erased");
    TRY(slot_write_root(op, slot, applying->file, said, applying));
    step(applying, "root-written");
    TRY(slot_verify_root(op, slot, applying->manifest));
    say(applying, "update: %s: slot %c: read back and right", applying->version, applying->other);
    TRY(slot_write_footer(op, slot, &footer));
    step(applying, "footer-written");
    return OK;
}

static struct fault write_entry(struct op *op, const struct applying *applying)
{
    TRY(esp_write_uki(op, applying->machine->entries, applying->file));
    say(applying, "update: %s: boot entry written", applying->version);
    step(applying, "uki-written");
    TRY(esp_try_uki(op, applying->machine->entries, applying->manifest->version));
    step(applying, "entry-made");
    return OK;
}

static struct fault apply(struct op *op, struct applying *applying)
{
    const struct update_machine *machine = applying->machine;
    CLEANUP(slot_close) struct slot_writer slot = { .fd = -1 };
    struct esp_entries entries;
    unsigned other = machine->slot == SLOT_A ? SLOT_B : SLOT_A;
    applying->other = SLOT_LETTER(other);
    TRY(esp_list(op, machine->entries, &entries));
    TRY(slot_open(op, machine->slots[other], &slot));
    TRY(check_all(op, applying, &slot, &entries));
    say(applying, "update: %s: good, signed with %s", applying->version, release_signer(applying->file));
    step(applying, "verified");
    TRY(remove_entries(op, applying, &entries));
    TRY(write_slot(op, applying, &slot));
    TRY(write_entry(op, applying));
    say(applying, "update: %s: in slot %c; the next boot tries it", applying->version, applying->other);
    return OK;
}

struct fault update_machine_apply(struct op *op, const struct update_machine *machine, const char *path,
                                  update_say_fn say_to, void *arg, struct version *ret_version)
{
    CLEANUP(release_keys_freep) struct release_keys *keys = NULL;
    CLEANUP(release_closep) struct release_file *file = NULL;
    TRY(release_keys_of_machine(op, machine->keys, &keys));
    TRY(release_open(op, path, keys, &file));
    TRY(update_judge(op, machine, release_manifest(file)));
    struct applying applying = {
        .machine = machine, .file = file, .manifest = release_manifest(file), .say = say_to, .say_arg = arg
    };
    version_print(applying.manifest->version, applying.version);
    TRY(apply(op, &applying));
    *ret_version = applying.manifest->version;
    return OK;
}
