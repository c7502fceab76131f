/* What verifies signatures: the table is the command line, its help, and what it asks of the server. */
#include "api/cli/commands.h"

static const struct flag verify_flags[] = {
    { .name = "bundle", .value = "BUNDLE", .doc = "a Sigstore bundle: signature and all that goes with it" },
    { .name = "trusted-root", .value = "TR.json", .doc = "Sigstore trusted root: logs and authorities that you trust" },
    { .name = "certificate-identity", .value = "SAN", .doc = "who must have signed, exactly" },
    { .name = "certificate-oidc-issuer", .value = "URL", .doc = "who must vouch for that identity" },
    { .name = "without-transparency", .doc = "do without an entry of a log, though the trusted root names logs" },
    { .name = "signature", .value = "SIG", .doc = "a detached signature, instead of a bundle" },
    { .name = "public-key", .value = "KEY", .doc = "public key or certificate that you trust; PEM or DER" },
    HASH_FLAG,
    SCHEME_FLAG,
};
static const struct flag long_term_flags[] = {
    { .name = "signature", .value = "SIG", .required = true, .doc = "the detached signature" },
    { .name = "timestamp", .value = "FILE.tsr", .required = true, .doc = "RFC 3161 time stamp over the signature" },
    { .name = "certificate",
      .value = "CHAIN.pem",
      .required = true,
      .doc = "the signer's certificate, and those between it and the root" },
    { .name = "root", .value = "PEM", .required = true, .doc = "root of the signer's certificate that you trust" },
    { .name = "tsa-root", .value = "PEM", .doc = "root of the time stamp that you trust (SVC_TSA_ROOT)" },
    HASH_FLAG,
    SCHEME_FLAG,
};
static const struct flag remote_flags[] = {
    { .name = "signature", .value = "SIG", .required = true, .doc = "the detached signature" },
    { .name = "key", .value = "KEY_ID", .doc = "a key of the appliance, destroyed or not" },
    { .name = "public-key", .value = "KEY", .doc = "a public key or certificate, PEM or DER" },
    { .name = "certificate", .value = "CHAIN.pem", .doc = "the signer's certificate, and those above it" },
    { .name = "certificate-identity", .value = "SAN", .doc = "keyless: who must have signed, exactly" },
    { .name = "certificate-oidc-issuer", .value = "URL", .doc = "keyless: who must vouch for that identity" },
    { .name = "timestamp", .value = "FILE.tsr", .doc = "RFC 3161 time stamp over the signature" },
    { .name = "root", .value = "PEM", .doc = "root of the certificate; else the appliance's keyless authorities" },
    { .name = "tsa-root", .value = "PEM", .doc = "root of the time stamp; else the appliance's authority" },
    HASH_FLAG,
    SCHEME_FLAG,
};
static const struct flag trusted_root_flags[] = {
    { .name = "output", .letter = 'o', .value = "FILE", .required = true, .doc = "where the trusted root goes" },
};

static const struct command rows[] = {
    { .words = "code-signing verify",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      FLAGS(verify_flags),
      .run = run_codesign_verify,
      .help = "check a signature offline",
      .more =
          "Asks nobody. By a bundle: --bundle with --trusted-root, --certificate-identity and --certificate-oidc-issuer\n"
          "(certificates are judged at the time that a log or a time stamp proves), or with --public-key. By a detached\n"
          "signature: --signature and --public-key.",
      .example =
          "code-signing verify ./release.tar.gz --bundle release.sigstore.json --trusted-root trusted-root.json \\\n"
          "      --certificate-identity https://github.com/acme/app/.github/workflows/release.yml@refs/tags/v1 \\\n"
          "      --certificate-oidc-issuer https://token.actions.githubusercontent.com" },
    { .words = "code-signing verify-long-term",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      FLAGS(long_term_flags),
      .run = run_codesign_verify_long_term,
      .help = "check offline that a signature was made while its certificate was valid",
      .more =
          "The time stamp must be over exactly this signature and lie inside the certificate's validity; the chain is\n"
          "judged at the stamped time.",
      .example =
          "code-signing verify-long-term ./release.tar.gz --signature release.sig --timestamp release.sig.tsr \\\n"
          "      --certificate release-chain.pem --root ca.pem --tsa-root tsa-root.pem" },
    { .words = "code-signing verify-remote",
      .arguments = "FILE",
      .least = 1,
      .most = 1,
      .routes = { { "POST", PATH_VERIFY }, { "POST", PATH_KEYLESS_VERIFY }, { "POST", PATH_VERIFY_LONG_TERM } },
      FLAGS(remote_flags),
      .run = run_codesign_verify_remote,
      .help = "let the appliance check a signature",
      .more =
          "Hashes FILE here and sends the digest. By --key or --public-key; or by --certificate, as keyless with the\n"
          "identity that is expected (judged now, or at the time of --timestamp), else at the time of --timestamp.",
      .example = "code-signing verify-remote ./release.tar.gz --signature release.sig \\\n"
                 "      --key 0190a6b2-0001-7000-8000-00000000abcd" },
    { .words = "code-signing trusted-root",
      .routes = { { "GET", "/api/v1/code-signing/trusted-root" } },
      FLAGS(trusted_root_flags),
      .run = run_codesign_trusted_root,
      .help = "what bundles of this appliance are verified against (Sigstore trusted root)",
      .more = "For code-signing verify, and for cosign --trusted-root. Compare it by another way before you pin it.",
      .example = "code-signing trusted-root -o trusted-root.json" },
};

const struct command_group commands_of_codesign_checks = { rows, COUNT_OF(rows) };
