#include "api/projection/leadership.h"

#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <pthread.h>

#define RENEW_NS    (NS_PER_S + 200 * NS_PER_MS) /* the lock asks at most once a second */
/* Sessions of the one that stands still: seconds younger, since it may have stopped in the midst of a batch. */
#define STALE_TX_MS (LEADERSHIP_STALE_MS - 2000)

/* A leader that is well asks every second. The sessions that hold its batch's row locks end with it. */
static const struct sql SQL_PUT_OUT = {
    "leadership_put_out",
    "WITH stale AS (SELECT a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND l.classid::bigint = $1 AND l.objid::bigint = $2 AND a.usename = current_user AND a.state <> 'active'"
    " AND a.state_change < clock_timestamp() - $3 * interval '1 millisecond')"
    " SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM stale UNION SELECT a.pid"
    " FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE EXISTS (SELECT FROM stale)"
    " AND l.relation = 'svc.projection_checkpoint'::regclass AND l.granted AND l.mode = 'RowExclusiveLock'"
    " AND a.usename = current_user AND a.pid <> pg_backend_pid() AND a.state LIKE 'idle in transaction%'"
    " AND a.state_change < clock_timestamp() - $4 * interval '1 millisecond') ended",
    4,
};

struct leadership {
    struct store_lock *lock; /* the keeper's while it runs */
    _Atomic mono_ns own;
    _Atomic mono_ns *renewed; /* `own`, or the caller's */
    atomic_bool lost;
    pthread_t keeper;
    bool keeper_runs;
    pthread_mutex_t mutex; /* guards stopping */
    pthread_cond_t changed;
    bool stopping;
};

/* With the mutex. False: it is to end. */
static bool pause_locked(struct leadership *leadership)
{
    mono_ns until = clock_mono() + RENEW_NS;
    struct timespec at = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    int waited = 0;
    while (!leadership->stopping && waited == 0) {
        waited = pthread_cond_clockwait(&leadership->changed, &leadership->mutex, CLOCK_MONOTONIC, &at);
        BUG_IF(waited != 0 && waited != ETIMEDOUT);
    }
    return !leadership->stopping;
}

/* The lease counts from before the question, and is not renewed once it ran out: somebody else may lead by then. */
static void *keep(void *arg)
{
    struct leadership *leadership = arg;
    (void)pthread_setname_np(pthread_self(), "svc-leader");
    BUG_IF(pthread_mutex_lock(&leadership->mutex) != 0);
    while (pause_locked(leadership)) {
        BUG_IF(pthread_mutex_unlock(&leadership->mutex) != 0);
        mono_ns asked = clock_mono();
        if (asked - atomic_load(leadership->renewed) >= LEADERSHIP_LEASE_NS || !store_lock_alive(leadership->lock)) {
            atomic_store(&leadership->lost, true);
        }
        if (!atomic_load(&leadership->lost)) {
            atomic_store(leadership->renewed, asked);
        }
        BUG_IF(pthread_mutex_lock(&leadership->mutex) != 0);
    }
    BUG_IF(pthread_mutex_unlock(&leadership->mutex) != 0);
    return NULL;
}

static struct fault put_out(struct op *op, struct store *store)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const uint64_t key = (uint64_t)STORE_LOCK_PROJECTOR;
    struct sql_arg args[] = { SQL_INT((int64_t)(key >> 32)), SQL_INT((int64_t)(key & UINT32_MAX)),
                              SQL_INT(LEADERSHIP_STALE_MS), SQL_INT(STALE_TX_MS) };
    TRY(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_PUT_OUT, args, COUNT_OF(args), &rows));
    int64_t ended = rows_int(rows, 0, 0);
    TRY(tx_commit(&tx));
    if (ended > 0) {
        log_write(WARN, "stale_leader_put_out", LOG_INT("sessions", ended));
    }
    return OK;
}

static struct fault start_keeper(struct leadership *leadership)
{
    leadership->keeper_runs = pthread_create(&leadership->keeper, NULL, keep, leadership) == 0;
    return leadership->keeper_runs ? OK : FAULT(NO_MEMORY);
}

struct fault leadership_try(struct op *op, struct store *store, _Atomic mono_ns *renewed,
                            struct leadership **ret_leadership, bool *ret_held)
{
    CLEANUP(leadership_freep) struct leadership *made = NULL;
    bool held = false;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->mutex, NULL) != 0 || pthread_cond_init(&made->changed, NULL) != 0);
    made->renewed = renewed != NULL ? renewed : &made->own;
    mono_ns asked = clock_mono();
    TRY(store_lock_try(op, store, STORE_LOCK_PROJECTOR, &made->lock, &held));
    if (!held) {
        TRY(put_out(op, store));
        *ret_held = false;
        return OK;
    }
    atomic_store(made->renewed, asked);
    TRY(start_keeper(made));
    *ret_leadership = TAKE(made);
    *ret_held = true;
    return OK;
}

bool leadership_held(struct leadership *leadership)
{
    return !atomic_load(&leadership->lost) && clock_mono() - atomic_load(leadership->renewed) < LEADERSHIP_LEASE_NS;
}

void leadership_free(struct leadership *leadership)
{
    if (leadership == NULL) {
        return;
    }
    BUG_IF(pthread_mutex_lock(&leadership->mutex) != 0);
    leadership->stopping = true;
    BUG_IF(pthread_cond_signal(&leadership->changed) != 0);
    BUG_IF(pthread_mutex_unlock(&leadership->mutex) != 0);
    if (leadership->keeper_runs) {
        BUG_IF(pthread_join(leadership->keeper, NULL) != 0);
    }
    store_lock_free(leadership->lock);
    BUG_IF(pthread_cond_destroy(&leadership->changed) != 0 || pthread_mutex_destroy(&leadership->mutex) != 0);
    mem_free(leadership);
}
