/* What the console shows once: the recovery key, the first token, where the certificates are. */
#include "appliance/base/file.h"
#include "appliance/machine/admin.h"
#include "appliance/machine/console_run.h"
#include "appliance/machine/console_session.h"
#include "appliance/machine/control.h"
#include "appliance/machine/provision_store.h"
#include "appliance/stores/folder.h"

#define ASK_MS   10000
#define TOKEN_MS (5 * 60 * 1000) /* two programs in emulation */
#define KEY_MAX  1024

/* ---- the recovery key ---- */

void console_show_recovery(struct console *console)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf key = BUF_INIT(CONTROL_BODY_MAX);
    if (console->recovery_asked || console->recovery_waits ||
        FAULTED(op_new("console", (struct tenant_id){ 0 }, ASK_MS, &op))) {
        return;
    }
    struct fault got = control_ask(op, CONTROL_SOCKET, CONTROL_RECOVERY, (struct span){ 0 }, &key);
    if (got.code == FAULT_NOT_FOUND) {
        /* It is made while the state is, so before that the answer may change. */
        console->recovery_asked = console->phase == PHASE_RUNNING || console->phase == PHASE_READY;
        return;
    }
    if (FAULTED(got) || key.len == 0 || key.len > KEY_MAX) {
        return;
    }
    terminals_say(&console->terminals, "\n"
                                       "  RECOVERY KEY of this machine's state. It opens the state whatever happens to "
                                       "TPM and PIN.\n"
                                       "  Write it down and keep it away from the machine; it is not shown again.\n");
    terminals_put(&console->terminals, span_text("    "));
    terminals_put(&console->terminals, buf_span(&key));
    terminals_say(&console->terminals, "\n\n  Then type: written\n");
    console->recovery_waits = true;
}

/* ---- the first token ---- */

static struct fault put_token(struct terminal *terminal, const struct admin_token *token)
{
    char end[RFC3339_MAX];
    rfc3339_print(token->expires, end);
    terminal_say(terminal, "\n  ADMIN TOKEN of %s in tenant %s, until %s. It is shown once.\n", token->subject,
                 token->tenant, end);
    terminal_put(terminal, span_text("    "));
    terminal_put(terminal, secret_span(token->token));
    terminal_say(terminal, "\n\n  revoke it with: svc-cli tokens revoke %s --reason TEXT\n", token->id);
    return OK;
}

struct fault console_show_token(struct op *op, struct console *console, struct terminal *terminal)
{
    CLEANUP(admin_token_clear) struct admin_token token = { .token = NULL };
    TRY(admin_token_issue(op, &console->provision, &token));
    if (terminal != NULL) {
        return put_token(terminal, &token);
    }
    for (size_t i = 0; i < console->terminals.count; i++) {
        IGNORE(put_token(&console->terminals.at[i], &token));
    }
    return OK;
}

/* ---- the hand-over ---- */

static void hand_over_certificates(struct op *op, struct console *console)
{
    const char *const argv[] = { MACHINE_PROGRAM, "certificate", "csr", NULL };
    const char *names = "";
    int code = 0;
    if (console->provision.tls.mode == PROVISION_TLS_CSR && !path_exists(LISTENER_CERT)) {
        IGNORE(console_run(op, argv, console->terminals.at, console->terminals.count, &code));
    }
    struct fault handed = admin_hand_over(op, &names);
    if (!FAULTED(handed)) {
        terminals_say(&console->terminals, "  written to the medium " PROVISION_LABEL ": %s\n", names);
    } else if (handed.code != FAULT_NOT_FOUND) {
        terminals_say(&console->terminals, "  the medium " PROVISION_LABEL " is left as it is: %s\n", op->note.detail);
    }
    terminals_say(&console->terminals,
                  "  certificate show prints ca.pem and tsa-root.pem. Take the provisioning medium away now; destroy "
                  "what holds a PIN.\n");
}

void console_hand_over(struct console *console)
{
    CLEANUP(op_freep) struct op *op = NULL;
    if (console->handed_over || !console->has_provision) {
        return;
    }
    console->handed_over = path_exists(ADMIN_TOKEN_FILE);
    if (console->handed_over || FAULTED(op_new("console", (struct tenant_id){ 0 }, TOKEN_MS, &op))) {
        return;
    }
    console->handed_over = true; /* one try for each run of this process; `token issue` is another way */
    struct fault shown = console_show_token(op, console, NULL);
    if (FAULTED(shown)) {
        terminals_say(&console->terminals, "the first token could not be made: %s; try token issue",
                      op->note.set ? op->note.detail : fault_row(shown.code)->title);
    } else if (FAULTED(file_write(ADMIN_TOKEN_FILE, span_text("shown\n"), 0600))) {
        terminals_say(&console->terminals, "%s cannot be written; the next start shows another token",
                      ADMIN_TOKEN_FILE);
    }
    op->note.set = false;
    hand_over_certificates(op, console);
}
