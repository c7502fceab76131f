#include "api/policy/internal.h"

#include "api/server/request.h"
#include "appliance/base/log.h"

#define WHY_MAX ((size_t)4 << 10)

static const struct jin_field explain_fields[] = {
    JIN_TEXT(struct explain_body, artifact_type, JIN_REQUIRED, 1, POLICY_ARTIFACT_MAX),
    JIN_TEXT(struct explain_body, digest_algorithm, JIN_OPTIONAL, 1, 16),
    JIN_TEXT(struct explain_body, principal, JIN_OPTIONAL, 1, OP_SUBJECT_MAX),
    JIN_TEXTS(struct explain_body, roles, JIN_OPTIONAL, 0, OP_ROLES_MAX),
    JIN_TEXT(struct explain_body, mode, JIN_OPTIONAL, 1, 16),
    JIN_TEXT(struct explain_body, key_id, JIN_OPTIONAL, 1, 36),
    JIN_TEXT(struct explain_body, key_name, JIN_OPTIONAL, 1, 64),
    JIN_TEXT(struct explain_body, issuer, JIN_OPTIONAL, 1, 1024),
    JIN_TEXT(struct explain_body, san, JIN_OPTIONAL, 1, 1024),
    JIN_TIME(struct explain_body, at, JIN_OPTIONAL),
};
static const struct answer_field explain_answer[] = {
    { "policy_enabled", "boolean", "ca.policy.enabled; when false, no rule is asked." },
    { "require_approval", "boolean", "ca.policy.require_approval: what the rules allow needs one approval." },
    { "outcome", "string", "allow, deny or require_approval." },
    { "rule", "string", "The rule that decides; (no rule), or ca.policy.require_approval." },
    { "file", "string", "Where it stands, below policy_dir/codesign; empty when none decides." },
    { "line", "integer", "Its line; 0 when none decides." },
    { "reason", "string", "Of deny." },
    { "approvers", "integer", "Of require_approval: how many." },
    { "window_seconds", "integer", "Of require_approval: how long an approval permits signing." },
    { "max_signings", "integer", "Of require_approval: how many signings under one approval; absent = no limit." },
    { "input", "object", "The question, with what was filled in." },
    { "considered", "array", "The rules up to the one that decides: rule, file, line, matched, failed_on." },
    { "digest", "string", "SHA-256 over the rules and settings." },
};
static const struct answer_field get_answer[] = {
    { "policy_enabled", "boolean", "ca.policy.enabled; when false, no rule is asked and none is loaded." },
    { "require_approval", "boolean", "ca.policy.require_approval." },
    { "approval_window_seconds", "integer", "ca.policy.approval_window: where a rule does not say." },
    { "digest", "string", "SHA-256 over the rules and settings." },
    { "rules", "array",
      "In order, those that can concern the tenant: rule, file, line, when, then, and its approvers, window_seconds, "
      "max_signings, reason." },
};

static const struct route routes[] = {
    {
        .name = "code-signing.policy.explain",
        .method = ROUTE_POST,
        .path = "/api/v1/code-signing/policy/explain",
        .permission = PERMISSION_KEYS_READ,
        .flags = ROUTE_EFFECT_FREE,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = explain_fields,
        .body_count = COUNT_OF(explain_fields),
        .body_size = sizeof(struct explain_body),
        .answer = explain_answer,
        .answer_count = COUNT_OF(explain_answer),
        .success_status = 200,
        .handler = route_policy_explain,
        .doc =
            "Which rule decides on a signing, and why those before it do not. Changes nothing. Without principal and "
            "roles it answers for the caller; for another principal only the given roles count.",
    },
    {
        .name = "code-signing.policy.get",
        .method = ROUTE_GET,
        .path = "/api/v1/code-signing/policy",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .answer = get_answer,
        .answer_count = COUNT_OF(get_answer),
        .success_status = 200,
        .handler = route_policy_get,
        .doc = "The rules of signing as loaded, in order.",
    },
};

static struct fault start(struct op *op, struct services *services)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(WHY_MAX);
    char digest[65];
    const char *text = NULL;
    if (!services->config->policy_enabled) {
        return OK;
    }
    struct fault fault = policy_load(services->config, &why, &services->policy);
    if (FAULTED(fault)) {
        why.len -= why.len > 0 ? 1 : 0; /* its newline */
        TRY(buf_cstr(&why, &text));
        log_write(ERROR, "policy_refused", LOG_TEXT("why", text));
        return op_fail(op, fault, "%s", text);
    }
    policy_digest(services->policy, services->config, digest);
    log_write(INFO, "policy_loaded", LOG_INT("rules", services->policy->count), LOG_TEXT("digest", digest));
    return OK;
}

static void stop(struct services *services)
{
    policy_free(TAKE(services->policy));
}

const struct feature policy_feature = {
    .name = "policy",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .start = start,
    .stop = stop,
};
