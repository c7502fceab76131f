/* code-signing policy explain, show. */
#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"

#define BODY_MAX ((size_t)16 << 10)

static const char *member(struct op *op, struct view object, const char *path)
{
    const char *text = view_member(op, object, path);
    return text != NULL ? text : "";
}

/* Which rules were asked before the one that decides, and why they did not. */
static void print_considered(struct cli *cli, struct view answer)
{
    static const struct column columns[] = {
        { "RULE", "rule", COLUMN_TEXT },
        { "FILE", "file", COLUMN_TEXT },
        { "LINE", "line", COLUMN_TEXT },
        { "MATCHED", "matched", COLUMN_YESNO },
        { "NOT FOR ITS", "failed_on", COLUMN_TEXT },
    };
    struct view list = view_get(answer, "considered"), rest = list, item;
    if (view_next(&rest, &item)) {
        (void)fputc('\n', stdout);
        print_table(cli->op, list, columns, COUNT_OF(columns), "");
    }
}

struct fault run_policy_explain(struct cli *cli)
{
    static const struct column lines[] = {
        { "outcome", "outcome", COLUMN_TEXT },
        { "rule", "rule", COLUMN_TEXT },
        { "in", "place", COLUMN_TEXT },
        { "reason", "reason", COLUMN_TEXT },
        { "approvers", "approvers", COLUMN_TEXT },
        { "window, s", "window_seconds", COLUMN_TEXT },
        { "signings", "max_signings", COLUMN_TEXT },
        { "principal", "input.principal", COLUMN_TEXT },
        { "roles", "input.roles", COLUMN_LIST },
        { "at", "input.at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view view;
    struct own_cell place = { "place", NULL };
    TRY(files_read(cli->op, cli_flag(cli, "file"), &body));
    TRY(api_json(cli, &(struct api_call){ .body = buf_span(&body) }, &answer, &view));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    if (member(cli->op, view, "file")[0] != '\0') {
        TRY(arena_printf(cli->op->arena, &place.text, "%s:%s", member(cli->op, view, "file"),
                         member(cli->op, view, "line")));
    }
    print_pairs_and(cli->op, stdout, view, lines, COUNT_OF(lines), &place, 1);
    print_considered(cli, view);
    return OK;
}

struct fault run_policy_show(struct cli *cli)
{
    static const struct column lines[] = {
        { "rules asked", "policy_enabled", COLUMN_YESNO },
        { "always approved", "require_approval", COLUMN_YESNO },
        { "window, s", "approval_window_seconds", COLUMN_TEXT },
        { "digest", "digest", COLUMN_TEXT },
    };
    static const struct column columns[] = {
        { "RULE", "rule", COLUMN_TEXT }, { "FILE", "file", COLUMN_TEXT },           { "LINE", "line", COLUMN_TEXT },
        { "THEN", "then", COLUMN_TEXT }, { "APPROVERS", "approvers", COLUMN_TEXT }, { "WHEN", "when", COLUMN_TEXT },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view view;
    TRY(api_json(cli, &(struct api_call){ 0 }, &answer, &view));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_pairs(cli->op, stdout, view, lines, COUNT_OF(lines));
    print_table(cli->op, view_get(view, "rules"), columns, COUNT_OF(columns), "no rules");
    return OK;
}
