#include "api/store/copy.h"

#include "api/store/internal.h"
#include "appliance/base/alloc.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#define TABLES_MAX    256
#define STATEMENT_MAX 65536

struct copy {
    struct endpoint *endpoint;
    PGconn *pg;
    struct copy_table *tables; /* of copy_in */
    size_t table_count;
};

static const char tables_text[] =
    "SELECT t.name, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), t.worker_scope FROM svc.tables t"
    " JOIN pg_attribute a ON a.attrelid = format('svc.%I', t.name)::regclass AND a.attnum > 0 AND NOT a.attisdropped"
    " WHERE t.kind = 'projection' GROUP BY t.name, t.worker_scope ORDER BY t.name";
static const char begin_out[] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0;"
                                " SET LOCAL idle_in_transaction_session_timeout = 0;"
                                " SET LOCAL max_parallel_workers_per_gather = 0";
static const char begin_in[] = "BEGIN; SET LOCAL statement_timeout = 0;"
                               " SET LOCAL idle_in_transaction_session_timeout = 0";

void copy_free(struct copy *copy)
{
    if (copy != NULL) {
        PQfinish(copy->pg);
        endpoint_free(copy->endpoint);
        mem_free(copy);
    }
}

/* ---- waiting ---- */

static struct fault wait_for(struct op *op, const struct copy *copy, short events)
{
    struct pollfd poller = { .fd = PQsocket(copy->pg), .events = events };
    int ready = 0;
    do {
        ready = poll(&poller, 1, clock_ms_left(op->deadline));
    } while (ready < 0 && errno == EINTR);
    return ready > 0 ? OK : op_fail(op, FAULT(STORE_BUSY), "the database did not answer within the deadline");
}

static struct fault lost(struct op *op, const struct copy *copy, const char *doing)
{
    return store_fail_connection(op, copy->pg, doing);
}

/* Sends what is queued, and reads what comes meanwhile. */
static struct fault flush(struct op *op, struct copy *copy)
{
    for (;;) {
        int left = PQflush(copy->pg);
        if (left <= 0) {
            return left == 0 ? OK : lost(op, copy, "send");
        }
        TRY(wait_for(op, copy, POLLIN | POLLOUT));
        if (PQconsumeInput(copy->pg) != 1) {
            return lost(op, copy, "receive");
        }
    }
}

static struct fault next_result(struct op *op, struct copy *copy, PGresult **ret_result)
{
    TRY(flush(op, copy));
    while (PQisBusy(copy->pg) != 0) {
        TRY(wait_for(op, copy, POLLIN));
        if (PQconsumeInput(copy->pg) != 1) {
            return lost(op, copy, "receive");
        }
    }
    *ret_result = PQgetResult(copy->pg);
    return OK;
}

/* The one result that counts: the last one before the NULL, or the first bad one. */
static struct fault finish(struct op *op, struct copy *copy, PGresult **ret_result)
{
    PGresult *last = NULL, *result = NULL;
    struct fault fault = OK;
    for (;;) {
        struct fault got = next_result(op, copy, &result);
        if (FAULTED(got)) {
            PQclear(last);
            return got;
        }
        if (result == NULL) {
            break;
        }
        ExecStatusType status = PQresultStatus(result);
        if (!FAULTED(fault) && status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
            fault = store_fail_result(op, result);
        }
        PQclear(last);
        last = result;
    }
    if (FAULTED(fault) || last == NULL) {
        PQclear(last);
        return FAULTED(fault) ? fault : lost(op, copy, "receive");
    }
    *ret_result = last;
    return OK;
}

static struct fault run(struct op *op, struct copy *copy, const char *text)
{
    PGresult *result = NULL;
    if (PQsendQuery(copy->pg, text) != 1) {
        return lost(op, copy, "send");
    }
    TRY(finish(op, copy, &result));
    PQclear(result);
    return OK;
}

static struct fault ask(struct op *op, struct copy *copy, const char *text, const char *argument,
                        struct rows **ret_rows)
{
    PGresult *result = NULL;
    const char *const values[] = { argument };
    if (PQsendQueryParams(copy->pg, text, argument != NULL ? 1 : 0, NULL, values, NULL, NULL, 1) != 1) {
        return lost(op, copy, "send");
    }
    TRY(finish(op, copy, &result));
    return rows_new(result, ret_rows);
}

struct fault copy_query(struct op *op, struct copy *copy, const char *text, struct rows **ret_rows)
{
    return ask(op, copy, text, NULL, ret_rows);
}

/* ---- beginning ---- */

static void drop_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

static struct fault connect_as(struct op *op, const struct config *config, const char *user, struct buf *why,
                               struct copy **ret_copy)
{
    CLEANUP(copy_freep) struct copy *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(endpoint_new(config, user, why, &made->endpoint));
    made->pg = PQconnectStartParams(endpoint_keys(made->endpoint), endpoint_values(made->endpoint), 0);
    REQUIRE(made->pg != NULL, NO_MEMORY);
    for (PostgresPollingStatusType next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK;) {
        if (PQstatus(made->pg) == CONNECTION_BAD || next == PGRES_POLLING_FAILED) {
            struct fault fault = lost(op, made, "connect");
            IGNORE(buf_printf(why, "database: connecting as %s: %s", user, op->note.log_detail));
            return fault;
        }
        TRY(wait_for(op, made, next == PGRES_POLLING_READING ? POLLIN : POLLOUT));
        next = PQconnectPoll(made->pg);
    }
    (void)PQsetNoticeReceiver(made->pg, drop_notice, NULL);
    REQUIRE(PQsetnonblocking(made->pg, 1) == 0, STORE_UNAVAILABLE);
    *ret_copy = TAKE(made);
    return OK;
}

static enum copy_scope scope_of(const char *text)
{
    return strcmp(text, "none") == 0 ? COPY_SYSTEM : strcmp(text, "all") == 0 ? COPY_ALL : COPY_TENANT;
}

struct fault copy_tables(struct op *op, struct copy *copy, struct copy_table **ret_tables, size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct copy_table *tables = NULL;
    TRY(copy_query(op, copy, tables_text, &rows));
    size_t count = rows_count(rows);
    REQUIRE(count > 0 && count <= TABLES_MAX, STORE_SCHEMA);
    TRY(arena_take(op->arena, count, sizeof(*tables), &tables));
    for (size_t i = 0; i < count; i++) {
        TRY(arena_text(op->arena, rows_bytes(rows, i, 0), &tables[i].name));
        TRY(arena_text(op->arena, rows_bytes(rows, i, 1), &tables[i].columns));
        tables[i].scope = scope_of(rows_text(rows, i, 2));
    }
    *ret_tables = tables;
    *ret_count = count;
    return OK;
}

/* ---- out ---- */

struct fault copy_out_begin(struct op *op, const struct config *config, struct buf *why, struct copy **ret_copy)
{
    CLEANUP(copy_freep) struct copy *made = NULL;
    TRY(connect_as(op, config, config->postgres_worker_user, why, &made));
    TRY(run(op, made, begin_out));
    *ret_copy = TAKE(made);
    return OK;
}

struct fault copy_out_tenant(struct op *op, struct copy *copy, struct tenant_id tenant)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    return ask(op, copy, "SELECT set_config('svc.tenant', $1, true)", tenant.text, &rows);
}

static uint64_t rows_of(PGresult *result)
{
    uint64_t rows = 0;
    for (const char *digit = PQcmdTuples(result); *digit >= '0' && *digit <= '9'; digit++) {
        rows = rows * 10 + (uint64_t)(*digit - '0');
    }
    PQclear(result);
    return rows;
}

/* The answer that says that copying begins. */
static struct fault begin_copy(struct op *op, struct copy *copy, const char *statement, ExecStatusType wanted)
{
    PGresult *result = NULL;
    if (PQsendQuery(copy->pg, statement) != 1) {
        return lost(op, copy, "send");
    }
    TRY(next_result(op, copy, &result));
    struct fault fault = PQresultStatus(result) == wanted ? OK : store_fail_result(op, result);
    PQclear(result);
    return fault;
}

struct fault copy_out_table(struct op *op, struct copy *copy, const char *statement, copy_fn take, void *arg,
                            uint64_t *ret_rows)
{
    TRY(begin_copy(op, copy, statement, PGRES_COPY_OUT));
    for (;;) {
        char *bytes = NULL;
        int len = PQgetCopyData(copy->pg, &bytes, 1);
        if (len == -1) {
            break;
        }
        if (len == -2) {
            return lost(op, copy, "copy");
        }
        if (len == 0) {
            TRY(wait_for(op, copy, POLLIN));
            if (PQconsumeInput(copy->pg) != 1) {
                return lost(op, copy, "receive");
            }
            continue;
        }
        struct fault fault = take(arg, span_of(bytes, (size_t)len));
        PQfreemem(bytes);
        TRY(fault);
    }
    PGresult *result = NULL;
    TRY(finish(op, copy, &result));
    *ret_rows = rows_of(result);
    return OK;
}

/* ---- in ---- */

/* The owner is bound by forced row-level security, and COPY goes into no table that binds it; the transaction holds
 * every one of them for itself alone until they are forced again. */
static struct fault force(struct op *op, struct copy *copy, const char *word)
{
    for (size_t i = 0; i < copy->table_count; i++) {
        char text[256];
        if (copy->tables[i].scope != COPY_SYSTEM) {
            (void)snprintf(text, sizeof(text), "ALTER TABLE svc.%s %s ROW LEVEL SECURITY", copy->tables[i].name, word);
            TRY(run(op, copy, text));
        }
    }
    return OK;
}

static struct fault empty(struct op *op, struct copy *copy, struct buf *why)
{
    char text[128];
    CLEANUP(rows_freep) struct rows *rows = NULL;
    (void)snprintf(text, sizeof(text), "SELECT pg_try_advisory_xact_lock(%lld)", (long long)STORE_LOCK_PROJECTOR);
    TRY(run(op, copy, begin_in));
    TRY(copy_query(op, copy, text, &rows));
    if (!rows_bool(rows, 0, 0)) {
        IGNORE(buf_text(why, "a projector is running on this database: stop svc-api first"));
        return op_fail(op, FAULT(CONFLICT), "a projector is running on this database: stop svc-api first");
    }
    TRY(copy_tables(op, copy, &copy->tables, &copy->table_count));
    TRY(run(op, copy, "SELECT svc.empty_projections()"));
    return force(op, copy, "NO FORCE");
}

struct fault copy_in_begin(struct op *op, const struct config *config, struct buf *why, struct copy **ret_copy)
{
    CLEANUP(copy_freep) struct copy *made = NULL;
    TRY(connect_as(op, config, config->postgres_owner_user, why, &made));
    TRY(empty(op, made, why));
    *ret_copy = TAKE(made);
    return OK;
}

struct fault copy_in_table(struct op *op, struct copy *copy, const struct copy_table *table)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(STATEMENT_MAX);
    const char *statement = NULL;
    TRY(buf_printf(&text, "COPY svc.%s (%s) FROM STDIN (FORMAT binary)", table->name, table->columns));
    TRY(buf_cstr(&text, &statement));
    return begin_copy(op, copy, statement, PGRES_COPY_IN);
}

struct fault copy_in_put(struct op *op, struct copy *copy, struct span bytes)
{
    REQUIRE(bytes.len > 0 && bytes.len <= INT32_MAX, BAD_ARGUMENT);
    for (;;) {
        int put = PQputCopyData(copy->pg, (const char *)bytes.at, (int)bytes.len);
        if (put < 0) {
            return lost(op, copy, "copy");
        }
        TRY(flush(op, copy));
        if (put == 1) {
            return OK;
        }
    }
}

struct fault copy_in_end(struct op *op, struct copy *copy, uint64_t *ret_rows)
{
    PGresult *result = NULL;
    int put = 0;
    while ((put = PQputCopyEnd(copy->pg, NULL)) == 0) {
        TRY(flush(op, copy));
    }
    if (put < 0) {
        return lost(op, copy, "copy");
    }
    TRY(finish(op, copy, &result));
    *ret_rows = rows_of(result);
    return OK;
}

struct fault copy_in_commit(struct op *op, struct copy *copy)
{
    TRY(force(op, copy, "FORCE"));
    return run(op, copy, "COMMIT");
}

struct fault store_schema_digest(struct sha256 *ret_digest)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(STATEMENT_MAX);
    for (size_t i = 0; i < store_migration_count; i++) {
        TRY(buf_printf(&text, "%s %s\n", store_migrations[i].name, store_migrations[i].sha256));
    }
    return sha256_of(buf_span(&text), ret_digest);
}
