/*
 * How each part of the appliance is confined (confine.h), from the configuration: what it writes, what it does not see,
 * where it listens. What is made here lives as long as the operation's arena.
 *
 * Not for a PKCS#11 module of an HSM's maker, which may want anything of the machine: svc-signer closes its own
 * Landlock and system call filter around it, when it has told what it needs (signer-pkcs11/broker/sandbox.h).
 */
#ifndef APPLIANCE_STORES_PROFILES_H
#define APPLIANCE_STORES_PROFILES_H

#include "appliance/base/config.h"
#include "appliance/stores/confine.h"

struct fault profile_postgres(struct op *op, const struct config *config, struct confine *ret_confine);
struct fault profile_nats(struct op *op, const struct config *config, struct confine *ret_confine);
/* Whether that of svc-signer fits: a token of SoftHSM's, ours. Else none of it is put on. */
bool profile_fits_signer(const struct config *config);
struct fault profile_signer(struct op *op, const struct config *config, struct confine *ret_confine);
struct fault profile_api(struct op *op, const struct config *config, struct confine *ret_confine);

#endif
