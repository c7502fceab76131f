#include "api/cli/api.h"
#include "api/cli/print.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

static const struct column key_lines[] = {
    { "key id", "key_id", COLUMN_TEXT },
    { "name", "name", COLUMN_TEXT },
    { "purpose", "purpose", COLUMN_TEXT },
    { "algorithm", "algorithm", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "made at", "created_at", COLUMN_TIME },
    { "made by", "created_by", COLUMN_TEXT },
    { "destroyed at", "destroyed_at", COLUMN_TIME },
    { "destroyed by", "destroyed_by", COLUMN_TEXT },
    { "reason", "destroy_reason", COLUMN_TEXT },
};

static struct fault show_key(struct cli *cli, const struct http_answer *answer, struct view key)
{
    if (cli->json) {
        print_json(buf_span(&answer->body));
    } else {
        print_pairs(cli->op, stdout, key, key_lines, COUNT_OF(key_lines));
    }
    return OK;
}

struct fault run_keys_create(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(16384);
    struct view key;
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_text(&jout, "name", cli_flag(cli, "name"));
    jout_key_text(&jout, "algorithm", cli_flag(cli, "algorithm"));
    if (cli_flag(cli, "purpose") != NULL) {
        jout_key_text(&jout, "purpose", cli_flag(cli, "purpose"));
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(api_json(cli, &(struct api_call){ .body = buf_span(&body) }, &answer, &key));
    TRY(show_key(cli, &answer, key));
    const char *id = view_member(cli->op, key, "key_id");
    if (!cli->json && id != NULL) {
        hint("sign with it: svc-cli code-signing sign FILE --key %s", id);
    }
    return OK;
}

struct fault run_keys_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "KEY ID", "key_id", COLUMN_TEXT },   { "NAME", "name", COLUMN_TEXT },
        { "PURPOSE", "purpose", COLUMN_TEXT }, { "ALGORITHM", "algorithm", COLUMN_TEXT },
        { "STATE", "state", COLUMN_TEXT },     { "MADE AT", "created_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(query_add(&query, "purpose", cli_flag(cli, "purpose")));
    TRY(query_add(&query, "state", cli_flag(cli, "state")));
    TRY(query_add(&query, "limit", cli_flag(cli, "limit")));
    TRY(query_add(&query, "cursor", cli_flag(cli, "cursor")));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns),
                "no keys: make one with svc-cli keys create");
    print_more(cli->op, page);
    return OK;
}

static struct fault print_pem(struct cli *cli, struct view key)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(16384);
    struct span der;
    TRY(view_base64(cli->op, view_get(key, "public_key_der"), &der));
    if (der.len == 0) {
        return op_fail(cli->op, FAULT(UNSUPPORTED), "this key has no public half");
    }
    TRY(base64_encode(der, &text));
    (void)printf("-----BEGIN PUBLIC KEY-----\n");
    for (size_t at = 0; at < text.len; at += 64) {
        (void)printf("%.*s\n", (int)(text.len - at < 64 ? text.len - at : 64), (const char *)text.at + at);
    }
    (void)printf("-----END PUBLIC KEY-----\n");
    return OK;
}

struct fault run_keys_get(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view key;
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0] }, &answer, &key));
    return cli_flag(cli, "public-key-pem") != NULL ? print_pem(cli, key) : show_key(cli, &answer, key);
}

/* The version that is seen here is the one that is destroyed: a change in between is refused. */
struct fault run_keys_destroy(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer seen = { 0 };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(16384);
    struct view key;
    struct jout jout;
    int64_t version = 0;
    TRY(api_json(cli, &(struct api_call){ .route = 1, .id = cli->arguments[0] }, &seen, &key));
    TRY(view_int(view_get(key, "version"), &version));
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_text(&jout, "to", "destroyed");
    jout_key_text(&jout, "reason", cli_flag(cli, "reason"));
    jout_key_int(&jout, "expected_version", version);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) }, &answer, &key));
    return show_key(cli, &answer, key);
}

struct fault run_keys_rotate_seal(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view key;
    TRY(api_json(cli, &(struct api_call){ 0 }, &answer, &key));
    return show_key(cli, &answer, key);
}
