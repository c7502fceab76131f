/* keys activate, retire, destroy. */
#include "api/cli/keys.h"

#include "api/cli/print.h"

#define BODY_MAX   ((size_t)16 << 10)
#define DIGITS_MAX 12

static struct fault read_uses(struct cli *cli, const char *text, int64_t *ret_uses)
{
    int64_t uses = 0;
    size_t digits = strspn(text, "0123456789");
    for (size_t i = 0; i < digits && i < DIGITS_MAX; i++) {
        uses = uses * 10 + (text[i] - '0');
    }
    if (digits == 0 || digits > DIGITS_MAX || text[digits] != '\0' || uses == 0) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--max-uses: must be a number from 1 on");
    }
    *ret_uses = uses;
    return OK;
}

struct fault keys_print_limits(struct cli *cli, struct jout *jout)
{
    const char *uses = cli_flag(cli, "max-uses"), *end = cli_flag(cli, "not-after");
    int64_t number = 0;
    utc_us time = 0;
    if (uses != NULL) {
        TRY(read_uses(cli, uses, &number));
        jout_key_int(jout, "max_uses", number);
    }
    if (end != NULL && FAULTED(rfc3339_parse(span_text(end), &time))) {
        return op_fail(cli->op, FAULT(BAD_ARGUMENT), "--not-after: must be a time such as 2027-01-31T00:00:00Z");
    }
    if (end != NULL) {
        jout_key_text(jout, "not_after", end);
    }
    return OK;
}

static struct fault print_move(struct cli *cli, const char *to, int64_t version, struct buf *body)
{
    struct jout jout;
    jout_init(&jout, body);
    jout_object(&jout);
    jout_key_text(&jout, "to", to);
    jout_key_text(&jout, "reason", cli_flag(cli, "reason"));
    jout_key_int(&jout, "expected_version", version);
    if (cli_flag_if(cli, "overlap") != NULL) {
        jout_key_text(&jout, "overlap", cli_flag(cli, "overlap"));
    }
    TRY(cli_has_flag(cli, "max-uses") ? keys_print_limits(cli, &jout) : OK);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* Where a second person has to agree: what that person needs. */
static void tell_approval(struct cli *cli, const struct http_answer *answer)
{
    struct view problem;
    if (cli->json || answer->status != 403 || FAULTED(view_of(cli->op, buf_span(&answer->body), &problem))) {
        return;
    }
    const char *code = view_member(cli->op, problem, "code"), *resource = view_member(cli->op, problem, "resource");
    if (code != NULL && resource != NULL && strcmp(code, "approval_required") == 0) {
        hint("resource: %s", resource);
        hint("somebody else with the permission certs:issue runs: svc-cli approvals approve %s", resource);
        hint("then repeat this command");
    }
}

/* The version that is seen here is the one that is moved: a change in between is refused. */
static struct fault move_key(struct cli *cli, const char *to)
{
    CLEANUP(http_answer_clear) struct http_answer seen = { 0 };
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct view key;
    int64_t version = 0;
    TRY(api_json(cli, &(struct api_call){ .route = 1, .id = cli->arguments[0] }, &seen, &key));
    TRY(view_int(view_get(key, "version"), &version));
    TRY(print_move(cli, to, version, &body));
    struct fault fault =
        api_json(cli, &(struct api_call){ .id = cli->arguments[0], .body = buf_span(&body) }, &answer, &key);
    if (FAULTED(fault)) {
        tell_approval(cli, &answer);
        return fault;
    }
    return keys_show(cli, &answer, key);
}

struct fault run_keys_activate(struct cli *cli)
{
    return move_key(cli, "active");
}

struct fault run_keys_retire(struct cli *cli)
{
    return move_key(cli, "retired");
}

struct fault run_keys_destroy(struct cli *cli)
{
    return move_key(cli, "destroyed");
}
