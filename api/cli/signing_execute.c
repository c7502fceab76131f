#include "api/cli/signing.h"

#include "api/cli/pace.h"
#include "api/cli/print.h"
#include "api/cli/proof.h"

#define LINE_MAX_LEN  1024
#define LOOK_LIMIT_MS (10 * 60 * 1000)
#define LOOK_MAX      ((size_t)2 << 20)

enum approval { APPROVAL_OPEN, APPROVAL_GIVEN, APPROVAL_REFUSED };

/* What to do about a missing approval, and who has to. */
static void explain(struct cli *cli, const char *resource, const char *principal, bool waiting)
{
    say("approval_required: nothing was signed yet: somebody else must approve it first");
    hint("resource: %s", resource);
    hint("somebody with the permission certs:issue, and not %s, runs:", principal != NULL ? principal : "you");
    hint("  svc-cli approvals approve %s", resource);
    if (waiting) {
        hint("waiting for that");
    } else if (cli_has_flag(cli, "wait-approval")) {
        hint("then repeat this command; with --wait-approval 1h it waits by itself");
    }
}

/* The resource of an approval_required problem; NULL for any other answer. */
static const char *missing_approval(struct cli *cli, const struct http_answer *answer)
{
    struct view problem;
    if (answer->status != 403 || FAULTED(view_of(cli->op, buf_span(&answer->body), &problem))) {
        return NULL;
    }
    const char *code = view_member(cli->op, problem, "code");
    return code != NULL && strcmp(code, "approval_required") == 0 ? view_member(cli->op, problem, "resource") : NULL;
}

/* Sends; gives the resource when an approval is missing, and says every other refusal. */
static struct fault send_once(struct cli *cli, const struct api_call *call, struct http_answer *answer,
                              const char **ret_resource)
{
    char why[LINE_MAX_LEN] = "";
    struct fault fault = api_ask(cli, call, why, sizeof(why), answer);
    if (FAULTED(fault)) {
        return why[0] != '\0' ? api_unreachable(cli, why) : fault;
    }
    *ret_resource = missing_approval(cli, answer);
    return *ret_resource != NULL ? OK : api_judge(cli, call, answer);
}

static struct fault end_unapproved(struct cli *cli, const struct api_call *call, const struct http_answer *answer,
                                   const char *resource, const char *principal)
{
    if (cli->json) {
        IGNORE(api_judge(cli, call, answer));
    } else {
        explain(cli, resource, principal, false);
    }
    cli->said = true;
    cli->exit = EXIT_FAILED;
    return FAULT(APPROVAL_REQUIRED);
}

struct fault signing_submit(struct cli *cli, const char *path, struct span body, const char *principal,
                            struct http_answer *answer)
{
    const struct api_call call = { .route = api_route(cli, path), .body = body };
    const char *resource = NULL;
    TRY(send_once(cli, &call, answer, &resource));
    return resource == NULL ? OK : end_unapproved(cli, &call, answer, resource, principal);
}

static enum approval approval_of(const char *state)
{
    if (state == NULL) {
        return APPROVAL_OPEN;
    }
    return strcmp(state, "approved") == 0 ? APPROVAL_GIVEN
           : strcmp(state, "denied") == 0 ? APPROVAL_REFUSED
                                          : APPROVAL_OPEN;
}

/* A look has an arena of its own: there may be thousands of them. */
static struct fault look_op(struct op **ret_op)
{
    return op_new("svc-cli", (struct tenant_id){ 0 }, LOOK_LIMIT_MS, ret_op);
}

/* An answer that is not there or no 200 tells nothing: the next look may. */
static bool look(struct cli *cli, struct op *op, const struct api_call *call, struct view *ret_view)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    char why[LINE_MAX_LEN] = "";
    return !FAULTED(api_exchange(cli, call, why, sizeof(why), &answer)) && answer.status == 200 &&
           !FAULTED(view_of(op, buf_span(&answer.body), ret_view));
}

/* A key-based signing's preview says how its approval stands. */
static struct fault look_by_preview(struct cli *cli, const struct signing *signing, enum approval *ret_approval)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(SIGNING_BODY_MAX);
    CLEANUP(op_freep) struct op *op = NULL;
    struct view plan;
    TRY(look_op(&op));
    TRY(signing_print_request(cli, signing, NULL, &body));
    const struct api_call call = { .route = api_route(cli, signing->preview_path),
                                   .body = buf_span(&body),
                                   .answer_max = LOOK_MAX };
    *ret_approval = look(cli, op, &call, &plan) ? approval_of(view_member(op, plan, "approval.state")) : APPROVAL_OPEN;
    return OK;
}

/* A keyless one's cannot, before the identity is verified: its request is among the newest. */
static struct fault look_by_list(struct cli *cli, const char *resource, enum approval *ret_approval)
{
    const struct api_call call = { .route = api_route(cli, PATH_REQUESTS),
                                   .query = "?limit=100",
                                   .answer_max = LOOK_MAX };
    CLEANUP(op_freep) struct op *op = NULL;
    struct view page, rest, item;
    TRY(look_op(&op));
    *ret_approval = APPROVAL_OPEN;
    if (!look(cli, op, &call, &page)) {
        return OK;
    }
    for (rest = view_get(page, "items"); view_next(&rest, &item);) {
        const char *of = view_member(op, item, "resource");
        if (of != NULL && strcmp(of, resource) == 0) {
            *ret_approval = approval_of(view_member(op, item, "state"));
            return OK;
        }
    }
    return OK;
}

static struct fault await_approval(struct cli *cli, const struct signing *signing, const char *resource,
                                   struct pace *pace)
{
    for (;;) {
        enum approval approval = APPROVAL_OPEN;
        TRY(signing->keyless ? look_by_list(cli, resource, &approval) : look_by_preview(cli, signing, &approval));
        if (approval == APPROVAL_GIVEN) {
            return OK;
        }
        if (approval == APPROVAL_REFUSED) {
            return op_fail(cli->op, FAULT(APPROVAL_DENIED), "nothing was signed: an approver denied it");
        }
        if (!pace_wait(pace)) {
            return op_fail(cli->op, FAULT(DEADLINE),
                           "nothing was signed: no approval came in time (--wait-approval); the request for it stands, "
                           "so repeat this command later: svc-cli approvals list shows it");
        }
    }
}

/* A new command: its own Idempotency-Key, told like the first; of keyless its own proof and preview, since the first
 * may have expired meanwhile. */
static struct fault begin_again(struct cli *cli, struct signing *signing)
{
    struct uuid id;
    TRY(uuid_new(&id));
    TRY(arena_text(cli->op->arena, span_text(id.text), &cli->idempotency_key));
    if (!cli->json) {
        hint("approved; Idempotency-Key: %s", cli->idempotency_key);
    }
    if (signing->keyless && proof_can_repeat(cli)) {
        buf_clear(signing->proof_bytes);
        TRY(proof_read(cli, signing->proof_bytes));
        signing->proof = buf_span(signing->proof_bytes);
        return signing_plan_again(cli, signing);
    }
    return OK;
}

struct fault signing_execute(struct cli *cli, struct signing *signing, struct http_answer *answer,
                             struct view *ret_receipt)
{
    int64_t limit = 0;
    bool told = false;
    TRY(cli_span(cli, "wait-approval", 0, &limit));
    struct pace pace = pace_of(limit);
    for (;;) {
        CLEANUP(buf_free) struct buf body = BUF_INIT(SIGNING_BODY_MAX);
        const char *resource = NULL;
        TRY(signing_print_request(cli, signing, signing->fingerprint, &body));
        const struct api_call call = { .route = api_route(cli, signing->path), .body = buf_span(&body) };
        TRY(send_once(cli, &call, answer, &resource));
        if (resource == NULL) {
            break;
        }
        if (limit == 0) {
            return end_unapproved(cli, &call, answer, resource, signing->principal);
        }
        if (!told) {
            explain(cli, resource, signing->principal, true);
            told = true;
        }
        TRY(await_approval(cli, signing, resource, &pace));
        TRY(begin_again(cli, signing));
    }
    if (FAULTED(view_of(cli->op, buf_span(&answer->body), ret_receipt))) {
        return op_fail(cli->op, FAULT(IO), "the server's answer is not JSON: is this the appliance's address?");
    }
    return OK;
}
