/* Transactions, isolation, faults and limits of the store: run by with-postgres. */
#include "integration/store_testlib.h"

#include <pthread.h>

static struct store *store;

static const struct sql PUT = { "t_put", "INSERT INTO svc.notes (tenant_id, id, body) VALUES ($1, $2, $3)", 3 };
static const struct sql CHANGE = { "t_change", "UPDATE svc.notes SET body = $1 WHERE id = $2", 2 };
static const struct sql COUNT = { "t_count", "SELECT count(*) FROM svc.notes", 0 };
static const struct sql PUT_READ_MODEL = { "t_put_rm", "INSERT INTO svc.mirror (tenant_id, id) VALUES ($1, $2)", 2 };
static const struct sql COUNT_READ_MODEL = { "t_count_rm", "SELECT count(*) FROM svc.mirror", 0 };
static const struct sql RAISE = { "t_raise", "SELECT svc.test_raise($1)", 1 };
static const struct sql SLEEP = { "t_sleep", "SELECT pg_sleep(20)::text", 0 };
static const struct sql ECHO = {
    "t_echo",
    "SELECT $1::bigint, $2::text, $3::bytea, $4::bool, $5::text, (-5)::int4",
    5,
};
static const struct sql BROKEN = { "t_broken", "SELECT nonsense FROM nowhere", 0 };

static int64_t count_of(struct op *op, enum store_pool pool, const struct sql *sql)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(tx_begin(op, store, pool, &tx));
    assert_ok(tx_query(tx, sql, NULL, 0, &rows));
    return rows_int(rows, 0, 0);
}

static struct fault put(struct op *op, const char *tenant_text, int64_t id, const char *body)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    TRY(tx_exec(tx, &PUT, (struct sql_arg[]){ SQL_TEXT(tenant_text), SQL_INT(id), SQL_TEXT(body) }, 3, NULL));
    return tx_commit(&tx);
}

static void another_tenant_and_no_tenant_see_nothing(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *a = test_op("tenant-a", 20000);
    CLEANUP(op_freep) struct op *b = test_op("tenant-b", 20000);
    CLEANUP(op_freep) struct op *nobody = test_op("", 20000);
    assert_ok(put(a, "tenant-a", 1, "mine"));
    assert_int_equal(count_of(b, STORE_REQUEST, &COUNT), 0);
    assert_int_equal(count_of(nobody, STORE_REQUEST, &COUNT), 0);
    assert_int_equal(count_of(nobody, STORE_BOOKKEEPING, &COUNT), 0);
    assert_int_equal(count_of(a, STORE_REQUEST, &COUNT), 1);
    assert_int_equal(count_of(a, STORE_BOOKKEEPING, &COUNT), 1);
}

static void a_row_of_another_tenant_cannot_be_written(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *a = test_op("tenant-a", 20000);
    assert_fault(put(a, "tenant-b", 2, "forged"), INTERNAL);
    assert_string_equal(a->note.sqlstate, "42501");
    CLEANUP(op_freep) struct op *b = test_op("tenant-b", 20000);
    assert_int_equal(count_of(b, STORE_REQUEST, &COUNT), 0);
}

static void the_app_role_cannot_write_a_projection_table(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
    const struct sql_arg args[] = { SQL_TEXT("tenant-a"), SQL_INT(1) };
    CLEANUP(tx_rollbackp) struct tx *app = NULL;
    assert_ok(tx_begin(op, store, STORE_REQUEST, &app));
    assert_fault(tx_exec(app, &PUT_READ_MODEL, args, 2, NULL), INTERNAL);
    assert_string_equal(op->note.sqlstate, "42501");
    tx_rollback(TAKE(app));

    CLEANUP(op_freep) struct op *worker = test_op("tenant-a", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_ok(tx_begin(worker, store, STORE_BOOKKEEPING, &tx));
    assert_ok(tx_exec(tx, &PUT_READ_MODEL, args, 2, NULL));
    assert_ok(tx_commit(&tx));
    assert_int_equal(count_of(worker, STORE_REQUEST, &COUNT_READ_MODEL), 1);
}

/* The sweep: whatever migration makes a table with tenant_id, it is protected and registered. */
static void every_tenant_table_has_forced_row_level_security(void **state)
{
    (void)state;
    static const struct sql sweep = {
        "t_sweep",
        "SELECT c.relname::text, c.relrowsecurity, c.relforcerowsecurity,"
        " EXISTS (SELECT 1 FROM svc.tables t WHERE t.name = c.relname),"
        " (SELECT a.attnotnull FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'svc' AND c.relkind IN ('r', 'p') AND EXISTS (SELECT 1 FROM pg_attribute a"
        " WHERE a.attrelid = c.oid AND a.attname = 'tenant_id')",
        0,
    };
    CLEANUP(op_freep) struct op *op = test_op("", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
    assert_ok(tx_query(tx, &sweep, NULL, 0, &rows));
    assert_true(rows_count(rows) >= 2);
    for (size_t row = 0; row < rows_count(rows); row++) {
        for (size_t column = 1; column < 5; column++) {
            if (!rows_bool(rows, row, column)) {
                fail_msg("svc.%s fails check %zu", rows_text(rows, row, 0), column);
            }
        }
    }
}

static void foreign_errors_become_faults_by_table(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        enum fault_code code;
    } cases[] = {
        { "40001", FAULT_TX_CONFLICT },       { "40P01", FAULT_TX_CONFLICT }, { "57014", FAULT_STORE_BUSY },
        { "55P03", FAULT_STORE_BUSY },        { "53200", FAULT_STORE_BUSY },  { "57P03", FAULT_STORE_UNAVAILABLE },
        { "08006", FAULT_STORE_UNAVAILABLE }, { "23505", FAULT_DUPLICATE },   { "22012", FAULT_INTERNAL },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        struct rows *rows = NULL;
        assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
        assert_int_equal(tx_query(tx, &RAISE, (struct sql_arg[]){ SQL_TEXT(cases[i].sqlstate) }, 1, &rows).code,
                         cases[i].code);
        assert_string_equal(op->note.sqlstate, cases[i].sqlstate);
        assert_null(strstr(op->note.detail, "s3cret"));
        assert_null(strstr(op->note.log_detail, "s3cret"));
        /* The transaction is over, and says the same to every further call. */
        assert_int_equal(tx_query(tx, &COUNT, NULL, 0, &rows).code, cases[i].code);
        assert_int_equal(tx_commit(&tx).code, cases[i].code);
    }
}

static void a_duplicate_names_the_constraint_and_hides_the_values(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
    assert_fault(put(op, "tenant-a", 1, "mine again"), DUPLICATE);
    assert_non_null(strstr(op->note.log_detail, "notes_pkey"));
    assert_null(strstr(op->note.log_detail, "tenant-a"));
    assert_int_equal(op->tx_open, 0);
}

static void a_queued_failure_shows_at_commit_and_nothing_is_stored(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-q", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
    for (int64_t i = 0; i < 1000; i++) {
        struct fault queued =
            tx_queue(tx, &PUT, (struct sql_arg[]){ SQL_TEXT("tenant-q"), SQL_INT(i == 999 ? 7 : i), SQL_TEXT("x") }, 3);
        assert_ok(queued);
    }
    assert_fault(tx_commit(&tx), DUPLICATE);
    assert_null(tx);
    CLEANUP(op_freep) struct op *again = test_op("tenant-q", 20000);
    assert_int_equal(count_of(again, STORE_REQUEST, &COUNT), 0);
}

static void a_thousand_queued_rows_are_stored_by_one_commit(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-q", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
    for (int64_t i = 0; i < 1000; i++) {
        assert_ok(tx_queue(tx, &PUT, (struct sql_arg[]){ SQL_TEXT("tenant-q"), SQL_INT(i), SQL_TEXT("x") }, 3));
    }
    int64_t affected = 0;
    assert_ok(tx_exec(tx, &CHANGE, (struct sql_arg[]){ SQL_TEXT("y"), SQL_INT(5) }, 2, &affected));
    assert_int_equal(affected, 1);
    assert_ok(tx_commit(&tx));
    assert_int_equal(count_of(op, STORE_REQUEST, &COUNT), 1000);
}

static void a_statement_that_does_not_parse_fails_each_time_anew(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        struct rows *rows = NULL;
        assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
        assert_fault(tx_query(tx, &BROKEN, NULL, 0, &rows), INTERNAL);
        assert_string_equal(op->note.sqlstate, "42P01");
    }
}

static void an_early_return_rolls_back(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-r", 20000);
    {
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
        assert_int_equal(op->tx_open, 1);
        assert_ok(tx_exec(tx, &PUT, (struct sql_arg[]){ SQL_TEXT("tenant-r"), SQL_INT(1), SQL_TEXT("x") }, 3, NULL));
    }
    assert_int_equal(op->tx_open, 0);
    assert_int_equal(count_of(op, STORE_REQUEST, &COUNT), 0);
}

static void a_rollback_frees_its_locks_at_once(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-l", 20000);
    CLEANUP(op_freep) struct op *other = test_op("tenant-l", 3000);
    CLEANUP(tx_rollbackp) struct tx *holder = NULL;
    CLEANUP(tx_rollbackp) struct tx *waiter = NULL;
    const struct sql_arg args[] = { SQL_TEXT("y"), SQL_INT(1) };
    assert_ok(put(op, "tenant-l", 1, "x"));
    assert_ok(tx_begin(op, store, STORE_REQUEST, &holder));
    assert_ok(tx_begin(other, store, STORE_REQUEST, &waiter));
    assert_ok(tx_exec(holder, &CHANGE, args, 2, NULL));
    tx_rollback(TAKE(holder));
    assert_ok(tx_exec(waiter, &CHANGE, args, 2, NULL));
}

static void values_come_back_as_they_went(void **state)
{
    (void)state;
    static const uint8_t raw[] = { 0, 1, 0xff, '\'', 0 };
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
    const struct sql_arg args[] = { SQL_INT(INT64_MIN), SQL_TEXT("gr\xc3\xbc\xc3\x9f' OR 1=1"),
                                    SQL_BYTES(SPAN_ARRAY(raw)), SQL_BOOL(true), SQL_NONE };
    assert_ok(tx_query(tx, &ECHO, args, 5, &rows));
    assert_true(rows_int(rows, 0, 0) == INT64_MIN);
    assert_string_equal(rows_text(rows, 0, 1), "gr\xc3\xbc\xc3\x9f' OR 1=1");
    assert_true(span_equal(rows_bytes(rows, 0, 2), SPAN_ARRAY(raw)));
    assert_true(rows_bool(rows, 0, 3));
    assert_true(rows_null(rows, 0, 4));
    assert_string_equal(rows_text(rows, 0, 4), "");
    assert_int_equal(rows_int(rows, 0, 5), -5);

    struct rows *none = NULL;
    const struct sql_arg nul[] = { SQL_INT(1), SQL_SPAN(span_of("a\0b", 3)), SQL_NONE, SQL_NONE, SQL_NONE };
    assert_fault(tx_query(tx, &ECHO, nul, 5, &none), BAD_ARGUMENT);
}

static void a_slow_statement_ends_at_the_operations_deadline(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 200);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct rows *rows = NULL;
    assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
    assert_fault(tx_query(tx, &SLEEP, NULL, 0, &rows), STORE_BUSY);
    assert_true(op_expired(op));
}

static void a_full_pool_refuses_after_the_acquire_window(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
    struct tx *held[4] = { NULL };
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        assert_ok(tx_begin(op, store, STORE_REQUEST, &held[i]));
    }
    assert_int_equal(store_pool_stats(store, STORE_REQUEST).idle, 0);
    CLEANUP(op_freep) struct op *late = test_op("tenant-a", 20000);
    struct tx *tx = NULL;
    assert_fault(tx_begin(late, store, STORE_REQUEST, &tx), STORE_BUSY);
    assert_null(tx);
    assert_int_equal(late->tx_open, 0);
    CLEANUP(op_freep) struct op *hurried = test_op("tenant-a", 1);
    assert_fault(tx_begin(hurried, store, STORE_REQUEST, &tx), STORE_BUSY);
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        tx_rollback(held[i]);
    }
    assert_int_equal(store_pool_stats(store, STORE_REQUEST).acquired, 0);
    assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
    assert_ok(tx_commit(&tx));
}

static void terminated_sessions_are_replaced(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct rows *rows = NULL;
    assert_ok(tx_begin(op, store, STORE_REQUEST, &tx));
    assert_ok(tx_query(tx, &COUNT, NULL, 0, &rows));
    rows_free(TAKE(rows));
    assert_ok(as_superuser("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'svc_app'"));
    assert_fault(tx_query(tx, &COUNT, NULL, 0, &rows), STORE_UNAVAILABLE);
    assert_fault(tx_commit(&tx), STORE_UNAVAILABLE);
    for (int i = 0; i < 6; i++) {
        CLEANUP(op_freep) struct op *next = test_op("tenant-a", 20000);
        assert_int_equal(count_of(next, STORE_REQUEST, &COUNT), 1);
        assert_ok(store_ping(next, store, 5000));
    }
}

static void *change_second_then(void *arg)
{
    struct tx *tx = arg;
    struct fault fault = tx_exec(tx, &CHANGE, (struct sql_arg[]){ SQL_TEXT("t"), SQL_INT(1) }, 2, NULL);
    return (void *)(uintptr_t)fault.code;
}

static void a_deadlock_is_a_retryable_conflict(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *one = test_op("tenant-d", 20000);
    CLEANUP(op_freep) struct op *two = test_op("tenant-d", 20000);
    assert_ok(put(one, "tenant-d", 1, "x"));
    assert_ok(put(one, "tenant-d", 2, "x"));
    CLEANUP(tx_rollbackp) struct tx *a = NULL;
    CLEANUP(tx_rollbackp) struct tx *b = NULL;
    assert_ok(tx_begin(one, store, STORE_REQUEST, &a));
    assert_ok(tx_begin(two, store, STORE_REQUEST, &b));
    assert_ok(tx_exec(a, &CHANGE, (struct sql_arg[]){ SQL_TEXT("a"), SQL_INT(1) }, 2, NULL));
    assert_ok(tx_exec(b, &CHANGE, (struct sql_arg[]){ SQL_TEXT("b"), SQL_INT(2) }, 2, NULL));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, change_second_then, b), 0);
    enum fault_code first = tx_exec(a, &CHANGE, (struct sql_arg[]){ SQL_TEXT("a"), SQL_INT(2) }, 2, NULL).code;
    if (first == FAULT_TX_CONFLICT) {
        assert_string_equal(one->note.sqlstate, "40P01");
    }
    tx_rollback(TAKE(a)); /* the rollback is not awaited, but it frees the other */
    void *second = NULL;
    assert_int_equal(pthread_join(thread, &second), 0);
    assert_true(first == FAULT_TX_CONFLICT || (uintptr_t)second == FAULT_TX_CONFLICT);
}

static void a_serialization_failure_is_a_retryable_conflict(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *one = test_op("tenant-e", 20000);
    CLEANUP(op_freep) struct op *two = test_op("tenant-e", 20000);
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    assert_ok(put(one, "tenant-e", 1, "x"));
    assert_ok(as_superuser("ALTER ROLE svc_app SET default_transaction_isolation = 'repeatable read'"));
    CLEANUP(store_closep) struct store *strict = NULL;
    struct fault opened = store_open(test_config, &why, &strict);
    assert_ok(as_superuser("ALTER ROLE svc_app RESET default_transaction_isolation"));
    assert_ok(opened);
    CLEANUP(tx_rollbackp) struct tx *a = NULL;
    CLEANUP(tx_rollbackp) struct tx *b = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(tx_begin(one, strict, STORE_REQUEST, &a));
    assert_ok(tx_query(a, &COUNT, NULL, 0, &rows));
    assert_ok(tx_begin(two, strict, STORE_REQUEST, &b));
    assert_ok(tx_exec(b, &CHANGE, (struct sql_arg[]){ SQL_TEXT("b"), SQL_INT(1) }, 2, NULL));
    assert_ok(tx_commit(&b));
    assert_fault(tx_exec(a, &CHANGE, (struct sql_arg[]){ SQL_TEXT("a"), SQL_INT(1) }, 2, NULL), TX_CONFLICT);
    assert_string_equal(one->note.sqlstate, "40001");
}

static void a_snapshot_sees_one_moment_and_refuses_to_write(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-s", 20000);
    CLEANUP(op_freep) struct op *other = test_op("tenant-s", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *first = NULL;
    CLEANUP(rows_freep) struct rows *second = NULL;
    assert_ok(put(other, "tenant-s", 1, "x"));
    assert_ok(tx_begin_snapshot(op, store, STORE_REQUEST, &tx));
    assert_ok(tx_query(tx, &COUNT, NULL, 0, &first));
    assert_ok(put(other, "tenant-s", 2, "x"));
    assert_ok(tx_query(tx, &COUNT, NULL, 0, &second));
    assert_int_equal(rows_int(first, 0, 0), 1);
    assert_int_equal(rows_int(second, 0, 0), 1);
    assert_fault(tx_exec(tx, &CHANGE, (struct sql_arg[]){ SQL_TEXT("y"), SQL_INT(1) }, 2, NULL), INTERNAL);
    assert_string_equal(op->note.sqlstate, "25006");
    tx_rollback(TAKE(tx));
    assert_int_equal(count_of(other, STORE_REQUEST, &COUNT), 2); /* the session's next transaction is an ordinary one */
    assert_ok(put(other, "tenant-s", 3, "x"));
}

static void a_tenant_change_within_a_transaction_moves_the_scope(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-x", 20000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_ok(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
    assert_ok(tx_queue(tx, &PUT, (struct sql_arg[]){ SQL_TEXT("tenant-x"), SQL_INT(1), SQL_TEXT("x") }, 3));
    assert_ok(tx_set_tenant(tx, tenant("tenant-y")));
    assert_ok(tx_queue(tx, &PUT, (struct sql_arg[]){ SQL_TEXT("tenant-y"), SQL_INT(1), SQL_TEXT("y") }, 3));
    assert_ok(tx_commit(&tx));
    CLEANUP(op_freep) struct op *y = test_op("tenant-y", 20000);
    assert_int_equal(count_of(y, STORE_REQUEST, &COUNT), 1);
}

static void a_lock_has_one_holder_and_dies_with_its_session(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("", 20000);
    CLEANUP(store_lock_freep) struct store_lock *mine = NULL;
    CLEANUP(store_lock_freep) struct store_lock *other = NULL;
    bool held = false;
    assert_ok(store_lock_try(op, store, 42, &mine, &held));
    assert_true(held);
    assert_ok(store_lock_try(op, store, 42, &other, &held));
    assert_false(held);
    assert_null(other);
    assert_true(store_lock_alive(mine));
    assert_ok(as_superuser("SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'"));
    assert_false(store_lock_alive(mine));
    assert_ok(store_lock_try(op, store, 42, &other, &held));
    assert_true(held);
    store_lock_free(TAKE(other));
    assert_ok(store_lock_try(op, store, 42, &other, &held));
    assert_true(held);
}

static void projections_are_not_emptied_under_a_running_projector(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 20000);
    CLEANUP(store_lock_freep) struct store_lock *leader = NULL;
    bool held = false;
    assert_ok(store_lock_try(op, store, STORE_LOCK_PROJECTOR, &leader, &held));
    assert_true(held);
    assert_fault(store_empty_projections(test_config, &why), CONFLICT);
    assert_true(said(&why, "stop svc-api"));
    assert_int_equal(count_of(op, STORE_REQUEST, &COUNT_READ_MODEL), 1);
    store_lock_free(TAKE(leader));
    assert_ok(store_empty_projections(test_config, NULL));
    assert_int_equal(count_of(op, STORE_REQUEST, &COUNT_READ_MODEL), 0);
    assert_int_equal(count_of(op, STORE_REQUEST, &COUNT), 1); /* operational rows stay */
}

#define THREADS 8
static void *write_and_count(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    char name[32];
    (void)snprintf(name, sizeof(name), "thread-%u", number);
    for (int64_t i = 0; i < 60; i++) {
        CLEANUP(op_freep) struct op *op = NULL;
        if (FAULTED(op_new("test", tenant(name), 20000, &op)) || FAULTED(put(op, name, i, "x"))) {
            return (void *)(uintptr_t)1; /* a put failed */
        }
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        CLEANUP(rows_freep) struct rows *rows = NULL;
        if (FAULTED(tx_begin(op, store, STORE_REQUEST, &tx)) || FAULTED(tx_query(tx, &COUNT, NULL, 0, &rows)) ||
            rows_int(rows, 0, 0) != i + 1) {
            return (void *)(uintptr_t)2; /* saw rows of another tenant, or missed its own */
        }
    }
    return NULL;
}

static void threads_share_a_pool_and_never_see_each_others_tenant(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_and_count, (void *)(uintptr_t)i), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        void *failure = NULL;
        assert_int_equal(pthread_join(threads[i], &failure), 0);
        assert_null(failure);
    }
    assert_int_equal(store_pool_stats(store, STORE_REQUEST).acquired, 0);
}

static const char test_schema[] =
    "SET ROLE svc_owner;"
    "CREATE TABLE svc.notes (tenant_id text NOT NULL, id bigint NOT NULL, body text NOT NULL, PRIMARY KEY (tenant_id, "
    "id));"
    "SELECT svc.tenant_table('notes', 'operational');"
    "CREATE TABLE svc.mirror (tenant_id text NOT NULL, id bigint NOT NULL, PRIMARY KEY (tenant_id, id));"
    "SELECT svc.tenant_table('mirror', 'projection');"
    "CREATE FUNCTION svc.test_raise(code text) RETURNS text LANGUAGE plpgsql AS $$"
    " BEGIN RAISE EXCEPTION 'value \"s3cret\" and ''s3cret too''' USING ERRCODE = code; END $$;";

static int start(void **state)
{
    (void)state;
    use_config();
    test_config->postgres_max_conns = 4;
    test_config->postgres_acquire = 300 * NS_PER_MS;
    migrate();
    assert_ok(as_superuser(test_schema));
    migrate();
    assert_ok(as_superuser("GRANT EXECUTE ON FUNCTION svc.test_raise TO svc_app"));
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct fault fault = store_open(test_config, &why, &store);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%.*s", (int)why.len, (const char *)why.at);
    }
    return FAULTED(fault) ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    store_close(store);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_tenant_and_no_tenant_see_nothing),
        cmocka_unit_test(a_row_of_another_tenant_cannot_be_written),
        cmocka_unit_test(the_app_role_cannot_write_a_projection_table),
        cmocka_unit_test(every_tenant_table_has_forced_row_level_security),
        cmocka_unit_test(foreign_errors_become_faults_by_table),
        cmocka_unit_test(a_duplicate_names_the_constraint_and_hides_the_values),
        cmocka_unit_test(a_queued_failure_shows_at_commit_and_nothing_is_stored),
        cmocka_unit_test(a_thousand_queued_rows_are_stored_by_one_commit),
        cmocka_unit_test(a_statement_that_does_not_parse_fails_each_time_anew),
        cmocka_unit_test(an_early_return_rolls_back),
        cmocka_unit_test(a_rollback_frees_its_locks_at_once),
        cmocka_unit_test(values_come_back_as_they_went),
        cmocka_unit_test(a_slow_statement_ends_at_the_operations_deadline),
        cmocka_unit_test(a_full_pool_refuses_after_the_acquire_window),
        cmocka_unit_test(terminated_sessions_are_replaced),
        cmocka_unit_test(a_deadlock_is_a_retryable_conflict),
        cmocka_unit_test(a_serialization_failure_is_a_retryable_conflict),
        cmocka_unit_test(a_snapshot_sees_one_moment_and_refuses_to_write),
        cmocka_unit_test(a_tenant_change_within_a_transaction_moves_the_scope),
        cmocka_unit_test(a_lock_has_one_holder_and_dies_with_its_session),
        cmocka_unit_test(projections_are_not_emptied_under_a_running_projector),
        cmocka_unit_test(threads_share_a_pool_and_never_see_each_others_tenant),
    };
    return cmocka_run_group_tests_name("store_tx", tests, start, end);
}
