/* Attestations, bill of materials, crypto readiness, editions: the table is the command line, its help, and what it
 * asks of the server. */
#include "api/cli/commands.h"

static const struct flag record_flags[] = {
    { .name = "file",
      .letter = 'f',
      .value = "REQUEST.json",
      .required = true,
      .doc = "the request's body; - is stdin" },
};
static const struct flag withdraw_flags[] = {
    { .name = "reason", .value = "TEXT", .required = true, .doc = "why it counts no more" },
};
static const struct flag list_flags[] = {
    { .name = "current", .doc = "only the newest valid one of each statement" },
    { .name = "statement", .value = "NAME", .doc = "only of this statement" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag cbom_flags[] = { OUT_FLAG("where to write it; stdout when not given") };
static const struct flag readiness_flags[] = {
    { .name = "format", .value = "FORMAT", .doc = "json, csv or ndjson, as it comes; else a table" },
    OUT_FLAG("where to write it, with --format; stdout when not given"),
};

static const struct command rows[] = {
    { .words = "compliance attestations record",
      .routes = { { "POST", "/api/v1/compliance/attestations" } },
      FLAGS(record_flags),
      .run = run_statements_record,
      .help = "attest a statement that a framework names",
      .more = "The file: statement, title, evidence {locator, sha256 (hex), media_type} and, as you like, note,\n"
              "valid_from, expires_at (RFC 3339). Needs the permission audit:write.",
      .example = "compliance attestations record -f attestation.json" },
    { .words = "compliance attestations withdraw",
      .arguments = "ATTESTATION_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/compliance/attestations/{id}/withdrawal" } },
      FLAGS(withdraw_flags),
      .run = run_statements_withdraw,
      .help = "an attestation counts no more",
      .more = "It stays in the list and in the trail. Needs the permission audit:write.",
      .example = "compliance attestations withdraw 0190a6b2-0001-7000-8000-00000000abcd --reason \"wrong file\"" },
    { .words = "compliance attestations list",
      .routes = { { "GET", "/api/v1/compliance/attestations" } },
      FLAGS(list_flags),
      .run = run_statements_list,
      .help = "attestations, newest first",
      .more = "Needs the permission audit:read.",
      .example = "compliance attestations list --current" },
    { .words = "cbom",
      .routes = { { "GET", "/api/v1/cbom" } },
      FLAGS(cbom_flags),
      .run = run_cbom,
      .help = "the cryptographic bill of materials, CycloneDX 1.6",
      .more = "Needs the permission audit:read.",
      .example = "cbom -o cbom.json" },
    { .words = "graph crypto-readiness",
      .routes = { { "GET", "/api/v1/graph/crypto-readiness" } },
      FLAGS(readiness_flags),
      .run = run_readiness,
      .help = "what of the tenant's cryptography a quantum computer breaks, and what to do about it",
      .more = "The table's digest is computed here and compared with the one that the server states. All formats\n"
              "state the same digest; docs/inventory.md says how to check it. Needs the permission audit:read.",
      .example = "graph crypto-readiness --format csv -o readiness.csv" },
    { .words = "graph crypto-readiness-action",
      .routes = { { "POST", "/api/v1/graph/crypto-readiness/actions" } },
      FLAGS(record_flags),
      .run = run_readiness_action,
      .help = "bind an action to an object of the dataset",
      .more = "The file: object, action (migrate, retire, accept, investigate), state (planned, in_progress, done,\n"
              "cancelled) and, as you like, note, due (RFC 3339). Needs the permission audit:write.",
      .example = "graph crypto-readiness-action -f action.json" },
    { .words = "editions",
      .routes = { { "GET", "/api/v1/editions" } },
      .run = run_editions,
      .help = "edition, entitlement and FIPS posture",
      .more = "Needs the permission system:read.",
      .example = "editions --json" },
};

const struct command_group commands_of_crypto = { rows, COUNT_OF(rows) };
