/* Signed heads and proofs of the audit trail: the table is the command line, its help, and what it asks of the server.
 */
#include "api/cli/commands.h"

static const struct flag head_flags[] = {
    OUT_FLAG("where the head goes (stdout)"),
};
static const struct flag prove_flags[] = {
    OUT_FLAG("where the proof goes (stdout)"),
    { .name = "tree-size", .value = "N", .doc = "among the first N records, as of a head that you keep (all)" },
};
static const struct flag consistency_flags[] = {
    OUT_FLAG("where the proof goes (stdout)"),
};
static const struct flag proof_flags[] = {
    { .name = "audit-jwks", .value = "FILE", .required = true, .doc = "verification keys that you pinned earlier" },
    { .name = "tsa-root", .value = "PEM", .doc = "root to judge the head's time stamp by; needed where it has one" },
    { .name = "max-anchor-delay", .value = "SPAN", .doc = "how far stamp and head may be apart, such as 10m (any)" },
    { .name = "allow-unanchored", .doc = "with --tsa-root: a head without time stamp is good all the same" },
    { .name = "head", .value = "FILE", .doc = "a signed head that you kept: it must tell the same history" },
};

static const struct command rows[] = {
    { .words = "audit head",
      .routes = { { "GET", "/api/v1/audit/head" } },
      FLAGS(head_flags),
      .run = run_audit_head,
      .help = "the signed head of the trail: its size, its Merkle root, its chain head",
      .more =
          "A compact JWS by the tenant's audit-export key, time-stamped where the authority is enabled. Keep heads\n"
          "where nobody can alter them: proofs are compared with them. Needs the permission audit:read.",
      .example = "audit head -o head.jws" },
    { .words = "audit prove",
      .arguments = "SEQUENCE",
      .least = 1,
      .most = 1,
      .routes = { { "GET", "/api/v1/audit/proofs/inclusion" } },
      FLAGS(prove_flags),
      .run = run_audit_prove,
      .help = "one record with the proof that it is in the trail",
      .more =
          "One file for whoever is to see this record and no other: the record, the nodes of the Merkle tree up to\n"
          "its root, and the signed head. Needs the permission audit:read.",
      .example = "audit prove 4711 -o record-4711.proof" },
    { .words = "audit prove-consistency",
      .arguments = "OLD [NEW]",
      .least = 1,
      .most = 2,
      .routes = { { "GET", "/api/v1/audit/proofs/consistency" } },
      FLAGS(consistency_flags),
      .run = run_audit_prove_consistency,
      .help = "the proof that the first OLD records are unaltered among NEW",
      .more = "OLD and NEW are sizes, as heads state them; NEW is all records when it is left out. Needs the\n"
              "permission audit:read.",
      .example = "audit prove-consistency 1000 5000 -o since-1000.proof" },
    { .words = "audit verify-proof",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      FLAGS(proof_flags),
      .run = run_audit_verify_proof,
      .help = "check a signed head or a proof offline, and say what it proves",
      .more = "FILE is what head, prove or prove-consistency wrote. Needs no network. Ends with 0 when everything\n"
              "holds, 2 when something does not or an argument is wrong, 1 when it could not be told.",
      .example = "audit verify-proof since-1000.proof --audit-jwks audit.jwks --head head-1000.jws" },
};

const struct command_group commands_of_audit_proof = { rows, COUNT_OF(rows) };
