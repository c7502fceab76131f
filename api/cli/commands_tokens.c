/* Bearer tokens: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct flag token_create_flags[] = {
    { .name = "subject", .value = "SUBJECT", .required = true, .doc = "who acts with it, in the audit trail" },
    { .name = "role",
      .value = "ROLE",
      .required = true,
      .repeats = true,
      .doc = "admin, operator, approver, ci or auditor" },
    { .name = "ttl", .value = "SPAN", .doc = "how long it lives, such as 720h; else the server's default" },
    OUT_FLAG("write the token into this file (mode 0600) instead of showing it"),
};
static const struct flag token_list_flags[] = {
    { .name = "subject", .value = "SUBJECT", .doc = "only those of this subject" },
    { .name = "active", .value = "true|false", .doc = "only those that work, or only those that do not" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag token_revoke_flags[] = {
    { .name = "reason", .value = "TEXT", .required = true, .doc = "goes into the audit trail" },
};

static const struct command rows[] = {
    { .words = "tokens create",
      .routes = { { "POST", "/api/v1/tokens" } },
      FLAGS(token_create_flags),
      .run = run_tokens_create,
      .help = "make a bearer token",
      .more = "The token is shown once and cannot be read again. Needs the permission tokens:write.",
      .example = "tokens create --subject ci/release --role ci --ttl 720h -o ci.token" },
    { .words = "tokens list",
      .routes = { { "GET", "/api/v1/tokens" } },
      FLAGS(token_list_flags),
      .run = run_tokens_list,
      .help = "list bearer tokens, never their text",
      .example = "tokens list --active true" },
    { .words = "tokens revoke",
      .arguments = "TOKEN_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/tokens/{id}/revocations" } },
      FLAGS(token_revoke_flags),
      .run = run_tokens_revoke,
      .help = "revoke a bearer token",
      .example = "tokens revoke 0190a6b2-0001-7000-8000-00000000abcd --reason 'laptop lost'" },
};

const struct command_group commands_of_tokens = { rows, COUNT_OF(rows) };
