/*
 * The local commands over tenants and tokens, for the machine's operator: no HTTP, no bearer token, the stores
 * directly. argv[0] is "token" or "tenant". Result on stdout (a table, or JSON with --json), one line on stderr when
 * refused; returns the exit code: 0, 1 failed, 2 refused.
 *
 *   token create --subject S --role R [--role R ...] [--ttl 720h] [--tenant T] [--json]     prints the token, once
 *   token list [--tenant T] [--subject S] [--json]
 *   token revoke ID --reason TEXT [--tenant T] [--json]
 *   tenant create ID [--json]
 *   tenant list [--json]
 */
#ifndef API_IDENTITY_CLI_H
#define API_IDENTITY_CLI_H

struct services;

int identity_command_token(int argc, char **argv, struct services *services);
int identity_command_tenant(int argc, char **argv, struct services *services);

#endif
