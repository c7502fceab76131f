/* Evidence packs: fetched, checked, shown. */
#include "api/cli/commands.h"

#include "api/cli/evidence.h"

#define PIN_FLAGS                                                                                           \
    { .name = "key", .value = "FILE", .doc = "verification key that you pinned (public key, PEM or DER)" }, \
        { .name = "jwks", .value = "FILE", .doc = "the same as a JWK set: every key that ever signed, with windows" }
#define FORMAT_FLAG { .name = "format", .value = "FORMAT", .doc = "json (the pack itself), oscal or html" }

static const struct flag pack_flags[] = {
    OUT_FLAG("where the pack goes (stdout)"),
    FORMAT_FLAG,
    PIN_FLAGS,
};
static const struct flag verify_flags[] = {
    PIN_FLAGS,
    { .name = "tsa-root", .value = "PEM", .doc = "root of the time-stamping authority that you pinned" },
};
static const struct flag render_flags[] = {
    OUT_FLAG("where the rendering goes (stdout)"),
    FORMAT_FLAG,
    PIN_FLAGS,
    { .name = "tsa-root", .value = "PEM", .doc = "root of the time-stamping authority that you pinned" },
};
static const struct flag key_flags[] = {
    OUT_FLAG("where the keys go (stdout)"),
};

static const struct command rows[] = {
    { .words = "compliance evidence-pack",
      .arguments = "FRAMEWORK",
      .least = 1,
      .most = 1,
      .routes = { { "GET", PATH_EVIDENCE_PACK }, { "GET", PATH_EVIDENCE_KEYS } },
      FLAGS(pack_flags),
      .run = run_evidence_pack,
      .help = "what is evidenced of a framework's controls, and what is missing, signed",
      .more =
          "The pack is verified before anything is written, with the keys of --key or --jwks, or else with those that the\n"
          "server hands out. oscal gives OSCAL 1.1 assessment results, html a page to read and print; both carry the\n"
          "manifest's digest and are not signed: keep the pack. Every download is recorded. Needs audit:read.",
      .example = "compliance evidence-pack soc2 --jwks evidence.jwks -o soc2.json" },
    { .words = "compliance verify",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      FLAGS(verify_flags),
      .run = run_evidence_verify,
      .help = "check an evidence pack, or a generated report, offline",
      .more =
          "The signature under the pinned key, every copy against what was signed, and the manifest against itself: what\n"
          "does not hold is named by a closed code and the member. With --tsa-root there must be a time stamp, and it is\n"
          "checked. Ends with 0 when everything holds, 2 when something does not, 1 when it could not be told.",
      .example = "compliance verify soc2.json --jwks evidence.jwks --tsa-root tsa-root.pem" },
    { .words = "compliance render",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      FLAGS(render_flags),
      .run = run_evidence_render,
      .help = "a pack as OSCAL or as a page to read and print, offline",
      .more = "The pack is verified first; the same pack gives the same bytes.",
      .example = "compliance render soc2.json --jwks evidence.jwks --format html -o soc2.html" },
    { .words = "compliance verification-keys",
      .routes = { { "GET", PATH_EVIDENCE_KEYS } },
      FLAGS(key_flags),
      .run = run_verification_keys,
      .help = "the keys that packs and reports are verified with (JWK set)",
      .more =
          "Pin them once, apart from the packs. Fetch them again after a rotation; the former ones stay in the set.",
      .example = "compliance verification-keys -o evidence.jwks" },
    { .words = "compliance rotate-key",
      .routes = { { "POST", "/api/v1/compliance/verification-keys/rotations" } },
      .run = run_rotate_verification_key,
      .help = "a new key signs packs and reports from now on",
      .more = "What the former keys have signed stays verifiable. Needs the permission audit:write.",
      .example = "compliance rotate-key" },
};

const struct command_group commands_of_evidence = { rows, COUNT_OF(rows) };
