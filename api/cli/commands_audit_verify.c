/* Exports of the audit trail, judged offline. */
#include "api/cli/commands.h"

#define PIN_FLAGS                                                                                             \
    { .name = "audit-jwks", .value = "FILE", .doc = "verification keys that you pinned earlier (JWK set)" },  \
        { .name = "tsa-root", .value = "PEM", .doc = "root of the time-stamping authority that you pinned" }, \
        { .name = "max-anchor-delay",                                                                         \
          .value = "DURATION",                                                                                \
          .doc = "longest time from the newest record to its time stamp, such as 24h (any)" },                \
        { .name = "allow-unanchored", .doc = "with --tsa-root: good also without a time stamp" }

static const struct flag verify_flags[] = {
    { .name = "artifact", .value = "FILE", .required = true, .doc = "the export, of any shape; - is stdin" },
    PIN_FLAGS,
};
static const struct flag compare_flags[] = {
    PIN_FLAGS,
};

static const struct command rows[] = {
    { .words = "audit verify",
      .arguments = "[FILE...]",
      .least = 0,
      .most = ARGUMENTS_MAX,
      FLAGS(verify_flags),
      .run = run_audit_verify,
      .help = "check exports offline: JWS bundle, NDJSON, CSV, CEF or OCSF",
      .more =
          "Recomputes the hash of every record, makes every line again from its record, and checks the signature by a\n"
          "pinned key, the Merkle root and the time stamp over the chain head. Names the first record and the column or\n"
          "member that does not hold. Further FILEs must continue the one before. A bundle needs --audit-jwks, a record\n"
          "stream --audit-jwks or --tsa-root; whatever carries a time stamp needs --tsa-root. Ends with 0 when everything\n"
          "holds, 2 when something does not or an argument is wrong, 1 when it could not be told.",
      .example = "audit verify --artifact audit.jws --audit-jwks audit.jwks --tsa-root tsa-root.pem" },
    { .words = "audit compare",
      .arguments = "FILE FILE",
      .least = 2,
      .most = 2,
      FLAGS(compare_flags),
      .run = run_audit_compare,
      .help = "do two exports of one tenant tell the same history?",
      .more =
          "Verifies both, then says that they are the same, that one extends or continues the other, or the first\n"
          "sequence where they part. Ends with 0 when they agree, 2 when they part or one is refused, 1 when nothing can\n"
          "be told because they neither overlap nor touch.",
      .example = "audit compare audit-2025.jws audit-2026.ndjson --audit-jwks audit.jwks --tsa-root tsa-root.pem" },
};

const struct command_group commands_of_audit_verify = { rows, COUNT_OF(rows) };
