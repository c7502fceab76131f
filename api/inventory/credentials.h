/*
 * Credentials of a tenant: its managed keys (of users and of the system), its bearer tokens (never their text) and its
 * certificates, as one list with owner, age, last use and end. A credential is live while it could still be used:
 *
 *     key          prepared, active or retiring, and its not_after has not passed
 *     token        neither revoked nor expired
 *     certificate  not expired; of a managed key: the leaf of its present chain, and the key live; recorded by a user:
 *                  its key not stated as destroyed
 *
 * One of the system is made and ended by the appliance itself. An owner record is complete when all of its members are
 * there; it is attested by whoever wrote it, for as long as the configuration says. The certificate of a managed key
 * has its key's owner unless it has one of its own.
 */
#ifndef API_INVENTORY_CREDENTIALS_H
#define API_INVENTORY_CREDENTIALS_H

#include "api/inventory/certificates.h"

#define CREDENTIAL_KINDS   "certificate, key, token"
#define CREDENTIAL_ID_MAX  64
#define REVIEW_LANE        "inventory-reviews"
#define REVIEW_MAX         10000 /* credentials of one review: its opening is one event */
#define REVIEW_DECIDED_MAX 500   /* decisions of one request */

#define EVENT_OWNER            "inventory.owner.recorded"
#define EVENT_REVIEW_OPENED    "inventory.access_review.opened"
#define EVENT_REVIEW_DECIDED   "inventory.access_review.decided"
#define EVENT_REVIEW_COMPLETED "inventory.access_review.completed"

#define LIVE_STATES    "('prepared', 'active', 'retiring')"
/* Whether managed key `k` is live as of that parameter: the one definition, of credentials, bill of materials,
 * readiness dataset and facts. */
#define KEY_LIVES(now) "(k.state IN " LIVE_STATES " AND coalesce(k.not_after_us > " now ", true))"
/* Of a text out of which an erasure took somebody (api/privacy puts "erased-" and the beginning of its id in the
 * place): it names nobody any more. */
#define ERASED(text)   "(" text " ~ 'erased-[0-9a-f]{8}-[0-9a-f]{4}')"

/* All credentials as of $1 (utc_us): kind, id, system, name, detail, state, created_us, end_us, key_id, der. Live where
 * state is one of LIVE_STATES. For FROM, with a name behind it. */
#define CREDENTIALS                                                                                                       \
    "(SELECT 'key' AS kind, k.key_id AS id, k.system, k.name, k.purpose || ' ' || k.algorithm AS detail, CASE WHEN"       \
    " k.state IN " LIVE_STATES " AND k.not_after_us <= $1 THEN 'expired' ELSE k.state END AS state,"                      \
    " k.created_us, least(k.not_after_us, k.retires_us) AS end_us, k.key_id, ''::bytea AS der FROM svc.managed_keys k"    \
    " UNION ALL SELECT 'token', t.token_id, false, t.subject, t.roles, CASE WHEN t.revoked_us IS NOT NULL THEN"           \
    " 'revoked' WHEN t.expires_us <= $1 THEN 'expired' ELSE 'active' END, t.created_us, t.expires_us, NULL, ''::bytea"    \
    " FROM svc.tokens t"                                                                                                  \
    " UNION ALL SELECT 'certificate', c.certificate_id, coalesce(k.system, false), '', encode(c.fingerprint, 'hex'),"     \
    " CASE WHEN c.not_after_us <= $1 THEN 'expired' WHEN k.key_id IS NULL THEN CASE WHEN c.storage_class = 'destroyed'"   \
    " THEN 'retired' ELSE 'active' END WHEN " KEY_LIVES(                                                                  \
        "$1") " AND substring(k.chain FROM 1 FOR octet_length(c.der)) = c.der"                                            \
              " THEN 'active' ELSE 'retired' END, c.recorded_us, c.not_after_us, c.key_id, c.der FROM svc.certificates c" \
              " LEFT JOIN svc.managed_keys k ON k.tenant_id = c.tenant_id AND k.key_id = c.key_id)"
/* Joins the owner of credential `c` as `o`: that of its own, else its key's. One who was erased is no owner, and a
 * contact that was erased is none. */
#define JOIN_OWNER                                                                                                     \
    " LEFT JOIN svc.credential_owners own ON own.kind = c.kind AND own.credential_id = c.id"                           \
    " LEFT JOIN svc.credential_owners keys ON c.kind = 'certificate' AND keys.kind = 'key'"                            \
    " AND keys.credential_id = c.key_id CROSS JOIN LATERAL (SELECT (CASE WHEN own.owner_id IS NULL THEN keys ELSE own" \
    " END).*) w CROSS JOIN LATERAL (SELECT CASE WHEN NOT " ERASED(                                                     \
        "w.owner_id") " THEN w.owner_id END AS owner_id,"                                                              \
                      " CASE WHEN " ERASED(                                                                            \
                          "w.contact") " THEN '' ELSE w.contact END AS contact, w.application_id, w.environment,"      \
                                       " w.attested_us, w.attested_by, own.owner_id IS NULL AS of_key) o "
/* When credential `c` was last used: a key for a caller's digest; a certificate with its key; a token, as far as its
 * subject did what is recorded since the token was made. */
#define LAST_USE                                                                                                    \
    "(CASE WHEN c.kind = 'token' THEN (SELECT nullif(greatest(a.time_us, c.created_us - 1), c.created_us - 1) FROM" \
    " svc.audit_records a WHERE a.actor_subject = c.name ORDER BY a.sequence DESC LIMIT 1)"                         \
    " ELSE (SELECT u.last_used_us FROM svc.key_uses u WHERE u.key_id = c.key_id) END)"

struct credential_owner {
    const char *owner_id, *contact, *application_id, *environment; /* owner_id NULL: there is no record */
    utc_us attested;
    const char *attested_by;
    bool of_key; /* a certificate's, that is its key's */
};
struct credential {
    const char *kind, *id, *name, *detail, *state, *key_id;
    bool system, live;
    utc_us created, end, last_used; /* 0 = none */
    struct credential_owner owner;
};
struct credential_filter {
    const char *kind; /* NULL = any */
    enum { CREDENTIAL_ANY, CREDENTIAL_LIVE, CREDENTIAL_NOT_LIVE } live;
    int64_t before_us;
    const char *before_id; /* "kind:id" */
    int64_t limit;
};
bool credential_kind_known(const char *kind);
struct fault credential_list(struct op *op, struct services *services, const struct credential_filter *filter,
                             utc_us now, struct credential **ret_list, size_t *ret_count);
/* NOT_FOUND. */
struct fault credential_get(struct op *op, struct services *services, const char *kind, const char *id, utc_us now,
                            struct credential *ret_credential);
bool credential_owner_complete(const struct credential_owner *owner);

/* ---- owners.c ---- */

struct owner_body {
    const char *owner_id, *contact, *application_id, *environment;
};
extern const struct jin_field owner_body_fields[];
extern const size_t owner_body_count;
struct fault owner_record(struct op *op, struct services *services, const char *kind, const char *id,
                          const struct owner_body *body);
struct fault project_owner_recorded(struct projection *projection, const struct event_view *event);

/* ---- reviews*.c ---- */

struct review_open_body {
    const char *title, *owner_id;
    struct jin_texts kinds;
};
struct review_decide_body {
    struct span decisions;
};
extern const struct jin_field review_open_fields[], review_decide_fields[];
extern const size_t review_open_count, review_decide_count;

struct review {
    struct uuid id;
    const char *state, *title, *kinds, *owner_id, *opened_by, *completed_by, *last_command;
    struct sha256 digest;
    int64_t total, sequence;
    utc_us opened, completed;                       /* 0 = not yet */
    int64_t kept, revoked, undecided, revoked_live; /* as of now; the latter: to be revoked, and still live */
};
struct review_item {
    int64_t position;
    const char *kind, *id, *decision, *reason, *decided_by;
    utc_us decided;
};
struct fault review_get(struct op *op, struct services *services, const char *id, utc_us now,
                        struct review *ret_review);
/* Newest first, those before audit sequence `before`; their counts are of completed ones and else 0. */
struct fault review_list(struct op *op, struct services *services, int64_t before, int64_t limit,
                         struct review **ret_list, size_t *ret_count);
struct fault review_items(struct op *op, struct services *services, const char *id, int64_t after, int64_t limit,
                          bool undecided, struct review_item **ret_items, size_t *ret_count);
/* "kind:id" of the live credentials of users that a review of this scope is about, in order; at most `limit`. */
struct fault review_scope(struct op *op, struct services *services, const struct review_open_body *body, utc_us now,
                          size_t limit, const char ***ret_names, size_t *ret_count);
/* Which of these ("kind:id") are not in the review: the first one; NULL = all are. */
struct fault review_stranger(struct op *op, struct services *services, const char *id, struct span names_json,
                             const char **ret_name);

struct fault review_open(struct op *op, struct services *services, const struct review_open_body *body,
                         struct uuid *ret_id);
struct fault review_decide(struct op *op, struct services *services, const char *id, struct span decisions);
struct fault review_complete(struct op *op, struct services *services, const char *id);
struct fault project_review_opened(struct projection *projection, const struct event_view *event);
struct fault project_review_decided(struct projection *projection, const struct event_view *event);
struct fault project_review_completed(struct projection *projection, const struct event_view *event);

struct fault route_credential_list(struct request *request);
struct fault route_credential_owner(struct request *request);
struct fault route_review_open(struct request *request);
struct fault route_review_decide(struct request *request);
struct fault route_review_complete(struct request *request);
struct fault route_review_list(struct request *request);
struct fault route_review_get(struct request *request);

#endif
