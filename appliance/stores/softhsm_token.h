/* Initialising a SoftHSM token through its PKCS#11 module. For a child that ends afterwards: the module stays loaded.
 */
#ifndef APPLIANCE_STORES_SOFTHSM_TOKEN_H
#define APPLIANCE_STORES_SOFTHSM_TOKEN_H

#include "appliance/base/op.h"

#define TOKEN_LABEL_MAX 32

/* A new token with this label and PINs in the first slot without one. SOFTHSM2_CONF says where. TOKEN_UNAVAILABLE. */
struct fault softhsm_token_new(struct op *op, const char *module, const char *label, struct span so_pin,
                               struct span user_pin);

#endif
