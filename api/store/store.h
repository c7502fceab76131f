/*
 * PostgreSQL, and nothing else of it leaves this folder: pools by purpose, transactions with the tenant set, prepared
 * statements by constant. Every table with tenant rows has row-level security forced; a transaction sees its
 * operation's tenant only (set_config('svc.tenant', ..., true) at its start).
 *
 * Three roles: svc_owner owns the schema (migrate, rebuild), svc_worker writes read-model tables (projector, outbox),
 * svc_app reads them and writes only what is not a projection (idempotency claims, rate limits). So "only a projection
 * writes the read model" is a grant, not a habit.
 *
 *     CLEANUP(tx_rollbackp) struct tx *tx = NULL;
 *     TRY(tx_begin(op, store, STORE_REQUEST, &tx));
 *     CLEANUP(rows_freep) struct rows *rows = NULL;
 *     TRY(tx_query(tx, &KEY_BY_ID, (struct sql_arg[]){ SQL_TEXT(id) }, 1, &rows));
 *     TRY(tx_commit(&tx));
 */
#ifndef API_STORE_STORE_H
#define API_STORE_STORE_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

struct store;
struct tx;
struct rows;

/* Pools of the contract. The role: svc_worker for BOOKKEEPING and LOCK, svc_app for the rest. Idempotency results and
 * claims use RESERVED/REQUEST. */
enum store_pool { STORE_REQUEST, STORE_PROBE, STORE_RESERVED, STORE_BOOKKEEPING, STORE_LOCK, STORE_POOL_COUNT };

/* One statement: constant text with $1.. parameters, prepared by name on first use of each connection. */
struct sql {
    const char *name;
    const char *text;
    unsigned args;
};
struct sql_arg {
    enum { SQL_ARG_NULL, SQL_ARG_TEXT, SQL_ARG_INT, SQL_ARG_BYTES, SQL_ARG_BOOL } kind;
    struct span bytes; /* TEXT, BYTES */
    int64_t number;    /* INT, BOOL */
};
#define SQL_TEXT(v)  ((struct sql_arg){ .kind = SQL_ARG_TEXT, .bytes = span_text(v) })
#define SQL_SPAN(v)  ((struct sql_arg){ .kind = SQL_ARG_TEXT, .bytes = (v) })
#define SQL_BYTES(v) ((struct sql_arg){ .kind = SQL_ARG_BYTES, .bytes = (v) })
#define SQL_INT(v)   ((struct sql_arg){ .kind = SQL_ARG_INT, .number = (v) })
#define SQL_BOOL(v)  ((struct sql_arg){ .kind = SQL_ARG_BOOL, .number = (v) })
#define SQL_NONE     ((struct sql_arg){ .kind = SQL_ARG_NULL })

/* Opens and pings every connection of every pool or fails closed; checks schema version and the roles (STORE_ROLE when
 * one is superuser, has BYPASSRLS or owns a table). `why` gets a line. */
struct fault store_open(const struct config *config, struct buf *why, struct store **ret_store);
void store_close(struct store *store);
DEFINE_FREEP(struct store, store_close)

/* Takes a connection (STORE_BUSY after the acquire window or the operation's deadline), begins, sets the tenant.
 * Raises op->tx_open. */
struct fault tx_begin(struct op *op, struct store *store, enum store_pool pool, struct tx **ret_tx);
/* The same, for reading only, and all of it as of one moment: every statement sees what was committed when the first
 * one began (REPEATABLE READ, READ ONLY). A write is refused by the database (INTERNAL). Never a TX_CONFLICT. */
struct fault tx_begin_snapshot(struct op *op, struct store *store, enum store_pool pool, struct tx **ret_tx);
/* Gives the connection back in any case; on failure the transaction is rolled back. *tx becomes NULL. */
struct fault tx_commit(struct tx **tx);
void tx_rollback(struct tx *tx); /* NULL is fine */
DEFINE_FREEP(struct tx, tx_rollback)
/* Another tenant within the same transaction: the projector only. */
struct fault tx_set_tenant(struct tx *tx, struct tenant_id tenant);

/* What these cost: BEGIN and the tenant travel with the first statement, so a transaction is one round trip for each
 * statement and one for the commit; a rollback is sent and not awaited, so what only reads may leave the commit out.
 * After a failed statement the transaction is over: every further call gives the same fault.
 *
 * Times are stored as BIGINT microseconds (utc_us); integers are int8, binary is bytea, flags are bool. Cast in the
 * statement where PostgreSQL would say otherwise (count(*) is int8 already). A result column of another type is a bug.
 */
struct fault tx_query(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count,
                      struct rows **ret_rows);
/* Without rows; ret_affected may be NULL. */
struct fault tx_exec(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count,
                     int64_t *ret_affected);

/* Like tx_exec, but nothing is awaited: the statement travels with the next one that is, and its failure is the fault
 * of that call (tx_commit at the latest). For many small writes in one round trip. */
struct fault tx_queue(struct tx *tx, const struct sql *sql, const struct sql_arg *args, size_t count);

/* One statement in a transaction of its own, in one round trip. ret_rows or ret_affected or both may be NULL.
 * STORE_SOON: answered before it is on disk. A crash of the database (not one of ours) may forget it, for what it can
 * forget: claims, rate limits. */
enum store_durability { STORE_DURABLE, STORE_SOON };
struct fault store_once(struct op *op, struct store *store, enum store_pool pool, enum store_durability durability,
                        const struct sql *sql, const struct sql_arg *args, size_t count, struct rows **ret_rows,
                        int64_t *ret_affected);

/* One statement that is sent ahead, in a transaction of its own (STORE_SOON) on the REQUEST pool, and not awaited: its
 * answer comes with that of the first statement of the operation's next transaction, or when op_settle() asks for it
 * (so do store_once, store_lock_try and transactions on other pools, before they do anything).
 * `judge` gets the answer then, once: rows, or NULL and what failed. When judge says a fault, the transaction that was
 * begun meanwhile fails with it and has done nothing. So a question that nearly always has the same answer costs no
 * round trip, and where it has the other one nothing has happened.
 * Lives in the caller's frame, together with its arguments, until store_ahead_end. It may be sent twice, when its
 * connection breaks: it has to bear that. */
struct slot;
struct store_ahead {
    struct op_ahead base;
    struct fault (*judge)(void *arg, struct fault fault, const struct rows *rows);
    void *arg;
    const struct sql *sql;
    const struct sql_arg *args;
    size_t count;
    /* the store's own */
    struct op *op;
    struct store *store;
    struct slot *slot;
    bool carried; /* a transaction has the connection */
};
/* Fails only when nothing was sent. */
struct fault store_send_ahead(struct op *op, struct store *store, struct store_ahead *ahead);
/* Asks for the answer if nobody did. OK afterwards means that judge has been called. */
struct fault store_ahead_end(struct store_ahead *ahead);

size_t rows_count(const struct rows *rows);
bool rows_null(const struct rows *rows, size_t row, size_t column); /* a NULL reads as 0, false, "" or no bytes */
int64_t rows_int(const struct rows *rows, size_t row, size_t column);
bool rows_bool(const struct rows *rows, size_t row, size_t column);
struct span rows_bytes(const struct rows *rows, size_t row, size_t column); /* borrows from rows */
const char *rows_text(const struct rows *rows, size_t row, size_t column);  /* borrows; NUL-terminated */
void rows_free(struct rows *rows);
DEFINE_FREEP(struct rows, rows_free)

/* Keys of advisory locks that more than one file must know. */
#define STORE_LOCK_PROJECTOR 0x7376630000000001LL /* held by the leading projector for as long as it leads */
#define STORE_LOCK_MIGRATE   0x7376630000000002LL

/* A session-level advisory lock on a connection of the LOCK pool, for leadership. held=false: somebody else has it. */
struct store_lock;
struct fault store_lock_try(struct op *op, struct store *store, int64_t key, struct store_lock **ret_lock,
                            bool *ret_held);
/* False when the connection, and with it the lock, is lost. */
bool store_lock_alive(struct store_lock *lock);
void store_lock_free(struct store_lock *lock);
DEFINE_FREEP(struct store_lock, store_lock_free)

/* One cheap read within `timeout_ms`, through the probe pool. */
struct fault store_ping(struct op *op, struct store *store, int timeout_ms);
struct store_pool_stats {
    unsigned max, total, acquired, idle;
};
struct store_pool_stats store_pool_stats(struct store *store, enum store_pool pool);
const char *store_pool_text(enum store_pool pool);

/* As svc_owner: applies the numbered migrations that are missing, each in its own transaction, under a lock. */
struct fault store_migrate(const struct config *config, struct buf *why);
/* As svc_owner: empties every table that a projection writes (rebuild). Refused (CONFLICT) while a projector runs. */
struct fault store_empty_projections(const struct config *config, struct buf *why);

#endif
