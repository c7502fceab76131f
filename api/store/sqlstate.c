#include "api/store/internal.h"

#include <stdio.h>

struct sqlstate_row {
    const char *prefix;
    enum fault_code code;
    const char *detail;
};
static const struct sqlstate_row rows[] = {
#define SQLSTATE_ROW(prefix, sym, detail) { prefix, FAULT_##sym, detail },
#include "api/store/sqlstate.def"
#undef SQLSTATE_ROW
};

struct fault sqlstate_fault(const char *sqlstate, const char **ret_detail)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strncmp(rows[i].prefix, sqlstate, strlen(rows[i].prefix)) == 0) {
            *ret_detail = rows[i].detail;
            return (struct fault){ rows[i].code };
        }
    }
    *ret_detail = "unexpected database error";
    return FAULT(INTERNAL);
}

static bool is_kept(const char *at, size_t len, const char *const *keep)
{
    for (; keep != NULL && *keep != NULL; keep++) {
        if (strlen(*keep) == len && memcmp(*keep, at, len) == 0) {
            return true;
        }
    }
    return false;
}

/* PostgreSQL quotes both identifiers and values with double quotes, so only names that the error's own fields give
 * (constraint, table ...) are let through. A quote that does not close masks the rest. */
void message_mask(const char *message, const char *const *keep, char *out, size_t size)
{
    BUG_IF(size < 8);
    size_t used = 0;
    while (*message != '\0' && used + 8 < size) {
        char quote = *message;
        if (quote != '\'' && quote != '"') {
            out[used++] = *message == '\n' ? ' ' : *message;
            message++;
            continue;
        }
        const char *inside = message + 1;
        const char *end = strchr(inside, quote);
        size_t len = end != NULL ? (size_t)(end - inside) : strlen(inside);
        bool kept = end != NULL && used + len + 8 < size && is_kept(inside, len, keep);
        out[used++] = quote;
        if (kept) {
            memcpy(out + used, inside, len);
            used += len;
        } else {
            out[used++] = '*';
            out[used++] = '*';
        }
        out[used++] = quote;
        message = inside + len + (end != NULL ? 1 : 0);
    }
    while (used > 0 && out[used - 1] == ' ') {
        used--;
    }
    out[used] = '\0';
}

struct fault store_fail_result(struct op *op, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (sqlstate == NULL) {
        sqlstate = "08006"; /* libpq itself failed: the connection is gone */
    }
    const char *detail = NULL;
    struct fault fault = sqlstate_fault(sqlstate, &detail);
    if (op == NULL || op->note.set) {
        return fault;
    }
    IGNORE(op_fail(op, fault, "%s", detail));
    (void)snprintf(op->note.sqlstate, sizeof(op->note.sqlstate), "%.5s", sqlstate);

    const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    const char *table = PQresultErrorField(result, PG_DIAG_TABLE_NAME);
    const char *keep[5] = { NULL };
    size_t kept = 0;
    static const int fields[] = { PG_DIAG_CONSTRAINT_NAME, PG_DIAG_TABLE_NAME, PG_DIAG_COLUMN_NAME,
                                  PG_DIAG_SCHEMA_NAME };
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const char *name = PQresultErrorField(result, fields[i]);
        if (name != NULL) {
            keep[kept++] = name;
        }
    }
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    char masked[256];
    message_mask(message != NULL ? message : "connection lost", keep, masked, sizeof(masked));
    op_note_log(op, "sqlstate=%.5s constraint=%s table=%s: %s", sqlstate, constraint != NULL ? constraint : "-",
                table != NULL ? table : "-", masked);
    return fault;
}

struct fault store_fail_connection(struct op *op, PGconn *pg, const char *doing)
{
    if (op == NULL || op->note.set) {
        return FAULT(STORE_UNAVAILABLE);
    }
    struct fault fault =
        op_fail(op, FAULT(STORE_UNAVAILABLE), "the database cannot be reached: repeat the request later");
    (void)snprintf(op->note.sqlstate, sizeof(op->note.sqlstate), "08006");
    char masked[256];
    message_mask(pg != NULL ? PQerrorMessage(pg) : "no connection", NULL, masked, sizeof(masked));
    op_note_log(op, "%s: %s", doing, masked);
    return fault;
}
