/* operations outbox list, show, requeue. */
#include "api/cli/api.h"
#include "api/cli/print.h"
#include "appliance/base/json.h"

static const struct column effect_lines[] = {
    { "outbox id", "outbox_id", COLUMN_TEXT },
    { "destination", "destination", COLUMN_TEXT },
    { "key", "key", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "attempts", "attempts", COLUMN_TEXT },
    { "last code", "last_code", COLUMN_TEXT },
    { "first failed at", "first_failed_at", COLUMN_TIME },
    { "last failed at", "last_failed_at", COLUMN_TIME },
    { "created at", "created_at", COLUMN_TIME },
    { "due at", "due_at", COLUMN_TIME },
    { "lease until", "lease_until", COLUMN_TIME },
    { "trace id", "trace_id", COLUMN_TEXT },
};

struct fault run_outbox_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "OUTBOX ID", "outbox_id", COLUMN_TEXT },
        { "DESTINATION", "destination", COLUMN_TEXT },
        { "KEY", "key", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },
        { "ATTEMPTS", "attempts", COLUMN_TEXT },
        { "LAST CODE", "last_code", COLUMN_TEXT },
        { "LAST FAILED", "last_failed_at", COLUMN_TIME },
        { "CREATED", "created_at", COLUMN_TIME },
    };
    static const char *const parameters[] = { "state", "destination", "limit", "cursor" };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    for (size_t i = 0; i < COUNT_OF(parameters); i++) {
        TRY(query_add(&query, parameters[i], cli_flag(cli, parameters[i])));
    }
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns),
                "nothing waits, and nothing was given up");
    print_more(cli->op, page);
    return OK;
}

static struct fault call_and_show(struct cli *cli, const struct api_call *call, const struct column *lines,
                                  size_t count)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view effect;
    TRY(api_json(cli, call, &answer, &effect));
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_pairs(cli->op, stdout, effect, lines, count);
    }
    return OK;
}

struct fault run_outbox_show(struct cli *cli)
{
    return call_and_show(cli, &(struct api_call){ .id = cli->arguments[0] }, effect_lines, COUNT_OF(effect_lines));
}

/* One, or many of a destination. */
static struct fault print_body(struct cli *cli, struct buf *body)
{
    const char *destination = cli_flag(cli, "destination"), *limit = cli_flag(cli, "limit");
    struct jout jout;
    if ((cli->argument_count == 1) == (destination != NULL) || (limit != NULL && destination == NULL)) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "give the id of one effect, or --destination (and --limit)");
    }
    jout_init(&jout, body);
    jout_object(&jout);
    if (destination != NULL) {
        jout_key_text(&jout, "destination", destination);
    }
    if (limit != NULL) {
        if (limit[0] == '\0' || strspn(limit, "0123456789") != strlen(limit)) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--limit: a number from 1 to 100");
        }
        jout_key_raw(&jout, "limit", span_text(limit));
    }
    jout_key_text(&jout, "reason", cli_flag(cli, "reason"));
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault run_outbox_requeue(struct cli *cli)
{
    static const struct column lines[] = {
        { "destination", "destination", COLUMN_TEXT }, { "requeued", "requeued", COLUMN_TEXT },
        { "refused", "refused", COLUMN_TEXT },         { "because", "refused_why", COLUMN_TEXT },
        { "there are more", "more", COLUMN_YESNO },
    };
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    TRY(print_body(cli, &body));
    if (cli->argument_count == 1) {
        const struct api_call one = { .route = api_route(cli, "/api/v1/outbox/{id}/requeue"),
                                      .id = cli->arguments[0],
                                      .body = buf_span(&body) };
        return call_and_show(cli, &one, effect_lines, COUNT_OF(effect_lines));
    }
    const struct api_call many = { .route = api_route(cli, "/api/v1/outbox/requeue"), .body = buf_span(&body) };
    return call_and_show(cli, &many, lines, COUNT_OF(lines));
}
