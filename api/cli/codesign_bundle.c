/* code-signing bundle: the bundle of a signing that is over; and trusted-root: what bundles are verified against. */
#include "api/cli/bundle.h"
#include "api/cli/print.h"
#include "api/cli/publickey.h"
#include "api/cli/signing.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#define STAMP_MAX    ((size_t)1 << 20)
#define WAIT_DEFAULT (60 * NS_PER_S)

struct source {
    struct bundle_parts parts;
    struct chain chain;
    const char *encoding;
};

static struct fault take(struct cli *cli, struct view operation, struct source *source)
{
    struct bundle_parts *parts = &source->parts;
    struct op *op = cli->op;
    const char *state = view_member(op, operation, "state"), *destination = NULL;
    parts->hash = view_member(op, operation, "digest_algorithm");
    source->encoding = view_member(op, operation, "signature_encoding");
    destination = view_member(op, operation, "transparency_destination");
    if (!view_is_there(view_get(operation, "signature"))) {
        return op_fail(op, FAULT(CONFLICT), "there is no signature to bundle: the operation is %s",
                       state != NULL ? state : "in an unknown state");
    }
    if (parts->hash == NULL || FAULTED(view_base64(op, view_get(operation, "digest"), &parts->digest)) ||
        FAULTED(view_base64(op, view_get(operation, "signature"), &parts->signature)) ||
        FAULTED(view_base64(op, view_get(operation, "public_key_der"), &parts->spki))) {
        return op_fail(op, FAULT(IO), "the server's answer lacks digest, signature or public key");
    }
    parts->entry = view_get(operation, "transparency.entry");
    if (!view_is_there(parts->entry) && destination != NULL && strcmp(destination, "none") != 0) {
        return op_fail(op, FAULT(CONFLICT), "the operation has no entry in its transparency log yet");
    }
    parts->chain = &source->chain;
    return receipt_chain(op, view_get(operation, "certificate_chain"), &source->chain);
}

/* Only what verifies is bundled; of the certificate, that it is of this key. */
static struct fault check(struct cli *cli, const struct source *source)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    const struct bundle_parts *parts = &source->parts;
    const char *told = public_key_scheme_of(source->encoding), *scheme = NULL;
    struct span spki;
    TRY(public_key_parse(cli->op, parts->spki, &key));
    if (public_key_is_fenced(key)) {
        return op_fail(
            cli->op, FAULT(UNSUPPORTED),
            "no Sigstore bundle holds an ML-DSA signature: verify the detached signature with the public key");
    }
    TRY(public_key_verify(cli->op, key, told != NULL ? told : "ecdsa", parts->hash, parts->digest, parts->signature,
                          &scheme));
    if (source->chain.count > 0) {
        TRY(certificate_spki(cli->op, source->chain.at[0], &spki));
        if (!span_equal(spki, parts->spki)) {
            return op_fail(cli->op, FAULT(CERTIFICATE_REFUSED), "the server's certificate is of another key");
        }
    }
    return OK;
}

static struct fault read_stamp(struct cli *cli, struct buf *stamp, struct bundle_parts *parts)
{
    const char *file = cli_flag(cli, "timestamp");
    struct tst_info info;
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (file == NULL) {
        return OK;
    }
    TRY(files_read(cli->op, file, stamp));
    TRY(tst_inspect(cli->op, buf_span(stamp), &info));
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), info.hash, NULL);
    if (md == NULL || EVP_Digest(parts->signature.at, parts->signature.len, digest, &len, md, NULL) != 1) {
        return crypto_fail(cli->op, "the signature cannot be hashed");
    }
    if (!span_equal(info.imprint, span_of(digest, len))) {
        return op_fail(cli->op, FAULT(TST_INVALID), "%s: is a time stamp of something else than this signature", file);
    }
    parts->stamp = buf_span(stamp);
    return OK;
}

static struct fault tell_written(struct cli *cli, const char *out, const char *what)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
    struct jout jout;
    if (strcmp(out, "-") == 0) {
        return OK;
    }
    if (!cli->json) {
        (void)printf("%s: ", what);
        print_safe(stdout, span_text(out));
        (void)fputc('\n', stdout);
        return OK;
    }
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "file", out);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&json));
    return OK;
}

struct fault run_codesign_bundle(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf stamp = BUF_INIT(STAMP_MAX);
    CLEANUP(buf_free) struct buf bundle = BUF_INIT(BUNDLE_MAX);
    struct source source = { 0 };
    struct view operation;
    int64_t limit = 0;
    const char *out = cli_flag(cli, "output");
    TRY(cli_span(cli, "wait-log", WAIT_DEFAULT, &limit));
    TRY(files_check_writable(cli->op, out));
    TRY(publish_wait(cli, cli->arguments[0], limit, &answer, &operation));
    TRY(take(cli, operation, &source));
    TRY(check(cli, &source));
    TRY(read_stamp(cli, &stamp, &source.parts));
    TRY(bundle_assemble(cli->op, &source.parts, &bundle));
    TRY(files_write(cli->op, out, buf_span(&bundle), 0644));
    return tell_written(cli, out, "bundle");
}

struct fault run_codesign_trusted_root(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct trusted_root *root = NULL;
    const char *out = cli_flag(cli, "output");
    TRY(files_check_writable(cli->op, out));
    TRY(api_send(cli, &(struct api_call){ .answer_max = TRUSTED_ROOT_MAX }, &answer));
    TRY(trusted_root_parse(cli->op, buf_span(&answer.body), &root));
    TRY(files_write(cli->op, out, buf_span(&answer.body), 0644));
    TRY(tell_written(cli, out, "trusted root"));
    if (!cli->json && strcmp(out, "-") != 0) {
        hint(
            "it names %zu logs, %zu certificate authorities, %zu time-stamping authorities: compare them by another way "
            "before you trust them, and pin the file",
            root->log_count, root->authority_count, root->stamper_count);
    }
    return OK;
}
