/*
 * What an operator at the console may do beyond looking: the PIN that guards it, tokens, and the hand-over after first
 * boot (admin token shown once, certificates written to the provisioning medium).
 */
#ifndef APPLIANCE_MACHINE_ADMIN_H
#define APPLIANCE_MACHINE_ADMIN_H

#include "appliance/base/op.h"
#include "appliance/base/secret.h"
#include "appliance/machine/provision.h"

/* ---- the console's PIN: the state's, where the site gave one. Kept as a salted hash inside the state. ---- */

#define ADMIN_PIN_NAME "console-pin"
#define ADMIN_PIN_FILE MACHINE_DIR "/" ADMIN_PIN_NAME

struct fault admin_pin_set(struct op *op, const char *path, const struct secret *pin);
/* OK: it is the one. NOT_FOUND: none is set. FORBIDDEN: it is another. CONFIG: the file is damaged, so nothing is. */
struct fault admin_pin_check(struct op *op, const char *path, const struct secret *pin);

/* ---- tokens, by svc-appliance token create: the product must be running ---- */

#define ADMIN_TOKEN_FILE MACHINE_DIR "/token-shown" /* its presence: the first token was shown */

struct admin_token {
    const char *subject, *tenant, *id;
    struct secret *token; /* owned */
    utc_us expires;
};
void admin_token_clear(struct admin_token *token); /* idempotent; the form that CLEANUP wants */
/* One with the role admin for the provisioning's subject. The answer of svc-appliance is never logged. */
struct fault admin_token_issue(struct op *op, const struct provision *provision, struct admin_token *ret_token);
/* That answer, read. JSON_SYNTAX, JSON_FIELD. */
struct fault admin_token_parse(struct op *op, struct span json, struct admin_token *ret_token);

/* ---- the hand-over ---- */

/* Writes ca.pem, tsa-root.pem and, where there is one, tls.csr into out/ of the provisioning medium. NOT_FOUND: no
 * medium. Nothing secret is ever written there. *ret_names: what was written, for a person. */
struct fault admin_hand_over(struct op *op, const char **ret_names);

#endif
