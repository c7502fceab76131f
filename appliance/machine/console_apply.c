/* `provision apply`: a provisioned machine takes a changed provisioning from the medium, where what rests on the old
 * one stays as it was. */
#include "appliance/machine/admin.h"
#include "appliance/machine/console_session.h"
#include "appliance/machine/control.h"
#include "appliance/machine/provision_store.h"

#define ANSWER_MS (5 * 60 * 1000)
#define WHY_MAX   ((size_t)64 << 10)

/* Keys and certificates are the tenant's and the token's; how the state opens is written in its header. */
struct fault console_same_machine(struct op *op, const struct provision *old, const struct provision *new)
{
    const struct {
        const char *key;
        bool same;
    } fixed[] = {
        { "tenant", strcmp(old->tenant, new->tenant) == 0 },
        { "hsm.kind", old->hsm.kind == new->hsm.kind },
        { "state.seal", old->state.seal == new->state.seal },
    };
    for (size_t i = 0; i < COUNT_OF(fixed); i++) {
        if (!fixed[i].same) {
            return op_fail(op, FAULT(CONFLICT),
                           "%s cannot be changed any more; docs/first-boot.md tells how to begin "
                           "anew",
                           fixed[i].key);
        }
    }
    return OK;
}

static struct fault apply(struct op *op, struct console *console, struct terminal *terminal, struct buf *why)
{
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    CLEANUP(buf_free) struct buf text = BUF_INIT(2 * PROVISION_FILE_MAX);
    bool yes = false;
    if (!console->has_provision) {
        return op_fail(op, FAULT(CONFLICT), "this machine is not provisioned");
    }
    TRY(console_pass_pin(op, console, terminal));
    struct fault read = provision_find_and_read(op, why, &found);
    if (read.code == FAULT_NOT_FOUND) {
        return op_fail(op, read, "there is no medium labelled " PROVISION_LABEL " with a " PROVISION_NAME);
    }
    TRY(read);
    TRY(console_same_machine(op, &console->provision, &found.provision));
    TRY(provision_print(&found.provision, &text));
    terminal_say(terminal, "\nThis is what the machine will be:\n");
    terminal_put(terminal, buf_span(&text));
    TRY(terminal_confirm(op, terminal, "\nIt is kept now, and the machine starts again.", &yes));
    if (!yes) {
        return OK;
    }
    secret_free(TAKE(found.state_pin)); /* the state opens as before */
    TRY(provision_save(op, &found));
    return control_ask(op, CONTROL_SOCKET, CONTROL_REBOOT, (struct span){ 0 }, NULL);
}

void console_provision_apply(struct console *console, struct terminal *terminal)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(WHY_MAX);
    struct fault done = op_new("console", (struct tenant_id){ 0 }, ANSWER_MS, &op);
    done = FAULTED(done) ? done : apply(op, console, terminal, &why);
    if (!FAULTED(done)) {
        return;
    }
    terminal_put(terminal, buf_span(&why));
    console_complain(terminal, "provision apply", op, done);
}
