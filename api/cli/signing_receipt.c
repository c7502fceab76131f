#include "api/cli/signing.h"

#include "api/cli/print.h"
#include "api/cli/publickey.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#define STAMP_HASH "sha256"
#define PEM_MAX    ((size_t)1 << 20)

static const struct column receipt_lines[] = {
    { "operation", "operation_id", COLUMN_TEXT },
    { "key", "key_id", COLUMN_TEXT },
    { "identity", "fulcio_san", COLUMN_TEXT },
    { "issued by", "fulcio_issuer", COLUMN_TEXT },
    { "algorithm", "algorithm", COLUMN_TEXT },
    { "hash", "digest_algorithm", COLUMN_TEXT },
    { "encoding", "signature_encoding", COLUMN_TEXT },
    { "approved mode", "approved_mode", COLUMN_YESNO },
    { "note", "approved_mode_note", COLUMN_TEXT },
    { "artifact type", "artifact_type", COLUMN_TEXT },
    { "published at", "transparency_destination", COLUMN_TEXT },
};

void receipt_print(struct cli *cli, struct view receipt)
{
    print_pairs(cli->op, stdout, receipt, receipt_lines, COUNT_OF(receipt_lines));
}

const char *shell_quoted(struct op *op, const char *path)
{
    const char *text = path;
    bool plain = path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-")] == '\0';
    return plain || strchr(path, '\'') != NULL || FAULTED(arena_printf(op->arena, &text, "'%s'", path)) ? path : text;
}

/* ---- checked ---- */

static struct fault distrust(struct cli *cli, const char *what)
{
    cli->said = true;
    cli->exit = EXIT_FAILED;
    say("signature_invalid: %s; nothing was written: report this", what);
    return FAULT(SIGNATURE_INVALID);
}

struct fault receipt_chain(struct op *op, struct view list, struct chain *ret_chain)
{
    struct chain chain = { .count = 0 };
    struct view item;
    while (view_next(&list, &item)) {
        if (chain.count == CHAIN_MAX || FAULTED(view_base64(op, item, &chain.at[chain.count]))) {
            return op_fail(op, FAULT(IO), "the server's answer holds no acceptable certificate_chain");
        }
        chain.count++;
    }
    *ret_chain = chain;
    return OK;
}

/* The signer's certificate is of this key, and of keyless names who was promised. */
static struct fault check_chain(struct cli *cli, const struct signing *signing, struct view receipt)
{
    struct identity identity;
    struct span spki;
    bool named = false;
    const char *san = view_member(cli->op, receipt, "fulcio_san"), *wanted = cli_flag_if(cli, "expect-san");
    if (signing->chain.count == 0) {
        return signing->keyless ? distrust(cli, "the server's answer has no certificate") : OK;
    }
    TRY(certificate_spki(cli->op, signing->chain.at[0], &spki));
    if (!span_equal(spki, signing->spki)) {
        return distrust(cli, "the server's certificate is of another key");
    }
    if (!signing->keyless) {
        return OK;
    }
    TRY(certificate_identity(cli->op, signing->chain.at[0], &identity));
    for (size_t i = 0; san != NULL && i < identity.name_count; i++) {
        named = named || strcmp(identity.names[i], san) == 0;
    }
    if (!named || (wanted != NULL && strcmp(san, wanted) != 0)) {
        return distrust(cli, "the server's certificate names another identity");
    }
    return OK;
}

static struct fault check_signature(struct cli *cli, const struct signing *signing, EVP_PKEY *key,
                                    const struct signing_file *file)
{
    const char *told = public_key_scheme_of(signing->encoding), *scheme = NULL;
    if (told == NULL || FAULTED(public_key_verify(cli->op, key, told, file->digest.hash,
                                                  file_digest_span(&file->digest), file->signature, &scheme))) {
        return distrust(cli, "the server's signature does not verify against the key that it names");
    }
    return OK;
}

static struct fault take_signature(struct cli *cli, struct view item, struct signing_file *file)
{
    file->operation_id = view_member(cli->op, item, "operation_id");
    if (file->operation_id == NULL || FAULTED(view_base64(cli->op, view_get(item, "signature"), &file->signature)) ||
        file->signature.len == 0) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no signature");
    }
    return OK;
}

static struct fault take_signatures(struct cli *cli, struct signing *signing, struct view receipt)
{
    struct view rest = view_get(receipt, "signatures"), item;
    size_t count = 0;
    if (!signing->batch) {
        return take_signature(cli, receipt, &signing->files[0]);
    }
    for (; count < signing->count && view_next(&rest, &item); count++) {
        struct signing_file *file = &signing->files[count];
        struct span digest;
        TRY(take_signature(cli, item, file));
        if (FAULTED(view_base64(cli->op, view_get(item, "digest"), &digest)) ||
            !span_equal(digest, file_digest_span(&file->digest))) {
            return op_fail(cli->op, FAULT(IO), "the server's answer names other digests than were sent");
        }
    }
    return count == signing->count && !view_next(&rest, &item)
               ? OK
               : op_fail(cli->op, FAULT(IO), "the server's answer holds another number of signatures");
}

struct fault signing_check(struct cli *cli, struct signing *signing, struct view receipt)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    signing->encoding = view_member(cli->op, receipt, "signature_encoding");
    signing->destination = view_member(cli->op, receipt, "transparency_destination");
    TRY(take_signatures(cli, signing, receipt));
    if (FAULTED(view_base64(cli->op, view_get(receipt, "public_key_der"), &signing->spki))) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no public key");
    }
    TRY(public_key_parse(cli->op, signing->spki, &key));
    TRY(receipt_chain(cli->op, view_get(receipt, "certificate_chain"), &signing->chain));
    for (size_t i = 0; i < signing->count; i++) {
        TRY(check_signature(cli, signing, key, &signing->files[i]));
    }
    return check_chain(cli, signing, receipt);
}

/* ---- written ---- */

/* A signature that was made and cannot be written is not lost: the same key fetches it again. */
static struct fault write_signatures(struct cli *cli, const struct signing *signing)
{
    for (size_t i = 0; i < signing->count; i++) {
        struct fault fault = files_write(cli->op, signing->files[i].signature_out, signing->files[i].signature, 0644);
        if (FAULTED(fault)) {
            hint("it was signed: repeat with --idempotency-key %s and another -o to fetch the same signature",
                 cli->idempotency_key);
            return fault;
        }
    }
    return OK;
}

static struct fault write_certificates(struct cli *cli, const struct signing *signing)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(PEM_MAX);
    const char *out = cli_flag(cli, "certificate");
    if (out == NULL) {
        return OK;
    }
    if (signing->chain.count == 0) {
        return op_fail(cli->op, FAULT(NOT_FOUND), "signed, but the key has no certificate to write into %s", out);
    }
    TRY(chain_to_pem(&signing->chain, &pem));
    return files_write(cli->op, out, buf_span(&pem), 0644);
}

static struct fault stamp_one(struct cli *cli, struct signing_file *file)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const struct stamp_source source = stamp_source_of(cli, "tsa-url", "tsa-root");
    struct sha256 digest;
    struct tst_info info;
    TRY(sha256_of(file->signature, &digest));
    TRY(stamp_fetch(cli, &source, STAMP_HASH, SPAN_ARRAY(digest.at), &answer, &info));
    TRY(arena_copy(cli->op->arena, buf_span(&answer.body), &file->stamp));
    TRY(files_write(cli->op, file->stamp_out, file->stamp, 0644));
    file->stamped = true;
    if (source.root == NULL && !cli->json) {
        hint("the time stamp was not checked against a root: give --tsa-root or set SVC_TSA_ROOT");
    }
    return OK;
}

static struct fault finish(struct cli *cli, struct signing *signing)
{
    TRY(write_certificates(cli, signing));
    for (size_t i = 0; i < signing->count; i++) {
        if (signing->files[i].stamp_out != NULL) {
            TRY(stamp_one(cli, &signing->files[i]));
        }
    }
    for (size_t i = 0; i < signing->count; i++) {
        TRY(signing_publish(cli, signing, &signing->files[i]));
    }
    return OK;
}

/* ---- told ---- */

static void put_files(struct jout *jout, const struct signing *signing)
{
    jout_key(jout, "files");
    jout_array(jout);
    for (size_t i = 0; i < signing->count; i++) {
        const struct signing_file *file = &signing->files[i];
        jout_object(jout);
        jout_key_text(jout, "file", file->path);
        jout_key_text(jout, "operation_id", file->operation_id);
        jout_key_text(jout, "signature_file", file->signature_out);
        if (file->stamped) {
            jout_key_text(jout, "timestamp_file", file->stamp_out);
        }
        if (file->bundled) {
            jout_key_text(jout, "bundle_file", file->bundle_out);
        }
        jout_object_end(jout);
    }
    jout_array_end(jout);
}

/* The server's answer, with the files that were written as one member more. */
static struct fault tell_json(struct view receipt, const struct signing *signing)
{
    CLEANUP(buf_free) struct buf files = BUF_INIT((size_t)1 << 20);
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)4 << 20);
    struct jout jout;
    jout_init(&jout, &files);
    jout_object(&jout);
    put_files(&jout, signing);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(buf_put(&out, span_of(receipt.json.at, receipt.json.len - 1)));
    TRY(buf_text(&out, ","));
    TRY(buf_put(&out, span_of(files.at + 1, files.len - 1)));
    print_json(buf_span(&out));
    return OK;
}

static void hint_checks(struct cli *cli, const struct signing *signing, struct view receipt)
{
    const struct signing_file *file = &signing->files[0];
    const char *id = view_member(cli->op, receipt, "key_id"), *path = shell_quoted(cli->op, file->path);
    hint("%s checked against the key. To let others check %s:",
         signing->count > 1 ? "the signatures were" : "the signature was", signing->count > 1 ? "them" : "it");
    if (id != NULL) {
        hint("  svc-cli keys get %s --public-key-pem >key.pem", id);
        hint("  svc-cli code-signing verify %s --signature %s --public-key key.pem", path,
             shell_quoted(cli->op, file->signature_out));
    }
    if (file->bundled && signing->keyless) {
        hint("  svc-cli code-signing trusted-root -o trusted-root.json");
        hint("  svc-cli code-signing verify %s --bundle %s --trusted-root trusted-root.json --certificate-identity ... "
             "--certificate-oidc-issuer ...",
             path, shell_quoted(cli->op, file->bundle_out));
    } else if (file->bundled) {
        hint("  svc-cli code-signing verify %s --bundle %s --public-key key.pem", path,
             shell_quoted(cli->op, file->bundle_out));
    }
    if (!file->stamped) {
        hint("  svc-cli tsa stamp %s", shell_quoted(cli->op, file->signature_out));
    }
}

static void tell_file(const char *what, const char *path)
{
    (void)printf("%s: ", what);
    print_safe(stdout, span_text(path));
    (void)fputc('\n', stdout);
}

static struct fault tell(struct cli *cli, const struct signing *signing, struct view receipt)
{
    if (cli->json) {
        return tell_json(receipt, signing);
    }
    for (size_t i = 0; i < signing->count; i++) {
        tell_file("signed", signing->files[i].signature_out);
        if (signing->files[i].stamped) {
            tell_file("stamped", signing->files[i].stamp_out);
        }
        if (signing->files[i].bundled) {
            tell_file("bundle", signing->files[i].bundle_out);
        }
    }
    receipt_print(cli, receipt);
    hint_checks(cli, signing, receipt);
    return OK;
}

struct fault signing_deliver(struct cli *cli, struct signing *signing, struct view receipt)
{
    TRY(write_signatures(cli, signing));
    struct fault fault = finish(cli, signing);
    if (strcmp(signing->files[0].signature_out, "-") != 0) { /* else stdout is the signature's */
        TRY(tell(cli, signing, receipt));
    }
    return fault;
}
