/* audit feeds list, preview, apply, pause, resume. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"

#define BODY_MAX ((size_t)64 << 10)

static const struct column feed_lines[] = {
    { "feed", "feed_id", COLUMN_TEXT },
    { "kind", "kind", COLUMN_TEXT },
    { "host", "host", COLUMN_TEXT },
    { "credential", "credential", COLUMN_TEXT },
    { "enabled", "enabled", COLUMN_YESNO },
    { "version", "version", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "delivered up to", "last_delivered_sequence", COLUMN_TEXT },
    { "owed", "lag_records", COLUMN_TEXT },
    { "attempts", "attempts", COLUMN_TEXT },
    { "next attempt at", "next_attempt_at", COLUMN_TIME },
    { "last error", "last_error_code", COLUMN_TEXT },
    { "request id", "collector_request_id", COLUMN_TEXT },
};

struct fault run_feeds_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "FEED", "feed_id", COLUMN_TEXT },
        { "KIND", "kind", COLUMN_TEXT },
        { "HOST", "host", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "DELIVERED", "last_delivered_sequence", COLUMN_TEXT },
        { "OWED", "lag_records", COLUMN_TEXT },
        { "ATTEMPTS", "attempts", COLUMN_TEXT },
        { "NEXT AT", "next_attempt_at", COLUMN_TIME },
        { "LAST ERROR", "last_error_code", COLUMN_TEXT },
        { "REQUEST ID", "collector_request_id", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view page;
    TRY(api_json(cli, &(struct api_call){ .query = NULL }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns), "no audit feeds");
    return OK;
}

struct fault run_feeds_preview(struct cli *cli)
{
    static const struct column lines[] = {
        { "feed", "feed_id", COLUMN_TEXT },          { "kind", "kind", COLUMN_TEXT },
        { "collector", "collector", COLUMN_TEXT },   { "host", "host", COLUMN_TEXT },
        { "all hosts", "hosts", COLUMN_LIST },       { "credential", "credential", COLUMN_TEXT },
        { "version", "version", COLUMN_TEXT },       { "from record", "from_sequence", COLUMN_TEXT },
        { "permission", "permission", COLUMN_TEXT }, { "writes", "writes", COLUMN_TEXT },
        { "later", "later_effect", COLUMN_TEXT },    { "proof", "proof", COLUMN_TEXT },
        { "recovery", "recovery", COLUMN_TEXT },
    };
    static const struct column credentials[] = {
        { "CREDENTIAL", "reference", COLUMN_TEXT },
        { "SET", "set", COLUMN_YESNO },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view preview;
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) }, &answer, &preview));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, preview, lines, COUNT_OF(lines));
    (void)fputc('\n', stdout);
    print_table(cli->op, view_get(preview, "credentials"), credentials, COUNT_OF(credentials), "no credentials");
    return OK;
}

static struct fault call_and_show(struct cli *cli, struct span body)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view feed;
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0], .body = body }, &answer, &feed));
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_pairs(cli->op, stdout, feed, feed_lines, COUNT_OF(feed_lines));
    }
    return OK;
}

struct fault run_feeds_apply(struct cli *cli)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    return call_and_show(cli, buf_span(&body));
}

struct fault run_feeds_switch(struct cli *cli)
{
    return call_and_show(cli, (struct span){ 0 });
}
