#include "unit/stores/testlib.h"

#include "appliance/stores/folder.h"
#include "appliance/stores/postgres.h"
#include "appliance/stores/process.h"

#include <signal.h>
#include <sys/wait.h>

static void prepare_sockets(struct scratch *scratch)
{
    const char *path = NULL;
    assert_fault(folder_path(scratch->op, scratch->run, "postgres", &path), NONE);
    assert_fault(folder_own(scratch->op, path, "svc-pg", "svc-api", 0750), NONE);
}

static void wait_ready(struct scratch *scratch)
{
    scratch_renew(scratch, 60000);
    while (FAULTED(postgres_check(scratch->op, &scratch->config))) {
        assert_false(op_expired(scratch->op));
    }
}

static pid_t start(struct scratch *scratch)
{
    pid_t pid = 0;
    assert_fault(postgres_init(scratch->op, &scratch->config), NONE);
    assert_fault(postgres_start(scratch->op, &scratch->config, &pid), NONE);
    wait_ready(scratch);
    return pid;
}

static void stop(pid_t pid, int signal)
{
    int status = 0;
    assert_int_equal(kill(pid, signal), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

/* One statement as an OS user and a role; what it says is in `said`. */
static int ask(struct scratch *scratch, const char *user, const char *role, const char *statement, struct buf *said)
{
    char sockets[128];
    (void)snprintf(sockets, sizeof(sockets), "%s/postgres", scratch->run);
    const char *const argv[] = { "/usr/bin/psql", "-XAtq", "-h",      sockets, "-p", "5432", "-U", role, "-d",
                                 "svc",           "-c",    statement, NULL };
    int code = 0;
    buf_clear(said);
    assert_fault(
        process_run(scratch->op, &(struct process_spec){ .argv = argv, .user = user }, (struct span){ 0 }, said, &code),
        NONE);
    return code;
}

static void data_of_another_version_is_refused(void **state)
{
    struct scratch *scratch = *state;
    char script[512];
    (void)snprintf(script, sizeof(script),
                   "mkdir -m 700 %s/postgres && echo 16 >%s/postgres/PG_VERSION && chown -R svc-pg: %s/postgres",
                   scratch->data, scratch->data, scratch->data);
    assert_int_equal(system(script), 0);
    assert_fault(postgres_init(scratch->op, &scratch->config), CONFIG);
    assert_non_null(strstr(scratch->op->note.detail, "another PostgreSQL version"));
}

static void a_folder_that_is_no_cluster_is_refused(void **state)
{
    struct scratch *scratch = *state;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/postgres", scratch->data);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_fault(postgres_init(scratch->op, &scratch->config), CONFIG);
}

static void an_external_address_with_a_password_is_refused(void **state)
{
    struct scratch *scratch = *state;
    static const char *const bad[] = { "host=h password=x", "postgresql://u:pw@h/svc", "postgres://h/svc?password=x" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        scratch->config.postgres_url = bad[i];
        assert_fault(postgres_check(scratch->op, &scratch->config), CONFIG);
        scratch_renew(scratch, 10000);
    }
}

static void an_external_server_that_is_not_there_is_unavailable(void **state)
{
    struct scratch *scratch = *state;
    scratch->config.postgres_url = "host=/nonexistent dbname=svc";
    assert_false(postgres_embedded(&scratch->config));
    assert_fault(postgres_check(scratch->op, &scratch->config), STORE_UNAVAILABLE);
}

static void an_interrupted_initdb_is_done_again(void **state)
{
    struct scratch *scratch = *state;
    char script[512];
    (void)snprintf(script, sizeof(script),
                   "mkdir -m 700 %s/postgres.partial && echo 17 >%s/postgres.partial/PG_VERSION && chown -R svc-pg: "
                   "%s/postgres.partial",
                   scratch->data, scratch->data, scratch->data);
    assert_int_equal(system(script), 0);
    assert_fault(postgres_init(scratch->op, &scratch->config), NONE);
    (void)snprintf(script, sizeof(script), "%s/postgres.partial", scratch->data);
    assert_false(path_exists(script));
    (void)snprintf(script, sizeof(script), "%s/postgres/postgresql.conf", scratch->data);
    assert_true(path_exists(script));
}

static void only_the_mapped_users_get_in_and_only_as_their_roles(void **state)
{
    struct scratch *scratch = *state;
    prepare_sockets(scratch);
    pid_t pid = start(scratch);
    for (int i = 0; i < 2; i++) { /* the second time finds all in place */
        assert_fault(postgres_provision(scratch->op, &scratch->config), NONE);
    }
    CLEANUP(buf_free) struct buf said = BUF_INIT(16384);
    assert_int_equal(ask(scratch, "svc-api", "svc_app", "SELECT current_user", &said), 0);
    assert_true(span_equal_text(buf_span(&said), "svc_app\n"));
    assert_int_equal(ask(scratch, "svc-api", "svc_worker", "SELECT 1", &said), 0);
    assert_int_equal(ask(scratch, "svc-pg", "svc_owner", "CREATE TABLE t (a int)", &said), 0);
    assert_int_not_equal(ask(scratch, "svc-api", "svc_owner", "SELECT 1", &said), 0);
    assert_int_not_equal(ask(scratch, "svc-api", "postgres", "SELECT 1", &said), 0);
    assert_int_not_equal(ask(scratch, "svc-pg", "svc_app", "SELECT 1", &said), 0);
    assert_int_not_equal(ask(scratch, "svc-signer", "svc_app", "SELECT 1", &said), 0);
    assert_int_not_equal(ask(scratch, NULL, "svc_app", "SELECT 1", &said), 0); /* not even root */
    assert_int_not_equal(ask(scratch, "svc-api", "svc_app", "CREATE TABLE u (a int)", &said), 0);
    assert_int_equal(ask(scratch, "svc-pg", "postgres",
                         "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'svc%' AND (rolsuper OR rolbypassrls OR "
                         "rolcreaterole OR rolcreatedb OR rolreplication)",
                         &said),
                     0);
    assert_true(span_equal_text(buf_span(&said), "0\n"));
    assert_int_equal(ask(scratch, "svc-pg", "postgres",
                         "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings WHERE name IN "
                         "('fsync', 'jit', 'listen_addresses', 'synchronous_commit', 'data_checksums')",
                         &said),
                     0);
    assert_true(span_equal_text(buf_span(&said),
                                "data_checksums=on fsync=on jit=off listen_addresses= synchronous_commit=on\n"));
    stop(pid, SIGINT);
}

static void a_role_that_was_given_too_much_is_put_right(void **state)
{
    struct scratch *scratch = *state;
    prepare_sockets(scratch);
    pid_t pid = start(scratch);
    CLEANUP(buf_free) struct buf said = BUF_INIT(16384);
    assert_fault(postgres_provision(scratch->op, &scratch->config), NONE);
    assert_int_equal(ask(scratch, "svc-pg", "postgres", "ALTER ROLE svc_app SUPERUSER BYPASSRLS", &said), 0);
    assert_fault(postgres_provision(scratch->op, &scratch->config), NONE);
    assert_int_equal(ask(scratch, "svc-pg", "postgres",
                         "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = 'svc_app'", &said),
                     0);
    assert_true(span_equal_text(buf_span(&said), "f\n"));
    stop(pid, SIGINT);
}

static void what_was_committed_survives_a_kill(void **state)
{
    struct scratch *scratch = *state;
    prepare_sockets(scratch);
    pid_t pid = start(scratch);
    CLEANUP(buf_free) struct buf said = BUF_INIT(16384);
    assert_fault(postgres_provision(scratch->op, &scratch->config), NONE);
    assert_int_equal(ask(scratch, "svc-pg", "svc_owner", "CREATE TABLE t AS SELECT 42 AS a", &said), 0);
    stop(pid, SIGKILL);
    pid = start(scratch);
    assert_int_equal(ask(scratch, "svc-pg", "svc_owner", "SELECT a FROM t", &said), 0);
    assert_true(span_equal_text(buf_span(&said), "42\n"));
    stop(pid, SIGINT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(data_of_another_version_is_refused),
        scratch_test(a_folder_that_is_no_cluster_is_refused),
        scratch_test(an_external_address_with_a_password_is_refused),
        scratch_test(an_external_server_that_is_not_there_is_unavailable),
        scratch_test(an_interrupted_initdb_is_done_again),
        scratch_test(only_the_mapped_users_get_in_and_only_as_their_roles),
        scratch_test(a_role_that_was_given_too_much_is_put_right),
        scratch_test(what_was_committed_survives_a_kill),
    };
    return cmocka_run_group_tests_name("postgres", tests, NULL, NULL);
}
