#include "api/cli/signing.h"

#include "api/cli/print.h"

static const struct column plan_lines[] = {
    { "digest", "digest", COLUMN_HEX },
    { "files", "count", COLUMN_TEXT },
    { "hash", "digest_algorithm", COLUMN_TEXT },
    { "artifact type", "artifact_type", COLUMN_TEXT },
    { "key", "key_id", COLUMN_TEXT },
    { "identity by", "identity_method", COLUMN_TEXT },
    { "algorithm", "algorithm", COLUMN_TEXT },
    { "scheme", "signature_scheme", COLUMN_TEXT },
    { "approved mode", "approved_mode", COLUMN_YESNO },
    { "note", "approved_mode_note", COLUMN_TEXT },
    { "signed as", "principal", COLUMN_TEXT },
    { "policy", "policy_line", COLUMN_TEXT },
    { "approval", "approval_line", COLUMN_TEXT },
    { "published at", "transparency_destination", COLUMN_TEXT },
};

static const char *member(struct op *op, struct view object, const char *path)
{
    const char *text = view_member(op, object, path);
    return text != NULL ? text : "";
}

static bool is_true(struct view object, const char *path)
{
    return span_equal_text(view_get(object, path).json, "true");
}

static struct fault policy_line(struct op *op, struct view plan, const char **ret_line)
{
    const char *outcome = member(op, plan, "policy.outcome"), *rule = member(op, plan, "policy.rule");
    const char *reason = member(op, plan, "policy.reason");
    if (!is_true(plan, "policy.enabled")) {
        return OK;
    }
    if (strcmp(outcome, "at_execution") == 0) {
        *ret_line = "decided by the verified identity, when it is signed";
        return OK;
    }
    return arena_printf(op->arena, ret_line, "%s by rule %s%s%s", outcome, rule, reason[0] != '\0' ? ": " : "", reason);
}

static struct fault approval_line(struct op *op, struct view plan, const char **ret_line)
{
    const char *state = member(op, plan, "approval.state"), *request = member(op, plan, "approval.request_id");
    const char *expires = member(op, plan, "approval.expires_at");
    if (!is_true(plan, "approval.required")) {
        return OK;
    }
    return arena_printf(op->arena, ret_line, "%s: %s of %s given%s%s%s%s", state,
                        member(op, plan, "approval.approvals"), member(op, plan, "approval.approvers"),
                        request[0] != '\0' ? ", request " : "", request, expires[0] != '\0' ? ", until " : "", expires);
}

void plan_print(struct cli *cli, FILE *out, struct view plan)
{
    const char *lines[2] = { NULL, NULL };
    IGNORE(policy_line(cli->op, plan, &lines[0]));
    IGNORE(approval_line(cli->op, plan, &lines[1]));
    print_pairs_and(cli->op, out, plan, plan_lines, COUNT_OF(plan_lines),
                    (const struct own_cell[]){ { "policy_line", lines[0] }, { "approval_line", lines[1] } }, 2);
}

static void announce(const struct signing *signing)
{
    (void)fprintf(stderr, "About to sign ");
    print_safe(stderr, span_text(signing->files[0].path));
    if (signing->count > 1) {
        (void)fprintf(stderr, " and %zu more", signing->count - 1);
    }
    (void)fputc('\n', stderr);
}

/* What is known to end in a refusal is not begun. */
static struct fault check_allowed(struct cli *cli, struct view plan)
{
    struct op *op = cli->op;
    if (strcmp(member(op, plan, "policy.outcome"), "deny") == 0) {
        return op_fail(op, FAULT(POLICY_DENIED), "nothing was signed: rule %s%s%s", member(op, plan, "policy.rule"),
                       view_is_there(view_get(plan, "policy.reason")) ? ": " : "", member(op, plan, "policy.reason"));
    }
    if (strcmp(member(op, plan, "approval.state"), "denied") == 0) {
        return op_fail(op, FAULT(APPROVAL_DENIED), "nothing was signed: an approver denied it (request %s)",
                       member(op, plan, "approval.request_id"));
    }
    return OK;
}

/* What could not be delivered is not signed. */
static struct fault check_bundle(struct cli *cli, const struct signing *signing, struct view plan)
{
    if (signing->files[0].bundle_out != NULL && strcmp(member(cli->op, plan, "signature_scheme"), "ml-dsa") == 0) {
        return op_fail(cli->op, FAULT(UNSUPPORTED),
                       "nothing was signed: no Sigstore bundle holds an ML-DSA signature; sign without --bundle, and "
                       "verify the detached signature with the public key");
    }
    return OK;
}

static struct fault preview(struct cli *cli, struct signing *signing, struct view *ret_plan)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(buf_free) struct buf body = BUF_INIT(SIGNING_BODY_MAX);
    struct view plan;
    TRY(signing_print_request(cli, signing, NULL, &body));
    const struct api_call call = { .route = api_route(cli, signing->preview_path), .body = buf_span(&body) };
    TRY(api_json(cli, &call, &answer, &plan));
    signing->fingerprint = view_member(cli->op, plan, "request_fingerprint");
    signing->principal = view_member(cli->op, plan, "principal");
    if (signing->fingerprint == NULL) {
        return op_fail(cli->op, FAULT(IO), "the server's preview holds no request_fingerprint");
    }
    *ret_plan = plan;
    return OK;
}

struct fault signing_plan(struct cli *cli, struct signing *signing)
{
    struct view plan;
    TRY(preview(cli, signing, &plan));
    if (!cli->json) {
        announce(signing);
        plan_print(cli, stderr, plan);
    }
    TRY(check_bundle(cli, signing, plan));
    return check_allowed(cli, plan);
}

struct fault signing_plan_again(struct cli *cli, struct signing *signing)
{
    struct view plan;
    return preview(cli, signing, &plan);
}
