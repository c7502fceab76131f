/* The questions of first boot, asked at one terminal: the keys of provision.yaml, each checked as it is answered. */
#ifndef APPLIANCE_MACHINE_CONSOLE_ASK_H
#define APPLIANCE_MACHINE_CONSOLE_ASK_H

#include "appliance/machine/console_tty.h"
#include "appliance/machine/provision.h"

/* The answers as the text of a provision.yaml, and the PINs, which a caller puts where provision_read_answers looks.
 * CANCELLED: the operator said stop (a line with one dot), or did not say yes at the end; DEADLINE: nobody answered. */
struct console_answers {
    struct buf yaml;                    /* BUF_INIT(PROVISION_FILE_MAX) */
    struct secret *state_pin, *hsm_pin; /* owned; NULL = none */
};
void console_answers_clear(struct console_answers *answers); /* idempotent; the form that CLEANUP wants */
struct fault console_ask_provision(struct op *op, struct terminal *terminal, struct console_answers *answers);

/* Puts the PINs into `folder` (made, 0700), under the names that the text has. */
struct fault console_answers_leave(struct op *op, const char *folder, const struct console_answers *answers);

#endif
