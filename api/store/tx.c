#include "api/store/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/tracing.h"

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
static const struct sql SQL_SCOPE_SOON = {
    "svc_scope_soon",
    "SELECT set_config('svc.tenant', $1, true), set_config('statement_timeout', $2, true),"
    " set_config('synchronous_commit', 'off', true)",
    2,
};
static const struct sql SQL_TENANT = { "svc_tenant", "SELECT set_config('svc.tenant', $1, true)", 1 };

struct tx {
    struct op *op;
    struct slot *slot;
    const struct sql *begin;
    struct tenant_id tenant;
    int64_t statement_ns;
    mono_ns began;             /* for its span; 0 = none */
    bool begun;                /* BEGIN is queued or sent: it travels with the first statement */
    struct store_ahead *ahead; /* its answer comes with our first one; NULL = none */
    struct fault failed;       /* sticky: the server has already rolled back */
};

/* What works on another connection does not travel behind what was sent ahead: so it asks first. */
static struct fault settle_elsewhere(struct op *op)
{
    const struct store_ahead *ahead = (struct store_ahead *)op->ahead;
    return ahead != NULL && !ahead->carried ? op_settle(op) : OK;
}

static struct fault begin_by(struct op *op, struct store *store, enum store_pool pool, const struct sql *begin,
                             struct tx **ret_tx)
{
    struct tx *made = NULL;
    if (pool != STORE_REQUEST) {
        TRY(settle_elsewhere(op));
    }
    TRY(mem_new(1, sizeof(*made), &made));
    *made = (struct tx){ .op = op,
                         .begin = begin,
                         .tenant = op->tenant,
                         .statement_ns = store->config->postgres_statement,
                         .began = trace_on() && op->sampled ? clock_mono() : 0 };
    struct fault fault = OK;
    struct store_ahead *ahead = (struct store_ahead *)op->ahead;
    if (pool == STORE_REQUEST && ahead != NULL && !ahead->carried) {
        ahead->carried = true;
        made->ahead = ahead;
        made->slot = ahead->slot;
    } else {
        fault = pool_take(op, store->pools[pool], &made->slot);
    }
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
    trace_leaf(tx->op, TRACE_CLIENT, "transaction", tx->began, tx->failed);
    tx->op->tx_open--;
    if (tx->ahead != NULL) {
        tx->ahead->carried = false; /* nothing was sent behind it: whoever comes next may have the connection */
    } else {
        pool_give(tx->slot);
    }
    mem_free(tx);
}

static int statement_ms(const struct op *op, int64_t statement_ns)
{
    int left = clock_ms_left(op->deadline);
    int64_t most = statement_ns / NS_PER_MS;
    return left < most ? (left > 0 ? left : 1) : (int)most;
}

static mono_ns answer_deadline(const struct op *op, int64_t statement_ns)
{
    mono_ns statement = clock_mono() + statement_ns;
    return (statement < op->deadline ? statement : op->deadline) + ANSWER_GRACE_NS;
}

static struct fault queue_scope(struct op *op, struct connection *connection, const struct sql *scope,
                                const char *tenant, int64_t statement_ns)
{
    char timeout[16];
    (void)snprintf(timeout, sizeof(timeout), "%d", statement_ms(op, statement_ns));
    return connection_queue(op, connection, scope, (struct sql_arg[]){ SQL_TEXT(tenant), SQL_TEXT(timeout) }, 2);
}

static struct fault queue_begin(struct tx *tx)
{
    TRY(connection_queue(tx->op, tx->slot->connection, tx->begin, NULL, 0));
    tx->begun = true;
    return queue_scope(tx->op, tx->slot->connection, &SQL_SCOPE, tx->tenant.text, tx->statement_ns);
}

/* ---- one statement in a transaction of its own ---- */

static struct fault queue_once(struct op *op, struct store *store, struct connection *connection,
                               enum store_durability durability, const struct sql *sql, const struct sql_arg *args,
                               size_t count)
{
    const struct sql *scope = durability == STORE_SOON ? &SQL_SCOPE_SOON : &SQL_SCOPE;
    TRY(connection_queue(op, connection, &SQL_BEGIN, NULL, 0));
    TRY(queue_scope(op, connection, scope, op->tenant.text, store->config->postgres_statement));
    TRY(connection_queue(op, connection, sql, args, count));
    connection_keep(connection);
    return connection_queue(op, connection, &SQL_COMMIT, NULL, 0);
}

static struct fault send_part(struct store_ahead *ahead)
{
    struct connection *connection = ahead->slot->connection;
    TRY(queue_once(ahead->op, ahead->store, connection, STORE_SOON, ahead->sql, ahead->args, ahead->count));
    return connection_part(ahead->op, connection);
}

static bool lost(const struct slot *slot, struct fault fault)
{
    return fault.code == FAULT_STORE_UNAVAILABLE && !connection_alive(slot->connection);
}

/* The answer is here, or will not come: `fault` is what the connection said. */
static struct fault judge(struct store_ahead *ahead, struct fault fault)
{
    PGresult *result = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct connection *connection = ahead->slot->connection;
    ahead->op->ahead = NULL;
    if (!connection_alive(connection) && !FAULTED(fault)) {
        fault = FAULT(STORE_UNAVAILABLE);
    }
    struct fault part = connection_kept(connection, &result);
    if (!FAULTED(part) && result == NULL) {
        part = FAULTED(fault) ? fault : FAULT(STORE_UNAVAILABLE);
    }
    if (!FAULTED(part)) {
        part = rows_new(result, &rows);
    }
    return ahead->judge(ahead->arg, part, rows);
}

static struct fault settle_ahead(struct op *op)
{
    struct store_ahead *ahead = (struct store_ahead *)op->ahead;
    const int64_t statement_ns = ahead->store->config->postgres_statement;
    const struct fault_note before = op->note;
    BUG_IF(ahead->carried);
    struct fault fault = connection_finish(op, ahead->slot->connection, answer_deadline(op, statement_ns), NULL);
    if (lost(ahead->slot, fault) && !FAULTED(pool_renew(op, ahead->slot))) {
        op->note = before;
        fault = send_part(ahead);
        if (!FAULTED(fault)) {
            fault = connection_finish(op, ahead->slot->connection, answer_deadline(op, statement_ns), NULL);
        }
    }
    struct slot *slot = ahead->slot;
    struct fault judged = judge(ahead, fault);
    pool_give(slot);
    return judged;
}

struct fault store_send_ahead(struct op *op, struct store *store, struct store_ahead *ahead)
{
    BUG_IF(op->ahead != NULL);
    if (op_expired(op)) {
        return op_fail(op, FAULT(STORE_BUSY), "the deadline passed: repeat the request as it is");
    }
    ahead->base.settle = settle_ahead;
    ahead->op = op;
    ahead->store = store;
    ahead->carried = false;
    TRY(pool_take(op, store->pools[STORE_REQUEST], &ahead->slot));
    struct fault fault = send_part(ahead);
    if (lost(ahead->slot, fault) && !FAULTED(pool_renew(op, ahead->slot))) {
        op->note = (struct fault_note){ 0 };
        fault = send_part(ahead);
    }
    if (FAULTED(fault)) {
        connection_hang_up(ahead->slot->connection); /* half of it may be queued */
        pool_give(ahead->slot);
        return fault;
    }
    op->ahead = &ahead->base;
    return OK;
}

struct fault store_ahead_end(struct store_ahead *ahead)
{
    return ahead->op != NULL && ahead->op->ahead == &ahead->base ? settle_ahead(ahead->op) : OK;
}

static int64_t affected_of(PGresult *result)
{
    int64_t affected = 0;
    for (const char *digit = PQcmdTuples(result); *digit >= '0' && *digit <= '9'; digit++) {
        affected = affected * 10 + (*digit - '0');
    }
    return affected;
}

static struct fault once_in(struct op *op, struct store *store, struct slot *slot, enum store_durability durability,
                            const struct sql *sql, const struct sql_arg *args, size_t count)
{
    PGresult *last = NULL;
    TRY(queue_once(op, store, slot->connection, durability, sql, args, count));
    TRY(connection_finish(op, slot->connection, answer_deadline(op, store->config->postgres_statement), &last));
    bool committed = strcmp(PQcmdStatus(last), "COMMIT") == 0;
    PQclear(last);
    return committed ? OK : op_fail(op, FAULT(INTERNAL), "the transaction was rolled back");
}

struct fault store_once(struct op *op, struct store *store, enum store_pool pool, enum store_durability durability,
                        const struct sql *sql, const struct sql_arg *args, size_t count, struct rows **ret_rows,
                        int64_t *ret_affected)
{
    struct slot *slot = NULL;
    PGresult *kept = NULL;
    if (op_expired(op)) {
        return op_fail(op, FAULT(STORE_BUSY), "the deadline passed: repeat the request as it is");
    }
    TRY(settle_elsewhere(op));
    TRY(pool_take(op, store->pools[pool], &slot));
    struct fault fault = once_in(op, store, slot, durability, sql, args, count);
    if (!FAULTED(fault)) {
        fault = connection_kept(slot->connection, &kept);
    } else if (connection_alive(slot->connection)) {
        connection_abandon(slot->connection);
    }
    pool_give(slot);
    TRY(fault);
    if (ret_affected != NULL) {
        *ret_affected = affected_of(kept);
    }
    if (ret_rows == NULL) {
        PQclear(kept);
        return OK;
    }
    return rows_new(kept, ret_rows);
}

/* ---- a transaction's statements ---- */

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
    return connection_finish(tx->op, tx->slot->connection, answer_deadline(tx->op, tx->statement_ns), ret_result);
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
            tx->failed = tx->ahead != NULL ? send_part(tx->ahead) : OK;
        }
        if (!FAULTED(fault) && !FAULTED(tx->failed)) {
            tx->failed = round_once(tx, sql, args, count, ret_result);
        }
    }
    if (tx->ahead != NULL) {
        struct fault judged = judge(TAKE(tx->ahead), tx->failed);
        if (FAULTED(judged) && !FAULTED(tx->failed)) {
            PQclear(TAKE(*ret_result));
        }
        tx->failed = FAULTED(judged) ? judged : tx->failed;
    }
    return tx->failed;
}

/* What changes something must not travel behind what is not answered yet. */
static struct fault settle_first(struct tx *tx)
{
    if (tx->ahead == NULL) {
        return OK;
    }
    PGresult *nothing = NULL;
    static const struct sql ask = { "svc_nothing", "SELECT 1", 0 };
    struct fault fault = tx_round(tx, &ask, NULL, 0, &nothing);
    PQclear(nothing);
    return fault;
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
    if (ret_affected != NULL) {
        *ret_affected = affected_of(result);
    }
    PQclear(result);
    return OK;
}

struct fault tx_queue(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count)
{
    TRY(tx->failed);
    TRY(settle_first(tx));
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
