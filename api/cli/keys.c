#include "api/cli/keys.h"
#include "api/cli/api.h"
#include "api/cli/print.h"
#include "appliance/base/codec.h"
#include "appliance/base/json.h"

static const struct column key_lines[] = {
    { "key id", "key_id", COLUMN_TEXT },
    { "name", "name", COLUMN_TEXT },
    { "purpose", "purpose", COLUMN_TEXT },
    { "algorithm", "algorithm", COLUMN_TEXT },
    { "approved mode", "approved_mode", COLUMN_YESNO },
    { "note", "approved_mode_note", COLUMN_TEXT },
    { "token", "token", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "made at", "created_at", COLUMN_TIME },
    { "made by", "created_by", COLUMN_TEXT },
    { "active since", "activated_at", COLUMN_TIME },
    { "uses", "uses", COLUMN_TEXT },
    { "uses left", "uses_left", COLUMN_TEXT },
    { "at most", "max_uses", COLUMN_TEXT },
    { "last used at", "last_used_at", COLUMN_TIME },
    { "not after", "not_after", COLUMN_TIME },
    { "certified until", "certificate_expires_at", COLUMN_TIME },
    { "probe is good", "probe.ok", COLUMN_YESNO },
    { "probed at", "probe.at", COLUMN_TIME },
    { "probe failed with", "probe.code", COLUMN_TEXT },
    { "replaced by", "replaced_by", COLUMN_TEXT },
    { "overlap ends at", "retires_at", COLUMN_TIME },
    { "retired at", "retired_at", COLUMN_TIME },
    { "retired for", "retire_reason", COLUMN_TEXT },
    { "destroyed at", "destroyed_at", COLUMN_TIME },
    { "destroyed by", "destroyed_by", COLUMN_TEXT },
    { "reason", "destroy_reason", COLUMN_TEXT },
};

struct fault keys_show(struct cli *cli, const struct http_answer *answer, struct view key)
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
    bool prepare = cli_flag(cli, "prepare") != NULL;
    jout_init(&jout, &body);
    jout_object(&jout);
    jout_key_text(&jout, "name", cli_flag(cli, "name"));
    jout_key_text(&jout, "algorithm", cli_flag(cli, "algorithm"));
    if (cli_flag(cli, "purpose") != NULL) {
        jout_key_text(&jout, "purpose", cli_flag(cli, "purpose"));
    }
    if (cli_flag(cli, "token") != NULL) {
        jout_key_text(&jout, "token", cli_flag(cli, "token"));
    }
    if (prepare) {
        jout_key_bool(&jout, "prepare", true);
    }
    TRY(keys_print_limits(cli, &jout));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(api_json(cli, &(struct api_call){ .body = buf_span(&body) }, &answer, &key));
    TRY(keys_show(cli, &answer, key));
    const char *id = view_member(cli->op, key, "key_id");
    if (!cli->json && id != NULL && prepare) {
        hint("certify it if need be, then: svc-cli keys activate %s --reason TEXT", id);
    } else if (!cli->json && id != NULL) {
        hint("sign with it: svc-cli code-signing sign FILE --key %s", id);
    }
    return OK;
}

struct fault run_keys_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "KEY ID", "key_id", COLUMN_TEXT },
        { "NAME", "name", COLUMN_TEXT },
        { "PURPOSE", "purpose", COLUMN_TEXT },
        { "ALGORITHM", "algorithm", COLUMN_TEXT },
        { "APPROVED MODE", "approved_mode", COLUMN_YESNO },
        { "STATE", "state", COLUMN_TEXT },
        { "USES", "uses", COLUMN_TEXT },
        { "LAST USED", "last_used_at", COLUMN_TIME },
        { "CERTIFIED UNTIL", "certificate_expires_at", COLUMN_TIME },
        { "MADE AT", "created_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(query_add(&query, "purpose", cli_flag(cli, "purpose")));
    TRY(query_add(&query, "state", cli_flag(cli, "state")));
    TRY(query_add(&query, "algorithm", cli_flag(cli, "algorithm")));
    TRY(query_add(&query, "name", cli_flag(cli, "name")));
    TRY(query_add(&query, "expires_before", cli_flag(cli, "expires-before")));
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
    return cli_flag(cli, "public-key-pem") != NULL ? print_pem(cli, key) : keys_show(cli, &answer, key);
}

struct fault run_keys_rotate_seal(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view key;
    TRY(api_json(cli, &(struct api_call){ 0 }, &answer, &key));
    return keys_show(cli, &answer, key);
}
