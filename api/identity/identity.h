/*
 * Who calls. Bearer tokens are "svc_<tenant>_<43 base64url chars>": 32 random bytes, stored only as SHA-256, with
 * subject, roles, tenant and expiry, made and revoked by events (identity.token.issued, identity.token.revoked). The
 * tenant in the text picks the row-level-security scope before the look-up; a token of one tenant can never be found in
 * another. Roles map to permissions by policies/roles.yaml.
 */
#ifndef API_IDENTITY_IDENTITY_H
#define API_IDENTITY_IDENTITY_H

#include "api/events/events.h"
#include "api/projection/projection.h"
#include "api/store/store.h"

/* Append only. Text form is the contract's ("keys:write"). */
enum permission {
    PERMISSION_NONE, /* route needs authentication only */
#define PERMISSION_ROW(sym, text, doc) PERMISSION_##sym,
#include "api/identity/permission.def"
#undef PERMISSION_ROW
    PERMISSION_COUNT,
    PERMISSION_PUBLIC /* route needs no authentication */
};
const char *permission_text(enum permission permission);

struct identity; /* the roles table, and a small cache of verified tokens */
struct fault identity_open(const struct config *config, struct buf *why, struct identity **ret_identity);
void identity_close(struct identity *identity);
DEFINE_FREEP(struct identity, identity_close)

/* Checks an Authorization header value ("Bearer ..."; NULL = absent). Fills op's tenant and principal. UNAUTHENTICATED
 * (never says which part was wrong), TOKEN_EXPIRED, TOKEN_REVOKED. */
struct fault identity_authenticate(struct op *op, struct identity *identity, struct store *store,
                                   const char *authorization);
/* What "a b c", the roles of a token, permit: bit n = permission n. */
uint64_t identity_roles_permit(const struct identity *identity, const char *roles);
bool principal_may(const struct principal *principal, enum permission permission);

#endif
