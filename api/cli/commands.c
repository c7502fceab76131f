/* Every command of the client, one row each: the table is the command line, its help, and what it asks of the server.
 */
#include "api/cli/cli.h"

#define CREATE_KEY { "POST", "/api/v1/keys" }
#define LIST_KEYS  { "GET", "/api/v1/keys" }
#define GET_KEY    { "GET", "/api/v1/keys/{id}" }
#define MOVE_KEY   { "POST", "/api/v1/keys/{id}/transitions" }
#define PREVIEW    { "POST", "/api/v1/code-signing/preview" }
#define SIGN       { "POST", "/api/v1/code-signing/sign" }
#define OPERATIONS { "GET", "/api/v1/code-signing/operations" }
#define OPERATION  { "GET", "/api/v1/code-signing/operations/{id}" }
#define TIMESTAMP  { "POST", "/tsa" }

#define LIMIT_FLAG      { .name = "limit", .value = "N", .doc = "how many at most on a page" }
#define CURSOR_FLAG     { .name = "cursor", .value = "CURSOR", .doc = "the next page, as the page before named it" }
#define OUT_FLAG(what)  { .name = "output", .letter = 'o', .value = "FILE", .doc = what }
#define FILE_FLAG(what) { .name = "file", .letter = 'f', .value = "REQUEST.json", .doc = what }
#define SCHEME_FLAG \
    { .name = "scheme", .value = "SCHEME", .doc = "ecdsa, rsa-pkcs1v15 or rsa-pss; else the key's usual one" }

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
static const struct flag preview_flags[] = {
    { .name = "key", .value = "KEY_ID", .doc = "the key that would sign FILE" },
    { .name = "artifact-type", .value = "TYPE", .doc = "what kind of thing it is; a label of your choice (file)" },
    SCHEME_FLAG,
    FILE_FLAG("a request body of your own, instead of FILE and --key; - is stdin"),
};
static const struct flag sign_flags[] = {
    { .name = "key", .value = "KEY_ID", .doc = "the key that signs FILE" },
    { .name = "artifact-type", .value = "TYPE", .doc = "what kind of thing it is; a label of your choice (file)" },
    SCHEME_FLAG,
    OUT_FLAG("where the signature goes (FILE.sig)"),
    { .name = "yes", .doc = "do not ask before signing; needed where nobody can be asked" },
    FILE_FLAG("a request body of your own with its preview_fingerprint, instead of FILE and --key; - is stdin"),
};
static const struct flag verify_flags[] = {
    { .name = "signature", .value = "SIG", .required = true, .doc = "the detached signature" },
    { .name = "public-key",
      .value = "KEY",
      .required = true,
      .doc = "public key or certificate that you trust; PEM or DER" },
    SCHEME_FLAG,
};
static const struct flag operations_flags[] = {
    { .name = "state", .value = "STATE", .doc = "commanded, signed, completed or failed" },
    { .name = "key", .value = "KEY_ID", .doc = "only those of this key" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag token_create_flags[] = {
    { .name = "subject", .value = "SUBJECT", .required = true, .doc = "who acts with it, in the audit trail" },
    { .name = "role",
      .value = "ROLE",
      .required = true,
      .repeats = true,
      .doc = "admin, operator, approver, ci or auditor" },
    { .name = "ttl", .value = "SPAN", .doc = "how long it lives, such as 720h; else the server's default" },
    OUT_FLAG("write the token into this file (mode 0600) instead of showing it"),
};
static const struct flag token_list_flags[] = {
    { .name = "subject", .value = "SUBJECT", .doc = "only those of this subject" },
    { .name = "active", .value = "true|false", .doc = "only those that work, or only those that do not" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag token_revoke_flags[] = {
    { .name = "reason", .value = "TEXT", .required = true, .doc = "goes into the audit trail" },
};
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
static const struct flag export_flags[] = {
    OUT_FLAG("where the export goes (stdout)"),
    { .name = "from-sequence", .value = "N", .doc = "first record (1)" },
    { .name = "to-sequence", .value = "N", .doc = "last record (the newest)" },
};
static const struct flag audit_key_flags[] = {
    OUT_FLAG("where the keys go (stdout)"),
};
static const struct flag audit_verify_flags[] = {
    { .name = "artifact", .value = "FILE", .required = true, .doc = "the export" },
    { .name = "audit-jwks", .value = "FILE", .required = true, .doc = "verification keys that you pinned earlier" },
};

#define FLAGS(list) .flags = (list), .flag_count = COUNT_OF(list)

static const struct command commands[] = {
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
    { .words = "code-signing preview",
      .arguments = "[FILE]",
      .most = 1,
      .routes = { PREVIEW },
      FLAGS(preview_flags),
      .run = run_codesign_preview,
      .help = "what signing would do; changes nothing",
      .more = "Hashes FILE here (SHA-256) and sends the digest only. Or sends the body of -f as it is:\n"
              "{\"key_id\": ..., \"artifact_type\": ..., \"digest\": base64 of 32 bytes}",
      .example = "code-signing preview ./release.tar.gz --key 0190a6b2-0001-7000-8000-00000000abcd" },
    { .words = "code-signing sign",
      .arguments = "[FILE]",
      .most = 1,
      .routes = { SIGN, PREVIEW },
      FLAGS(sign_flags),
      .run = run_codesign_sign,
      .help = "sign a file with a key of the token",
      .more =
          "Hashes FILE here (SHA-256), previews, shows the plan, and signs when you agree. The signature is checked\n"
          "against the key before it is written. Or sends the body of -f as it is: that of a preview, with its\n"
          "request_fingerprint as preview_fingerprint.",
      .example = "code-signing sign ./release.tar.gz --key 0190a6b2-0001-7000-8000-00000000abcd -o release.sig" },
    { .words = "code-signing verify",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      FLAGS(verify_flags),
      .run = run_codesign_verify,
      .help = "check a signature offline",
      .more = "Asks nobody: file, signature and public key are all it takes.",
      .example = "code-signing verify ./release.tar.gz --signature release.sig --public-key release.pem" },
    { .words = "code-signing operations",
      .routes = { OPERATIONS },
      FLAGS(operations_flags),
      .run = run_codesign_operations,
      .help = "list signing operations, newest first",
      .example = "code-signing operations --state failed" },
    { .words = "code-signing operation",
      .arguments = "OPERATION_ID",
      .least = 1,
      .most = 1,
      .routes = { OPERATION },
      .run = run_codesign_operation,
      .help = "how one signing operation stands",
      .example = "code-signing operation 0190a6b2-0001-8000-8000-00000000abcd" },
    { .words = "tokens create",
      .routes = { { "POST", "/api/v1/tokens" } },
      FLAGS(token_create_flags),
      .run = run_tokens_create,
      .help = "make a bearer token",
      .more = "The token is shown once and cannot be read again. Needs the permission tokens:write.",
      .example = "tokens create --subject ci/release --role ci --ttl 720h -o ci.token" },
    { .words = "tokens list",
      .routes = { { "GET", "/api/v1/tokens" } },
      FLAGS(token_list_flags),
      .run = run_tokens_list,
      .help = "list bearer tokens, never their text",
      .example = "tokens list --active true" },
    { .words = "tokens revoke",
      .arguments = "TOKEN_ID",
      .least = 1,
      .most = 1,
      .routes = { { "POST", "/api/v1/tokens/{id}/revocations" } },
      FLAGS(token_revoke_flags),
      .run = run_tokens_revoke,
      .help = "revoke a bearer token",
      .example = "tokens revoke 0190a6b2-0001-7000-8000-00000000abcd --reason 'laptop lost'" },
    { .words = "tsa stamp",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      .routes = { TIMESTAMP },
      FLAGS(stamp_flags),
      .run = run_tsa_stamp,
      .help = "fetch an RFC 3161 time stamp for a file",
      .more = "Hashes FILE here and sends the digest only. With a root (--root or SVC_TSA_ROOT) the stamp is verified\n"
              "against it before it is written. Needs no token.",
      .example = "tsa stamp release.sig -o release.sig.tsr" },
    { .words = "tsa inspect",
      .arguments = "FILE.tsr",
      .least = 1,
      .most = 1,
      .run = run_tsa_inspect,
      .help = "what a time stamp says, believed or not",
      .example = "tsa inspect release.sig.tsr" },
    { .words = "tsa verify",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      FLAGS(stamp_verify_flags),
      .run = run_tsa_verify,
      .help = "check a file's time stamp offline",
      .more = "Checks signature, certificate path to the root at the stated time, and that FILE is what was stamped.",
      .example = "tsa verify release.sig --token release.sig.tsr --root tsa-root.pem" },
    { .words = "tsa chain",
      .routes = { { "GET", "/tsa/chain.pem" } },
      FLAGS(chain_flags),
      .run = run_tsa_chain,
      .help = "the authority's certificates, leaf first",
      .more = "Pin the last one as root, after you have compared it by another way. Needs no token.",
      .example = "tsa chain -o tsa-chain.pem" },
    { .words = "audit records",
      .routes = { { "GET", "/api/v1/audit/records" } },
      FLAGS(record_flags),
      .run = run_audit_records,
      .help = "who did what, newest first",
      .more = "Needs the permission audit:read.",
      .example = "audit records --type codesign.signed --from 2026-01-01T00:00:00Z --limit 20" },
    { .words = "audit export",
      .routes = { { "GET", "/api/v1/audit/export" } },
      FLAGS(export_flags),
      .run = run_audit_export,
      .help = "all records and the head of their hash chain, signed",
      .more = "A compact JWS by the tenant's audit-export key. Keep exports where they cannot be altered: each proves\n"
              "what the trail was at that time. Needs the permission audit:read.",
      .example = "audit export -o audit.jws" },
    { .words = "audit verification-keys",
      .routes = { { "GET", "/api/v1/audit/verification-keys" } },
      FLAGS(audit_key_flags),
      .run = run_audit_keys,
      .help = "the keys that exports are verified with (JWK set)",
      .more = "Pin them once, apart from the exports: an export and keys from one hand prove nothing.",
      .example = "audit verification-keys -o audit.jwks" },
    { .words = "audit verify",
      FLAGS(audit_verify_flags),
      .run = run_audit_verify,
      .help = "check an export offline",
      .more = "Checks the signature by a pinned key and recomputes the hash of every record. Names the first record\n"
              "that does not hold.",
      .example = "audit verify --artifact audit.jws --audit-jwks audit.jwks" },
};

const struct command *commands_all(size_t *ret_count)
{
    *ret_count = COUNT_OF(commands);
    return commands;
}
