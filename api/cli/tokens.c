#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"
#include "appliance/base/json.h"

static const struct column token_lines[] = {
    { "token id", "token_id", COLUMN_TEXT },     { "subject", "subject", COLUMN_TEXT },
    { "roles", "roles", COLUMN_LIST },           { "state", "state", COLUMN_TEXT },
    { "expires at", "expires_at", COLUMN_TIME }, { "revoked at", "revoked_at", COLUMN_TIME },
    { "revoked by", "revoked_by", COLUMN_TEXT }, { "reason", "revoke_reason", COLUMN_TEXT },
};

static struct fault print_body(struct cli *cli, struct buf *body)
{
    const char *ttl = cli_flag(cli, "ttl");
    int64_t span = 0;
    struct jout jout;
    jout_init(&jout, body);
    jout_object(&jout);
    jout_key_text(&jout, "subject", cli_flag(cli, "subject"));
    jout_key(&jout, "roles");
    jout_array(&jout);
    for (size_t i = 0; i < cli->repeat_count; i++) {
        jout_text(&jout, cli->repeats[i]);
    }
    jout_array_end(&jout);
    if (ttl != NULL) {
        if (FAULTED(duration_parse(span_text(ttl), &span)) || span < NS_PER_S) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--ttl: a span such as 720h or 90m, at least 1s");
        }
        jout_key_int(&jout, "ttl_seconds", span / NS_PER_S);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* What is left to tell when the token itself went into a file. */
static struct fault print_kept(struct view token, const char *file)
{
    static const char *const members[] = { "token_id", "tenant_id", "subject", "roles", "expires_at" };
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        struct view member = view_get(token, members[i]);
        if (view_is_there(member)) {
            jout_key_raw(&jout, members[i], member.json);
        }
    }
    jout_key_text(&jout, "file", file);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    print_json(buf_span(&out));
    return OK;
}

/* The token is the one secret that this client ever gets: into a private file, or once onto the terminal. */
static struct fault hand_over(struct cli *cli, const struct http_answer *answer, struct view token)
{
    const char *file = cli_flag(cli, "output"), *text = view_member(cli->op, token, "token");
    if (text == NULL) {
        return op_fail(cli->op, FAULT(IO), "the server's answer holds no token");
    }
    if (file != NULL) {
        CLEANUP(buf_free) struct buf line = BUF_INIT(4096);
        TRY(buf_printf(&line, "%s\n", text));
        TRY(files_write(cli->op, file, buf_span(&line), 0600));
    }
    if (cli->json && file != NULL) {
        return print_kept(token, file);
    }
    if (cli->json) {
        print_json(buf_span(&answer->body));
        return OK;
    }
    print_pairs(cli->op, stdout, token, token_lines, COUNT_OF(token_lines));
    if (file == NULL) {
        (void)printf("  token       %s\n", text);
        hint("it is not shown again: keep it in a file of mode 0600, and use it with --token-file");
    } else {
        hint("the token is in %s: use it with --token-file %s", file, file);
    }
    return OK;
}

struct fault run_tokens_create(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(16384);
    struct view token;
    TRY(print_body(cli, &body));
    TRY(api_json(cli, &(struct api_call){ .body = buf_span(&body) }, &answer, &token));
    return hand_over(cli, &answer, token);
}

struct fault run_tokens_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "TOKEN ID", "token_id", COLUMN_TEXT }, { "SUBJECT", "subject", COLUMN_TEXT },
        { "ROLES", "roles", COLUMN_LIST },       { "STATE", "state", COLUMN_TEXT },
        { "ENDS", "last4", COLUMN_TEXT },        { "EXPIRES AT", "expires_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(query_add(&query, "subject", cli_flag(cli, "subject")));
    TRY(query_add(&query, "active", cli_flag(cli, "active")));
    TRY(query_add(&query, "limit", cli_flag(cli, "limit")));
    TRY(query_add(&query, "cursor", cli_flag(cli, "cursor")));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns), "no tokens");
    print_more(cli->op, page);
    return OK;
}

struct fault run_tokens_revoke(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(16384);
    struct view token;
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_text(&jout, "reason", cli_flag(cli, "reason"));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) }, &answer, &token));
    if (cli->json) {
        print_json(buf_span(&answer.body));
    } else {
        print_pairs(cli->op, stdout, token, token_lines, COUNT_OF(token_lines));
    }
    return OK;
}
