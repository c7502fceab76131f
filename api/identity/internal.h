/* What the files of api/identity/ share. */
#ifndef API_IDENTITY_INTERNAL_H
#define API_IDENTITY_INTERNAL_H

#include "api/identity/identity_feature.h"

#define ROLE_NAME_MAX 31

/* The roles of roles.yaml: name to permissions. */
struct roles;
struct fault roles_parse(struct span yaml, const char *file, struct buf *why, struct roles **ret_roles);
void roles_free(struct roles *roles);
DEFINE_FREEP(struct roles, roles_free)
/* False when there is no such role; *ret_permissions: bit n = permission n. */
bool roles_find(const struct roles *roles, const char *name, uint64_t *ret_permissions);

/* The text of a token: "svc_<tenant>_<43 base64url>", and the hash it is stored under (SHA-256 of the whole text). */
struct fault token_text_make(struct tenant_id tenant, char out[TOKEN_TEXT_MAX], struct sha256 *ret_hash);
struct fault token_text_parse(struct span text, struct tenant_id *ret_tenant, struct sha256 *ret_hash);
/* The token of an Authorization value: scheme Bearer in any case, one space, the token. UNAUTHENTICATED. */
struct fault bearer_parse(const char *authorization, struct span *ret_token);

/* A token as verified: what the read model says about a hash. */
struct verified {
    struct sha256 hash;
    struct tenant_id tenant;
    struct principal principal;
    utc_us expires;
};

/* Verified tokens of the last seconds, so that a request costs no look-up. A revocation that this process makes or
 * projects empties it at once (token_cache_forget); one that another process makes is noticed when an entry's time is
 * over. Thread-safe. */
#define TOKEN_CACHE_TTL_MS 5000
struct token_cache;
struct fault token_cache_new(struct token_cache **ret_cache);
void token_cache_free(struct token_cache *cache);
DEFINE_FREEP(struct token_cache, token_cache_free)
bool token_cache_get(struct token_cache *cache, const struct sha256 *hash, mono_ns now, struct verified *ret_verified);
/* `generation` as token_cache_generation() told before the read model was asked: a revocation since then wins. */
void token_cache_put(struct token_cache *cache, const struct verified *verified, mono_ns now, uint64_t generation);
uint64_t token_cache_generation(void);
void token_cache_forget(void);

struct identity {
    struct roles *roles;
    struct token_cache *cache;
};
uint64_t identity_permissions(const struct identity *identity, const char *roles_text, struct principal *principal);

/* Rows of the read model, for answers; texts live in op's arena. */
struct token_row {
    struct uuid id;
    const char *subject, *roles, *last4, *created_by, *revoked_by, *revoke_reason; /* the latter two NULL = in force */
    utc_us created, expires, revoked;
    struct sha256 hash;
};
struct fault token_get(struct op *op, struct store *store, struct uuid id, struct token_row *ret_row); /* NOT_FOUND */
struct token_filter {
    const char *subject; /* NULL = any */
    enum { TOKEN_ANY, TOKEN_ACTIVE, TOKEN_INACTIVE } active;
    int64_t before_us;
    const char *before_id;
    int64_t limit;
};
struct fault token_list(struct op *op, struct store *store, const struct token_filter *filter,
                        struct token_row **ret_rows, size_t *ret_count);
/* Whether op's tenant exists. */
struct fault tenant_known(struct op *op, struct store *store, bool *ret_known);
/* One token as a JSON object. */
void token_print(struct jout *jout, const struct token_row *row, utc_us now);
/* A token just made, with its text: the answer is a secret. */
void token_print_issued(struct jout *jout, struct tenant_id tenant, const struct token_request *wanted,
                        const struct token_issued *token);

struct fault project_tenant_created(struct projection *projection, const struct event_view *event);
struct fault project_token_issued(struct projection *projection, const struct event_view *event);
struct fault project_token_revoked(struct projection *projection, const struct event_view *event);

struct fault route_token_create(struct request *request);
struct fault route_token_list(struct request *request);
struct fault route_token_revoke(struct request *request);

/* The bodies of the routes, and what decodes them. */
struct token_create_body {
    const char *subject;
    struct jin_texts roles;
    int64_t ttl_seconds;
};
struct token_revoke_body {
    const char *reason;
};

#endif
