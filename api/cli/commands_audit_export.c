/* Exports of the audit trail and the keys that verify them. */
#include "api/cli/commands.h"

static const struct flag export_flags[] = {
    OUT_FLAG("where the export goes (stdout)"),
    { .name = "shape", .value = "SHAPE", .doc = "jws, ndjson, csv, cef or ocsf (jws)" },
    { .name = "from-sequence", .value = "N", .doc = "first record (the first that is served)" },
    { .name = "to-sequence", .value = "N", .doc = "last record (the newest)" },
    { .name = "from", .value = "TIME", .doc = "from the first record at or after this time (RFC 3339)" },
    { .name = "to", .value = "TIME", .doc = "to the last record before this time" },
    { .name = "split", .value = "N", .doc = "into files of N records each; those that are there already are left" },
    { .name = "output-dir", .value = "DIR", .doc = "where they go: audit-FIRST-LAST.SUFFIX" },
};
static const struct flag key_flags[] = {
    OUT_FLAG("where the keys go (stdout)"),
};

static const struct command rows[] = {
    { .words = "audit export",
      .routes = { { "GET", "/api/v1/audit/export" }, { "GET", "/api/v1/audit/records" } },
      FLAGS(export_flags),
      .run = run_audit_export,
      .help = "all records and the head of their hash chain, signed",
      .more =
          "A compact JWS, or a stream of lines with a signed trailer, by the tenant's audit-export key. Keep exports\n"
          "where they cannot be altered: each proves what the trail was at that time. A file is there only when it is\n"
          "whole. With --split an interrupted export goes on where it stopped. --timeout is how long the server may\n"
          "send nothing. Every export is itself recorded. Needs the permission audit:read.",
      .example = "audit export --shape csv --split 100000 --output-dir trail" },
    { .words = "audit verification-keys",
      .routes = { { "GET", "/api/v1/audit/verification-keys" } },
      FLAGS(key_flags),
      .run = run_verification_keys,
      .help = "the keys that exports are verified with (JWK set)",
      .more =
          "Pin them once, apart from the exports: an export and keys from one hand prove nothing. Fetch them again\n"
          "after a rotation; the former ones stay in the set.",
      .example = "audit verification-keys -o audit.jwks" },
    { .words = "audit rotate-key",
      .routes = { { "POST", "/api/v1/audit/verification-keys/rotations" } },
      .run = run_rotate_verification_key,
      .help = "a new key signs exports from now on",
      .more =
          "What the former keys have signed stays verifiable. Whoever pinned the JWK set needs the new one. Needs the\n"
          "permission audit:write.",
      .example = "audit rotate-key" },
};

const struct command_group commands_of_audit_export = { rows, COUNT_OF(rows) };
