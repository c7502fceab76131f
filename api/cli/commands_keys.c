/* Keys: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

#define CREATE_KEY { "POST", "/api/v1/keys" }
#define LIST_KEYS  { "GET", "/api/v1/keys" }
#define MOVE_KEY   { "POST", "/api/v1/keys/{id}/transitions" }

#define REASON_FLAG { .name = "reason", .value = "TEXT", .required = true, .doc = "goes into the audit trail" }
#define LIMIT_FLAGS                                                                                            \
    { .name = "max-uses", .value = "N", .doc = "signs so many digests and no more; fixed once it is active" }, \
        { .name = "not-after", .value = "TIME", .doc = "signs nothing from then on, such as 2027-01-31T00:00:00Z" }

static const struct flag key_create_flags[] = {
    { .name = "name", .value = "NAME", .required = true, .doc = "unique among the active keys of a purpose" },
    { .name = "algorithm",
      .value = "ALGORITHM",
      .required = true,
      .doc = "ec-p256, ec-p384, rsa-3072, rsa-4096, or ml-dsa-65 (outside approved mode)" },
    { .name = "purpose", .value = "PURPOSE", .doc = "codesign, the only purpose that is made by hand" },
    { .name = "prepare", .doc = "a successor: signs nothing before it is activated" },
    { .name = "token", .value = "NAME", .doc = "which token holds it (the first one)" },
    LIMIT_FLAGS,
};
static const struct flag key_list_flags[] = {
    { .name = "purpose", .value = "PURPOSE", .doc = "only keys of this purpose" },
    { .name = "state", .value = "STATE", .doc = "prepared, active, retiring, retired or destroyed" },
    { .name = "algorithm", .value = "ALGORITHM", .doc = "only keys of this algorithm" },
    { .name = "name", .value = "NAME", .doc = "only keys of this name" },
    { .name = "expires-before", .value = "TIME", .doc = "only keys that, or whose certificate, end before" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag key_get_flags[] = {
    { .name = "public-key-pem", .doc = "print nothing but the public key, as PEM" },
};
static const struct flag key_activate_flags[] = {
    REASON_FLAG,
    { .name = "overlap", .value = "SPAN", .doc = "how long the former key still signs, such as 36h (keys.overlap)" },
    LIMIT_FLAGS,
};
static const struct flag key_retire_flags[] = {
    REASON_FLAG,
    { .name = "overlap", .value = "SPAN", .doc = "how long it still signs, such as 36h (it ends at once)" },
};
static const struct flag key_destroy_flags[] = {
    REASON_FLAG,
};
static const struct flag key_csr_flags[] = {
    { .name = "subject", .value = "SUBJECT", .required = true, .doc = "such as CN=Release,O=Example" },
    { .name = "email", .value = "ADDRESS", .doc = "as subject alternative name" },
    OUT_FLAG("where the request goes, PEM (stdout)"),
};
static const struct flag key_certify_flags[] = {
    { .name = "chain",
      .value = "PEM",
      .required = true,
      .doc = "certificates of the key and its authorities, leaf first" },
};

static const struct command rows[] = {
    { .words = "health",
      .routes = { { "GET", "/healthz" }, { "GET", "/readyz" } },
      .run = run_health,
      .help = "is the appliance well, and if not, which part",
      .more = "Needs no token. The exit code is 1 unless it is ready to serve.",
      .example = "health" },
    { .words = "keys create",
      .routes = { CREATE_KEY },
      FLAGS(key_create_flags),
      .run = run_keys_create,
      .help = "make a code-signing key inside the token",
      .more = "The private half is made in the token and never leaves it. Needs the permission keys:admin.",
      .example = "keys create --name release --algorithm ec-p256" },
    { .words = "keys list",
      .routes = { LIST_KEYS },
      FLAGS(key_list_flags),
      .run = run_keys_list,
      .help = "list keys, newest first",
      .example = "keys list --state active" },
    { .words = "keys get",
      .arguments = "KEY_ID",
      .least = 1,
      .most = 1,
      .routes = { GET_KEY },
      FLAGS(key_get_flags),
      .run = run_keys_get,
      .help = "one key with its public half",
      .more = "Public keys are kept after a key is destroyed, so what it signed stays verifiable.",
      .example = "keys get 0190a6b2-0001-7000-8000-00000000abcd --public-key-pem >release.pem" },
    { .words = "keys activate",
      .arguments = "KEY_ID",
      .least = 1,
      .most = 1,
      .routes = { MOVE_KEY, GET_KEY },
      FLAGS(key_activate_flags),
      .run = run_keys_activate,
      .help = "let a prepared key sign, in place of the active one of its name",
      .more = "The former key signs on for those who name it until the overlap ends. Needs the permission keys:admin.",
      .example = "keys activate 0190a6b2-0001-7000-8000-00000000abcd --overlap 36h --reason 'yearly rotation'" },
    { .words = "keys retire",
      .arguments = "KEY_ID",
      .least = 1,
      .most = 1,
      .routes = { MOVE_KEY, GET_KEY },
      FLAGS(key_retire_flags),
      .run = run_keys_retire,
      .help = "let a key sign no more",
      .more = "What it signed verifies for ever, and it stays in the token until it is destroyed.",
      .example = "keys retire 0190a6b2-0001-7000-8000-00000000abcd --reason 'product discontinued'" },
    { .words = "keys destroy",
      .arguments = "KEY_ID",
      .least = 1,
      .most = 1,
      .routes = { MOVE_KEY, GET_KEY },
      FLAGS(key_destroy_flags),
      .run = run_keys_destroy,
      .help = "destroy a key for ever",
      .more = "It signs no more at once, and is erased from the token. Nothing brings it back. Where two persons are "
              "required, the refusal names a resource; somebody else approves it with approvals approve.",
      .example = "keys destroy 0190a6b2-0001-7000-8000-00000000abcd --reason 'replaced by release-2'" },
    { .words = "keys rotate-seal",
      .routes = { { "POST", "/api/v1/keys/seal/rotations" } },
      .run = run_keys_rotate_seal,
      .help = "a new key for sealing accepted commands",
      .more = "Nothing stops meanwhile, and what was sealed before still opens. Needs the permission keys:admin.",
      .example = "keys rotate-seal" },
    { .words = "keys csr",
      .arguments = "KEY_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/keys/{id}/csr" } },
      FLAGS(key_csr_flags),
      .run = run_keys_csr,
      .help = "a certificate request (PKCS#10) for a key",
      .more = "Signed by the key inside the token. Needs the permission keys:admin.",
      .example = "keys csr 0190a6b2-0001-7000-8000-00000000abcd --subject 'CN=Release,O=Example' -o release.csr" },
    { .words = "keys certify",
      .arguments = "KEY_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/keys/{id}/certificates" }, GET_KEY },
      FLAGS(key_certify_flags),
      .run = run_keys_certify,
      .help = "give a key its certificate chain",
      .more = "Signatures then come with the chain. The first certificate must be of this key.",
      .example = "keys certify 0190a6b2-0001-7000-8000-00000000abcd --chain release-chain.pem" },
};

const struct command_group commands_of_keys = { rows, COUNT_OF(rows) };
