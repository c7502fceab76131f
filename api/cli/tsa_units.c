/* tsa units: the keys and certificates of the time-stamping authority. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "api/codesign/verify.h"
#include "appliance/base/json.h"

#define BODY_MAX ((size_t)512 << 10)
#define PEM_MAX  ((size_t)1 << 20)

static void show_unit(const struct cli *cli, const struct http_answer *answer, struct view unit)
{
    static const struct column lines[] = {
        { "unit id", "unit_id", COLUMN_TEXT },
        { "number", "number", COLUMN_TEXT },
        { "state", "state", COLUMN_TEXT },
        { "algorithm", "algorithm", COLUMN_TEXT },
        { "issuance", "issuance", COLUMN_TEXT },
        { "stamps until", "key_usage_end", COLUMN_TIME },
        { "certificate until", "not_after", COLUMN_TIME },
        { "replaced by", "replaced_by", COLUMN_TEXT },
        { "retired at", "retired_at", COLUMN_TIME },
        { "retired for", "retire_reason", COLUMN_TEXT },
    };
    if (cli->json) {
        print_json(buf_span(&answer->body));
    } else {
        print_pairs(cli->op, stdout, unit, lines, COUNT_OF(lines));
    }
}

struct fault run_tsa_units_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "UNIT ID", "unit_id", COLUMN_TEXT },
        { "NUMBER", "number", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "ALGORITHM", "algorithm", COLUMN_TEXT },
        { "ISSUANCE", "issuance", COLUMN_TEXT },
        { "STAMPS UNTIL", "key_usage_end", COLUMN_TIME },
        { "CERTIFICATE UNTIL", "not_after", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view page;
    TRY(api_json(cli, &(struct api_call){ 0 }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns), "no units yet");
    }
    return OK;
}

struct fault run_tsa_units_prepare(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view unit;
    TRY(api_json(cli, &(struct api_call){ 0 }, &answer, &unit));
    show_unit(cli, &answer, unit);
    const char *id = view_member(cli->op, unit, "unit_id"), *state = view_member(cli->op, unit, "state");
    if (!cli->json && id != NULL && state != NULL && strcmp(state, "prepared") == 0) {
        hint("have it certified: svc-cli tsa units csr %s --subject 'CN=Time Stamping Unit'", id);
    } else if (!cli->json && id != NULL) {
        hint("it takes over by itself when the time comes, or now: svc-cli tsa units activate %s", id);
    }
    return OK;
}

struct fault run_tsa_units_csr(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    const char *out = cli_flag(cli, "output");
    struct view view;
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_text(&jout, "subject", cli_flag(cli, "subject"));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(out != NULL ? files_check_writable(cli->op, out) : OK);
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) }, &answer, &view));
    const char *pem = view_member(cli->op, view, "csr_pem");
    if (pem == NULL) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no certificate request");
    }
    if (out != NULL) {
        TRY(files_write(cli->op, out, span_text(pem), 0644));
    }
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else if (out == NULL) {
        (void)fputs(pem, stdout);
    } else if (strcmp(out, "-") != 0) {
        (void)printf("certificate request: %s\n", out);
        hint("have it signed for timeStamping alone, then: svc-cli tsa units import %s --chain CHAIN.pem",
             cli->arguments[0]);
    }
    return OK;
}

static struct fault send(struct cli *cli, const struct buf *body)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view unit;
    TRY(api_json(
        cli, &(struct api_call){ .id = cli->arguments[0], .body = body != NULL ? buf_span(body) : (struct span){ 0 } },
        &answer, &unit));
    show_unit(cli, &answer, unit);
    return OK;
}

struct fault run_tsa_units_import(struct cli *cli)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(PEM_MAX);
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct chain chain;
    struct jout jout;
    TRY(files_read(cli->op, cli_flag(cli, "chain"), &pem));
    TRY(chain_from_pem(cli->op, buf_span(&pem), cli_flag(cli, "chain"), &chain));
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key(&jout, "certificate_chain");
    jout_array(&jout);
    for (size_t i = 0; i < chain.count; i++) {
        jout_base64(&jout, chain.at[i]);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return send(cli, &body);
}

struct fault run_tsa_units_activate(struct cli *cli)
{
    return send(cli, NULL);
}

struct fault run_tsa_units_retire(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_text(&jout, "reason", cli_flag(cli, "reason"));
    if (cli_flag(cli, "stop-stamping") != NULL) {
        jout_key_bool(&jout, "stop_stamping", true);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return send(cli, &body);
}
