#include "api/store/internal.h"

#include "appliance/base/alloc.h"

/* A hung-up server shows at the socket at once; one that fell silent shows to this statement, asked so often. */
#define LOCK_PING_EVERY_NS NS_PER_S
#define LOCK_PING_MS       2000

static const struct sql SQL_LOCK = { "svc_lock", "SELECT pg_try_advisory_lock($1)", 1 };
static const struct sql SQL_UNLOCK = { "svc_unlock", "SELECT pg_advisory_unlock($1)", 1 };
static const struct sql SQL_LOCK_PING = { "svc_lock_ping", "SELECT 1", 0 };

struct store_lock {
    struct slot *slot;
    int64_t key;
    mono_ns next_ping;
};

static struct fault lock_ask(struct op *op, struct connection *connection, const struct sql *sql, int64_t key,
                             bool *ret_held)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(connection_run(op, connection, sql, (struct sql_arg[]){ SQL_INT(key) }, 1, op->deadline, &rows));
    *ret_held = rows_count(rows) == 1 && rows_bool(rows, 0, 0);
    return OK;
}

struct fault store_lock_try(struct op *op, struct store *store, int64_t key, struct store_lock **ret_lock,
                            bool *ret_held)
{
    struct store_lock *made = NULL;
    bool held = false;
    TRY(op_settle(op)); /* a lock is an effect */
    TRY(mem_new(1, sizeof(*made), &made));
    struct fault fault = pool_take(op, store->pools[STORE_LOCK], &made->slot);
    if (!FAULTED(fault)) {
        made->key = key;
        made->next_ping = clock_mono() + LOCK_PING_EVERY_NS;
        fault = lock_ask(op, made->slot->connection, &SQL_LOCK, key, &held);
        if (!FAULTED(fault) && held) {
            *ret_lock = made;
            *ret_held = true;
            return OK;
        }
        pool_give(made->slot);
    }
    mem_free(made);
    if (!FAULTED(fault)) {
        *ret_held = false;
    }
    return fault;
}

bool store_lock_alive(struct store_lock *lock)
{
    struct connection *connection = lock->slot->connection;
    if (!connection_alive(connection)) {
        return false;
    }
    if (clock_mono() < lock->next_ping) {
        return true;
    }
    CLEANUP(op_freep) struct op *op = NULL;
    if (FAULTED(op_new("svc-store", (struct tenant_id){ "" }, LOCK_PING_MS, &op)) ||
        FAULTED(connection_run(op, connection, &SQL_LOCK_PING, NULL, 0, op->deadline, NULL))) {
        return connection_alive(connection); /* a slow answer breaks the connection, a lack of memory here does not */
    }
    lock->next_ping = clock_mono() + LOCK_PING_EVERY_NS;
    return true;
}

void store_lock_free(struct store_lock *lock)
{
    if (lock == NULL) {
        return;
    }
    CLEANUP(op_freep) struct op *op = NULL;
    bool unlocked = false;
    if (connection_alive(lock->slot->connection) &&
        !FAULTED(op_new("svc-store", (struct tenant_id){ "" }, LOCK_PING_MS, &op))) {
        IGNORE(lock_ask(op, lock->slot->connection, &SQL_UNLOCK, lock->key, &unlocked));
    }
    if (!unlocked) {
        connection_hang_up(lock->slot->connection); /* ending the session frees the lock for certain */
    }
    pool_give(lock->slot);
    mem_free(lock);
}
