/*
 * Tenants and tokens as a feature: events of the lanes "tenants" and "identity", their read model, the routes under
 * /api/v1/tokens.
 *
 * Who may grant what: a holder of tokens:write may give a role whose permissions it holds all itself. Only a caller
 * with the role "admin" may give others, since giving access is what that role is for; each grant is an audit record
 * with its issuer. The role "admin" itself comes from an admin only.
 */
#ifndef API_IDENTITY_IDENTITY_FEATURE_H
#define API_IDENTITY_IDENTITY_FEATURE_H

#include "api/feature.h"
#include "api/services.h"

extern const struct feature identity_feature;

#define TOKEN_TTL_MAX_S 31622400
#define TOKEN_TEXT_MAX  128

/* Makes the tenant known, once: appends tenant.created unless it is. op's own tenant is left as it was. */
struct fault identity_tenant_ensure(struct op *op, struct services *services, struct tenant_id tenant);

/* All tenants in order of their ids, through the worker's role; in op's arena. For workers that go over all tenants. */
struct fault identity_tenants(struct op *op, struct store *store, struct tenant_id **ret_tenants, size_t *ret_count);

struct token_request {
    const char *subject;
    const char *const *roles;
    size_t role_count;
    int64_t ttl_s;
};
struct token_issued {
    struct uuid id;
    char text[TOKEN_TEXT_MAX]; /* the only copy: wipe it (secret_wipe) once it is handed over */
    utc_us expires;
};
/* For op's tenant, recorded and projected when it returns OK. JSON_FIELD for a subject or role that is not acceptable,
 * IDEMPOTENCY_INDETERMINATE when this command has made a token before (its text is gone). Does not ask who op is:
 * identity_may_grant does. */
struct fault identity_token_issue(struct op *op, struct services *services, const struct token_request *request,
                                  struct token_issued *ret_token);
/* FORBIDDEN when op's principal may not give one of the roles. */
struct fault identity_may_grant(struct op *op, const struct identity *identity, const struct token_request *request);
/* NOT_FOUND. Revoking a revoked token changes nothing and is fine. */
struct fault identity_token_revoke(struct op *op, struct services *services, struct uuid id, const char *reason);

#endif
