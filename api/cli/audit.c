#include "api/cli/api.h"
#include "api/cli/print.h"

#define EXPORT_MAX ((size_t)320 << 20)

struct fault run_audit_records(struct cli *cli)
{
    static const char *const filters[] = { "actor", "type", "from", "to", "order", "limit", "cursor" };
    static const struct column columns[] = {
        { "SEQUENCE", "record.sequence", COLUMN_TEXT }, { "TIME", "record.time", COLUMN_TIME },
        { "TYPE", "record.type", COLUMN_TEXT },         { "ACTOR", "record.actor.subject", COLUMN_TEXT },
        { "ROLES", "record.actor.roles", COLUMN_LIST },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    for (size_t i = 0; i < COUNT_OF(filters); i++) {
        TRY(query_add(&query, filters[i], cli_flag(cli, filters[i])));
    }
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text, .answer_max = EXPORT_MAX }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "records"), columns, COUNT_OF(columns), "no records that fit");
    print_more(cli->op, page);
    return OK;
}
