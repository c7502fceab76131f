#include "signer-pkcs11/client/pool.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "signer-pkcs11/client/dial.h"
#include "signer-pkcs11/protocol/tls_stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define SPARE 2u /* places beyond the limit */

struct pool {
    struct dial *dial;
    unsigned limit;
    pthread_mutex_t lock; /* guards all below; never held over I/O */
    pthread_cond_t room;
    struct connection *idle;
    unsigned count;   /* idle and out */
    unsigned waiting; /* for a place */

    unsigned processors;
    atomic_uint out;        /* connections that are in use */
    _Atomic uint32_t micro; /* how long the last call took that was alone */
};

static void lock(struct pool *pool)
{
    BUG_IF(pthread_mutex_lock(&pool->lock) != 0);
}
static void unlock(struct pool *pool)
{
    BUG_IF(pthread_mutex_unlock(&pool->lock) != 0);
}

struct fault signer_pool_new(const struct config *config, struct pool **ret_pool)
{
    CLEANUP(dial_freep) struct dial *dial = NULL;
    struct pool *pool = NULL;
    TRY(dial_new(config, &dial));
    TRY(mem_new(1, sizeof(*pool), &pool));
    pool->dial = TAKE(dial);
    pool->limit = (unsigned)config->signer_client_conns;
    pool->processors = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    pthread_condattr_t attr;
    BUG_IF(pthread_mutex_init(&pool->lock, NULL) != 0 || pthread_condattr_init(&attr) != 0);
    BUG_IF(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0 || pthread_cond_init(&pool->room, &attr) != 0);
    (void)pthread_condattr_destroy(&attr);
    *ret_pool = pool;
    return OK;
}

static void connection_free(struct connection *connection)
{
    if (connection == NULL) {
        return;
    }
    frame_stream_clear(&connection->stream);
    arena_free(connection->arena);
    buf_free(&connection->frame);
    mem_free(connection);
}
DEFINE_FREEP(struct connection, connection_free)

void signer_pool_free(struct pool *pool)
{
    if (pool == NULL) {
        return;
    }
    while (pool->idle != NULL) {
        struct connection *next = pool->idle->next;
        connection_free(pool->idle);
        pool->idle = next;
        pool->count--;
    }
    BUG_IF(pool->count != 0);
    dial_free(pool->dial);
    (void)pthread_cond_destroy(&pool->room);
    (void)pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
}

/* A place among `limit` is there already. */
static struct fault connection_new(struct op *op, struct pool *pool, mono_ns deadline,
                                   struct connection **ret_connection)
{
    CLEANUP(connection_freep) struct connection *made = NULL;
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(tls_stream_freep) struct tls_stream *tls = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->pool = pool;
    made->stream = (struct frame_stream)FRAME_STREAM_NONE;
    made->frame = (struct buf)BUF_INIT(FRAME_HEADER + FRAME_MAX);
    TRY(arena_new(WIRE_ARENA_MAX, &made->arena));
    TRY(dial_connect(op, pool->dial, deadline, &fd, &tls));
    TRY(frame_stream_init(&made->stream, fd, tls));
    fd = -1;
    tls = NULL;
    *ret_connection = TAKE(made);
    return OK;
}

static void tell_locked(struct pool *pool)
{
    if (pool->waiting > 0) {
        BUG_IF(pthread_cond_signal(&pool->room) != 0);
    }
}

static void leave_place(struct pool *pool)
{
    lock(pool);
    pool->count--;
    tell_locked(pool);
    unlock(pool);
}

/* An idle connection, or NULL with a place for a new one. */
static struct fault take_place(struct op *op, struct pool *pool, enum pool_choice choice, mono_ns deadline,
                               struct connection **ret_idle)
{
    const unsigned limit = pool->limit + ((choice & POOL_SPARE) != 0 ? SPARE : 0);
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    int rc = 0;
    lock(pool);
    pool->waiting++;
    while (pool->idle == NULL && pool->count >= limit && rc == 0) {
        rc = pthread_cond_timedwait(&pool->room, &pool->lock, &until);
        BUG_IF(rc != 0 && rc != ETIMEDOUT);
    }
    pool->waiting--;
    struct connection *idle = pool->idle;
    bool room = idle == NULL && pool->count < limit;
    if (idle != NULL) {
        pool->idle = idle->next;
        idle->next = NULL;
    }
    pool->count += room;
    unlock(pool);
    if (idle == NULL && !room) {
        return op_fail(op, FAULT(SATURATED), "all %u connections to the signer are in use: repeat the request",
                       pool->limit);
    }
    *ret_idle = idle;
    return OK;
}

struct fault signer_pool_take(struct op *op, struct pool *pool, enum pool_choice choice, mono_ns deadline,
                              struct connection **ret_connection)
{
    for (;;) {
        struct connection *idle = NULL;
        TRY(take_place(op, pool, choice, deadline, &idle));
        if (idle == NULL) {
            struct fault fault = connection_new(op, pool, deadline, ret_connection);
            if (FAULTED(fault)) {
                leave_place(pool);
            } else {
                atomic_fetch_add_explicit(&pool->out, 1, memory_order_relaxed);
            }
            return fault;
        }
        if ((choice & POOL_FRESH) == 0) {
            atomic_fetch_add_explicit(&pool->out, 1, memory_order_relaxed);
            *ret_connection = idle;
            return OK;
        }
        connection_free(idle);
        leave_place(pool); /* and look again: the next may be of the present signer, or there is none left */
    }
}

void signer_pool_put(struct connection *connection)
{
    struct pool *pool = connection->pool;
    atomic_fetch_sub_explicit(&pool->out, 1, memory_order_relaxed);
    lock(pool);
    connection->next = pool->idle;
    pool->idle = connection;
    tell_locked(pool);
    unlock(pool);
}

void signer_pool_drop(struct connection *connection)
{
    if (connection == NULL) {
        return;
    }
    struct pool *pool = connection->pool;
    atomic_fetch_sub_explicit(&pool->out, 1, memory_order_relaxed);
    connection_free(connection);
    leave_place(pool);
}

/* ---- staying awake ---- */

#define QUICK_US 250 /* an answer that takes longer is worth sleeping for */
#define AWAKE_NS (150 * 1000)

mono_ns signer_pool_awake(const struct connection *connection)
{
    const struct pool *pool = connection->pool;
    bool alone = atomic_load_explicit(&pool->out, memory_order_relaxed) == 1;
    bool quick = atomic_load_explicit(&pool->micro, memory_order_relaxed) < QUICK_US;
    return alone && quick && pool->processors > 1 ? AWAKE_NS : 0;
}

void signer_pool_took(const struct connection *connection, mono_ns span)
{
    struct pool *pool = connection->pool;
    if (atomic_load_explicit(&pool->out, memory_order_relaxed) == 1) {
        atomic_store_explicit(&pool->micro, (uint32_t)(span < NS_PER_S ? span / 1000 : 1000000), memory_order_relaxed);
    }
}
