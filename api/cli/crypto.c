/* compliance attestations, cbom, graph crypto-readiness, editions. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define BODY_MAX  ((size_t)64 << 10)
#define LINES_MAX ((size_t)64 << 20)
#define FILE_MODE 0644

static const struct column attestation_lines[] = {
    { "attestation", "attestation_id", COLUMN_TEXT },
    { "statement", "statement", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "title", "title", COLUMN_TEXT },
    { "note", "note", COLUMN_TEXT },
    { "evidence", "evidence.locator", COLUMN_TEXT },
    { "its SHA-256", "evidence.sha256", COLUMN_TEXT },
    { "valid from", "valid_from", COLUMN_TIME },
    { "expires at", "expires_at", COLUMN_TIME },
    { "attested by", "attested_by", COLUMN_TEXT },
    { "attested at", "attested_at", COLUMN_TIME },
    { "withdrawn at", "withdrawn_at", COLUMN_TIME },
    { "withdrawn by", "withdrawn_by", COLUMN_TEXT },
    { "because", "withdraw_reason", COLUMN_TEXT },
};

static struct fault show(struct cli *cli, const struct api_call *call, const struct column *lines, size_t count)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view view;
    TRY(api_json(cli, call, &answer, &view));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, view, lines, count);
    return OK;
}

static struct fault send_file(struct cli *cli, const struct column *lines, size_t count)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    return show(cli, &(struct api_call){ .body = buf_span(&body) }, lines, count);
}

/* ---- attestations ---- */

struct fault run_statements_record(struct cli *cli)
{
    return send_file(cli, attestation_lines, COUNT_OF(attestation_lines));
}

struct fault run_statements_withdraw(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_text(&jout, "reason", cli_flag(cli, "reason"));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return show(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) }, attestation_lines,
                COUNT_OF(attestation_lines));
}

struct fault run_statements_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "ATTESTATION", "attestation_id", COLUMN_TEXT },
        { "STATEMENT", "statement", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "TITLE", "title", COLUMN_TEXT },
        { "BY", "attested_by", COLUMN_TEXT },
        { "AT", "attested_at", COLUMN_TIME },
        { "EXPIRES", "expires_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(query_add(&query, "current", cli_flag(cli, "current") != NULL ? "true" : NULL));
    TRY(query_add(&query, "statement", cli_flag(cli, "statement")));
    TRY(query_add(&query, "limit", cli_flag(cli, "limit")));
    TRY(query_add(&query, "cursor", cli_flag(cli, "cursor")));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns), "no attestations");
    print_more(cli->op, page);
    return OK;
}

/* ---- what comes as it is ---- */

struct taking {
    struct op *op;
    struct file_stream *stream;
};

static struct fault take(void *arg, struct span bytes)
{
    const struct taking *taking = arg;
    return files_stream_put(taking->op, taking->stream, bytes);
}

/* An answer that ends before its end leaves no file. */
static struct fault fetch(struct cli *cli, const char *query)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(files_stream_freep) struct file_stream *stream = NULL;
    const char *path = cli_flag(cli, "output");
    TRY(files_stream_new(cli->op, path != NULL ? path : "-", FILE_MODE, &stream));
    struct taking taking = { cli->op, stream };
    const struct http_sink sink = { take, &taking };
    TRY(api_send(cli, &(struct api_call){ .query = query, .sink = &sink }, &answer));
    return files_stream_keep(cli->op, stream);
}

struct fault run_cbom(struct cli *cli)
{
    TRY(fetch(cli, NULL));
    const char *path = cli_flag(cli, "output");
    if (path == NULL || strcmp(path, "-") == 0) {
        (void)fputc('\n', stdout);
    }
    return OK;
}

/* ---- crypto readiness ---- */

/* SHA-256 over the rows, each in canonical form and LF; rows of a parsed answer are canonical already. */
static struct fault check_digest(struct cli *cli, struct view dataset)
{
    CLEANUP(buf_free) struct buf lines = BUF_INIT(LINES_MAX);
    struct view rest = view_get(dataset, "rows"), row;
    struct sha256 digest;
    char text[2 * SHA256_LEN + 1];
    while (view_next(&rest, &row)) {
        TRY(buf_put(&lines, row.json));
        TRY(buf_u8(&lines, '\n'));
    }
    TRY(sha256_of(buf_span(&lines), &digest));
    hex_text(SPAN_ARRAY(digest.at), text, sizeof(text));
    const char *stated = view_member(cli->op, dataset, "dataset_digest");
    const char *complete = view_member(cli->op, dataset, "complete");
    if (complete == NULL || strcmp(complete, "true") != 0) {
        hint("not all rows are listed: the digest is over all of them and cannot be checked here");
        return OK;
    }
    return stated != NULL && strcmp(stated, text) == 0
               ? OK
               : op_fail(cli->op, FAULT(JSON_FIELD), "the rows do not have the digest that the server states");
}

struct fault run_readiness(struct cli *cli)
{
    static const struct column columns[] = {
        { "OBJECT", "object", COLUMN_TEXT },
        { "ALGORITHM", "algorithm.name", COLUMN_TEXT },
        { "QUANTUM", "quantum", COLUMN_TEXT },
        { "POSTURE", "posture", COLUMN_TEXT },
        { "PURPOSE", "purpose", COLUMN_TEXT },
        { "USES", "dependents.signing_operations", COLUMN_TEXT },
        { "CERTIFICATES", "dependents.certificates", COLUMN_TEXT },
        { "RECOMMENDATION", "recommendation.code", COLUMN_TEXT },
    };
    static const struct column lines[] = {
        { "digest", "dataset_digest", COLUMN_TEXT },
        { "assets", "total", COLUMN_TEXT },
        { "unbound actions", "unbound_actions", COLUMN_TEXT },
        { "coverage", "coverage", COLUMN_TEXT },
    };
    const char *format = cli_flag(cli, "format"), *query = NULL;
    if (format != NULL) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(256);
        TRY(query_add(&text, "format", format));
        TRY(buf_cstr(&text, &query));
        return fetch(cli, query);
    }
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view dataset;
    TRY(api_json(cli, &(struct api_call){ .query = NULL }, &answer, &dataset));
    TRY(check_digest(cli, dataset));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(dataset, "rows"), columns, COUNT_OF(columns), "no assets");
    (void)fputc('\n', stdout);
    print_pairs(cli->op, stdout, dataset, lines, COUNT_OF(lines));
    return OK;
}

struct fault run_readiness_action(struct cli *cli)
{
    static const struct column lines[] = {
        { "object", "object", COLUMN_TEXT }, { "action", "action", COLUMN_TEXT }, { "state", "state", COLUMN_TEXT },
        { "due", "due", COLUMN_TIME },       { "note", "note", COLUMN_TEXT },
    };
    return send_file(cli, lines, COUNT_OF(lines));
}

/* ---- editions ---- */

struct fault run_editions(struct cli *cli)
{
    static const struct column lines[] = {
        { "edition", "edition", COLUMN_TEXT },
        { "license", "license.why", COLUMN_TEXT },
        { "FIPS required", "fips.required", COLUMN_YESNO },
        { "module active", "fips.module_active", COLUMN_YESNO },
        { "self-test passed", "fips.self_test_passed", COLUMN_YESNO },
        { "standard", "fips.standard", COLUMN_TEXT },
        { "module", "fips.module.name", COLUMN_TEXT },
        { "its version", "fips.module.version", COLUMN_TEXT },
        { "build target", "fips.build_target", COLUMN_TEXT },
        { "fenced", "fips.regulated_deployment_profile.non_fips_fences", COLUMN_LIST },
        { "custody certificates", "fips.regulated_deployment_profile.hsm_kms_validation_certificates", COLUMN_LIST },
    };
    return show(cli, &(struct api_call){ .query = NULL }, lines, COUNT_OF(lines));
}
