/* Time stamps and the audit trail: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct flag stamp_flags[] = {
    OUT_FLAG("where the time stamp goes (FILE.tsr)"),
    { .name = "digest", .value = "HASH", .doc = "sha256, sha384 or sha512 (sha256)" },
    { .name = "url", .value = "URL", .doc = "address of the authority (SVC_TSA_URL; else /tsa of the appliance)" },
    { .name = "root", .value = "PEM", .doc = "root to verify the stamp against before it is written (SVC_TSA_ROOT)" },
};
static const struct flag stamp_verify_flags[] = {
    { .name = "token", .value = "FILE.tsr", .required = true, .doc = "the time stamp" },
    { .name = "root", .value = "PEM", .doc = "root certificate that you trust (SVC_TSA_ROOT)" },
    { .name = "certificates", .value = "PEM", .doc = "further certificates, for a time stamp without its own" },
    { .name = "digest", .value = "HASH:HEX", .doc = "in place of FILE: sha256, sha384 or sha512, and its digest" },
    { .name = "query", .value = "FILE.tsq", .doc = "the query that was sent: the nonce must be the same" },
    { .name = "at", .value = "TIME", .doc = "the certificates must be valid then, too (RFC 3339)" },
};
static const struct flag chain_flags[] = {
    OUT_FLAG("where the certificates go (stdout)"),
    { .name = "url", .value = "URL", .doc = "address of the authority (SVC_TSA_URL; else /tsa of the appliance)" },
};
static const struct flag record_flags[] = {
    { .name = "actor", .value = "SUBJECT", .doc = "only what this subject did" },
    { .name = "type", .value = "TYPE", .doc = "only events of this type, such as codesign.signed" },
    { .name = "from", .value = "TIME", .doc = "from this time on (RFC 3339)" },
    { .name = "to", .value = "TIME", .doc = "before this time" },
    { .name = "order", .value = "asc|desc", .doc = "oldest or newest first (desc)" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};

static const struct command rows[] = {
    { .words = "tsa stamp",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      .routes = { { "POST", PATH_TSA } },
      FLAGS(stamp_flags),
      .run = run_tsa_stamp,
      .help = "fetch an RFC 3161 time stamp for a file",
      .more = "Hashes FILE here and sends the digest only. With a root (--root or SVC_TSA_ROOT) the stamp is verified\n"
              "against it before it is written. Needs no token.",
      .example = "tsa stamp release.sig -o release.sig.tsr" },
    { .words = "tsa inspect",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      .run = run_tsa_inspect,
      .help = "what a query, a reply or a time stamp says, believed or not",
      .more = "Fails when it cannot be read, or is a reply that refuses.",
      .example = "tsa inspect release.sig.tsr" },
    { .words = "tsa verify",
      .arguments = "[FILE]",
      .least = 0,
      .most = 1,
      FLAGS(stamp_verify_flags),
      .run = run_tsa_verify,
      .help = "check a file's time stamp offline",
      .more =
          "Checks signature, certificate path to the root at the stated time, and that FILE (or the digest) is\n"
          "what was stamped. Ends with 0 when everything holds, 2 when something does not or an argument is wrong,\n"
          "1 when it could not be told.",
      .example = "tsa verify release.sig --token release.sig.tsr --root tsa-root.pem" },
    { .words = "tsa chain",
      .routes = { { "GET", "/tsa/chain.pem" } },
      FLAGS(chain_flags),
      .run = run_tsa_chain,
      .help = "the authority's certificates, leaf first",
      .more = "Pin the last one as root, after you have compared it by another way. Needs no token.",
      .example = "tsa chain -o tsa-chain.pem" },
    { .words = "protocols tsa qualify",
      .routes = { { "POST", "/api/v1/protocols/tsa/qualification" } },
      .run = run_tsa_qualify,
      .help = "can the time-stamping authority be relied on as it stands?",
      .more = "Seven conditions; for each that is not met, why and what to do. Fails when one is not met. Changes\n"
              "nothing. Needs the permission certs:read.",
      .example = "protocols tsa qualify" },
    { .words = "audit records",
      .routes = { { "GET", "/api/v1/audit/records" } },
      FLAGS(record_flags),
      .run = run_audit_records,
      .help = "who did what, newest first",
      .more = "Needs the permission audit:read.",
      .example = "audit records --type codesign.signed --from 2026-01-01T00:00:00Z --limit 20" },
};

const struct command_group commands_of_tsa_and_audit = { rows, COUNT_OF(rows) };
