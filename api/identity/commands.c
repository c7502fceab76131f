#include "api/identity/internal.h"

#include "appliance/base/secret.h"

#include <stdio.h>

#define LANE_IDENTITY "identity"

/* Subjects stand in logs, audit records and policies: printable ASCII without blanks. The prefixes are our own. */
static struct fault check_subject(struct op *op, const char *subject)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@/+-";
    size_t len = strlen(subject);
    if (len < 1 || len > OP_SUBJECT_MAX || strspn(subject, allowed) != len) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/subject",
                             "subject must be 1 to %d characters of letters, digits and . _ : @ / + -", OP_SUBJECT_MAX);
    }
    if (strncmp(subject, "system:", 7) == 0 || strncmp(subject, "svc-", 4) == 0) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/subject", "subjects beginning with system: or svc- are reserved");
    }
    return OK;
}

static struct fault check_roles(struct op *op, const struct identity *identity, const struct token_request *request)
{
    if (request->role_count < 1 || request->role_count > OP_ROLES_MAX) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/roles", "name 1 to %d roles", OP_ROLES_MAX);
    }
    for (size_t i = 0; i < request->role_count; i++) {
        uint64_t permissions = 0;
        if (!roles_find(identity->roles, request->roles[i], &permissions)) {
            return op_fail_field(op, FAULT(JSON_FIELD), "/roles", "role %zu is not one of roles.yaml", i + 1);
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(request->roles[i], request->roles[j]) == 0) {
                return op_fail_field(op, FAULT(JSON_FIELD), "/roles", "role %zu is named twice", i + 1);
            }
        }
    }
    return OK;
}

/* Auditors come from outside and leave again: their access ends by itself. */
static struct fault check_lifetime(struct op *op, const struct config *config, const struct token_request *request)
{
    int64_t most = config->auditor_token_max / NS_PER_S;
    for (size_t i = 0; i < request->role_count; i++) {
        if (strcmp(request->roles[i], "auditor") == 0 && request->ttl_s > most) {
            return op_fail_field(op, FAULT(TOKEN_LIFETIME), "/ttl_seconds",
                                 "a token with the role auditor lives for at most %lld seconds "
                                 "(identity.auditor_token_max)",
                                 (long long)most);
        }
    }
    return OK;
}

static struct fault check_request(struct op *op, const struct services *services, const struct token_request *request)
{
    TRY(check_subject(op, request->subject));
    TRY(check_roles(op, services->identity, request));
    if (request->ttl_s < 1 || request->ttl_s > TOKEN_TTL_MAX_S) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/ttl_seconds", "ttl_seconds must be 1 to %d", TOKEN_TTL_MAX_S);
    }
    return check_lifetime(op, services->config, request);
}

static bool has_role(const struct principal *principal, const char *name)
{
    for (size_t i = 0; i < principal->role_count; i++) {
        if (strcmp(principal->roles[i], name) == 0) {
            return true;
        }
    }
    return false;
}

struct fault identity_may_grant(struct op *op, const struct identity *identity, const struct token_request *request)
{
    if (has_role(&op->principal, "admin")) {
        return OK;
    }
    for (size_t i = 0; i < request->role_count; i++) {
        uint64_t wanted = 0;
        (void)roles_find(identity->roles, request->roles[i], &wanted);
        if ((wanted & ~op->principal.permissions) != 0 || strcmp(request->roles[i], "admin") == 0) {
            return op_fail_field(op, FAULT(FORBIDDEN), "/roles",
                                 "role %zu grants more than the caller has: only an admin may give it", i + 1);
        }
    }
    return OK;
}

static struct fault print_issued(struct buf *out, const struct token_request *request, const struct token_issued *token,
                                 const struct sha256 *hash)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "token_id", token->id.text);
    jout_key_hex(&jout, "token_hash", SPAN_ARRAY(hash->at));
    jout_key_text(&jout, "last4", token->text + strlen(token->text) - 4);
    jout_key_text(&jout, "subject", request->subject);
    jout_key(&jout, "roles");
    jout_array(&jout);
    for (size_t i = 0; i < request->role_count; i++) {
        jout_text(&jout, request->roles[i]);
    }
    jout_array_end(&jout);
    jout_key_time(&jout, "expires_at", token->expires);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault append_one(struct op *op, struct services *services, const char *type, struct uuid id,
                               const struct buf *data)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    const struct span parts[] = { span_text(op->tenant.text), span_text(id.text) };
    struct event_append append = { .lane = LANE_IDENTITY, .events = &event, .count = 1 };
    TRY(uuid_derive(type, parts, COUNT_OF(parts), &append.message_id));
    uint64_t seq = 0;
    TRY(events_append(op, services->log, &append, &seq));
    return projector_wait(op, services->projector, seq);
}

/* A retry of this command finds its token already there, but the text of it was told once or never. */
static struct fault already_made(struct op *op)
{
    return op_fail(op, FAULT(IDEMPOTENCY_INDETERMINATE),
                   "this command has made a token whose text is not kept: revoke it, and use a new Idempotency-Key");
}

static struct fault new_token_id(struct op *op, struct services *services, struct uuid *ret_id)
{
    if (op->command_id.text[0] == '\0') {
        return uuid_new(ret_id);
    }
    struct token_row row;
    const struct span parts[] = { span_text(op->command_id.text) };
    TRY(uuid_derive("identity.token", parts, COUNT_OF(parts), ret_id));
    struct fault found = token_get(op, services->store, *ret_id, &row);
    if (found.code == FAULT_NOT_FOUND) {
        return OK;
    }
    TRY(found);
    return already_made(op);
}

static struct fault issue(struct op *op, struct services *services, const struct token_request *request,
                          struct token_issued *token)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(8192);
    struct sha256 hash;
    struct token_row row;
    TRY(new_token_id(op, services, &token->id));
    TRY(token_text_make(op->tenant, token->text, &hash));
    token->expires = clock_utc() + request->ttl_s * US_PER_S;
    TRY(print_issued(&data, request, token, &hash));
    TRY(append_one(op, services, "identity.token.issued", token->id, &data));
    TRY(token_get(op, services->store, token->id, &row));
    /* Two runs of one command at the same time: the log kept the first one's message and dropped the other's. */
    return secret_equal(SPAN_ARRAY(row.hash.at), SPAN_ARRAY(hash.at)) ? OK : already_made(op);
}

struct fault identity_token_issue(struct op *op, struct services *services, const struct token_request *request,
                                  struct token_issued *ret_token)
{
    struct token_issued token = { 0 };
    TRY(check_request(op, services, request));
    struct fault fault = issue(op, services, request, &token);
    if (!FAULTED(fault)) {
        *ret_token = token;
    }
    secret_wipe(&token, sizeof(token));
    return fault;
}

struct fault identity_token_revoke(struct op *op, struct services *services, struct uuid id, const char *reason)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(4096);
    struct token_row row;
    struct fault found = token_get(op, services->store, id, &row);
    if (found.code == FAULT_NOT_FOUND) {
        return op_fail(op, found, "no such token: list them with GET /api/v1/tokens");
    }
    TRY(found);
    if (row.revoked_by != NULL) {
        op_changed_nothing(op);
        return OK;
    }
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "token_id", id.text);
    jout_key_text(&jout, "reason", reason);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(append_one(op, services, "identity.token.revoked", id, &data));
    token_cache_forget(); /* now that the read model shows it, nothing older can get into the cache again */
    return OK;
}
