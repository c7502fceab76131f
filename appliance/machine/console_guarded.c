/* Commands that ask for more than a word: provisioning, unlocking, tokens, certificates. */
#include "appliance/base/file.h"
#include "appliance/machine/admin.h"
#include "appliance/machine/console_ask.h"
#include "appliance/machine/console_run.h"
#include "appliance/machine/console_session.h"
#include "appliance/machine/control.h"
#include "appliance/machine/provision_medium.h"
#include "appliance/machine/provision_store.h"
#include "appliance/seal/seal.h"
#include "appliance/stores/folder.h"

#include <unistd.h>

#define QUESTIONS_MS  (60 * 60 * 1000) /* for an operator who looks things up */
#define ANSWER_MS     (5 * 60 * 1000)
#define WORK_MS       (5 * 60 * 1000)
#define FREE_TRIES    3
#define PAUSE_MOST_NS (60 * NS_PER_S)
#define IMPORT_FILE   PROVISION_ANSWERS_DIR "/tls.crt"
#define MEDIUM_FILE   "tls.crt"

static struct op *op_for(struct terminal *terminal, int ms)
{
    struct op *op = NULL;
    if (FAULTED(op_new("console", (struct tenant_id){ 0 }, ms, &op))) {
        terminal_say(terminal, "out of memory; try again");
    }
    return op;
}

/* ---- provision ---- */

static struct fault provision_now(struct op *op, struct terminal *terminal)
{
    CLEANUP(console_answers_clear) struct console_answers answers = { .yaml = BUF_INIT(PROVISION_FILE_MAX) };
    TRY(console_ask_provision(op, terminal, &answers));
    TRY(console_answers_leave(op, PROVISION_ANSWERS_DIR, &answers));
    op->deadline = clock_mono() + WORK_MS * NS_PER_MS;
    struct fault done = control_ask(op, CONTROL_SOCKET, CONTROL_PROVISION, buf_span(&answers.yaml), NULL);
    if (FAULTED(done)) {
        (void)folder_remove(op, PROVISION_ANSWERS_DIR, NULL).code;
    }
    return done;
}

void console_provision(struct console *console, struct terminal *terminal)
{
    (void)console;
    CLEANUP(op_freep) struct op *op = op_for(terminal, QUESTIONS_MS);
    struct fault done = op != NULL ? provision_now(op, terminal) : OK;
    if (FAULTED(done)) {
        console_complain(terminal, "provision", op, done);
    }
}

/* ---- unlock ---- */

/* Who opens with the recovery key has no PIN that opens: where the seal has one it is replaced now. */
static struct fault ask_new_pin(struct op *op, struct terminal *terminal, struct secret **ret_pin)
{
    CLEANUP(secret_freep) struct secret *first = NULL, *second = NULL;
    TRY(terminal_ask_secret(op, terminal, "That is a recovery key. New PIN, not shown: ", &first));
    if (first == NULL) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "a new PIN is needed; nothing was opened");
    }
    size_t len = secret_span(first).len;
    TRY(terminal_ask_secret(op, terminal, "The same again: ", &second));
    if (second == NULL || !secret_equal(secret_span(first), secret_span(second))) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the two are not the same");
    }
    if (len < PROVISION_PIN_MIN || len > PROVISION_PIN_MAX) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "a PIN has %d to %d bytes", PROVISION_PIN_MIN, PROVISION_PIN_MAX);
    }
    *ret_pin = TAKE(first);
    return OK;
}

static struct fault unlock(struct op *op, struct console *console, struct terminal *terminal, const char *line)
{
    CLEANUP(secret_freep) struct secret *recovery = NULL, *pin = NULL;
    CLEANUP(buf_free) struct buf body = BUF_INIT(2 * TERMINAL_LINE_MAX);
    struct span typed = span_text(line);
    TRY(buf_put(&body, typed));
    if (console->seal_has_pin && !FAULTED(seal_recovery_parse(typed, &recovery))) {
        TRY(ask_new_pin(op, terminal, &pin));
    }
    if (pin != NULL) {
        TRY(buf_text(&body, "\n"));
        TRY(buf_put(&body, secret_span(pin)));
    }
    terminal_say(terminal, "unlocking ...");
    op->deadline = clock_mono() + WORK_MS * NS_PER_MS;
    TRY(control_ask(op, CONTROL_SOCKET, CONTROL_UNLOCK, buf_span(&body), NULL));
    secret_free(TAKE(console->new_pin));
    console->new_pin = TAKE(pin); /* the console asks for it too, once the state is open */
    return OK;
}

void console_unlock(struct console *console, struct terminal *terminal, const char *line)
{
    terminal_say(terminal, "%s", ""); /* the line feed was not shown */
    if (line[0] == '\0') {
        return;
    }
    CLEANUP(op_freep) struct op *op = op_for(terminal, ANSWER_MS);
    struct fault done = op != NULL ? unlock(op, console, terminal, line) : OK;
    if (FAULTED(done)) {
        console_complain(terminal, "unlock", op, done);
    }
}

void console_keep_new_pin(struct console *console)
{
    CLEANUP(op_freep) struct op *op = NULL;
    if (console->new_pin == NULL || !console->has_provision ||
        FAULTED(op_new("console", (struct tenant_id){ 0 }, WORK_MS, &op))) {
        return;
    }
    struct fault kept = admin_pin_set(op, ADMIN_PIN_FILE, console->new_pin);
    if (FAULTED(kept)) {
        terminals_say(&console->terminals, "the console keeps asking for the former PIN: %s", op->note.detail);
    }
    secret_free(TAKE(console->new_pin));
}

/* ---- tokens ---- */

/* After a few wrong ones each further try waits longer; the wait is not cut short by asking again. */
static void count_wrong(struct console *console)
{
    if (++console->wrong_pins >= FREE_TRIES) {
        unsigned doubled = console->wrong_pins - FREE_TRIES;
        mono_ns pause = NS_PER_S << (doubled < 10 ? doubled : 10);
        console->pin_again = clock_mono() + (pause < PAUSE_MOST_NS ? pause : PAUSE_MOST_NS);
    }
}

struct fault console_pass_pin(struct op *op, struct console *console, struct terminal *terminal)
{
    CLEANUP(secret_freep) struct secret *pin = NULL;
    if (!path_exists(ADMIN_PIN_FILE)) {
        return OK;
    }
    if (clock_mono() < console->pin_again) {
        return op_fail(op, FAULT(RATE_LIMITED), "too many wrong PINs; try again in %d s",
                       clock_ms_left(console->pin_again) / 1000 + 1);
    }
    TRY(terminal_ask_secret(op, terminal, "PIN of this machine, not shown: ", &pin));
    if (pin == NULL) {
        return op_fail(op, FAULT(CANCELLED), "no PIN");
    }
    struct fault same = admin_pin_check(op, ADMIN_PIN_FILE, pin);
    if (same.code == FAULT_FORBIDDEN) {
        count_wrong(console);
    }
    TRY(same);
    console->wrong_pins = 0;
    return OK;
}

static struct fault token_issue(struct op *op, struct console *console, struct terminal *terminal)
{
    bool yes = false;
    if (!console->has_provision) {
        return op_fail(op, FAULT(CONFLICT), "this machine is not provisioned");
    }
    TRY(console_pass_pin(op, console, terminal));
    TRY(terminal_confirm(op, terminal, "A new admin token; those there are stay valid until they are revoked.", &yes));
    return yes ? console_show_token(op, console, terminal) : OK;
}

void console_token_issue(struct console *console, struct terminal *terminal)
{
    CLEANUP(op_freep) struct op *op = op_for(terminal, ANSWER_MS);
    struct fault done = op != NULL ? token_issue(op, console, terminal) : OK;
    if (FAULTED(done)) {
        console_complain(terminal, "token", op, done);
    }
}

/* ---- certificates ---- */

static struct fault paste(struct op *op, struct terminal *terminal, struct buf *pem)
{
    char line[TERMINAL_LINE_MAX + 1];
    terminal_say(terminal, "Paste the chain, the machine's own certificate first; a line with one dot ends it.");
    while (true) {
        TRY(terminal_ask(op, terminal, "", line));
        if (strcmp(line, ".") == 0) {
            return OK;
        }
        struct fault put = buf_text(pem, line);
        put = FAULTED(put) ? put : buf_text(pem, "\n");
        if (FAULTED(put)) {
            return op_fail(op, put, "that is more than %zu bytes", pem->max);
        }
    }
}

static struct fault from_medium(struct op *op, struct buf *pem)
{
    CLEANUP(medium_close) struct medium medium = MEDIUM_NONE;
    struct fault opened = medium_open(op, PROVISION_LABEL, MEDIUM_READ, &medium);
    if (opened.code == FAULT_NOT_FOUND) {
        return op_fail(op, opened, "there is no medium labelled " PROVISION_LABEL);
    }
    TRY(opened);
    struct fault got = medium_read(op, medium.dir, MEDIUM_FILE, pem);
    return got.code == FAULT_NOT_FOUND ? op_fail(op, got, "there is no " MEDIUM_FILE " on the medium") : got;
}

static struct fault import_now(struct op *op, struct terminal *terminal, const char *from)
{
    const char *const argv[] = { MACHINE_PROGRAM, "certificate", "import", IMPORT_FILE, NULL };
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CSR_CHAIN_MAX);
    bool yes = false;
    int code = 0;
    TRY(from != NULL ? from_medium(op, &pem) : paste(op, terminal, &pem));
    TRY(folder_own(op, PROVISION_ANSWERS_DIR, NULL, NULL, 0700));
    TRY(file_write(IMPORT_FILE, buf_span(&pem), 0600));
    struct fault ran = console_run(op, argv, terminal, 1, &code);
    (void)unlink(IMPORT_FILE);
    TRY(ran);
    if (code != 0) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "nothing was changed");
    }
    TRY(terminal_confirm(op, terminal, "It serves after a restart of the appliance, which takes some seconds.", &yes));
    return yes ? control_ask(op, CONTROL_SOCKET, CONTROL_RESTART, (struct span){ 0 }, NULL) : OK;
}

void console_import(struct console *console, struct terminal *terminal, const char *from)
{
    (void)console;
    CLEANUP(op_freep) struct op *op = op_for(terminal, ANSWER_MS);
    struct fault done = op != NULL ? import_now(op, terminal, from) : OK;
    if (FAULTED(done)) {
        console_complain(terminal, "certificate import", op, done);
    }
}
