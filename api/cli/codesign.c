#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/cli/publickey.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#include <unistd.h>

#define BODY_MAX      16384
#define SIGNATURE_MAX 16384
#define KEY_FILE_MAX  ((size_t)1 << 20)
#define SIGN_ROUTE    0 /* of "code-signing sign" */
#define PREVIEW_ROUTE 1
#define CODE_HASH     "sha256"

static const struct column plan_lines[] = {
    { "sha256", "digest", COLUMN_HEX },
    { "artifact type", "artifact_type", COLUMN_TEXT },
    { "key", "key_id", COLUMN_TEXT },
    { "algorithm", "algorithm", COLUMN_TEXT },
    { "scheme", "signature_scheme", COLUMN_TEXT },
    { "signed as", "principal", COLUMN_TEXT },
    { "approval needed", "approval.required", COLUMN_YESNO },
    { "published at", "transparency_destination", COLUMN_TEXT },
};
static const struct column receipt_lines[] = {
    { "operation", "operation_id", COLUMN_TEXT },      { "key", "key_id", COLUMN_TEXT },
    { "algorithm", "algorithm", COLUMN_TEXT },         { "encoding", "signature_encoding", COLUMN_TEXT },
    { "artifact type", "artifact_type", COLUMN_TEXT }, { "published at", "transparency_destination", COLUMN_TEXT },
};

/* FILE with --key, or -f alone. */
static struct fault check_form(struct cli *cli)
{
    bool file = cli->argument_count > 0, key = cli_flag(cli, "key") != NULL, raw = cli_flag(cli, "file") != NULL;
    bool extras = cli_flag(cli, "artifact-type") != NULL || cli_flag(cli, "scheme") != NULL;
    if (raw ? file || key || extras : !file || !key) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "give FILE and --key KEY_ID, or -f REQUEST.json alone");
    }
    return OK;
}

/* The request for a digest; with a fingerprint it is the one that executes. */
static struct fault print_request(struct cli *cli, struct span digest, const char *fingerprint, struct buf *body)
{
    const char *type = cli_flag(cli, "artifact-type"), *scheme = cli_flag(cli, "scheme");
    struct jout jout;
    jout_init(&jout, body);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", cli_flag(cli, "key"));
    jout_key_text(&jout, "artifact_type", type != NULL ? type : "file");
    jout_key_base64(&jout, "digest", digest);
    if (scheme != NULL) {
        jout_key_text(&jout, "signature_scheme", scheme);
    }
    if (fingerprint != NULL) {
        jout_key_text(&jout, "preview_fingerprint", fingerprint);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault run_codesign_preview(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct file_digest digest;
    struct view plan;
    TRY(check_form(cli));
    if (cli_flag(cli, "file") != NULL) {
        TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    } else {
        TRY(files_digest(cli->op, cli->arguments[0], CODE_HASH, &digest));
        TRY(print_request(cli, file_digest_span(&digest), NULL, &body));
    }
    TRY(api_json(cli, &(struct api_call){ .body = buf_span(&body) }, &answer, &plan));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, plan, plan_lines, COUNT_OF(plan_lines));
    const char *fingerprint = view_member(cli->op, plan, "request_fingerprint");
    (void)printf("  fingerprint      %s\n", fingerprint != NULL ? fingerprint : "-");
    hint("nothing was signed; to sign, use svc-cli code-signing sign, or send the fingerprint as preview_fingerprint");
    return OK;
}

static struct fault ask(struct cli *cli)
{
    char line[16] = "";
    if (cli_flag(cli, "yes") != NULL) {
        return OK;
    }
    if (isatty(STDIN_FILENO) != 1) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "nobody can be asked here: add --yes to sign");
    }
    (void)fprintf(stderr, "Sign this? [y/N] ");
    if (fgets(line, sizeof(line), stdin) == NULL || (line[0] != 'y' && line[0] != 'Y')) {
        return op_fail(cli->op, FAULT(CANCELLED), "nothing was signed");
    }
    return OK;
}

/* What came back must hold before anybody relies on it. */
static struct fault check_signature(struct cli *cli, struct view receipt, struct span digest, struct span signature)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    struct span der;
    const char *scheme = NULL, *encoding = view_member(cli->op, receipt, "signature_encoding");
    TRY(view_base64(cli->op, view_get(receipt, "public_key_der"), &der));
    TRY(public_key_parse(cli->op, der, &key));
    bool rsa = encoding != NULL && strncmp(encoding, "rsa-", 4) == 0;
    if (FAULTED(public_key_verify(cli->op, key, rsa ? encoding : "ecdsa", CODE_HASH, digest, signature, &scheme))) {
        cli->said = true;
        cli->exit = EXIT_FAILED;
        say("signature_invalid: the server's signature does not verify against the key that it names; nothing was "
            "written: report this");
        return FAULT(SIGNATURE_INVALID);
    }
    return OK;
}

static struct fault take_signature(struct cli *cli, struct view receipt, struct span *ret_signature)
{
    if (FAULTED(view_base64(cli->op, view_get(receipt, "signature"), ret_signature)) || ret_signature->len == 0) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no signature");
    }
    return OK;
}

static const char *quoted(struct op *op, const char *path)
{
    const char *text = path;
    bool plain = path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-")] == '\0';
    return plain || strchr(path, '\'') != NULL || FAULTED(arena_printf(op->arena, &text, "'%s'", path)) ? path : text;
}

static void print_receipt(struct cli *cli, struct view receipt, const char *file, const char *out)
{
    if (out != NULL) {
        (void)printf("signed: %s\n", out);
    }
    print_pairs(cli->op, stdout, receipt, receipt_lines, COUNT_OF(receipt_lines));
    if (file == NULL || out == NULL) {
        return;
    }
    const char *id = view_member(cli->op, receipt, "key_id");
    hint("the signature was checked against the key. To let others check it:");
    hint("  svc-cli keys get %s --public-key-pem >key.pem", id != NULL ? id : "KEY_ID");
    hint("  svc-cli code-signing verify %s --signature %s --public-key key.pem", quoted(cli->op, file),
         quoted(cli->op, out));
    hint("  svc-cli tsa stamp %s", quoted(cli->op, out));
}

static struct fault execute(struct cli *cli, struct span body, struct http_answer *answer, struct view *ret_receipt)
{
    return api_json(cli, &(struct api_call){ .route = SIGN_ROUTE, .body = body }, answer, ret_receipt);
}

/* A signature that was made and cannot be written is not lost: the same key fetches it again. */
static struct fault write_signature(struct cli *cli, const char *out, struct span signature)
{
    struct fault fault = files_write(cli->op, out, signature, 0644);
    if (FAULTED(fault)) {
        hint("it was signed: repeat with --idempotency-key %s and another -o to fetch the same signature",
             cli->idempotency_key);
    }
    return fault;
}

static struct fault sign_raw(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view receipt;
    struct span signature;
    const char *out = cli_flag(cli, "output");
    TRY(out != NULL ? files_check_writable(cli->op, out) : OK);
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    TRY(execute(cli, buf_span(&body), &answer, &receipt));
    TRY(take_signature(cli, receipt, &signature));
    if (out != NULL) {
        TRY(write_signature(cli, out, signature));
    }
    if (cli->json || out == NULL) {
        print_json(buf_span(&answer.body));
    } else {
        print_receipt(cli, receipt, NULL, out);
    }
    return OK;
}

static struct fault preview_for_sign(struct cli *cli, struct span digest, const char **ret_fingerprint)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view plan;
    TRY(print_request(cli, digest, NULL, &body));
    TRY(api_json(cli, &(struct api_call){ .route = PREVIEW_ROUTE, .body = buf_span(&body) }, &answer, &plan));
    if (!cli->json) {
        (void)fprintf(stderr, "About to sign ");
        print_safe(stderr, span_text(cli->arguments[0]));
        (void)fputc('\n', stderr);
        print_pairs(cli->op, stderr, plan, plan_lines, COUNT_OF(plan_lines));
    }
    const char *fingerprint = view_member(cli->op, plan, "request_fingerprint");
    if (fingerprint == NULL) {
        return op_fail(cli->op, FAULT(IO), "the server's preview holds no request_fingerprint");
    }
    *ret_fingerprint = fingerprint;
    return OK;
}

/* The key is told before it is used: should this client die, it is known what to repeat with. */
static struct fault tell_key(struct cli *cli)
{
    struct uuid id;
    if (cli->idempotency_key == NULL) {
        TRY(uuid_new(&id));
        TRY(arena_text(cli->op->arena, span_text(id.text), &cli->idempotency_key));
    }
    if (!cli->json) {
        hint("Idempotency-Key: %s", cli->idempotency_key);
    }
    return OK;
}

static struct fault sign_file(struct cli *cli, const char *file)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct file_digest digest;
    struct view receipt;
    struct span signature;
    const char *fingerprint = NULL, *out = cli_flag(cli, "output");
    if (out == NULL) {
        if (strcmp(file, "-") == 0) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "stdin has no name: say with -o where the signature goes");
        }
        TRY(arena_printf(cli->op->arena, &out, "%s.sig", file));
    }
    TRY(files_check_writable(cli->op, out));
    TRY(files_digest(cli->op, file, CODE_HASH, &digest));
    TRY(preview_for_sign(cli, file_digest_span(&digest), &fingerprint));
    TRY(ask(cli));
    TRY(tell_key(cli));
    TRY(print_request(cli, file_digest_span(&digest), fingerprint, &body));
    TRY(execute(cli, buf_span(&body), &answer, &receipt));
    TRY(take_signature(cli, receipt, &signature));
    TRY(check_signature(cli, receipt, file_digest_span(&digest), signature));
    TRY(write_signature(cli, out, signature));
    if (strcmp(out, "-") == 0) {
        return OK; /* stdout is the signature's */
    }
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_receipt(cli, receipt, file, out);
    }
    return OK;
}

struct fault run_codesign_sign(struct cli *cli)
{
    TRY(check_form(cli));
    return cli_flag(cli, "file") != NULL ? sign_raw(cli) : sign_file(cli, cli->arguments[0]);
}

static struct fault show_verified(const struct file_digest *digest, const char *scheme, const char *key_text)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(BODY_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_bool(&jout, "valid", true);
    jout_key_text(&jout, "hash_algorithm", digest->hash);
    jout_key_hex(&jout, "digest_hex", file_digest_span(digest));
    jout_key_text(&jout, "signature_scheme", scheme);
    jout_key_text(&jout, "public_key", key_text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return OK;
}

struct fault run_codesign_verify(struct cli *cli)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    CLEANUP(buf_free) struct buf key_file = BUF_INIT(KEY_FILE_MAX);
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    struct file_digest digest;
    const char *scheme = NULL;
    char key_text[64], hex[2 * HASH_LEN_MAX + 1];
    TRY(files_read(cli->op, cli_flag(cli, "public-key"), &key_file));
    TRY(public_key_parse(cli->op, buf_span(&key_file), &key));
    TRY(files_read(cli->op, cli_flag(cli, "signature"), &signature));
    TRY(files_digest(cli->op, cli->arguments[0], CODE_HASH, &digest));
    TRY(public_key_verify(cli->op, key, cli_flag(cli, "scheme"), CODE_HASH, file_digest_span(&digest),
                          buf_span(&signature), &scheme));
    public_key_print(key, key_text, sizeof(key_text));
    hex_text(file_digest_span(&digest), hex, sizeof(hex));
    if (cli->json) {
        return show_verified(&digest, scheme, key_text);
    }
    (void)printf("good signature\n  %s  %s\n  key     %s\n  scheme  %s\n", digest.hash, hex, key_text, scheme);
    hint("it says who signed only as far as you trust the public key in %s", cli_flag(cli, "public-key"));
    return OK;
}

struct fault run_codesign_operations(struct cli *cli)
{
    static const struct column columns[] = {
        { "OPERATION", "operation_id", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "KEY", "key_id", COLUMN_TEXT },
        { "TYPE", "artifact_type", COLUMN_TEXT },
        { "BY", "principal", COLUMN_TEXT },
        { "MADE AT", "created_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(query_add(&query, "state", cli_flag(cli, "state")));
    TRY(query_add(&query, "key_id", cli_flag(cli, "key")));
    TRY(query_add(&query, "limit", cli_flag(cli, "limit")));
    TRY(query_add(&query, "cursor", cli_flag(cli, "cursor")));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns), "no signing operations");
    print_more(cli->op, page);
    return OK;
}

struct fault run_codesign_operation(struct cli *cli)
{
    static const struct column lines[] = {
        { "operation", "operation_id", COLUMN_TEXT },      { "state", "state", COLUMN_TEXT },
        { "failed with", "failure_code", COLUMN_TEXT },    { "key", "key_id", COLUMN_TEXT },
        { "artifact type", "artifact_type", COLUMN_TEXT }, { "sha256", "digest", COLUMN_HEX },
        { "signed as", "principal", COLUMN_TEXT },         { "encoding", "signature_encoding", COLUMN_TEXT },
        { "signature", "signature", COLUMN_TEXT },         { "made at", "created_at", COLUMN_TIME },
        { "ended at", "ended_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view operation;
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0] }, &answer, &operation));
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_pairs(cli->op, stdout, operation, lines, COUNT_OF(lines));
    }
    return OK;
}
