/* privacy erasures, privacy attestations, audit history. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"

#define BODY_MAX ((size_t)64 << 10)

static const struct column erasure_lines[] = {
    { "erasure", "erasure_id", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "generation", "generation", COLUMN_TEXT },
    { "asked by", "requested_by", COLUMN_TEXT },
    { "asked at", "requested_at", COLUMN_TIME },
    { "reason", "reason", COLUMN_TEXT },
    { "up to message", "boundary_stream_sequence", COLUMN_TEXT },
    { "activated at", "activated_at", COLUMN_TIME },
    { "messages", "messages", COLUMN_TEXT },
    { "failed of", "failure_code", COLUMN_TEXT },
    { "because", "failure", COLUMN_TEXT },
    { "ended at", "ended_at", COLUMN_TIME },
    { "answers blanked", "answers_blanked", COLUMN_TEXT },
    { "later messages", "later_messages", COLUMN_TEXT },
};
static const struct column attestation_lines[] = {
    { "attestation", "attestation_id", COLUMN_TEXT },
    { "erasure", "erasure_id", COLUMN_TEXT },
    { "archive", "archive_locator", COLUMN_TEXT },
    { "action", "action", COLUMN_TEXT },
};

static struct fault ask_and_show(struct cli *cli, const struct column *lines, size_t count, bool body_is_due,
                                 struct http_answer *answer, struct view *ret_view)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct api_call call = { .id = cli->argument_count > 0 ? cli->arguments[0] : NULL };
    if (body_is_due) {
        TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
        call.body = buf_span(&body);
    }
    TRY(api_json(cli, &call, answer, ret_view));
    if (cli->json) {
        print_json(buf_span(&answer->body));
        return OK;
    }
    print_pairs(cli->op, stdout, *ret_view, lines, count);
    return OK;
}

static struct fault list(struct cli *cli, const struct column *columns, size_t count, const char *none)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(query_add(&query, "limit", cli_flag(cli, "limit")));
    TRY(query_add(&query, "cursor", cli_flag(cli, "cursor")));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, count, none);
    print_more(cli->op, page);
    return OK;
}

struct fault run_erasures_preview(struct cli *cli)
{
    static const struct column lines[] = {
        { "fingerprint", "preview_fingerprint", COLUMN_TEXT },
        { "generation", "generation", COLUMN_TEXT },
        { "messages", "messages", COLUMN_TEXT },
        { "from message", "first_stream_sequence", COLUMN_TEXT },
        { "to message", "last_stream_sequence", COLUMN_TEXT },
        { "in encoded form", "residual", COLUMN_TEXT },
        { "archives", "archived_segments", COLUMN_TEXT },
        { "erasure open", "erasure_open", COLUMN_YESNO },
    };
    static const struct column types[] = {
        { "TYPE", "type", COLUMN_TEXT },
        { "MESSAGES", "messages", COLUMN_TEXT },
        { "ENCODED", "residual", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view preview;
    TRY(ask_and_show(cli, lines, COUNT_OF(lines), true, &answer, &preview));
    if (!cli->json) {
        (void)fputc('\n', stdout);
        print_table(cli->op, view_get(preview, "types"), types, COUNT_OF(types), "no message holds it");
    }
    return OK;
}

struct fault run_erasures_create(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view erasure;
    return ask_and_show(cli, erasure_lines, COUNT_OF(erasure_lines), true, &answer, &erasure);
}

struct fault run_erasures_get(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view erasure;
    return ask_and_show(cli, erasure_lines, COUNT_OF(erasure_lines), false, &answer, &erasure);
}

struct fault run_erasures_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "ERASURE", "erasure_id", COLUMN_TEXT },    { "STATE", "state", COLUMN_TEXT },
        { "GENERATION", "generation", COLUMN_TEXT }, { "MESSAGES", "messages", COLUMN_TEXT },
        { "ASKED BY", "requested_by", COLUMN_TEXT }, { "ASKED AT", "requested_at", COLUMN_TIME },
        { "ENDED AT", "ended_at", COLUMN_TIME },
    };
    return list(cli, columns, COUNT_OF(columns), "no erasures");
}

struct fault run_attestations_create(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view attestation;
    return ask_and_show(cli, attestation_lines, COUNT_OF(attestation_lines), true, &answer, &attestation);
}

struct fault run_attestations_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "ERASURE", "erasure_id", COLUMN_TEXT },   { "ARCHIVE", "archive_locator", COLUMN_TEXT },
        { "ACTION", "action", COLUMN_TEXT },        { "BY", "performed_by", COLUMN_TEXT },
        { "AT", "performed_at", COLUMN_TIME },      { "ATTESTED BY", "attested_by", COLUMN_TEXT },
        { "ATTESTED", "attested_at", COLUMN_TIME },
    };
    return list(cli, columns, COUNT_OF(columns), "no attestations");
}

struct fault run_audit_history(struct cli *cli)
{
    static const struct column columns[] = {
        { "GENERATION", "generation", COLUMN_TEXT },       { "SINCE", "activated_at", COLUMN_TIME },
        { "UP TO", "boundary_sequence", COLUMN_TEXT },     { "MESSAGES", "messages", COLUMN_TEXT },
        { "HEAD BEFORE", "superseded_head", COLUMN_TEXT }, { "HEAD AFTER", "new_head", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view page;
    TRY(api_json(cli, &(struct api_call){ .query = NULL }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns), "never rewritten");
    return OK;
}
