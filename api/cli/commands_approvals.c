/* May it be signed: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct flag explain_flags[] = {
    { .name = "file",
      .letter = 'f',
      .value = "REQUEST.json",
      .required = true,
      .doc = "what is asked about; - is stdin" },
};
static const struct flag approval_list_flags[] = {
    { .name = "waiting", .doc = "only those that wait for a decision of yours" },
    { .name = "state", .value = "STATE", .doc = "pending, approved, used_up, denied, expired or replaced" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag approve_flags[] = {
    { .name = "reason", .value = "TEXT", .doc = "goes into the audit trail" },
};
static const struct flag deny_flags[] = {
    { .name = "reason", .value = "TEXT", .required = true, .doc = "goes into the audit trail" },
};

static const struct command rows[] = {
    { .words = "code-signing policy explain",
      .routes = { { "POST", "/api/v1/code-signing/policy/explain" } },
      FLAGS(explain_flags),
      .run = run_policy_explain,
      .help = "which rule decides about a signing; changes nothing",
      .more =
          "The file: {\"artifact_type\": ...} and, as needed, digest_algorithm, key_id or key_name, principal, roles,\n"
          "mode (key, keyless), issuer, san, at. Without a principal it is you.",
      .example = "code-signing policy explain -f question.json" },
    { .words = "code-signing policy show",
      .routes = { { "GET", "/api/v1/code-signing/policy" } },
      .run = run_policy_show,
      .help = "the rules that can concern you, in their order",
      .example = "code-signing policy show" },
    { .words = "approvals list",
      .routes = { { "GET", PATH_REQUESTS } },
      FLAGS(approval_list_flags),
      .run = run_approvals_list,
      .help = "requests for approval, newest first",
      .example = "approvals list --waiting" },
    { .words = "approvals get",
      .arguments = "REQUEST_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/approval-requests/{id}" } },
      .run = run_approvals_get,
      .help = "one request: what is to be signed, and who decided",
      .example = "approvals get 0190a6b2-0001-7000-8000-00000000abcd" },
    { .words = "approvals approve",
      .arguments = "REQUEST_ID|RESOURCE",
      .least = 1,
      .most = 1,
      .routes = { { "POST", PATH_APPROVE }, { "POST", PATH_APPROVE_RESOURCE } },
      FLAGS(approve_flags),
      .run = run_approvals_approve,
      .help = "approve what somebody else wants to sign",
      .more =
          "By the request's id, or by the resource that the refusal named. Needs the permission certs:issue; nobody\n"
          "approves what he asked for himself. Look at it first: approvals get.",
      .example = "approvals approve 0190a6b2-0001-7000-8000-00000000abcd --reason 'release 1.2, checked'" },
    { .words = "approvals deny",
      .arguments = "REQUEST_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/approval-requests/{id}/denials" } },
      FLAGS(deny_flags),
      .run = run_approvals_deny,
      .help = "refuse it, for good",
      .example = "approvals deny 0190a6b2-0001-7000-8000-00000000abcd --reason 'not from the release branch'" },
};

const struct command_group commands_of_approvals = { rows, COUNT_OF(rows) };
