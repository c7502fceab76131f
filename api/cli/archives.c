/* audit archives: what left the served trail. */
#include "api/cli/api.h"
#include "api/cli/print.h"

struct fault run_audit_archives_list(struct cli *cli)
{
    static const char *const filters[] = { "limit", "cursor" };
    static const struct column columns[] = {
        { "NUMBER", "number", COLUMN_TEXT },       { "FIRST", "first_sequence", COLUMN_TEXT },
        { "LAST", "last_sequence", COLUMN_TEXT },  { "ARCHIVED", "archived_at", COLUMN_TIME },
        { "BYTES", "archive_bytes", COLUMN_TEXT }, { "FILE", "file", COLUMN_TEXT },
        { "ARCHIVE", "archive", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    for (size_t i = 0; i < COUNT_OF(filters); i++) {
        TRY(query_add(&query, filters[i], cli_flag(cli, filters[i])));
    }
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns), "nothing is archived");
    print_more(cli->op, page);
    return OK;
}

static struct fault ask(struct cli *cli, const struct column *lines, size_t count)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view view;
    TRY(api_json(cli, &(struct api_call){ 0 }, &answer, &view));
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_pairs(cli->op, stdout, view, lines, count);
    }
    return OK;
}

struct fault run_audit_archives_preview(struct cli *cli)
{
    static const struct column lines[] = {
        { "archived through", "archived_through", COLUMN_TEXT }, { "due is what is before", "before", COLUMN_TIME },
        { "oldest served", "oldest_served", COLUMN_TIME },       { "records due", "records", COLUMN_TEXT },
        { "from record", "first_sequence", COLUMN_TEXT },        { "to record", "last_sequence", COLUMN_TEXT },
    };
    return ask(cli, lines, COUNT_OF(lines));
}

struct fault run_audit_archives_run(struct cli *cli)
{
    static const struct column lines[] = {
        { "records archived", "records", COLUMN_TEXT }, { "from record", "first_sequence", COLUMN_TEXT },
        { "to record", "last_sequence", COLUMN_TEXT },  { "files", "segments", COLUMN_TEXT },
        { "more is due", "more", COLUMN_TEXT },
    };
    return ask(cli, lines, COUNT_OF(lines));
}
