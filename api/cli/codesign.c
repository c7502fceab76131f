/* code-signing preview, sign, keyless-preview, keyless. */
#include "api/cli/api.h"
#include "api/cli/print.h"
#include "api/cli/proof.h"
#include "api/cli/signing.h"

#include <unistd.h>

#define RAW_MAX  ((size_t)64 << 10)
#define ROOT_MAX ((size_t)4 << 20)

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

/* A body of the user's own, sent as it is. */
static struct fault run_raw(struct cli *cli, const char *path)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(RAW_MAX);
    struct view receipt;
    struct span signature;
    const char *out = cli_flag(cli, "output");
    TRY(out != NULL ? files_check_writable(cli->op, out) : OK);
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    TRY(signing_submit(cli, path, buf_span(&body), NULL, &answer));
    if (FAULTED(view_of(cli->op, buf_span(&answer.body), &receipt)) ||
        FAULTED(view_base64(cli->op, view_get(receipt, "signature"), &signature)) || signature.len == 0) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no signature");
    }
    if (out != NULL) {
        TRY(files_write(cli->op, out, signature, 0644));
    }
    if (out != NULL && strcmp(out, "-") == 0) {
        return OK;
    }
    if (cli->json || out == NULL) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    (void)printf("signed: %s\n", out);
    receipt_print(cli, receipt);
    return OK;
}

/* What would otherwise be noticed only after signing. */
static struct fault check_later_steps(struct cli *cli)
{
    const struct stamp_source source = stamp_source_of(cli, "tsa-url", "tsa-root");
    int64_t span = 0;
    TRY(cli_span(cli, "wait-log", 0, &span));
    TRY(cli_span(cli, "wait-approval", 0, &span));
    if (cli_flag(cli, "timestamp") != NULL && source.root != NULL) {
        CLEANUP(buf_free) struct buf root = BUF_INIT(ROOT_MAX);
        TRY(files_read(cli->op, source.root, &root));
    }
    return OK;
}

static struct fault run_signing(struct cli *cli, struct signing *signing)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view receipt;
    TRY(check_later_steps(cli));
    TRY(signing_plan(cli, signing));
    TRY(ask(cli));
    TRY(tell_key(cli));
    TRY(signing_execute(cli, signing, &answer, &receipt));
    TRY(signing_check(cli, signing, receipt));
    return signing_deliver(cli, signing, receipt);
}

struct fault run_codesign_sign(struct cli *cli)
{
    struct signing signing = { 0 };
    TRY(signing_check_form(cli, "key"));
    if (cli_flag(cli, "file") != NULL) {
        return run_raw(cli, PATH_SIGN);
    }
    TRY(signing_gather(cli, &signing));
    signing.path = signing.batch ? PATH_BATCH : PATH_SIGN;
    signing.preview_path = signing.batch ? PATH_BATCH_PREVIEW : PATH_PREVIEW;
    return run_signing(cli, &signing);
}

static struct fault read_proof(struct cli *cli, struct buf *proof, struct signing *signing)
{
    const char *file = cli_flag(cli, "proof");
    if (file != NULL && strcmp(file, "-") == 0 && strcmp(cli->arguments[0], "-") == 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "stdin cannot be both the file and the proof");
    }
    TRY(proof_read(cli, proof));
    signing->keyless = true;
    signing->path = PATH_KEYLESS;
    signing->preview_path = PATH_KEYLESS_PREVIEW;
    signing->proof_bytes = proof;
    signing->proof = buf_span(proof);
    return OK;
}

struct fault run_codesign_keyless(struct cli *cli)
{
    CLEANUP(buf_free) struct buf proof = BUF_INIT(PROOF_MAX);
    struct signing signing = { 0 };
    TRY(signing_check_form(cli, "method"));
    if (cli_flag(cli, "file") != NULL) {
        return run_raw(cli, PATH_KEYLESS);
    }
    TRY(signing_gather(cli, &signing));
    TRY(read_proof(cli, &proof, &signing));
    return run_signing(cli, &signing);
}

static struct fault show_preview(struct cli *cli, const char *path, struct span body)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view plan;
    TRY(api_json(cli, &(struct api_call){ .route = api_route(cli, path), .body = body }, &answer, &plan));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    plan_print(cli, stdout, plan);
    const char *fingerprint = view_member(cli->op, plan, "request_fingerprint");
    (void)printf("  fingerprint    %s\n", fingerprint != NULL ? fingerprint : "-");
    hint("nothing was signed; to sign, use svc-cli code-signing %s, or send the fingerprint as preview_fingerprint",
         strcmp(path, PATH_KEYLESS_PREVIEW) == 0 ? "keyless" : "sign");
    return OK;
}

struct fault run_codesign_preview(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(RAW_MAX);
    struct signing signing = { 0 };
    TRY(signing_check_form(cli, "key"));
    if (cli_flag(cli, "file") != NULL) {
        TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
        return show_preview(cli, PATH_PREVIEW, buf_span(&body));
    }
    TRY(signing_gather(cli, &signing));
    TRY(signing_print_request(cli, &signing, NULL, &body));
    return show_preview(cli, signing.batch ? PATH_BATCH_PREVIEW : PATH_PREVIEW, buf_span(&body));
}

struct fault run_codesign_keyless_preview(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(RAW_MAX);
    CLEANUP(buf_free) struct buf proof = BUF_INIT(PROOF_MAX);
    struct signing signing = { 0 };
    TRY(signing_check_form(cli, "method"));
    if (cli_flag(cli, "file") != NULL) {
        TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
        return show_preview(cli, PATH_KEYLESS_PREVIEW, buf_span(&body));
    }
    TRY(signing_gather(cli, &signing));
    TRY(read_proof(cli, &proof, &signing));
    TRY(signing_print_request(cli, &signing, NULL, &body));
    return show_preview(cli, PATH_KEYLESS_PREVIEW, buf_span(&body));
}
