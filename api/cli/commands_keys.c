/* Keys: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

#define CREATE_KEY { "POST", "/api/v1/keys" }
#define LIST_KEYS  { "GET", "/api/v1/keys" }
#define MOVE_KEY   { "POST", "/api/v1/keys/{id}/transitions" }

static const struct flag key_create_flags[] = {
    { .name = "name", .value = "NAME", .required = true, .doc = "unique among the active keys of a purpose" },
    { .name = "algorithm", .value = "ALGORITHM", .required = true, .doc = "ec-p256, ec-p384, rsa-3072 or rsa-4096" },
    { .name = "purpose", .value = "PURPOSE", .doc = "codesign, the only purpose that is made by hand" },
};
static const struct flag key_list_flags[] = {
    { .name = "purpose", .value = "PURPOSE", .doc = "only keys of this purpose" },
    { .name = "state", .value = "STATE", .doc = "active or destroyed" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag key_get_flags[] = {
    { .name = "public-key-pem", .doc = "print nothing but the public key, as PEM" },
};
static const struct flag key_destroy_flags[] = {
    { .name = "reason", .value = "TEXT", .required = true, .doc = "goes into the audit trail" },
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
    { .words = "keys destroy",
      .arguments = "KEY_ID",
      .least = 1,
      .most = 1,
      .routes = { MOVE_KEY, GET_KEY },
      FLAGS(key_destroy_flags),
      .run = run_keys_destroy,
      .help = "destroy a key for ever",
      .more = "It signs no more at once, and is erased from the token. Nothing brings it back.",
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
