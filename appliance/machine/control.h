/*
 * Asking PID 1 for something: one request and one answer over CONTROL_SOCKET (root only). PID 1 serves it from its one
 * loop; a caller waits for the answer until op's deadline.
 *
 *   reboot, poweroff     begins the orderly stop; answered at once
 *   unlock               body: PIN or recovery key, as typed (a PIN byte for byte). While PHASE_LOCKED only. Takes some
 *                        seconds. Refused = UNSEAL with what to do. Where the TPM did not open the state although it
 *                        should, the recovery key has it sealed anew; with mode "tpm2+pin" or "pin" that needs a second
 *                        line: the new PIN.
 *   provision            body: the text of a provision.yaml. While PHASE_PROVISIONING only. Checked, then the answer
 *                        comes, then the state is made: follow status.json.
 *   recovery-shown       the person at the console says that the recovery key is written down: it is forgotten
 *   recovery             the recovery key that was made at this boot, once, until it is shown; NOT_FOUND afterwards
 *   restart              stops svc-appliance and starts it again (after its configuration was changed)
 */
#ifndef APPLIANCE_MACHINE_CONTROL_H
#define APPLIANCE_MACHINE_CONTROL_H

#include "appliance/machine/status.h"

#define CONTROL_SOCKET   MACHINE_RUN_DIR "/control"
#define CONTROL_BODY_MAX 65536

enum control_verb {
    CONTROL_REBOOT,
    CONTROL_POWEROFF,
    CONTROL_UNLOCK,
    CONTROL_PROVISION,
    CONTROL_RECOVERY,
    CONTROL_RECOVERY_SHOWN,
    CONTROL_RESTART,
    CONTROL_VERB_COUNT,
};
const char *control_verb_text(enum control_verb verb);

/* The answer's text goes to `said` (NULL = not wanted; give it a bound of CONTROL_BODY_MAX). The fault and the note are
 * those of PID 1; IO when nobody listens. */
struct fault control_ask(struct op *op, const char *socket, enum control_verb verb, struct span body, struct buf *said);

/* PID 1's side. Serves one caller that is waiting (bounded: a caller that says nothing within a second is dropped). */
typedef struct fault (*control_handler)(struct op *op, void *arg, enum control_verb verb, struct span body,
                                        struct buf *answer);
struct fault control_listen(struct op *op, const char *socket, int *ret_listener);
void control_serve(int listener, control_handler handler, void *arg);

#endif
