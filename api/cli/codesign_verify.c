/* code-signing verify: offline, by a bundle, or by a detached signature and a public key. */
#include "api/cli/bundle.h"
#include "api/cli/cli.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/cli/publickey.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"
#include "fips/fence.h"

#define ANSWER_MAX    ((size_t)64 << 10)
#define SIGNATURE_MAX 16384
#define KEY_FILE_MAX  ((size_t)1 << 20)

struct verdict {
    const struct file_digest *digest;
    const char *scheme, *key_text;
    const struct bundle *bundle; /* NULL = a detached signature */
    struct bundle_verdict of_bundle;
    bool root, pinned; /* was a trusted root, was a public key given? */
    bool fenced;       /* outside approved mode */
};

static void put_bundle(struct jout *jout, const struct verdict *verdict)
{
    const struct bundle_verdict *of = &verdict->of_bundle;
    if (!verdict->pinned) {
        jout_key(jout, "identities");
        jout_array(jout);
        for (size_t i = 0; i < of->identity.name_count; i++) {
            jout_text(jout, of->identity.names[i]);
        }
        jout_array_end(jout);
        jout_key_text(jout, "issuer", of->identity.issuer);
    }
    jout_key(jout, "times");
    jout_array(jout);
    for (size_t i = 0; i < of->time_count; i++) {
        jout_time(jout, of->times[i]);
    }
    jout_array_end(jout);
    jout_key_int(jout, "transparency_entries", (int64_t)verdict->bundle->entry_count);
    jout_key_int(jout, "transparency_entries_verified", (int64_t)of->entries_verified);
    jout_key_int(jout, "timestamps", (int64_t)verdict->bundle->stamp_count);
    jout_key_int(jout, "timestamps_verified", (int64_t)of->stamps_verified);
}

static struct fault tell_json(const struct verdict *verdict)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_bool(&jout, "valid", true);
    jout_key_text(&jout, "digest_algorithm", verdict->digest->hash);
    jout_key_hex(&jout, "digest_hex", file_digest_span(verdict->digest));
    jout_key_text(&jout, "signature_scheme", verdict->scheme);
    jout_key_text(&jout, "public_key", verdict->key_text);
    if (verdict->fenced) {
        jout_key_bool(&jout, "approved_mode", false);
        jout_key_text(&jout, "approved_mode_note", FENCE_NOTE);
    }
    if (verdict->bundle != NULL) {
        put_bundle(&jout, verdict);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return OK;
}

static void tell_checked(const char *what, size_t there, size_t verified)
{
    if (there > 0 || verified > 0) {
        (void)printf("  %-8s%zu of %zu verified\n", what, verified, there);
    }
}

static void tell_bundle(const struct verdict *verdict)
{
    const struct bundle_verdict *of = &verdict->of_bundle;
    char time[RFC3339_MAX];
    if (!verdict->pinned) {
        (void)printf("  signer  ");
        print_safe(stdout, span_text(of->identity.names[0]));
        (void)printf("\n  issuer  ");
        print_safe(stdout, span_text(of->identity.issuer));
        (void)printf("\n");
    }
    for (size_t i = 0; i < of->time_count; i++) {
        rfc3339_print(of->times[i], time);
        (void)printf("  at      %s (not later)\n", time);
    }
    tell_checked("log", verdict->bundle->entry_count, of->entries_verified);
    tell_checked("stamps", verdict->bundle->stamp_count, of->stamps_verified);
    if (!verdict->root && verdict->bundle->entry_count + verdict->bundle->stamp_count > 0) {
        hint("log entries and time stamps were not checked: that takes --trusted-root");
    }
}

static struct fault tell(struct cli *cli, const struct verdict *verdict)
{
    char hex[2 * HASH_LEN_MAX + 1];
    if (cli->json) {
        return tell_json(verdict);
    }
    hex_text(file_digest_span(verdict->digest), hex, sizeof(hex));
    (void)printf("good signature\n  %s  %s\n  key     %s\n  scheme  %s\n", verdict->digest->hash, hex,
                 verdict->key_text, verdict->scheme);
    if (verdict->bundle != NULL) {
        tell_bundle(verdict);
    }
    if (verdict->fenced) {
        (void)printf("  approved mode  no\n  note    %s\n", FENCE_NOTE);
    }
    if (verdict->pinned) {
        hint("it says who signed only as far as you trust the public key in %s", cli_flag(cli, "public-key"));
    }
    return OK;
}

static struct fault read_key(struct cli *cli, EVP_PKEY **ret_key)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(KEY_FILE_MAX);
    TRY(files_read(cli->op, cli_flag(cli, "public-key"), &bytes));
    return public_key_parse(cli->op, buf_span(&bytes), ret_key);
}

static struct fault verify_detached(struct cli *cli)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    const char *hash = cli_flag(cli, "digest-algorithm");
    struct file_digest digest;
    char key_text[64];
    struct verdict verdict = { .digest = &digest, .key_text = key_text, .pinned = true };
    TRY(read_key(cli, &key));
    TRY(files_read(cli->op, cli_flag(cli, "signature"), &signature));
    TRY(files_digest(cli->op, cli->arguments[0], hash != NULL ? hash : "sha256", &digest));
    TRY(public_key_verify(cli->op, key, cli_flag(cli, "scheme"), digest.hash, file_digest_span(&digest),
                          buf_span(&signature), &verdict.scheme));
    public_key_print(key, key_text, sizeof(key_text));
    verdict.fenced = public_key_is_fenced(key);
    return tell(cli, &verdict);
}

/* The pinned key as PKIX DER, to compare and to hash. */
static struct fault pin_key(struct cli *cli, struct bundle_expect *expect)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    unsigned char *der = NULL;
    if (cli_flag(cli, "public-key") == NULL) {
        return OK;
    }
    TRY(read_key(cli, &key));
    int len = i2d_PUBKEY(key, &der);
    struct fault fault = len > 0 ? arena_copy(cli->op->arena, span_of(der, (size_t)len), &expect->key) : FAULT(CRYPTO);
    OPENSSL_free(der);
    return fault;
}

static struct fault read_root(struct cli *cli, struct bundle_expect *expect)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(TRUSTED_ROOT_MAX);
    struct trusted_root *root = NULL;
    if (cli_flag(cli, "trusted-root") != NULL) {
        TRY(files_read(cli->op, cli_flag(cli, "trusted-root"), &bytes));
        TRY(trusted_root_parse(cli->op, buf_span(&bytes), &root));
        expect->root = root;
    }
    return OK;
}

static struct fault verify_bundle(struct cli *cli)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(BUNDLE_MAX);
    struct file_digest digest;
    struct bundle bundle;
    struct bundle_expect expect = { .identity = cli_flag(cli, "certificate-identity"),
                                    .issuer = cli_flag(cli, "certificate-oidc-issuer"),
                                    .no_transparency = cli_flag(cli, "without-transparency") != NULL };
    TRY(pin_key(cli, &expect));
    TRY(read_root(cli, &expect));
    TRY(files_read(cli->op, cli_flag(cli, "bundle"), &bytes));
    TRY(bundle_parse(cli->op, buf_span(&bytes), &bundle));
    TRY(files_digest(cli->op, cli->arguments[0], bundle.hash, &digest));
    expect.digest = file_digest_span(&digest);
    struct verdict verdict = {
        .digest = &digest, .bundle = &bundle, .root = expect.root != NULL, .pinned = expect.key.len > 0
    };
    TRY(bundle_verify(cli->op, &bundle, &expect, &verdict.of_bundle));
    verdict.scheme = verdict.of_bundle.scheme;
    verdict.key_text = verdict.of_bundle.key_text;
    return tell(cli, &verdict);
}

static bool any(struct cli *cli, const char *const *flags, size_t count)
{
    bool given = false;
    for (size_t i = 0; i < count; i++) {
        given = given || cli_flag(cli, flags[i]) != NULL;
    }
    return given;
}

struct fault run_codesign_verify(struct cli *cli)
{
    static const char *const of_detached[] = { "signature", "scheme", "digest-algorithm" };
    static const char *const of_bundle[] = { "bundle", "trusted-root", "certificate-identity",
                                             "certificate-oidc-issuer", "without-transparency" };
    static const char *const of_certificate[] = { "certificate-identity", "certificate-oidc-issuer" };
    bool bundle = cli_flag(cli, "bundle") != NULL, key = cli_flag(cli, "public-key") != NULL;
    bool root = cli_flag(cli, "trusted-root") != NULL;
    bool identity = cli_flag(cli, of_certificate[0]) != NULL && cli_flag(cli, of_certificate[1]) != NULL;
    if (!bundle && (!key || cli_flag(cli, "signature") == NULL || any(cli, of_bundle, COUNT_OF(of_bundle)))) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "give --bundle B, or --signature SIG and --public-key KEY");
    }
    if (!bundle) {
        return verify_detached(cli);
    }
    if (any(cli, of_detached, COUNT_OF(of_detached)) ||
        (key ? any(cli, of_certificate, COUNT_OF(of_certificate)) : !root || !identity)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT),
                       "with --bundle give --public-key KEY, or --trusted-root TR.json with --certificate-identity and "
                       "--certificate-oidc-issuer");
    }
    return verify_bundle(cli);
}
