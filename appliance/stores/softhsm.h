/*
 * The token: SoftHSM under data_dir/softhsm with a PIN in data_dir/signer/pin, made at first start; or the module of
 * a real HSM, of which only the files are looked at (svc-signer opens it, nobody else).
 *
 * No PIN stands in an argument or in the environment: initialising runs in a short child of svc-signer's own user.
 */
#ifndef APPLIANCE_STORES_SOFTHSM_H
#define APPLIANCE_STORES_SOFTHSM_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#define SOFTHSM_USER "svc-signer"

bool softhsm_embedded(const struct config *config);
/* Makes PIN and token if they are missing and writes softhsm2.conf. May be interrupted and run again. A token whose
 * PIN is missing is refused (CONFIG): it cannot be opened any more, and making a new one would lose its keys. */
struct fault softhsm_init(struct op *op, const struct config *config);
/* "SOFTHSM2_CONF=..." for svc-signer. */
struct fault softhsm_environment(struct op *op, const struct config *config, const char **ret_entry);
/* An external token: module and PIN file exist and the PIN file is svc-signer's alone. CONFIG. */
struct fault softhsm_check_external(struct op *op, const struct config *config);

#endif
