/*
 * client.env: how to reach this appliance and with which tokens, as lines that a shell can source. Written whole, mode
 * 0600; read back only for the tokens, which cannot be had a second time.
 */
#ifndef APPLIANCE_SUPERVISOR_CLIENT_ENV_H
#define APPLIANCE_SUPERVISOR_CLIENT_ENV_H

#include "appliance/base/op.h"

#define CLIENT_ENV_MAX ((size_t)64 << 10)

enum client_role { CLIENT_ADMIN, CLIENT_OPERATOR, CLIENT_APPROVER, CLIENT_CI, CLIENT_AUDITOR, CLIENT_ROLE_COUNT };
/* "operator": the role's name in roles.yaml. */
const char *client_role_text(enum client_role role);

struct client_env {
    const char *base_url, *ca_file, *tenant;
    const char *tsa_url, *tsa_root;        /* "" = no time-stamping */
    const char *tokens[CLIENT_ROLE_COUNT]; /* "" = none yet */
    utc_us tokens_end;                     /* when the first of them expires; 0 = unknown */
};

struct fault client_env_print(const struct client_env *env, struct buf *out);
/* Tokens, their end and tenant from the text of an earlier one, into op's arena; lines of other kinds are skipped. */
struct fault client_env_parse_tokens(struct op *op, struct span text, struct client_env *env);

#endif
