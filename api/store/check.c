#include "api/store/internal.h"

/* A role is unsafe when it is, or may become (membership), one that row-level security does not bind, or the owner of
 * our tables, who could switch it off. */
static const struct sql SQL_ROLE = {
    "svc_check_role",
    "SELECT CASE"
    " WHEN EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolsuper AND pg_has_role(current_user, r.oid, 'MEMBER'))"
    "   THEN 'is superuser, or a member of one'"
    " WHEN EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolbypassrls AND pg_has_role(current_user, r.oid, 'MEMBER'))"
    "   THEN 'has BYPASSRLS, or is a member of a role with it'"
    " WHEN EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolname IN ('pg_write_all_data', 'pg_read_all_data',"
    "   'pg_read_server_files', 'pg_write_server_files', 'pg_execute_server_program', 'pg_maintain')"
    "   AND pg_has_role(current_user, r.oid, 'MEMBER'))"
    "   THEN 'is a member of a predefined role that goes around grants'"
    " WHEN EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    "   WHERE n.nspname = 'svc' AND (pg_has_role(current_user, c.relowner, 'MEMBER')"
    "   OR pg_has_role(current_user, n.nspowner, 'MEMBER')))"
    "   THEN 'owns tables or the schema, or is a member of their owner'"
    " WHEN EXISTS (SELECT 1 FROM pg_roles r WHERE r.rolname = $1 AND pg_has_role(current_user, r.oid, 'MEMBER'))"
    "   THEN 'is, or may become, the other service role'"
    " ELSE '' END",
    1,
};
static const struct sql SQL_UNPROTECTED = {
    "svc_check_tables",
    "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'svc' AND c.relkind IN ('r', 'p')"
    " AND EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id'"
    "   AND NOT a.attisdropped)"
    " AND (NOT c.relrowsecurity OR NOT c.relforcerowsecurity"
    "   OR NOT EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname = 'tenant_isolation'))"
    " ORDER BY 1 LIMIT 1",
    0,
};
static const struct sql SQL_HAS_SCHEMA = {
    "svc_check_schema",
    "SELECT to_regclass('svc.schema_migrations') IS NOT NULL",
    0,
};
static const struct sql SQL_APPLIED = {
    "svc_check_applied",
    "SELECT version, name, sha256 FROM svc.schema_migrations ORDER BY version",
    0,
};

static struct fault check_role(struct op *op, struct connection *connection, const char *role, const char *other,
                               struct buf *why)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(connection_run(op, connection, &SQL_ROLE, (struct sql_arg[]){ SQL_TEXT(other) }, 1, op->deadline, &rows));
    const char *unsafe = rows_text(rows, 0, 0);
    if (unsafe[0] == '\0') {
        return OK;
    }
    IGNORE(buf_printf(why, "database role %s %s: tenants would not be kept apart; use a plain login role\n", role,
                      unsafe));
    return op_fail(op, FAULT(STORE_ROLE), "database role %s %s", role, unsafe);
}

static struct fault check_tables(struct op *op, struct connection *connection, struct buf *why)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(connection_run(op, connection, &SQL_UNPROTECTED, NULL, 0, op->deadline, &rows));
    if (rows_count(rows) == 0) {
        return OK;
    }
    IGNORE(buf_printf(why,
                      "table svc.%s has no forced row-level security: tenants would not be kept apart; run "
                      "svc-api migrate, and look who changed it\n",
                      rows_text(rows, 0, 0)));
    return op_fail(op, FAULT(STORE_ROLE), "table svc.%s has no forced row-level security", rows_text(rows, 0, 0));
}

static struct fault check_schema(struct op *op, struct connection *connection, struct buf *why)
{
    CLEANUP(rows_freep) struct rows *exists = NULL;
    CLEANUP(rows_freep) struct rows *applied = NULL;
    size_t missing = 0;
    TRY(connection_run(op, connection, &SQL_HAS_SCHEMA, NULL, 0, op->deadline, &exists));
    if (rows_bool(exists, 0, 0)) {
        TRY(connection_run(op, connection, &SQL_APPLIED, NULL, 0, op->deadline, &applied));
        TRY(migrations_compare(applied, store_migrations, store_migration_count, why, &missing));
    }
    if (missing == store_migration_count) {
        return OK;
    }
    IGNORE(buf_printf(why, "migration %s is not applied: run svc-api migrate\n", store_migrations[missing].name));
    return op_fail(op, FAULT(STORE_SCHEMA), "migration %s is not applied", store_migrations[missing].name);
}

struct fault store_check(struct op *op, struct connection *connection, const struct config *config, struct buf *why)
{
    static const struct sql whoami = { "svc_check_whoami", "SELECT current_user::text", 0 };
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(connection_run(op, connection, &whoami, NULL, 0, op->deadline, &rows));
    const char *role = rows_text(rows, 0, 0);
    bool is_app = strcmp(role, config->postgres_app_user) == 0;
    TRY(check_role(op, connection, role, is_app ? config->postgres_worker_user : config->postgres_app_user, why));
    TRY(check_schema(op, connection, why));
    return check_tables(op, connection, why);
}
