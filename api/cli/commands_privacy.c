/* Privacy erasure: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct flag page_flags[] = { LIMIT_FLAG, CURSOR_FLAG };
static const struct flag file_flags[] = {
    { .name = "file",
      .letter = 'f',
      .value = "REQUEST.json",
      .required = true,
      .doc = "the request's body; - is stdin: a name on the command line would stay in the shell's history" },
};

static const struct command rows[] = {
    { .words = "privacy erasures preview",
      .routes = { { "POST", "/api/v1/privacy/erasures/preview" } },
      FLAGS(file_flags),
      .run = run_erasures_preview,
      .help = "what an erasure of a subject would replace",
      .more = "The file: {\"subject\": \"alice@example.com\"}. Changes nothing. Needs the permission audit:write.",
      .example = "privacy erasures preview -f subject.json" },
    { .words = "privacy erasures create",
      .routes = { { "POST", "/api/v1/privacy/erasures" } },
      FLAGS(file_flags),
      .run = run_erasures_create,
      .help = "erase what was previewed, for good",
      .more =
          "The file: {\"subject\": ..., \"preview_fingerprint\": ..., \"reason\": ...}. The first try is refused and\n"
          "names a resource; somebody else approves it (approvals approve), then repeat it. Needs audit:write.",
      .example = "privacy erasures create -f erase.json" },
    { .words = "privacy erasures list",
      .routes = { { "GET", "/api/v1/privacy/erasures" } },
      FLAGS(page_flags),
      .run = run_erasures_list,
      .help = "erasures, newest first",
      .example = "privacy erasures list" },
    { .words = "privacy erasures get",
      .arguments = "ERASURE_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/privacy/erasures/{id}" } },
      .run = run_erasures_get,
      .help = "how far an erasure is",
      .example = "privacy erasures get 0190a6b2-0001-7000-8000-00000000abcd" },
    { .words = "privacy attestations create",
      .routes = { { "POST", "/api/v1/privacy/archive-erasure-attestations" } },
      FLAGS(file_flags),
      .run = run_attestations_create,
      .help = "record what was done about an archive that an erasure did not reach",
      .more = "The file: erasure_id, archive_locator, archive_sha256 (hex), action (destroyed, rewritten, retained),\n"
              "performed_by, performed_at (RFC 3339) and, as you like, note. Needs the permission audit:write.",
      .example = "privacy attestations create -f attestation.json" },
    { .words = "privacy attestations list",
      .routes = { { "GET", "/api/v1/privacy/archive-erasure-attestations" } },
      FLAGS(page_flags),
      .run = run_attestations_list,
      .help = "attestations about archives, newest first",
      .example = "privacy attestations list" },
    { .words = "audit history",
      .routes = { { "GET", "/api/v1/audit/history" } },
      .run = run_audit_history,
      .help = "the rewritings of the trail, with the heads before and after each",
      .more = "Explains why an older export has another head than the trail has now. Needs audit:read.",
      .example = "audit history --json" },
};

const struct command_group commands_of_privacy = { rows, COUNT_OF(rows) };
