#include "api/identity/internal.h"

static const struct sql SQL_TENANT_CREATED = {
    "identity_tenant_created",
    "INSERT INTO svc.tenants (tenant_id, created_us, created_by) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
    3,
};
static const struct sql SQL_TOKEN_ISSUED = {
    "identity_token_issued",
    "INSERT INTO svc.tokens (tenant_id, token_id, token_hash, last4, subject, roles, created_us, created_by, "
    "expires_us)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
    9,
};
static const struct sql SQL_TOKEN_REVOKED = {
    "identity_token_revoked",
    "UPDATE svc.tokens SET revoked_us = $2, revoked_by = $3, revoke_reason = $4"
    " WHERE token_id = $1 AND revoked_us IS NULL",
    4,
};

struct issued_data {
    const char *token_id, *last4, *subject;
    struct span token_hash;
    struct jin_texts roles;
    utc_us expires_at;
};
static const struct jin_field issued_fields[] = {
    JIN_TEXT(struct issued_data, token_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct issued_data, last4, JIN_REQUIRED, 4, 4),
    JIN_TEXT(struct issued_data, subject, JIN_REQUIRED, 1, OP_SUBJECT_MAX),
    JIN_HEX(struct issued_data, token_hash, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_TEXTS(struct issued_data, roles, JIN_REQUIRED, 1, OP_ROLES_MAX),
    JIN_TIME(struct issued_data, expires_at, JIN_REQUIRED),
};
struct revoked_data {
    const char *token_id, *reason;
};
static const struct jin_field revoked_fields[] = {
    JIN_TEXT(struct revoked_data, token_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct revoked_data, reason, JIN_REQUIRED, 1, 256),
};

struct fault project_tenant_created(struct projection *projection, const struct event_view *event)
{
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_INT(event->time),
                                    SQL_TEXT(event->actor_subject) };
    return tx_queue(projection_tx(projection), &SQL_TENANT_CREATED, args, COUNT_OF(args));
}

static struct fault join_roles(struct op *op, const struct jin_texts *roles, const char **ret_text)
{
    CLEANUP(buf_free) struct buf joined = BUF_INIT(1024);
    for (size_t i = 0; i < roles->count; i++) {
        TRY(buf_printf(&joined, "%s%s", i > 0 ? " " : "", roles->at[i]));
    }
    return arena_text(op->arena, buf_span(&joined), ret_text);
}

struct fault project_token_issued(struct projection *projection, const struct event_view *event)
{
    struct op *op = projection_op(projection);
    struct issued_data data = { 0 };
    const char *roles = NULL;
    TRY(jin_decode(op, event->data, issued_fields, COUNT_OF(issued_fields), &data));
    TRY(join_roles(op, &data.roles, &roles));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text), SQL_TEXT(data.token_id),        SQL_BYTES(data.token_hash),
        SQL_TEXT(data.last4),         SQL_TEXT(data.subject),         SQL_TEXT(roles),
        SQL_INT(event->time),         SQL_TEXT(event->actor_subject), SQL_INT(data.expires_at),
    };
    return tx_queue(projection_tx(projection), &SQL_TOKEN_ISSUED, args, COUNT_OF(args));
}

struct fault project_token_revoked(struct projection *projection, const struct event_view *event)
{
    struct revoked_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, revoked_fields, COUNT_OF(revoked_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.token_id), SQL_INT(event->time), SQL_TEXT(event->actor_subject),
                                    SQL_TEXT(data.reason) };
    TRY(tx_queue(projection_tx(projection), &SQL_TOKEN_REVOKED, args, COUNT_OF(args)));
    token_cache_forget();
    return OK;
}
