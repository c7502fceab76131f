#include "api/identity/internal.h"

#define TOKEN_COLUMNS                                                                                             \
    "token_id, subject, roles, last4, created_us, created_by, expires_us, revoked_us, revoked_by, revoke_reason," \
    " token_hash FROM svc.tokens "

static const struct sql SQL_TOKEN = { "identity_token", "SELECT " TOKEN_COLUMNS "WHERE token_id = $1", 1 };
/* $2: 0 any, 1 in force at $3, 2 not in force. */
static const struct sql SQL_TOKENS = {
    "identity_tokens",
    "SELECT " TOKEN_COLUMNS "WHERE ($1::text IS NULL OR subject = $1)"
    " AND ($2::bigint = 0 OR ($2::bigint = 1) = (revoked_us IS NULL AND expires_us > $3))"
    " AND (created_us, token_id) < ($4, $5) ORDER BY created_us DESC, token_id DESC LIMIT $6",
    6,
};

static struct fault text_or_null(struct op *op, const struct rows *rows, size_t row, size_t column,
                                 const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct token_row *ret_row)
{
    struct token_row made = {
        .created = rows_int(rows, row, 4),
        .expires = rows_int(rows, row, 6),
        .revoked = rows_int(rows, row, 7),
    };
    TRY(uuid_parse(span_text(rows_text(rows, row, 0)), &made.id));
    TRY(text_or_null(op, rows, row, 1, &made.subject));
    TRY(text_or_null(op, rows, row, 2, &made.roles));
    TRY(text_or_null(op, rows, row, 3, &made.last4));
    TRY(text_or_null(op, rows, row, 5, &made.created_by));
    TRY(text_or_null(op, rows, row, 8, &made.revoked_by));
    TRY(text_or_null(op, rows, row, 9, &made.revoke_reason));
    struct span hash = rows_bytes(rows, row, 10);
    REQUIRE(hash.len == sizeof(made.hash.at), INTERNAL);
    memcpy(made.hash.at, hash.at, hash.len);
    *ret_row = made;
    return OK;
}

struct fault token_get(struct op *op, struct store *store, struct uuid id, struct token_row *ret_row)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_TOKEN, (struct sql_arg[]){ SQL_TEXT(id.text) }, 1, &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    return read_row(op, rows, 0, ret_row);
}

struct fault token_list(struct op *op, struct store *store, const struct token_filter *filter,
                        struct token_row **ret_rows, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = {
        filter->subject != NULL ? SQL_TEXT(filter->subject) : SQL_NONE,
        SQL_INT(filter->active == TOKEN_ANY      ? 0
                : filter->active == TOKEN_ACTIVE ? 1
                                                 : 2),
        SQL_INT(clock_utc()),
        SQL_INT(filter->before_us),
        SQL_TEXT(filter->before_id),
        SQL_INT(filter->limit),
    };
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_TOKENS, args, COUNT_OF(args), &rows));
    struct token_row *made = NULL;
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_row(op, rows, row, &made[row]));
    }
    *ret_rows = made;
    *ret_count = rows_count(rows);
    return OK;
}

void token_print(struct jout *jout, const struct token_row *row, utc_us now)
{
    bool revoked = row->revoked_by != NULL;
    jout_object(jout);
    jout_key_text(jout, "token_id", row->id.text);
    jout_key_text(jout, "subject", row->subject);
    jout_key(jout, "roles");
    jout_array(jout);
    for (const char *at = row->roles; *at != '\0';) {
        size_t len = strcspn(at, " ");
        jout_span_text(jout, span_of(at, len));
        at += len + (at[len] == ' ' ? 1 : 0);
    }
    jout_array_end(jout);
    jout_key_text(jout, "state", revoked ? "revoked" : now >= row->expires ? "expired" : "active");
    jout_key_text(jout, "last4", row->last4);
    jout_key_time(jout, "created_at", row->created);
    jout_key_text(jout, "created_by", row->created_by);
    jout_key_time(jout, "expires_at", row->expires);
    if (revoked) {
        jout_key_time(jout, "revoked_at", row->revoked);
        jout_key_text(jout, "revoked_by", row->revoked_by);
        jout_key_text(jout, "revoke_reason", row->revoke_reason);
    }
    jout_object_end(jout);
}

void token_print_issued(struct jout *jout, struct tenant_id tenant, const struct token_request *wanted,
                        const struct token_issued *token)
{
    jout_object(jout);
    jout_key_text(jout, "token_id", token->id.text);
    jout_key_text(jout, "token", token->text);
    jout_key_text(jout, "tenant_id", tenant.text);
    jout_key_text(jout, "subject", wanted->subject);
    jout_key(jout, "roles");
    jout_array(jout);
    for (size_t i = 0; i < wanted->role_count; i++) {
        jout_text(jout, wanted->roles[i]);
    }
    jout_array_end(jout);
    jout_key_time(jout, "expires_at", token->expires);
    jout_object_end(jout);
}
