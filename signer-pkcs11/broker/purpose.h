/*
 * Who may ask for what. Two tables decide: purpose.def (who may use keys of a purpose, and of which kind they are) and
 * ops.def (what an operation asks of them). Everything here is decided before the token is touched.
 */
#ifndef SIGNER_BROKER_PURPOSE_H
#define SIGNER_BROKER_PURPOSE_H

#include "signer-pkcs11/protocol/message.h"

#include <sys/types.h>

/* Who asks, as bits: the peer's uid decides (SO_PEERCRED), never what it says. */
enum { ASKER_NOBODY = 0, ASKER_API = 1, ASKER_SUP = 2 };

/* The uids of this machine, looked up once, before the sandbox. */
struct askers {
    uid_t api;
    bool has_api;
    uid_t own;
    bool own_is_all; /* this is not the appliance's signer user, so a test or a workbench: our own uid is everybody */
};
void askers_look_up(struct askers *ret_askers);
unsigned askers_of(const struct askers *askers, uid_t uid); /* 0: nobody who may connect */

/* SIGNER_REFUSED with op's note. */
struct fault purpose_check(struct op *op, unsigned askers, const struct wire_request *request);

#endif
