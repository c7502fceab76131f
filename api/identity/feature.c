#include "api/identity/internal.h"

static const struct jin_field create_fields[] = {
    JIN_TEXT(struct token_create_body, subject, JIN_REQUIRED, 1, OP_SUBJECT_MAX),
    JIN_TEXTS(struct token_create_body, roles, JIN_REQUIRED, 1, OP_ROLES_MAX),
    JIN_INT(struct token_create_body, ttl_seconds, JIN_OPTIONAL, 1, TOKEN_TTL_MAX_S),
};
static const struct jin_field revoke_fields[] = {
    JIN_TEXT(struct token_revoke_body, reason, JIN_REQUIRED, 1, 256),
};
static const char *const list_query[] = { "subject", "active", "limit", "cursor", NULL };

static const struct answer_field created_answer[] = {
    { "token_id", "string", "Names the token in lists and for its revocation." },
    { "token", "string", "The token itself. It is shown here only." },
    { "tenant_id", "string", "Tenant that the token belongs to." },
    { "subject", "string", "Who acts with it, in audit records." },
    { "roles", "array", "Roles of the token." },
    { "expires_at", "string", "RFC 3339." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Tokens, newest first: token_id, subject, roles, state, last4, created_at, expires_at ..." },
    { "next_cursor", "string", "Present when there are more." },
};
static const struct answer_field revoked_answer[] = {
    { "token_id", "string", "The token." },
    { "subject", "string", "Who acted with it." },
    { "state", "string", "revoked" },
    { "revoked_at", "string", "RFC 3339." },
    { "revoked_by", "string", "Subject that revoked it." },
    { "revoke_reason", "string", "As given." },
};

static const struct route routes[] = {
    {
        .name = "tokens.create",
        .method = ROUTE_POST,
        .path = "/api/v1/tokens",
        .permission = PERMISSION_TOKENS_WRITE,
        .flags = ROUTE_MUTATION | ROUTE_SECRET_ANSWER,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = create_fields,
        .body_count = COUNT_OF(create_fields),
        .body_size = sizeof(struct token_create_body),
        .answer = created_answer,
        .answer_count = COUNT_OF(created_answer),
        .success_status = 201,
        .handler = route_token_create,
        .doc = "Make a bearer token of the caller's tenant. Roles beyond the caller's own need the role admin. Default "
               "life: 30 days.",
    },
    {
        .name = "tokens.list",
        .method = ROUTE_GET,
        .path = "/api/v1/tokens",
        .permission = PERMISSION_TOKENS_READ,
        .bulkhead = BULKHEAD_API,
        .query = list_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_token_list,
        .doc = "List tokens, never their text.",
    },
    {
        .name = "tokens.revoke",
        .method = ROUTE_POST,
        .path = "/api/v1/tokens/{id}/revocations",
        .permission = PERMISSION_TOKENS_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body_max = 16384,
        .body = revoke_fields,
        .body_count = COUNT_OF(revoke_fields),
        .body_size = sizeof(struct token_revoke_body),
        .answer = revoked_answer,
        .answer_count = COUNT_OF(revoked_answer),
        .success_status = 200,
        .handler = route_token_revoke,
        .doc = "Revoke a token. At once where the request is served; within five seconds everywhere.",
    },
};

static const struct event_row events[] = {
    { "tenant.created", 1, project_tenant_created, "A tenant exists from here on." },
    { "identity.token.issued", 1, project_token_issued, "A bearer token was made: subject, roles, expiry, hash." },
    { "identity.token.revoked", 1, project_token_revoked, "A bearer token was revoked before its expiry." },
};

const struct feature identity_feature = {
    .name = "identity",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
};
