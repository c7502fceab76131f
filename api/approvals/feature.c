#include "api/approvals/internal.h"

const struct metric approvals_metrics[1] = {
    {
        .name = "svc_approvals_total",
        .kind = METRIC_COUNTER,
        .help = "Decisions of approvers that were recorded: granted, denied.",
        .labels = { "decision" },
    },
};

static const struct jin_field resource_fields[] = {
    JIN_TEXT(struct approval_body, action, JIN_REQUIRED, 1, APPROVAL_ACTION_MAX),
    JIN_TEXT(struct approval_body, reason, JIN_OPTIONAL, 0, APPROVAL_REASON_MAX),
};
static const struct jin_field grant_fields[] = {
    JIN_TEXT(struct approval_body, reason, JIN_OPTIONAL, 0, APPROVAL_REASON_MAX),
};
static const struct jin_field deny_fields[] = {
    JIN_TEXT(struct approval_body, reason, JIN_REQUIRED, 1, APPROVAL_REASON_MAX),
};
static const char *const list_query[] = { "state", "waiting_for_me", "limit", "cursor", NULL };

#define EXPIRES_DOC "Pending: when it lapses. Approved: when signing ends. Denied: when it may be asked for again."

static const struct answer_field request_answer[] = {
    { "request_id", "string", "Names the request." },
    { "resource", "string", "What it is about, by digest." },
    { "action", "string", "sign or destroy." },
    { "state", "string", "pending, approved, used_up, denied, expired or replaced." },
    { "requester", "string", "Subject whose signing was refused; never an approver of it." },
    { "rule", "string", "The policy rule that wants approval." },
    { "about", "object", "What would be signed: key or identity, artifact type, digests, principal, rule." },
    { "approvers", "integer", "How many distinct approvers are needed." },
    { "approvals", "integer", "How many have approved." },
    { "window_seconds", "integer", "How long an approval permits signing." },
    { "max_signings", "integer", "How many signings it permits; 0 = without limit." },
    { "signings", "integer", "How many of them were made, where they are limited." },
    { "operation_id", "string", "The refused operation." },
    { "created_at", "string", "RFC 3339." },
    { "decided_at", "string", "When it was approved, denied or replaced." },
    { "denied_by", "string", "Subject, when denied." },
    { "expires_at", "string", EXPIRES_DOC },
    { "decisions", "array", "Each with decision, approver, reason and time, in order." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Requests, newest first, each as GET /api/v1/approval-requests/{id} without decisions." },
    { "next_cursor", "string", "Present when there are more." },
};
static const struct answer_field decision_answer[] = {
    { "request_id", "string", "Names the request." },
    { "resource", "string", "What it is about, by digest." },
    { "action", "string", "sign or destroy." },
    { "decision", "string", "granted or denied: as recorded, also on a repetition." },
    { "approver", "string", "Subject." },
    { "reason", "string", "Present when one was given." },
    { "time", "string", "When the decision was recorded." },
    { "state", "string", "How the request stands now." },
    { "approvers", "integer", "How many distinct approvers are needed." },
    { "approvals", "integer", "How many have approved." },
    { "expires_at", "string", EXPIRES_DOC },
};

static const struct route routes[] = {
    {
        .name = "identities.approve",
        .method = ROUTE_POST,
        .path = "/api/v1/identities/{resource}/approvals",
        .permission = PERMISSION_CERTS_ISSUE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = resource_fields,
        .body_count = COUNT_OF(resource_fields),
        .body_size = sizeof(struct approval_body),
        .answer = decision_answer,
        .answer_count = COUNT_OF(decision_answer),
        .success_status = 200,
        .handler = route_approval_resource,
        .doc = "Approve what a refusal named as its resource (approval_required:codesign:... or :key-destroy:...).",
    },
    {
        .name = "approval-requests.list",
        .method = ROUTE_GET,
        .path = "/api/v1/approval-requests",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .query = list_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_approval_list,
        .doc = "List requests for approval; waiting_for_me=true: those that the caller may decide and has not.",
    },
    {
        .name = "approval-requests.get",
        .method = ROUTE_GET,
        .path = "/api/v1/approval-requests/{id}",
        .permission = PERMISSION_KEYS_READ,
        .bulkhead = BULKHEAD_API,
        .answer = request_answer,
        .answer_count = COUNT_OF(request_answer),
        .success_status = 200,
        .handler = route_approval_get,
        .doc = "One request for approval, with what was decided about it.",
    },
    {
        .name = "approval-requests.approve",
        .method = ROUTE_POST,
        .path = "/api/v1/approval-requests/{id}/approvals",
        .permission = PERMISSION_CERTS_ISSUE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = grant_fields,
        .body_count = COUNT_OF(grant_fields),
        .body_size = sizeof(struct approval_body),
        .answer = decision_answer,
        .answer_count = COUNT_OF(decision_answer),
        .success_status = 200,
        .handler = route_approval_grant,
        .doc = "Approve a pending request of somebody else; a repetition gives the recorded approval.",
    },
    {
        .name = "approval-requests.deny",
        .method = ROUTE_POST,
        .path = "/api/v1/approval-requests/{id}/denials",
        .permission = PERMISSION_CERTS_ISSUE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = deny_fields,
        .body_count = COUNT_OF(deny_fields),
        .body_size = sizeof(struct approval_body),
        .answer = decision_answer,
        .answer_count = COUNT_OF(decision_answer),
        .success_status = 200,
        .handler = route_approval_deny,
        .doc = "Deny a pending or approved request of somebody else, for one window; nothing undoes it.",
    },
};

static const struct event_row events[] = {
    { "approval.requested", 1, project_approval_requested,
      "A signing was refused for want of an approval, which is herewith asked for." },
    { "approval.granted", 1, project_approval_granted, "An approver approved a request." },
    { "approval.denied", 1, project_approval_denied, "An approver denied a request." },
    { "approval.used", 1, project_approval_used, "A signing was made under an approval that limits them." },
};

const struct feature approvals_feature = {
    .name = "approvals",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .metrics = approvals_metrics,
    .metric_count = COUNT_OF(approvals_metrics),
};
