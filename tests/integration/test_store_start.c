/* What store_open and store_migrate refuse: run by with-postgres. */
#include "integration/store_testlib.h"

static void assert_open_refused(enum fault_code code, const char *says)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct store *store = NULL;
    assert_int_equal(store_open(test_config, &why, &store).code, code);
    assert_null(store);
    if (!said(&why, says)) {
        fail_msg("expected '%s' in '%.*s'", says, (int)why.len, (const char *)why.at);
    }
}

static void assert_opens(void)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(store_closep) struct store *opened = NULL;
    struct fault fault = store_open(test_config, &why, &opened);
    if (FAULTED(fault)) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
}

static void a_database_that_is_not_there_is_refused(void **state)
{
    (void)state;
    const char *url = test_config->postgres_url;
    test_config->postgres_url = "host=/nonexistent port=5432 dbname=svc password=hunter2";
    assert_open_refused(FAULT_STORE_UNAVAILABLE, "request pool as svc_app");
    test_config->postgres_url = "host=/nonexistent password=hunter2 nonsense";
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct store *store = NULL;
    assert_fault(store_open(test_config, &why, &store), CONFIG);
    assert_true(said(&why, "postgres.url"));
    assert_false(said(&why, "hunter2"));
    test_config->postgres_url = url;
}

static void an_empty_database_is_refused_until_it_is_migrated(void **state)
{
    (void)state;
    assert_open_refused(FAULT_STORE_SCHEMA, "migration 001_roles_and_base is not applied: run svc-api migrate");
    migrate();
    migrate(); /* again: nothing to do */
    assert_opens();
}

static void unsafe_roles_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *make, *undo, *says;
    } cases[] = {
        { "ALTER ROLE svc_app SUPERUSER", "ALTER ROLE svc_app NOSUPERUSER", "svc_app is superuser" },
        { "ALTER ROLE svc_worker SUPERUSER", "ALTER ROLE svc_worker NOSUPERUSER", "svc_worker is superuser" },
        { "ALTER ROLE svc_app BYPASSRLS", "ALTER ROLE svc_app NOBYPASSRLS", "svc_app has BYPASSRLS" },
        { "ALTER ROLE svc_worker BYPASSRLS", "ALTER ROLE svc_worker NOBYPASSRLS", "svc_worker has BYPASSRLS" },
        { "CREATE ROLE sneaky BYPASSRLS; GRANT sneaky TO svc_app", "REVOKE sneaky FROM svc_app; DROP ROLE sneaky",
          "svc_app has BYPASSRLS, or is a member" },
        { "GRANT svc_owner TO svc_app", "REVOKE svc_owner FROM svc_app", "svc_app owns tables" },
        { "GRANT svc_worker TO svc_app", "REVOKE svc_worker FROM svc_app", "the other service role" },
        { "GRANT pg_write_all_data TO svc_worker", "REVOKE pg_write_all_data FROM svc_worker", "predefined role" },
        { "ALTER TABLE svc.tables OWNER TO svc_worker", "ALTER TABLE svc.tables OWNER TO svc_owner",
          "svc_worker owns tables" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_ok(as_superuser(cases[i].make));
        assert_open_refused(FAULT_STORE_ROLE, cases[i].says);
        assert_ok(as_superuser(cases[i].undo));
    }
    migrate(); /* changing the owner took its grants along */
    assert_opens();
}

static void one_role_for_both_is_refused(void **state)
{
    (void)state;
    const char *worker = test_config->postgres_worker_user;
    test_config->postgres_worker_user = test_config->postgres_app_user;
    assert_open_refused(FAULT_STORE_ROLE, "must be two roles");
    test_config->postgres_worker_user = worker;
}

static void a_tenant_table_without_forced_security_is_refused(void **state)
{
    (void)state;
    assert_ok(as_superuser("SET ROLE svc_owner; CREATE TABLE svc.leaky (tenant_id text NOT NULL)"));
    assert_open_refused(FAULT_STORE_ROLE, "svc.leaky has no forced row-level security");
    assert_ok(as_superuser("ALTER TABLE svc.leaky ENABLE ROW LEVEL SECURITY"));
    assert_open_refused(FAULT_STORE_ROLE, "svc.leaky has no forced row-level security");
    assert_ok(as_superuser("ALTER TABLE svc.leaky FORCE ROW LEVEL SECURITY"));
    assert_open_refused(FAULT_STORE_ROLE, "svc.leaky");
    assert_ok(as_superuser("DROP TABLE svc.leaky"));
    assert_opens();
}

static void a_changed_migration_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    assert_ok(as_superuser("UPDATE svc.schema_migrations SET sha256 = 'x' || sha256 WHERE version = 1"));
    assert_open_refused(FAULT_STORE_SCHEMA, "001_roles_and_base was applied with other content");
    assert_fault(store_migrate(test_config, &why), STORE_SCHEMA);
    assert_true(said(&why, "other content"));
    assert_ok(as_superuser("UPDATE svc.schema_migrations SET sha256 = substr(sha256, 2) WHERE version = 1"));
    assert_opens();
}

static void a_newer_database_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    assert_ok(as_superuser("INSERT INTO svc.schema_migrations VALUES (999, '999_future', 'x')"));
    assert_open_refused(FAULT_STORE_SCHEMA, "999_future, which this version does not know");
    assert_fault(store_migrate(test_config, &why), STORE_SCHEMA);
    assert_ok(as_superuser("DELETE FROM svc.schema_migrations WHERE version = 999"));
    assert_opens();
}

static void too_few_server_connections_refuse_the_start(void **state)
{
    (void)state;
    assert_ok(as_superuser("ALTER ROLE svc_app CONNECTION LIMIT 3"));
    assert_open_refused(FAULT_STORE_UNAVAILABLE, "too many connections");
    assert_ok(as_superuser("ALTER ROLE svc_app CONNECTION LIMIT -1"));
    assert_opens();
}

static void a_budget_that_the_server_cannot_honour_refuses_the_start_in_numbers(void **state)
{
    (void)state;
    int64_t before = test_config->postgres_max_conns;
    test_config->postgres_max_conns = 100000;
    assert_open_refused(FAULT_STORE_BUDGET, "this instance opens 100016 connections");
    test_config->postgres_max_conns = before;
    assert_opens();
}

static void roles_may_have_other_names(void **state)
{
    (void)state;
    const char *app = test_config->postgres_app_user;
    assert_ok(as_superuser("CREATE ROLE other_app LOGIN"));
    test_config->postgres_app_user = "other_app";
    migrate();
    assert_opens();
    test_config->postgres_app_user = app;
    migrate();
    assert_opens();
}

static int start(void **state)
{
    (void)state;
    use_config();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_database_that_is_not_there_is_refused),
        cmocka_unit_test(an_empty_database_is_refused_until_it_is_migrated),
        cmocka_unit_test(unsafe_roles_are_refused),
        cmocka_unit_test(one_role_for_both_is_refused),
        cmocka_unit_test(a_tenant_table_without_forced_security_is_refused),
        cmocka_unit_test(a_changed_migration_is_refused),
        cmocka_unit_test(a_newer_database_is_refused),
        cmocka_unit_test(too_few_server_connections_refuse_the_start),
        cmocka_unit_test(a_budget_that_the_server_cannot_honour_refuses_the_start_in_numbers),
        cmocka_unit_test(roles_may_have_other_names),
    };
    return cmocka_run_group_tests_name("store_start", tests, start, NULL);
}
