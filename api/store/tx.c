#include "api/store/internal.h"

#include "appliance/base/alloc.h"

#include <stdio.h>

/* The server's own statement deadline fires first; this much later we give the connection up. */
#define ANSWER_GRACE_NS (250 * NS_PER_MS)

static const struct sql SQL_BEGIN = { "svc_begin", "BEGIN", 0 };
static const struct sql SQL_BEGIN_SNAPSHOT = { "svc_begin_snapshot", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
                                               0 };
static const struct sql SQL_COMMIT = { "svc_commit", "COMMIT", 0 };
static const struct sql SQL_SCOPE = {
    "svc_scope",
    "SELECT set_config('svc.tenant', $1, true), set_config('statement_timeout', $2, true)",
    2,
};
static const struct sql SQL_TENANT = { "svc_tenant", "SELECT set_config('svc.tenant', $1, true)", 1 };

struct tx {
    struct op *op;
    struct slot *slot;
    const struct sql *begin;
    struct tenant_id tenant;
    int64_t statement_ns;
    bool begun;          /* BEGIN is queued or sent: it travels with the first statement */
    struct fault failed; /* sticky: the server has already rolled back */
};

static struct fault begin_by(struct op *op, struct store *store, enum store_pool pool, const struct sql *begin,
                             struct tx **ret_tx)
{
    struct tx *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    *made = (struct tx){
        .op = op, .begin = begin, .tenant = op->tenant, .statement_ns = store->config->postgres_statement
    };
    struct fault fault = pool_take(op, store->pools[pool], &made->slot);
    if (FAULTED(fault)) {
        mem_free(made);
        return fault;
    }
    op->tx_open++;
    *ret_tx = made;
    return OK;
}

struct fault tx_begin(struct op *op, struct store *store, enum store_pool pool, struct tx **ret_tx)
{
    return begin_by(op, store, pool, &SQL_BEGIN, ret_tx);
}

struct fault tx_begin_snapshot(struct op *op, struct store *store, enum store_pool pool, struct tx **ret_tx)
{
    return begin_by(op, store, pool, &SQL_BEGIN_SNAPSHOT, ret_tx);
}

static void tx_end(struct tx *tx)
{
    BUG_IF(tx->op->tx_open == 0);
    tx->op->tx_open--;
    pool_give(tx->slot);
    mem_free(tx);
}

static int statement_ms(const struct tx *tx)
{
    int left = clock_ms_left(tx->op->deadline);
    int64_t most = tx->statement_ns / NS_PER_MS;
    return left < most ? (left > 0 ? left : 1) : (int)most;
}

static mono_ns answer_deadline(const struct tx *tx)
{
    mono_ns statement = clock_mono() + tx->statement_ns;
    return (statement < tx->op->deadline ? statement : tx->op->deadline) + ANSWER_GRACE_NS;
}

static struct fault queue_begin(struct tx *tx)
{
    char timeout[16];
    (void)snprintf(timeout, sizeof(timeout), "%d", statement_ms(tx));
    TRY(connection_queue(tx->op, tx->slot->connection, tx->begin, NULL, 0));
    tx->begun = true;
    return connection_queue(tx->op, tx->slot->connection, &SQL_SCOPE,
                            (struct sql_arg[]){ SQL_TEXT(tx->tenant.text), SQL_TEXT(timeout) }, 2);
}

static struct fault queue_statement(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count)
{
    if (op_expired(tx->op)) {
        return op_fail(tx->op, FAULT(STORE_BUSY),
                       "the deadline passed while the database was in use: repeat the "
                       "request as it is");
    }
    if (!tx->begun) {
        TRY(queue_begin(tx));
    }
    return connection_queue(tx->op, tx->slot->connection, sql, args, count);
}

static struct fault round_once(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count,
                               PGresult **ret_result)
{
    TRY(queue_statement(tx, sql, args, count));
    return connection_finish(tx->op, tx->slot->connection, answer_deadline(tx), ret_result);
}

/* A session that died while it lay in the pool shows at the transaction's first statement. Nothing can have been
 * committed yet, so a new session does it again, once. */
static struct fault tx_round(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count,
                             PGresult **ret_result)
{
    TRY(tx->failed);
    bool first = !tx->begun;
    struct fault_note before = tx->op->note;
    tx->failed = round_once(tx, sql, args, count, ret_result);
    if (first && tx->failed.code == FAULT_STORE_UNAVAILABLE && !connection_alive(tx->slot->connection)) {
        struct fault fault = pool_renew(tx->op, tx->slot);
        if (!FAULTED(fault)) {
            tx->op->note = before;
            tx->begun = false;
            tx->failed = round_once(tx, sql, args, count, ret_result);
        }
    }
    return tx->failed;
}

struct fault tx_set_tenant(struct tx *tx, struct tenant_id tenant)
{
    tx->tenant = tenant;
    return tx->begun ? tx_queue(tx, &SQL_TENANT, (struct sql_arg[]){ SQL_TEXT(tenant.text) }, 1) : OK;
}

struct fault tx_query(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count,
                      struct rows **ret_rows)
{
    PGresult *result = NULL;
    TRY(tx_round(tx, sql, args, count, &result));
    return rows_new(result, ret_rows);
}

struct fault tx_exec(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count,
                     int64_t *ret_affected)
{
    PGresult *result = NULL;
    TRY(tx_round(tx, sql, args, count, &result));
    int64_t affected = 0;
    for (const char *digit = PQcmdTuples(result); *digit >= '0' && *digit <= '9'; digit++) {
        affected = affected * 10 + (*digit - '0');
    }
    PQclear(result);
    if (ret_affected != NULL) {
        *ret_affected = affected;
    }
    return OK;
}

struct fault tx_queue(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count)
{
    TRY(tx->failed);
    tx->failed = queue_statement(tx, sql, args, count);
    return tx->failed;
}

struct fault tx_commit(struct tx **tx)
{
    struct tx *ending = TAKE(*tx);
    struct fault fault = ending->failed;
    if (ending->begun && !FAULTED(fault)) {
        PGresult *result = NULL;
        fault = tx_round(ending, &SQL_COMMIT, NULL, 0, &result);
        if (!FAULTED(fault) && strcmp(PQcmdStatus(result), "COMMIT") != 0) {
            fault = op_fail(ending->op, FAULT(INTERNAL), "the transaction was rolled back");
        }
        PQclear(result);
    }
    if (ending->begun && FAULTED(fault)) {
        connection_abandon(ending->slot->connection);
    }
    tx_end(ending);
    return fault;
}

void tx_rollback(struct tx *tx)
{
    if (tx == NULL) {
        return;
    }
    if (tx->begun) {
        connection_abandon(tx->slot->connection);
    }
    tx_end(tx);
}
