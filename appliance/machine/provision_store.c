#include "appliance/machine/provision_store.h"

#include "appliance/base/file.h"
#include "appliance/machine/admin.h"
#include "appliance/machine/console_session.h"
#include "appliance/machine/provision_medium.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/process.h"
#include "appliance/stores/softhsm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HSM_PIN_MIN 1
#define HSM_PIN_MAX 256

void provision_found_clear(struct provision_found *found)
{
    secret_free(TAKE(found->state_pin));
    secret_free(TAKE(found->hsm_pin));
}

/* ---- reading ---- */

static struct fault PRINTF(3, 4) refuse(struct op *op, struct buf *why, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (why != NULL) {
        IGNORE(buf_printf(why, "%s\n", line));
    }
    return op_fail(op, FAULT(CONFIG), "%s", line);
}

/* One line: a PIN is typed again at a terminal one day. */
static bool pin_fits(struct span pin, size_t least, size_t most)
{
    for (size_t i = 0; i < pin.len; i++) {
        if (pin.at[i] < 0x20 || pin.at[i] == 0x7f) {
            return false;
        }
    }
    return pin.len >= least && pin.len <= most;
}

static struct fault read_pin(struct op *op, int dir, const char *name, size_t least, size_t most, struct buf *why,
                             struct secret **ret_pin)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SECRET_MAX);
    struct fault got = medium_read(op, dir, name, &text);
    if (FAULTED(got)) {
        return refuse(op, why, "%s: the PIN file cannot be read: %s", name,
                      got.code == FAULT_NOT_FOUND ? "it is not there" : op->note.detail);
    }
    struct span pin = buf_span(&text);
    pin.len -= pin.len > 0 && pin.at[pin.len - 1] == '\n' ? 1 : 0;
    pin.len -= pin.len > 0 && pin.at[pin.len - 1] == '\r' ? 1 : 0;
    if (!pin_fits(pin, least, most)) {
        return refuse(op, why, "%s: a PIN is one line of %zu to %zu bytes, without control characters", name, least,
                      most);
    }
    return secret_new(pin, ret_pin);
}

/* Typed at the console's one prompt, where such a word is a command. */
static bool is_command(const struct secret *pin)
{
    char copy[PROVISION_PIN_MAX + 1];
    struct span text = secret_span(pin);
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    bool command = console_is_command(copy);
    secret_wipe(copy, sizeof(copy));
    return command;
}

struct fault provision_read_pins(struct op *op, int dir, struct buf *why, struct provision_found *found)
{
    const struct provision *provision = &found->provision;
    bool hsm_needs = provision->hsm.kind == PROVISION_HSM_MODULE && strcmp(provision->hsm.login, "user") == 0;
    if (provision->state.seal == PROVISION_SEAL_PIN && provision->state.pin_file[0] == '\0') {
        return refuse(op, why, "%s: state.pin_file: is needed with state.seal pin", PROVISION_NAME);
    }
    if (hsm_needs && provision->hsm.pin_file[0] == '\0') {
        return refuse(op, why, "%s: hsm.pin_file: is needed with hsm.kind module and hsm.login user", PROVISION_NAME);
    }
    if (provision->state.pin_file[0] != '\0') {
        TRY(read_pin(op, dir, provision->state.pin_file, PROVISION_PIN_MIN, PROVISION_PIN_MAX, why, &found->state_pin));
        if (is_command(found->state_pin)) {
            return refuse(op, why, "%s: a command of the console cannot be a PIN", provision->state.pin_file);
        }
    }
    if (provision->hsm.pin_file[0] != '\0') {
        TRY(read_pin(op, dir, provision->hsm.pin_file, HSM_PIN_MIN, HSM_PIN_MAX, why, &found->hsm_pin));
    }
    return OK;
}

static struct fault read_named(struct op *op, int dir, const char *name, struct buf *why,
                               struct provision_found *ret_found)
{
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROVISION_FILE_MAX);
    struct fault got = medium_read(op, dir, name, &text);
    if (FAULTED(got)) {
        return got.code == FAULT_NOT_FOUND ? got : refuse(op, why, "%s", op->note.detail);
    }
    TRY(provision_parse(op, buf_span(&text), PROVISION_NAME, why, &found.provision));
    TRY(provision_judge(op, &found.provision, why));
    TRY(provision_read_pins(op, dir, why, &found));
    *ret_found = found;
    found.state_pin = found.hsm_pin = NULL;
    return OK;
}

struct fault provision_read_from(struct op *op, int dir, struct buf *why, struct provision_found *ret_found)
{
    return read_named(op, dir, PROVISION_NAME, why, ret_found);
}

struct fault provision_read_file(struct op *op, const char *path, struct buf *why, struct provision_found *ret_found)
{
    const char *slash = strrchr(path, '/'), *folder = ".";
    if (slash != NULL) { /* with its slash: that of "/x" is "/" */
        TRY(arena_text(op->arena, span_of(path, (size_t)(slash - path) + 1), &folder));
    }
    CLEANUP(fd_closep) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? FAULT(NOT_FOUND) : read_named(op, dir, slash != NULL ? slash + 1 : path, why, ret_found);
}

struct fault provision_find_and_read(struct op *op, struct buf *why, struct provision_found *ret_found)
{
    CLEANUP(medium_close) struct medium medium = MEDIUM_NONE;
    struct fault opened = medium_open(op, PROVISION_LABEL, MEDIUM_READ, &medium);
    if (FAULTED(opened)) {
        return opened.code == FAULT_NOT_FOUND ? opened : refuse(op, why, "%s", op->note.detail);
    }
    TRY(provision_read_from(op, medium.dir, why, ret_found));
    memcpy(ret_found->device, medium.device, sizeof(ret_found->device));
    return OK;
}

static void wipe_answers(int dir, const struct provision_found *found)
{
    const char *const names[] = { found->provision.state.pin_file, found->provision.hsm.pin_file };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (names[i] != NULL && names[i][0] != '\0') {
            (void)unlinkat(dir, names[i], 0);
        }
    }
}

struct fault provision_read_answers(struct op *op, struct span text, struct buf *why, struct provision_found *ret_found)
{
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    TRY(provision_parse(op, text, "answers", why, &found.provision));
    TRY(provision_judge(op, &found.provision, why));
    CLEANUP(fd_closep) int dir = open(PROVISION_ANSWERS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct fault pins = provision_read_pins(op, dir, why, &found);
    wipe_answers(dir, &found);
    TRY(pins);
    *ret_found = found;
    found.state_pin = found.hsm_pin = NULL;
    return OK;
}

/* ---- keeping ---- */

struct pin_work {
    const char *path;
    struct span pin;
};

static struct fault write_pin(struct op *op, void *arg, int output)
{
    (void)output;
    const struct pin_work *work = arg;
    struct fault written = file_write(work->path, work->pin, 0600);
    return FAULTED(written) ? op_fail(op, written, "cannot write %s", work->path) : OK;
}

/* Read by svc-signer as its own user, so it stands in a folder of that user. */
static struct fault save_hsm_pin(struct op *op, const struct provision_places *places, const struct secret *pin)
{
    CLEANUP(buf_free) struct buf copy = BUF_INIT(HSM_PIN_MAX);
    const char *folder = NULL;
    struct pin_work work = { 0 };
    struct fault made = file_make_dirs(places->data, 0755);
    if (FAULTED(made)) {
        return op_fail(op, made, "cannot make %s", places->data);
    }
    TRY(folder_path(op, places->data, "hsm", &folder));
    TRY(folder_path(op, folder, "pin", &work.path));
    TRY(folder_own(op, folder, SOFTHSM_USER, NULL, 0700));
    TRY(buf_put(&copy, secret_span(pin))); /* a child does not share the secrets' arena */
    work.pin = buf_span(&copy);
    return process_as(op, SOFTHSM_USER, write_pin, &work, NULL);
}

struct fault provision_save_to(struct op *op, const struct provision_places *places,
                               const struct provision_found *found)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(2 * PROVISION_FILE_MAX);
    const char *path = NULL, *pin_path = NULL;
    TRY(folder_own(op, places->machine, NULL, NULL, 0700));
    TRY(folder_path(op, places->machine, PROVISION_NAME, &path));
    TRY(folder_path(op, places->machine, ADMIN_PIN_NAME, &pin_path));
    TRY(found->hsm_pin != NULL ? save_hsm_pin(op, places, found->hsm_pin) : OK);
    TRY(found->state_pin != NULL ? admin_pin_set(op, pin_path, found->state_pin) : OK);
    TRY(provision_print(&found->provision, &text));
    struct fault written = file_write(path, buf_span(&text), 0600);
    return FAULTED(written) ? op_fail(op, written, "cannot write %s", path) : OK;
}

struct fault provision_save(struct op *op, const struct provision_found *found)
{
    return provision_save_to(op, &(struct provision_places){ MACHINE_DIR, PRODUCT_DATA_DIR }, found);
}

struct fault provision_load(struct op *op, const char *path, struct provision *ret_provision)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(2 * PROVISION_FILE_MAX);
    struct fault got = file_read(path, &text);
    if (FAULTED(got)) {
        return got.code == FAULT_NOT_FOUND ? got : op_fail(op, got, "cannot read %s", path);
    }
    return provision_parse(op, buf_span(&text), PROVISION_NAME, NULL, ret_provision);
}
