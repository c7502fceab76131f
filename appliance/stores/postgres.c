#include "appliance/stores/postgres.h"

#include "appliance/base/file.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/process.h"
#include "appliance/stores/profiles.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define POSTGRES_BIN   "/usr/lib/postgresql/17/bin"
#define POSTGRES_MAJOR "17"
#define CLIENT_USER    "svc-api"
#define SAID_MAX       ((size_t)16 << 10)
#define FILE_MAX       ((size_t)64 << 10)
#define SPARE_CONNS    16 /* for migrate, provisioning, psql of an operator, and the server's own reserve */

bool postgres_embedded(const struct config *config)
{
    return config->postgres_url[0] == '\0';
}

/* ---- the cluster ---- */

static struct fault initdb(struct op *op, const char *folder)
{
    const char *const argv[] = {
        POSTGRES_BIN "/initdb",
        "--pgdata",
        folder,
        "--username=postgres",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--data-checksums",
        "--auth-local=peer",
        "--auth-host=reject",
        "--no-instructions",
        NULL,
    };
    CLEANUP(buf_free) struct buf said = BUF_INIT(SAID_MAX);
    return process_check(op, &(struct process_spec){ .argv = argv, .user = POSTGRES_USER }, (struct span){ 0 }, &said);
}

/* A half-made cluster never carries the final name. */
static struct fault cluster_make(struct op *op, const char *folder)
{
    const char *part = NULL;
    TRY(arena_printf(op->arena, &part, "%s.partial", folder));
    TRY(folder_remove(op, part, POSTGRES_USER));
    TRY(folder_own(op, part, POSTGRES_USER, NULL, 0700));
    TRY(initdb(op, part));
    return folder_rename(op, part, folder);
}

static struct fault put_setting(struct buf *out, const char *name, const char *value)
{
    TRY(buf_printf(out, "%s = '", name));
    for (; *value != '\0'; value++) {
        TRY(buf_put(out, span_of(value, 1)));
        if (*value == '\'' || *value == '\\') {
            TRY(buf_put(out, span_of(value, 1)));
        }
    }
    return buf_text(out, "'\n");
}

struct settings {
    const struct config *config;
    const char *folder, *sockets;
};

static struct fault print_conf(const struct settings *settings, struct buf *out)
{
    const struct config *config = settings->config;
    int64_t pools = config->postgres_max_conns + config->postgres_probe_conns + config->postgres_reserved_conns +
                    config->postgres_bookkeeping_conns + config->postgres_lock_conns;
    int64_t conns = 2 * pools + SPARE_CONNS; /* the serving svc-api, and one more beside it: a command, a new version */
    TRY(buf_text(out, "# Written by svc-appliance at every start: changes made here are lost.\n"
                      "listen_addresses = ''\n"
                      "port = 5432\n"));
    TRY(put_setting(out, "unix_socket_directories", settings->sockets));
    TRY(buf_printf(out, "max_connections = %lld\n", (long long)conns));
    return buf_text(
        out, "unix_socket_permissions = 0777 # the folder and peer authentication decide\n"
             "fsync = on\n"
             "synchronous_commit = on\n"
             "full_page_writes = on\n"
             "wal_compression = lz4\n"
             "default_toast_compression = lz4\n"
             "jit = off\n"
             "autovacuum_naptime = 5s # a plan made while a table was empty reads all of it until it is analyzed\n"
             "shared_buffers = 256MB\n"
             "max_wal_size = 2GB # a rebuild writes much at once: fewer checkpoints, fewer whole pages in the log\n"
             "checkpoint_timeout = 15min\n"
             "checkpoint_completion_target = 0.9\n"
             "idle_in_transaction_session_timeout = 60s\n"
             "logging_collector = off\n"
             "log_destination = 'stderr'\n"
             "log_line_prefix = 'postgres[%p] %u@%d '\n"
             "log_checkpoints = off\n"
             "log_min_messages = warning\n"
             "log_min_error_statement = panic # statements may carry what a log must not\n"
             "log_parameter_max_length_on_error = 0\n"
             "timezone = 'UTC'\n"
             "log_timezone = 'UTC'\n"
             "default_text_search_config = 'pg_catalog.simple'\n");
}

/* A name in these files may hold anything but a line break; quotes are doubled. */
static struct fault put_name(struct buf *out, const char *name)
{
    TRY(buf_text(out, "\""));
    for (; *name != '\0'; name++) {
        REQUIRE((unsigned char)*name >= ' ', CONFIG);
        TRY(buf_put(out, span_of(name, 1)));
        if (*name == '"') {
            TRY(buf_text(out, "\""));
        }
    }
    return buf_text(out, "\"");
}

static struct fault print_hba(const struct settings *settings, struct buf *out)
{
    const char *const roles[] = { settings->config->postgres_owner_user, settings->config->postgres_app_user,
                                  settings->config->postgres_worker_user };
    TRY(buf_text(out, "# Written by svc-appliance at every start. What is not named here is refused.\n"
                      "local all postgres peer map=svc\n"));
    for (size_t i = 0; i < COUNT_OF(roles); i++) {
        TRY(buf_text(out, "local " POSTGRES_DATABASE " "));
        TRY(put_name(out, roles[i]));
        TRY(buf_text(out, " peer map=svc\n"));
    }
    return OK;
}

static struct fault print_ident(const struct settings *settings, struct buf *out)
{
    const struct {
        const char *user, *role;
    } rows[] = {
        { POSTGRES_USER, "postgres" },
        { POSTGRES_USER, settings->config->postgres_owner_user },
        { CLIENT_USER, settings->config->postgres_app_user },
        { CLIENT_USER, settings->config->postgres_worker_user },
    };
    TRY(buf_text(out, "# Written by svc-appliance at every start.\n"));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        TRY(buf_printf(out, "svc %s ", rows[i].user));
        TRY(put_name(out, rows[i].role));
        TRY(buf_text(out, "\n"));
    }
    return OK;
}

static struct fault settings_write(struct op *op, void *arg, int output)
{
    (void)output;
    const struct settings *settings = arg;
    static const struct {
        const char *name;
        struct fault (*print)(const struct settings *settings, struct buf *out);
    } files[] = {
        { "postgresql.conf", print_conf },
        { "pg_hba.conf", print_hba },
        { "pg_ident.conf", print_ident },
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX);
        TRY(files[i].print(settings, &text));
        const char *path = NULL;
        TRY(folder_path(op, settings->folder, files[i].name, &path));
        struct fault written = file_write(path, buf_span(&text), 0600);
        if (FAULTED(written)) {
            return op_fail(op, written, "cannot write %s", path);
        }
    }
    return OK;
}

static struct fault version_read(struct op *op, void *arg, int output)
{
    const char *path = NULL;
    TRY(folder_path(op, arg, "PG_VERSION", &path));
    CLEANUP(buf_free) struct buf text = BUF_INIT(64);
    struct fault got = file_read(path, &text);
    if (FAULTED(got)) {
        return op_fail(op, FAULT(CONFIG), "%s is missing: this is no PostgreSQL data folder; restore or remove it",
                       path);
    }
    if (dprintf(output, "%.*s", (int)text.len, (const char *)text.at) < 0) {
        return FAULT(IO);
    }
    return OK;
}

static struct fault version_check(struct op *op, const char *folder)
{
    CLEANUP(buf_free) struct buf version = BUF_INIT(64);
    TRY(process_as(op, POSTGRES_USER, version_read, (void *)folder, &version));
    if (version.len != strlen(POSTGRES_MAJOR) + 1 || memcmp(version.at, POSTGRES_MAJOR "\n", version.len) != 0) {
        return op_fail(op, FAULT(CONFIG), "%s holds data of another PostgreSQL version than " POSTGRES_MAJOR, folder);
    }
    return OK;
}

struct fault postgres_init(struct op *op, const struct config *config)
{
    struct settings settings = { .config = config };
    TRY(folder_path(op, config->data_dir, "postgres", &settings.folder));
    TRY(folder_path(op, config->run_dir, "postgres", &settings.sockets));
    if (!path_exists(settings.folder)) {
        TRY(cluster_make(op, settings.folder));
    }
    TRY(folder_own(op, settings.folder, POSTGRES_USER, NULL, 0700));
    TRY(version_check(op, settings.folder));
    return process_as(op, POSTGRES_USER, settings_write, &settings, NULL);
}

/* ---- the server ---- */

struct fault postgres_start(struct op *op, const struct config *config, pid_t *ret_pid)
{
    const char *folder = NULL;
    struct confine confine;
    TRY(folder_path(op, config->data_dir, "postgres", &folder));
    TRY(profile_postgres(op, config, &confine));
    const char *const argv[] = { POSTGRES_BIN "/postgres", "-D", folder, NULL };
    /* SIGQUIT: when the supervisor is killed, the server ends at once and leaves no half-dead children behind; the
     * write-ahead log makes the next start whole. */
    return process_spawn(
        op, &(struct process_spec){ .argv = argv, .user = POSTGRES_USER, .death_signal = SIGQUIT, .confine = &confine },
        ret_pid);
}

/* A password in the connection string would be readable by everybody in the list of processes. */
static bool holds_password(const char *url)
{
    const char *authority = strstr(url, "://");
    if (authority == NULL) {
        return strstr(url, "password") != NULL;
    }
    authority += 3;
    const char *at = strchr(authority, '@'), *colon = strchr(authority, ':');
    return strstr(url, "password=") != NULL || (at != NULL && colon != NULL && colon < at);
}

static struct fault external_check(struct op *op, const struct config *config)
{
    if (holds_password(config->postgres_url)) {
        return op_fail(op, FAULT(CONFIG), "postgres.url holds a password: name a file with passfile= instead");
    }
    /* As the role that will connect in earnest: any other would be a failed login in that server's log. */
    const char *const argv[] = {
        POSTGRES_BIN "/pg_isready", "--quiet", "--timeout=3", "--dbname", config->postgres_url, "--username",
        config->postgres_app_user,  NULL
    };
    int code = 0;
    CLEANUP(buf_free) struct buf said = BUF_INIT(SAID_MAX);
    TRY(process_run(op, &(struct process_spec){ .argv = argv, .user = CLIENT_USER }, (struct span){ 0 }, &said, &code));
    if (code != 0) {
        return op_fail(op, FAULT(STORE_UNAVAILABLE), "the PostgreSQL of postgres.url does not accept connections");
    }
    return OK;
}

/* psql of the embedded server, as superuser: the script comes by stdin, names as variables. */
static struct fault psql(struct op *op, const struct config *config, const char *const *variables, const char *script)
{
    const char *sockets = NULL;
    TRY(folder_path(op, config->run_dir, "postgres", &sockets));
    const char *argv[32] = {
        POSTGRES_BIN "/psql",
        "--no-psqlrc",
        "--quiet",
        "--no-password",
        "--set=ON_ERROR_STOP=1",
        "--tuples-only",
        "--host",
        sockets,
        "--port",
        "5432",
        "--username=postgres",
        "--dbname=postgres",
    };
    size_t used = 12;
    for (size_t i = 0; variables != NULL && variables[i] != NULL; i++) {
        BUG_IF(used + 1 >= COUNT_OF(argv));
        argv[used++] = variables[i];
    }
    static const char *const env[] = { "PGCONNECT_TIMEOUT=3", "PAGER=", "PGAPPNAME=svc-appliance", NULL };
    CLEANUP(buf_free) struct buf said = BUF_INIT(SAID_MAX);
    return process_check(op, &(struct process_spec){ .argv = argv, .env = env, .user = POSTGRES_USER },
                         span_text(script), &said);
}

struct fault postgres_check(struct op *op, const struct config *config)
{
    if (!postgres_embedded(config)) {
        return external_check(op, config);
    }
    struct fault asked = psql(op, config, NULL, "SELECT 1;\n");
    if (asked.code == FAULT_IO) {
        return FAULT(STORE_UNAVAILABLE);
    }
    return asked;
}

static const char PROVISION_SQL[] =
    "SET client_min_messages = warning;\n"
    "SELECT format('CREATE ROLE %I', name) FROM unnest(ARRAY[:'owner', :'app', :'worker']) AS name\n"
    "  WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \\gexec\n"
    "ALTER ROLE :\"owner\" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;\n"
    "ALTER ROLE :\"app\" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;\n"
    "ALTER ROLE :\"worker\" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS;\n"
    "SELECT format('CREATE DATABASE svc OWNER %I', :'owner')\n"
    "  WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'svc') \\gexec\n"
    "REVOKE ALL ON DATABASE svc FROM PUBLIC;\n"
    "GRANT CONNECT ON DATABASE svc TO :\"app\", :\"worker\";\n";

struct fault postgres_provision(struct op *op, const struct config *config)
{
    const char *variables[4] = { 0 };
    TRY(arena_printf(op->arena, &variables[0], "--set=owner=%s", config->postgres_owner_user));
    TRY(arena_printf(op->arena, &variables[1], "--set=app=%s", config->postgres_app_user));
    TRY(arena_printf(op->arena, &variables[2], "--set=worker=%s", config->postgres_worker_user));
    return psql(op, config, variables, PROVISION_SQL);
}

/* Statistics hold values of columns, and so do dead rows of the statistics: they are made anew first, and then all of
 * the database is. Segments of the write-ahead log are usually kept for reuse with what is in them: here they are used
 * up (each switch takes the next one) and removed. */
static const char SCRUB_SQL[] =
    "SET client_min_messages = warning;\n"
    "SET statement_timeout = 0;\n"
    "ALTER SYSTEM SET wal_recycle = off;\n"
    "SELECT pg_reload_conf();\n"
    "ANALYZE;\n"
    "VACUUM (FULL);\n"
    "CHECKPOINT;\n"
    "SELECT 'SELECT pg_logical_emit_message(true, ''svc'', ''scrub'')', 'SELECT pg_switch_wal()'\n"
    "  FROM generate_series(1, (SELECT count(*) + 1 FROM pg_ls_waldir())) \\gexec\n"
    "CHECKPOINT;\n"
    "ALTER SYSTEM RESET wal_recycle;\n"
    "SELECT pg_reload_conf();\n";

struct fault postgres_scrub(struct op *op, const struct config *config)
{
    const char *const variables[] = { "--dbname=" POSTGRES_DATABASE, NULL };
    return psql(op, config, variables, SCRUB_SQL);
}
