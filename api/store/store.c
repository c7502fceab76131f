#include "api/store/internal.h"

#include "appliance/base/alloc.h"

#define OPEN_MS 60000 /* all connections of all pools, and the checks */

/* Sessions of clients have a database and a user. */
static const struct sql SQL_BUDGET = {
    "svc_budget",
    "SELECT current_setting('max_connections')::int8, current_setting('superuser_reserved_connections')::int8 + "
    "current_setting('reserved_connections')::int8, count(*) FROM pg_stat_activity "
    "WHERE datid IS NOT NULL AND usesysid IS NOT NULL AND pid <> pg_backend_pid()",
    0,
};
static const struct sql SQL_PING = { "svc_ping", "SELECT 1", 0 };

const char *store_pool_text(enum store_pool pool)
{
    switch (pool) {
    case STORE_REQUEST:
        return "request";
    case STORE_PROBE:
        return "probe";
    case STORE_RESERVED:
        return "reserved";
    case STORE_BOOKKEEPING:
        return "bookkeeping";
    case STORE_LOCK:
        return "lock";
    case STORE_POOL_COUNT:
        break;
    }
    return "";
}

static bool pool_is_worker(enum store_pool pool)
{
    return pool == STORE_BOOKKEEPING || pool == STORE_LOCK;
}

static unsigned pool_size(const struct config *config, enum store_pool pool)
{
    const int64_t sizes[STORE_POOL_COUNT] = {
        [STORE_REQUEST] = config->postgres_max_conns,       [STORE_PROBE] = config->postgres_probe_conns,
        [STORE_RESERVED] = config->postgres_reserved_conns, [STORE_BOOKKEEPING] = config->postgres_bookkeeping_conns,
        [STORE_LOCK] = config->postgres_lock_conns,
    };
    return (unsigned)sizes[pool];
}

static struct fault check_with(struct op *op, struct pool *pool, const struct config *config, struct buf *why)
{
    struct slot *slot = NULL;
    TRY(pool_take(op, pool, &slot));
    struct fault fault = store_check(op, slot->connection, config, why);
    pool_give(slot);
    return fault;
}

/* Asked before the pools are opened, so that a server that is too small says so in numbers. */
static struct fault check_budget(struct op *op, struct store *store, struct buf *why)
{
    CLEANUP(connection_closep) struct connection *connection = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    int64_t needed = 0;
    for (enum store_pool pool = 0; pool < STORE_POOL_COUNT; pool++) {
        needed += pool_size(store->config, pool);
    }
    if (FAULTED(connection_open(op, store->app, op->deadline, &connection))) {
        op->note = (struct fault_note){ 0 };
        return OK; /* the request pool is the next to find out, and says it better */
    }
    TRY(connection_run(op, connection, &SQL_BUDGET, NULL, 0, op->deadline, &rows));
    int64_t most = rows_int(rows, 0, 0), reserved = rows_int(rows, 0, 1), others = rows_int(rows, 0, 2);
    if (needed + others + reserved <= most) {
        return OK;
    }
    IGNORE(
        buf_printf(why,
                   "the database cannot honour the connection budget: this instance opens %lld connections "
                   "(postgres.*_conns), others have %lld and %lld are reserved, but max_connections is %lld: it must "
                   "be at least instances x %lld + reserved + other clients\n",
                   (long long)needed, (long long)others, (long long)reserved, (long long)most, (long long)needed));
    return op_fail(op, FAULT(STORE_BUDGET), "max_connections is too small for the connection budget");
}

static struct fault open_pools(struct op *op, struct store *store, struct buf *why)
{
    const struct config *config = store->config;
    TRY(check_budget(op, store, why));
    for (enum store_pool pool = 0; pool < STORE_POOL_COUNT; pool++) {
        struct fault fault = pool_open(op, pool, pool_is_worker(pool) ? store->worker : store->app,
                                       pool_size(config, pool), config->postgres_acquire, &store->pools[pool]);
        if (FAULTED(fault)) {
            IGNORE(buf_printf(why, "database: opening %u connections of the %s pool as %s: %s\n",
                              pool_size(config, pool), store_pool_text(pool),
                              pool_is_worker(pool) ? config->postgres_worker_user : config->postgres_app_user,
                              op->note.log_detail));
            return fault;
        }
        /* Connecting needs no query; asking one now proves that sessions of each pool are served. */
        TRY(check_with(op, store->pools[pool], config, why));
    }
    return OK;
}

struct fault store_open(const struct config *config, struct buf *why, struct store **ret_store)
{
    CLEANUP(buf_free) struct buf unread = BUF_INIT(4096);
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(store_closep) struct store *made = NULL;
    struct buf *say = why != NULL ? why : &unread;
    if (strcmp(config->postgres_app_user, config->postgres_worker_user) == 0) {
        IGNORE(buf_printf(say, "postgres.app_user and postgres.worker_user are both %s: they must be two roles\n",
                          config->postgres_app_user));
        return FAULT(STORE_ROLE);
    }
    TRY(op_new("svc-store", (struct tenant_id){ "" }, OPEN_MS, &op));
    TRY(mem_new(1, sizeof(*made), &made));
    made->config = config;
    TRY(endpoint_new(config, config->postgres_app_user, say, &made->app));
    TRY(endpoint_new(config, config->postgres_worker_user, say, &made->worker));
    TRY(open_pools(op, made, say));
    *ret_store = TAKE(made);
    return OK;
}

void store_close(struct store *store)
{
    if (store == NULL) {
        return;
    }
    for (enum store_pool pool = 0; pool < STORE_POOL_COUNT; pool++) {
        pool_close(store->pools[pool]);
    }
    endpoint_free(store->app);
    endpoint_free(store->worker);
    mem_free(store);
}

static struct fault ping_once(struct op *op, struct store *store)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, store, STORE_PROBE, &tx));
    return tx_query(tx, &SQL_PING, NULL, 0, &rows);
}

struct fault store_ping(struct op *op, struct store *store, int timeout_ms)
{
    mono_ns before = op->deadline;
    mono_ns budget = clock_mono() + timeout_ms * NS_PER_MS;
    op->deadline = budget < before ? budget : before;
    struct fault fault = ping_once(op, store);
    op->deadline = before;
    return fault;
}

struct store_pool_stats store_pool_stats(struct store *store, enum store_pool pool)
{
    struct store_pool_stats stats = { 0 };
    pool_stats(store->pools[pool], &stats);
    return stats;
}
