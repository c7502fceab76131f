/* approvals list, get, approve, deny. */
#include "api/cli/api.h"
#include "api/cli/print.h"
#include "appliance/base/json.h"

#define BODY_MAX ((size_t)16 << 10)
#define RESOURCE "approval_required:"
#define DESTROY  "approval_required:key-destroy:"
#define ERASURE  "approval_required:erasure:"

static const struct column request_lines[] = {
    { "request", "request_id", COLUMN_TEXT },
    { "state", "state", COLUMN_TEXT },
    { "resource", "resource", COLUMN_TEXT },
    { "action", "action", COLUMN_TEXT },
    { "asked by", "requester", COLUMN_TEXT },
    { "rule", "rule", COLUMN_TEXT },
    { "approvals", "approvals", COLUMN_TEXT },
    { "needed", "approvers", COLUMN_TEXT },
    { "decision", "decision", COLUMN_TEXT },
    { "by", "approver", COLUMN_TEXT },
    { "reason", "reason", COLUMN_TEXT },
    { "denied by", "denied_by", COLUMN_TEXT },
    { "key", "about.key_id", COLUMN_TEXT },
    { "key's name", "about.name", COLUMN_TEXT },
    { "key's state", "about.state", COLUMN_TEXT },
    { "key's uses", "about.uses", COLUMN_TEXT },
    { "to destroy it for", "about.reason", COLUMN_TEXT },
    { "messages", "about.messages", COLUMN_TEXT },
    { "fingerprint", "about.preview_fingerprint", COLUMN_TEXT },
    { "identity", "about.fulcio_san", COLUMN_TEXT },
    { "issued by", "about.fulcio_issuer", COLUMN_TEXT },
    { "artifact type", "about.artifact_type", COLUMN_TEXT },
    { "hash", "about.digest_algorithm", COLUMN_TEXT },
    { "digest", "about.digests", COLUMN_HEX },
    { "signings", "signings", COLUMN_TEXT },
    { "at most", "max_signings", COLUMN_TEXT },
    { "asked at", "created_at", COLUMN_TIME },
    { "expires at", "expires_at", COLUMN_TIME },
};

static struct fault show(struct cli *cli, const struct http_answer *answer, struct view request)
{
    static const struct column decisions[] = {
        { "APPROVER", "approver", COLUMN_TEXT },
        { "DECISION", "decision", COLUMN_TEXT },
        { "AT", "time", COLUMN_TIME },
        { "REASON", "reason", COLUMN_TEXT },
    };
    struct view list = view_get(request, "decisions"), rest = list, item;
    if (cli->json) {
        print_json(buf_span(&answer->body));
        return OK;
    }
    print_pairs(cli->op, stdout, request, request_lines, COUNT_OF(request_lines));
    if (view_next(&rest, &item)) {
        (void)fputc('\n', stdout);
        print_table(cli->op, list, decisions, COUNT_OF(decisions), "");
    }
    return OK;
}

struct fault run_approvals_list(struct cli *cli)
{
    static const struct column columns[] = {
        { "REQUEST", "request_id", COLUMN_TEXT },       { "STATE", "state", COLUMN_TEXT },
        { "ASKED BY", "requester", COLUMN_TEXT },       { "GIVEN", "approvals", COLUMN_TEXT },
        { "NEEDED", "approvers", COLUMN_TEXT },         { "ACTION", "action", COLUMN_TEXT },
        { "TYPE", "about.artifact_type", COLUMN_TEXT }, { "ASKED AT", "created_at", COLUMN_TIME },
    };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf query = BUF_INIT(4096);
    const char *text = NULL;
    struct view page;
    TRY(query_add(&query, "state", cli_flag(cli, "state")));
    TRY(query_add(&query, "waiting_for_me", cli_flag(cli, "waiting") != NULL ? "true" : NULL));
    TRY(query_add(&query, "limit", cli_flag(cli, "limit")));
    TRY(query_add(&query, "cursor", cli_flag(cli, "cursor")));
    TRY(buf_cstr(&query, &text));
    TRY(api_json(cli, &(struct api_call){ .query = text }, &answer, &page));
    if (cli->json) {
        print_json(buf_span(&answer.body));
        return OK;
    }
    print_table(cli->op, view_get(page, "items"), columns, COUNT_OF(columns),
                cli_flag(cli, "waiting") != NULL ? "nothing waits for you" : "no approval requests");
    print_more(cli->op, page);
    return OK;
}

struct fault run_approvals_get(struct cli *cli)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct view request;
    TRY(api_json(cli, &(struct api_call){ .id = cli->arguments[0] }, &answer, &request));
    return show(cli, &answer, request);
}

static struct fault decide(struct cli *cli, size_t route, const char *action)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view request;
    struct jout jout;
    jout_init(&jout, &body);
    jout_object(&jout);
    if (action != NULL) {
        jout_key_text(&jout, "action", action);
    }
    if (cli_flag(cli, "reason") != NULL) {
        jout_key_text(&jout, "reason", cli_flag(cli, "reason"));
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct api_call call = { .route = route, .id = cli->arguments[0], .body = buf_span(&body) };
    TRY(api_json(cli, &call, &answer, &request));
    return show(cli, &answer, request);
}

/* Known by its request, or by the resource that the refusal named. */
struct fault run_approvals_approve(struct cli *cli)
{
    bool by_resource = strncmp(cli->arguments[0], RESOURCE, strlen(RESOURCE)) == 0;
    bool destroy = strncmp(cli->arguments[0], DESTROY, strlen(DESTROY)) == 0;
    bool erase = strncmp(cli->arguments[0], ERASURE, strlen(ERASURE)) == 0;
    const char *action = destroy ? "destroy" : erase ? "erase" : "sign";
    return by_resource ? decide(cli, api_route(cli, PATH_APPROVE_RESOURCE), action)
                       : decide(cli, api_route(cli, PATH_APPROVE), NULL);
}

struct fault run_approvals_deny(struct cli *cli)
{
    return decide(cli, 0, NULL);
}
