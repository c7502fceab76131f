#include "api/cli/proof.h"

#include "api/cli/api.h"
#include "api/cli/files.h"
#include "api/cli/print.h"

#define ANSWER_MAX ((size_t)64 << 10)
#define URL_MAX    ((size_t)8192)

static const char *environment(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* A compact JWS and nothing around it: whatever else lies in the file was not meant to be sent. */
static struct fault check_form(struct cli *cli, struct buf *proof, const char *from)
{
    unsigned dots = 0;
    bool plain = true;
    while (proof->len > 0 && (proof->at[proof->len - 1] == '\n' || proof->at[proof->len - 1] == '\r')) {
        proof->len--;
    }
    for (size_t i = 0; i < proof->len; i++) {
        uint8_t c = proof->at[i];
        dots += c == '.';
        plain = plain && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                          c == '_' || c == '.');
    }
    if (proof->len == 0 || dots != 2 || !plain) {
        return op_fail(cli->op, FAULT(PROOF_MALFORMED), "%s: holds no ID token (three base64url parts with dots)",
                       from);
    }
    return OK;
}

static struct fault github_url(struct cli *cli, const char *base, struct buf *url)
{
    TRY(buf_text(url, base));
    CLEANUP(buf_free) struct buf query = BUF_INIT(URL_MAX);
    const char *audience = cli_flag(cli, "audience");
    TRY(query_add(&query, "audience", audience));
    if (query.len > 0 && strchr(base, '?') != NULL) {
        query.at[0] = '&';
    }
    return buf_put(url, buf_span(&query));
}

/* GitHub's token service answers {"value": "<ID token>"} to the job's own bearer token. */
static struct fault from_github(struct cli *cli, const char *base, const char *bearer, struct buf *out)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(secret_freep) struct secret *token = NULL;
    CLEANUP(buf_free) struct buf url = BUF_INIT(URL_MAX);
    struct view body;
    char why[1024] = "";
    struct http_request request = { .method = "GET", .accept = "application/json" };
    TRY(secret_new(span_text(bearer), &token));
    TRY(github_url(cli, base, &url));
    TRY(buf_cstr(&url, &request.url));
    request.ca_file = cli_flag(cli, "id-token-ca");
    request.token = token;
    request.timeout_ns = cli->timeout_ns;
    request.answer_max = ANSWER_MAX;
    if (FAULTED(http_send(&request, why, sizeof(why), &answer))) {
        return api_unreachable(cli, why);
    }
    if (answer.status != 200 || FAULTED(view_of(cli->op, buf_span(&answer.body), &body)) ||
        view_member(cli->op, body, "value") == NULL) {
        return op_fail(cli->op, FAULT(IO),
                       "the CI system's token service answered with status %ld and no token: does the job have the "
                       "permission id-token: write?",
                       answer.status);
    }
    return buf_text(out, view_member(cli->op, body, "value"));
}

bool proof_can_repeat(const struct cli *cli)
{
    const char *file = cli_flag(cli, "proof");
    return file == NULL || strcmp(file, "-") != 0;
}

struct fault proof_read(struct cli *cli, struct buf *out)
{
    const char *file = cli_flag(cli, "proof"), *set = environment("SVC_ID_TOKEN");
    const char *url = environment("ACTIONS_ID_TOKEN_REQUEST_URL");
    const char *bearer = environment("ACTIONS_ID_TOKEN_REQUEST_TOKEN");
    if (file != NULL) {
        TRY(files_read(cli->op, file, out));
        return check_form(cli, out, file);
    }
    if (set != NULL) {
        TRY(buf_text(out, set));
        return check_form(cli, out, "SVC_ID_TOKEN");
    }
    if (url != NULL && bearer != NULL) {
        if (cli_flag(cli, "audience") == NULL) {
            return op_fail(cli->op, FAULT(BAD_ARGUMENT),
                           "say with --audience for whom the ID token is to be made (the appliance's audience)");
        }
        TRY(from_github(cli, url, bearer, out));
        return check_form(cli, out, "ACTIONS_ID_TOKEN_REQUEST_URL");
    }
    return op_fail(
        cli->op, FAULT(BAD_ARGUMENT),
        "no identity proof: give --proof FILE (- is stdin), or set SVC_ID_TOKEN, or run in a GitHub job with "
        "id-token: write");
}
