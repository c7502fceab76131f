#include "api/store/internal.h"

#include "appliance/base/alloc.h"

#include <pthread.h>

#define SETTLE_MS \
    1000 /* how long the leftovers of an abandoned transaction may take; then the connection is replaced */

/* Lives on the waiting thread's stack; linked while it waits. */
struct waiter {
    pthread_cond_t wake;
    struct slot *slot;
    struct waiter *next;
};

struct pool {
    enum store_pool which;
    const struct endpoint *endpoint; /* borrowed */
    int64_t acquire_ns;
    unsigned size;
    struct slot *slots;
    pthread_mutex_t lock; /* guards all below; never held over I/O */
    struct slot *idle;    /* last given first taken, so that few sessions stay warm */
    struct waiter *first_waiter, **last_waiter;
    unsigned acquired, connected;
};

static void must(int error)
{
    BUG_IF(error != 0);
}

static void set_connection(struct slot *slot, struct connection *connection)
{
    struct pool *pool = slot->pool;
    bool had = slot->connection != NULL;
    connection_close(slot->connection);
    slot->connection = connection;
    must(pthread_mutex_lock(&pool->lock));
    pool->connected += (connection != NULL ? 1u : 0u);
    pool->connected -= (had ? 1u : 0u);
    must(pthread_mutex_unlock(&pool->lock));
}

static struct fault connect_slot(struct op *op, struct slot *slot, mono_ns deadline)
{
    struct connection *connection = NULL;
    TRY(connection_open(op, slot->pool->endpoint, deadline, &connection));
    set_connection(slot, connection);
    return OK;
}

struct fault pool_open(struct op *op, enum store_pool which, const struct endpoint *endpoint, unsigned size,
                       int64_t acquire_ns, struct pool **ret_pool)
{
    CLEANUP(pool_closep) struct pool *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->which = which;
    made->endpoint = endpoint;
    made->acquire_ns = acquire_ns;
    made->last_waiter = &made->first_waiter;
    must(pthread_mutex_init(&made->lock, NULL));
    TRY(mem_new(size, sizeof(struct slot), &made->slots));
    made->size = size;
    for (unsigned i = 0; i < size; i++) {
        made->slots[i] = (struct slot){ .pool = made, .next = made->idle };
        made->idle = &made->slots[i];
        TRY(connect_slot(op, &made->slots[i], op->deadline));
    }
    *ret_pool = TAKE(made);
    return OK;
}

void pool_close(struct pool *pool)
{
    if (pool == NULL) {
        return;
    }
    BUG_IF(pool->acquired != 0);
    for (unsigned i = 0; i < pool->size; i++) {
        connection_close(pool->slots[i].connection);
    }
    must(pthread_mutex_destroy(&pool->lock));
    mem_free(pool->slots);
    mem_free(pool);
}

static void unlink_waiter(struct pool *pool, struct waiter *waiter)
{
    for (struct waiter **at = &pool->first_waiter; *at != NULL; at = &(*at)->next) {
        if (*at == waiter) {
            *at = waiter->next;
            if (*at == NULL) {
                pool->last_waiter = at;
            }
            return;
        }
    }
}

static struct slot *wait_locked(struct pool *pool, mono_ns deadline)
{
    struct waiter self = { 0 };
    pthread_condattr_t monotonic;
    must(pthread_condattr_init(&monotonic));
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC));
    must(pthread_cond_init(&self.wake, &monotonic));
    must(pthread_condattr_destroy(&monotonic));
    *pool->last_waiter = &self;
    pool->last_waiter = &self.next;

    struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    while (self.slot == NULL && pthread_cond_timedwait(&self.wake, &pool->lock, &until) == 0) {
    }
    if (self.slot == NULL) {
        unlink_waiter(pool, &self);
    }
    must(pthread_cond_destroy(&self.wake));
    return self.slot;
}

static struct slot *take_slot(struct pool *pool, mono_ns deadline)
{
    must(pthread_mutex_lock(&pool->lock));
    struct slot *slot = pool->idle;
    if (slot != NULL) {
        pool->idle = slot->next;
    } else {
        slot = wait_locked(pool, deadline);
    }
    if (slot != NULL) {
        slot->next = NULL;
        pool->acquired++;
    }
    must(pthread_mutex_unlock(&pool->lock));
    return slot;
}

/* An idle and living connection in the slot: the old one where it is good, else a new one. */
static struct fault make_usable(struct op *op, struct slot *slot, mono_ns deadline)
{
    if (slot->connection != NULL && connection_alive(slot->connection)) {
        mono_ns settle = clock_mono() + SETTLE_MS * NS_PER_MS;
        if (!FAULTED(connection_settle(op, slot->connection, settle < deadline ? settle : deadline))) {
            return OK;
        }
    }
    if (slot->connection != NULL) {
        set_connection(slot, NULL);
    }
    return connect_slot(op, slot, deadline);
}

struct fault pool_take(struct op *op, struct pool *pool, struct slot **ret_slot)
{
    mono_ns deadline = clock_mono() + pool->acquire_ns;
    if (op->deadline < deadline) {
        deadline = op->deadline;
    }
    struct slot *slot = take_slot(pool, deadline);
    if (slot == NULL) {
        return op_fail(op, FAULT(STORE_BUSY),
                       "no connection of the %s pool became free in time: repeat the request as it is",
                       store_pool_text(pool->which));
    }
    struct fault fault = make_usable(op, slot, deadline);
    if (FAULTED(fault)) {
        pool_give(slot);
        return fault;
    }
    *ret_slot = slot;
    return OK;
}

struct fault pool_renew(struct op *op, struct slot *slot)
{
    mono_ns deadline = clock_mono() + slot->pool->acquire_ns;
    return connect_slot(op, slot, op->deadline < deadline ? op->deadline : deadline);
}

void pool_give(struct slot *slot)
{
    struct pool *pool = slot->pool;
    if (slot->connection != NULL && !connection_alive(slot->connection)) {
        set_connection(slot, NULL);
    }
    must(pthread_mutex_lock(&pool->lock));
    BUG_IF(pool->acquired == 0);
    pool->acquired--;
    struct waiter *waiter = pool->first_waiter;
    if (waiter != NULL) {
        unlink_waiter(pool, waiter);
        waiter->slot = slot;
        must(pthread_cond_signal(&waiter->wake));
    } else {
        slot->next = pool->idle;
        pool->idle = slot;
    }
    must(pthread_mutex_unlock(&pool->lock));
}

void pool_stats(struct pool *pool, struct store_pool_stats *ret_stats)
{
    must(pthread_mutex_lock(&pool->lock));
    *ret_stats = (struct store_pool_stats){
        .max = pool->size,
        .total = pool->connected,
        .acquired = pool->acquired,
        .idle = pool->size - pool->acquired,
    };
    must(pthread_mutex_unlock(&pool->lock));
}
