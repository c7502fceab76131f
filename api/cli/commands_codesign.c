/* Signing: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

#define TYPE_FLAG \
    { .name = "artifact-type", .value = "TYPE", .doc = "what kind of thing it is; a label of your choice (file)" }
#define YES_FLAG { .name = "yes", .doc = "do not ask before signing; needed where nobody can be asked" }
#define WAIT_LOG_FLAG \
    { .name = "wait-log", .value = "SPAN", .doc = "how long to wait for the transparency log's entry (60s)" }
/* What `sign` and `keyless` do with what they signed. */
#define RESULT_FLAGS                                                                                             \
    OUT_FLAG("where the signature goes (FILE.sig)"),                                                             \
        { .name = "bundle", .value = "OUT.sigstore.json", .doc = "write a Sigstore bundle (v0.3), too" },        \
        { .name = "timestamp", .doc = "fetch an RFC 3161 time stamp over the signature (SIGNATURE.tsr)" },       \
        { .name = "tsa-url", .value = "URL", .doc = "its authority (SVC_TSA_URL; else /tsa of the appliance)" }, \
        { .name = "tsa-root", .value = "PEM", .doc = "root to verify the time stamp against (SVC_TSA_ROOT)" },   \
        { .name = "certificate", .value = "PEM", .doc = "write the signer's certificate chain, leaf first" },    \
        WAIT_LOG_FLAG,                                                                                           \
        { .name = "wait-approval", .value = "SPAN", .doc = "how long to wait for a missing approval (not at all)" }

static const struct flag preview_flags[] = {
    { .name = "key", .value = "KEY_ID", .doc = "the key that would sign FILE" },
    HASH_FLAG,
    TYPE_FLAG,
    SCHEME_FLAG,
    { .name = "batch-file", .value = "LIST", .doc = "the files, one path a line, instead of FILE" },
    FILE_FLAG("a request body of your own, instead of FILE and --key; - is stdin"),
};
static const struct flag sign_flags[] = {
    { .name = "key", .value = "KEY_ID", .doc = "the key that signs FILE" },
    HASH_FLAG,
    TYPE_FLAG,
    SCHEME_FLAG,
    { .name = "batch-file", .value = "LIST", .doc = "the files, one path a line, instead of FILE" },
    RESULT_FLAGS,
    YES_FLAG,
    FILE_FLAG("a request body of your own with its preview_fingerprint, instead of FILE and --key; - is stdin"),
};
/* Who signs without a key of his own, and how that is proven. */
#define IDENTITY_FLAGS                                                                                            \
    { .name = "method", .value = "METHOD", .doc = "identity method of the appliance, such as github-actions" },   \
        { .name = "proof", .value = "FILE", .doc = "the ID token; - is stdin (else from the CI's environment)" }, \
        { .name = "audience", .value = "AUD", .doc = "for whom GitHub is asked to make the ID token" },           \
        { .name = "id-token-ca", .value = "PEM", .doc = "CA of that token service, where the machine's is not" }, \
        { .name = "expect-san", .value = "SAN", .doc = "sign only if this is the identity that is proven" },      \
        { .name = "expect-issuer", .value = "URL", .doc = "and this is who vouches for it" }
static const struct flag keyless_preview_flags[] = {
    IDENTITY_FLAGS,
    HASH_FLAG,
    TYPE_FLAG,
    FILE_FLAG("a request body of your own, instead of FILE and --method; - is stdin"),
};
static const struct flag keyless_flags[] = {
    IDENTITY_FLAGS,
    HASH_FLAG,
    TYPE_FLAG,
    RESULT_FLAGS,
    YES_FLAG,
    FILE_FLAG("a request body of your own with its preview_fingerprint, instead of FILE and --method; - is stdin"),
};
static const struct flag bundle_flags[] = {
    { .name = "output", .letter = 'o', .value = "FILE", .required = true, .doc = "where the bundle goes" },
    { .name = "timestamp", .value = "FILE.tsr", .doc = "an RFC 3161 time stamp over the signature, to put into it" },
    WAIT_LOG_FLAG,
};
static const struct flag operations_flags[] = {
    { .name = "state", .value = "STATE", .doc = "commanded, refused, signed, completed or failed" },
    { .name = "mode", .value = "MODE", .doc = "key or keyless" },
    { .name = "key", .value = "KEY_ID", .doc = "only those of this key" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};
static const struct flag transparency_flags[] = {
    { .name = "state", .value = "STATE", .doc = "pending, published or failed" },
    { .name = "log", .value = "LOG", .doc = "only those of this log, by its name or address" },
    LIMIT_FLAG,
    CURSOR_FLAG,
};

static const struct command rows[] = {
    { .words = "code-signing preview",
      .arguments = "[FILE...]",
      .most = ARGUMENTS_MAX,
      .routes = { { "POST", PATH_PREVIEW }, { "POST", PATH_BATCH_PREVIEW } },
      FLAGS(preview_flags),
      .run = run_codesign_preview,
      .help = "what signing would do; changes nothing",
      .more =
          "Hashes FILE here and sends the digest only. Says what the policy decides and how its approval stands. Or\n"
          "sends the body of -f as it is:\n"
          "{\"key_id\": ..., \"artifact_type\": ..., \"digest\": base64 of 32 bytes}",
      .example = "code-signing preview ./release.tar.gz --key 0190a6b2-0001-7000-8000-00000000abcd" },
    { .words = "code-signing sign",
      .arguments = "[FILE...]",
      .most = ARGUMENTS_MAX,
      .routes = { { "POST", PATH_SIGN },
                  { "POST", PATH_PREVIEW },
                  { "POST", PATH_BATCH },
                  { "POST", PATH_BATCH_PREVIEW },
                  { "GET", PATH_OPERATION },
                  { "POST", PATH_TSA } },
      FLAGS(sign_flags),
      .run = run_codesign_sign,
      .help = "sign files with a key of the token",
      .more =
          "Hashes FILE here, previews, shows the plan, and signs when you agree. The signature is checked against the\n"
          "key before it is written. Several files (or --batch-file) are signed together or not at all; -o and --bundle\n"
          "then name folders. Where the policy asks for an approval, nothing is signed and the exit code is 1; with\n"
          "--wait-approval the client waits for it and goes on. --bundle waits for the entry in the transparency log.\n"
          "Or sends the body of -f as it is: that of a preview, with its request_fingerprint as preview_fingerprint.",
      .example = "code-signing sign ./release.tar.gz --key 0190a6b2-0001-7000-8000-00000000abcd -o release.sig \\\n"
                 "      --bundle release.sigstore.json --timestamp" },
    { .words = "code-signing keyless-preview",
      .arguments = "[FILE]",
      .most = 1,
      .routes = { { "POST", PATH_KEYLESS_PREVIEW } },
      FLAGS(keyless_preview_flags),
      .run = run_codesign_keyless_preview,
      .help = "what keyless signing would do; changes nothing",
      .more = "Looks at the form of the identity proof only: it is verified when it is used.",
      .example = "code-signing keyless-preview ./release.tar.gz --method gitlab-ci --proof token.jwt" },
    { .words = "code-signing keyless",
      .arguments = "[FILE]",
      .most = 1,
      .routes = { { "POST", PATH_KEYLESS },
                  { "POST", PATH_KEYLESS_PREVIEW },
                  { "GET", PATH_OPERATION },
                  { "GET", PATH_REQUESTS },
                  { "POST", PATH_TSA } },
      FLAGS(keyless_flags),
      .run = run_codesign_keyless,
      .help = "sign a file as the identity that a CI job proves",
      .more =
          "No key is held: one is made for this signature and destroyed, and its short-lived certificate names the\n"
          "identity. The proof (an OIDC ID token) comes from --proof, else from SVC_ID_TOKEN (GitLab: id_tokens), else\n"
          "from GitHub's token service (permission id-token: write, with --audience); never from the command line.",
      .example = "code-signing keyless ./release.tar.gz --method github-actions --audience svc \\\n"
                 "      --bundle release.sigstore.json --timestamp --yes" },
    { .words = "code-signing bundle",
      .arguments = "OPERATION_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", PATH_OPERATION } },
      FLAGS(bundle_flags),
      .run = run_codesign_bundle,
      .help = "the Sigstore bundle of an earlier signing",
      .more = "For a signing whose entry in the transparency log was not there yet when it was made.",
      .example = "code-signing bundle 0190a6b2-0001-8000-8000-00000000abcd -o release.sigstore.json" },
    { .words = "code-signing operations",
      .routes = { { "GET", PATH_OPERATIONS } },
      FLAGS(operations_flags),
      .run = run_codesign_operations,
      .help = "list signing operations, newest first",
      .example = "code-signing operations --state failed" },
    { .words = "code-signing operation",
      .arguments = "OPERATION_ID",
      .least = 1,
      .most = 1,
      .routes = { { "GET", PATH_OPERATION } },
      .run = run_codesign_operation,
      .help = "how one signing operation stands",
      .more = "With the identity of a keyless one, and the evidence of its publication (the entry itself with --json).",
      .example = "code-signing operation 0190a6b2-0001-8000-8000-00000000abcd" },
    { .words = "code-signing transparency list",
      .routes = { { "GET", "/api/v1/code-signing/transparency" } },
      FLAGS(transparency_flags),
      .run = run_transparency_list,
      .help = "what is published in transparency logs",
      .example = "code-signing transparency list --state pending" },
};

const struct command_group commands_of_codesign = { rows, COUNT_OF(rows) };
