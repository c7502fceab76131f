#include "api/identity/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/secret.h"

#include <stdio.h>

#define ROLES_FILE_MAX ((size_t)256 << 10)

static const struct sql SQL_TOKEN_BY_HASH = {
    "identity_token_by_hash",
    "SELECT token_hash, subject, roles, expires_us, revoked_us FROM svc.tokens WHERE token_hash = $1",
    1,
};

struct fault identity_open(const struct config *config, struct buf *why, struct identity **ret_identity)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf text = BUF_INIT(ROLES_FILE_MAX);
    CLEANUP(identity_closep) struct identity *made = NULL;
    const char *file = NULL;
    TRY(buf_printf(&path, "%s/roles.yaml", config->policy_dir));
    TRY(buf_cstr(&path, &file));
    if (FAULTED(file_read(file, &text))) {
        IGNORE(buf_printf(why, "%s: cannot be read; it must map roles to permissions (policy_dir)\n", file));
        return FAULT(CONFIG);
    }
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(roles_parse(buf_span(&text), file, why, &made->roles));
    TRY(token_cache_new(&made->cache));
    *ret_identity = TAKE(made);
    return OK;
}

void identity_close(struct identity *identity)
{
    if (identity != NULL) {
        roles_free(identity->roles);
        token_cache_free(identity->cache);
        mem_free(identity);
    }
}

/* Fills roles and permissions from "a b c". A role that the table does not have grants nothing. */
uint64_t identity_permissions(const struct identity *identity, const char *roles_text, struct principal *principal)
{
    principal->permissions = 0;
    principal->role_count = 0;
    while (*roles_text != '\0' && principal->role_count < OP_ROLES_MAX) {
        size_t len = strcspn(roles_text, " ");
        char *name = principal->roles[principal->role_count];
        uint64_t permissions = 0;
        (void)snprintf(name, sizeof(principal->roles[0]), "%.*s", (int)len, roles_text);
        if (roles_find(identity->roles, name, &permissions)) {
            principal->permissions |= permissions;
        }
        principal->role_count++;
        roles_text += len + (roles_text[len] == ' ' ? 1 : 0);
    }
    return principal->permissions;
}

uint64_t identity_roles_permit(const struct identity *identity, const char *roles)
{
    struct principal principal = { 0 };
    return identity_permissions(identity, roles, &principal);
}

static struct fault refuse(struct op *op)
{
    return op_fail(op, FAULT(UNAUTHENTICATED), "send a valid token: Authorization: Bearer svc_...");
}

static struct fault look_up(struct op *op, const struct identity *identity, struct store *store,
                            struct verified *verified)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_TOKEN_BY_HASH, (struct sql_arg[]){ SQL_BYTES(SPAN_ARRAY(verified->hash.at)) }, 1, &rows));
    if (rows_count(rows) != 1 || !secret_equal(rows_bytes(rows, 0, 0), SPAN_ARRAY(verified->hash.at))) {
        return refuse(op);
    }
    /* Only who holds the whole token gets this far, so saying why tells nothing to others. */
    if (!rows_null(rows, 0, 4)) {
        return op_fail(op, FAULT(TOKEN_REVOKED), "this token was revoked: ask for a new one");
    }
    verified->expires = rows_int(rows, 0, 3);
    (void)snprintf(verified->principal.subject, sizeof(verified->principal.subject), "%s", rows_text(rows, 0, 1));
    (void)identity_permissions(identity, rows_text(rows, 0, 2), &verified->principal);
    return OK;
}

static struct fault verify(struct op *op, struct identity *identity, struct store *store, struct verified *verified)
{
    uint64_t generation = token_cache_generation();
    mono_ns now = clock_mono();
    if (token_cache_get(identity->cache, &verified->hash, now, verified)) {
        return OK;
    }
    TRY(look_up(op, identity, store, verified));
    token_cache_put(identity->cache, verified, now, generation);
    return OK;
}

struct fault identity_authenticate(struct op *op, struct identity *identity, struct store *store,
                                   const char *authorization)
{
    struct verified verified = { 0 };
    struct span token = { 0 };
    if (FAULTED(bearer_parse(authorization, &token)) ||
        FAULTED(token_text_parse(token, &verified.tenant, &verified.hash))) {
        return refuse(op);
    }
    struct tenant_id before = op->tenant;
    op->tenant = verified.tenant; /* the look-up's scope; stays on success only */
    struct fault fault = verify(op, identity, store, &verified);
    if (!FAULTED(fault) && clock_utc() >= verified.expires) {
        fault = op_fail(op, FAULT(TOKEN_EXPIRED), "this token has expired: ask for a new one");
    }
    if (FAULTED(fault)) {
        op->tenant = before;
        return fault;
    }
    op->principal = verified.principal;
    return OK;
}
