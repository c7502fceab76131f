#include "api/store/internal.h"

#define MIGRATE_MS 600000

static const char bootstrap[] = "CREATE SCHEMA IF NOT EXISTS svc;"
                                "CREATE TABLE IF NOT EXISTS svc.schema_migrations ("
                                " version bigint PRIMARY KEY,"
                                " name text NOT NULL,"
                                " sha256 text NOT NULL,"
                                " applied_at timestamptz NOT NULL DEFAULT now());";

static const struct sql SQL_MIGRATE_LOCK = { "svc_migrate_lock", "SELECT pg_advisory_lock($1)", 1 };
static const struct sql SQL_MIGRATE_BEGIN = { "svc_migrate_begin", "BEGIN", 0 };
static const struct sql SQL_MIGRATE_COMMIT = { "svc_migrate_commit", "COMMIT", 0 };
static const struct sql SQL_APPLIED = {
    "svc_migrate_applied",
    "SELECT version, name, sha256 FROM svc.schema_migrations ORDER BY version",
    0,
};
static const struct sql SQL_RECORD = {
    "svc_migrate_record",
    "INSERT INTO svc.schema_migrations (version, name, sha256) VALUES ($1, $2, $3)",
    3,
};
static const struct sql SQL_GRANT = { "svc_migrate_grant", "SELECT svc.grant_tables($1, $2)", 2 };
static const struct sql SQL_PROJECTOR_LOCK = { "svc_empty_lock", "SELECT pg_try_advisory_xact_lock($1)", 1 };
static const struct sql SQL_EMPTY = { "svc_empty", "SELECT svc.empty_projections()", 0 };

struct fault migrations_compare(const struct rows *applied, const struct migration *ours, size_t count, struct buf *why,
                                size_t *ret_missing)
{
    size_t missing = count;
    size_t row = 0;
    for (size_t i = 0; i < count; i++) {
        if (row < rows_count(applied) && rows_int(applied, row, 0) == ours[i].version) {
            if (strcmp(rows_text(applied, row, 2), ours[i].sha256) != 0) {
                IGNORE(buf_printf(why,
                                  "migration %s was applied with other content: this version and the database do "
                                  "not belong together\n",
                                  ours[i].name));
                return FAULT(STORE_SCHEMA);
            }
            row++;
        } else if (missing == count) {
            missing = i;
        }
    }
    if (row < rows_count(applied)) {
        IGNORE(buf_printf(why,
                          "the database has migration %s, which this version does not know: use the newer version\n",
                          rows_text(applied, row, 1)));
        return FAULT(STORE_SCHEMA);
    }
    *ret_missing = missing;
    return OK;
}

static bool is_applied(const struct rows *applied, int64_t version)
{
    for (size_t row = 0; row < rows_count(applied); row++) {
        if (rows_int(applied, row, 0) == version) {
            return true;
        }
    }
    return false;
}

static struct fault apply(struct op *op, struct connection *connection, const struct migration *migration)
{
    TRY(connection_run(op, connection, &SQL_MIGRATE_BEGIN, NULL, 0, op->deadline, NULL));
    TRY(connection_script(op, connection, migration->sql, op->deadline));
    TRY(connection_queue(
        op, connection, &SQL_RECORD,
        (struct sql_arg[]){ SQL_INT(migration->version), SQL_TEXT(migration->name), SQL_TEXT(migration->sha256) }, 3));
    return connection_run(op, connection, &SQL_MIGRATE_COMMIT, NULL, 0, op->deadline, NULL);
}

static struct fault apply_missing(struct op *op, struct connection *connection, struct buf *why)
{
    CLEANUP(rows_freep) struct rows *applied = NULL;
    size_t missing = 0;
    TRY(connection_run(op, connection, &SQL_APPLIED, NULL, 0, op->deadline, &applied));
    TRY(migrations_compare(applied, store_migrations, store_migration_count, why, &missing));
    for (size_t i = missing; i < store_migration_count; i++) {
        if (is_applied(applied, store_migrations[i].version)) {
            continue; /* rooms number their files in ranges, so an older number may be the newer file */
        }
        struct fault fault = apply(op, connection, &store_migrations[i]);
        if (FAULTED(fault)) {
            IGNORE(buf_printf(why, "migration %s: %s\n", store_migrations[i].name, op->note.log_detail));
            return fault;
        }
    }
    return OK;
}

static struct fault open_owner(struct op *op, const struct config *config, struct buf *why,
                               struct connection **ret_connection)
{
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    TRY(endpoint_new(config, config->postgres_owner_user, why, &endpoint));
    struct fault fault = connection_open(op, endpoint, op->deadline, ret_connection);
    if (FAULTED(fault)) {
        IGNORE(buf_printf(why, "database: connecting as %s: %s\n", config->postgres_owner_user, op->note.log_detail));
    }
    return fault;
}

static struct fault migrate_with(struct op *op, struct connection *connection, const struct config *config,
                                 struct buf *why)
{
    /* The lock is the session's, so it ends with the connection whatever happens. */
    TRY(connection_run(op, connection, &SQL_MIGRATE_LOCK, (struct sql_arg[]){ SQL_INT(STORE_LOCK_MIGRATE) }, 1,
                       op->deadline, NULL));
    TRY(connection_script(op, connection, bootstrap, op->deadline));
    TRY(apply_missing(op, connection, why));
    return connection_run(
        op, connection, &SQL_GRANT,
        (struct sql_arg[]){ SQL_TEXT(config->postgres_app_user), SQL_TEXT(config->postgres_worker_user) }, 2,
        op->deadline, NULL);
}

struct fault store_migrate(const struct config *config, struct buf *why)
{
    CLEANUP(buf_free) struct buf unread = BUF_INIT(4096);
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    struct buf *say = why != NULL ? why : &unread;
    TRY(op_new("svc-migrate", (struct tenant_id){ "" }, MIGRATE_MS, &op));
    TRY(open_owner(op, config, say, &connection));
    size_t said = say->len;
    struct fault fault = migrate_with(op, connection, config, say);
    if (FAULTED(fault) && say->len == said) {
        IGNORE(buf_printf(say, "migrate: %s\n", op->note.log_detail));
    }
    return fault;
}

static struct fault empty_with(struct op *op, struct connection *connection, struct buf *why)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(connection_run(op, connection, &SQL_MIGRATE_BEGIN, NULL, 0, op->deadline, NULL));
    TRY(connection_run(op, connection, &SQL_PROJECTOR_LOCK, (struct sql_arg[]){ SQL_INT(STORE_LOCK_PROJECTOR) }, 1,
                       op->deadline, &rows));
    if (!rows_bool(rows, 0, 0)) {
        IGNORE(buf_text(why, "a projector is running on this database: stop svc-api first\n"));
        return op_fail(op, FAULT(CONFLICT), "a projector is running on this database");
    }
    TRY(connection_queue(op, connection, &SQL_EMPTY, NULL, 0));
    return connection_run(op, connection, &SQL_MIGRATE_COMMIT, NULL, 0, op->deadline, NULL);
}

struct fault store_empty_projections(const struct config *config, struct buf *why)
{
    CLEANUP(buf_free) struct buf unread = BUF_INIT(4096);
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    struct buf *say = why != NULL ? why : &unread;
    TRY(op_new("svc-rebuild", (struct tenant_id){ "" }, MIGRATE_MS, &op));
    TRY(open_owner(op, config, say, &connection));
    size_t said = say->len;
    struct fault fault = empty_with(op, connection, say);
    if (FAULTED(fault) && say->len == said) {
        IGNORE(buf_printf(say, "rebuild: %s\n", op->note.log_detail));
    }
    return fault;
}
