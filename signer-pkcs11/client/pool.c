#include "signer-pkcs11/client/pool.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

struct pool {
    const char *path;
    unsigned limit;
    pthread_mutex_t lock; /* guards all below; never held over I/O */
    pthread_cond_t room;
    struct connection *idle;
    unsigned count; /* idle and out */
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
    struct pool *pool = NULL;
    REQUIRE(strlen(config->signer_socket) < sizeof(((struct sockaddr_un *)0)->sun_path), CONFIG);
    TRY(mem_new(1, sizeof(*pool), &pool));
    pool->path = config->signer_socket;
    pool->limit = (unsigned)config->signer_client_conns;
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
    (void)pthread_cond_destroy(&pool->room);
    (void)pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
}

/* A place among `limit` is there already. A full backlog makes connect wait; SO_SNDTIMEO bounds that. */
static struct fault connect_to(struct op *op, const char *path, mono_ns deadline, int *ret_fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, path, strlen(path) + 1);
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(fd >= 0, IO);
    int ms = clock_ms_left(deadline);
    struct timeval patience = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
    if (ms == 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        char reason[64];
        op_note_log(op, "connect %s: %s", path, strerror_r(errno, reason, sizeof(reason)));
        return op_fail(op, FAULT(SIGNER_UNAVAILABLE), "the signer does not accept connections: is svc-signer running?");
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}

static struct fault connection_new(struct op *op, struct pool *pool, mono_ns deadline,
                                   struct connection **ret_connection)
{
    CLEANUP(connection_freep) struct connection *made = NULL;
    CLEANUP(fd_closep) int fd = -1;
    TRY(mem_new(1, sizeof(*made), &made));
    made->pool = pool;
    made->stream = (struct frame_stream)FRAME_STREAM_NONE;
    made->frame = (struct buf)BUF_INIT(FRAME_HEADER + FRAME_MAX);
    TRY(arena_new(WIRE_ARENA_MAX, &made->arena));
    TRY(connect_to(op, pool->path, deadline, &fd));
    TRY(frame_stream_init(&made->stream, fd));
    fd = -1;
    *ret_connection = TAKE(made);
    return OK;
}

static void leave_place(struct pool *pool)
{
    lock(pool);
    pool->count--;
    BUG_IF(pthread_cond_signal(&pool->room) != 0);
    unlock(pool);
}

/* An idle connection, or NULL with a place for a new one. */
static struct fault take_place(struct op *op, struct pool *pool, mono_ns deadline, struct connection **ret_idle)
{
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    int rc = 0;
    lock(pool);
    while (pool->idle == NULL && pool->count == pool->limit && rc == 0) {
        rc = pthread_cond_timedwait(&pool->room, &pool->lock, &until);
        BUG_IF(rc != 0 && rc != ETIMEDOUT);
    }
    struct connection *idle = pool->idle;
    bool room = idle == NULL && pool->count < pool->limit;
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
        TRY(take_place(op, pool, deadline, &idle));
        if (idle == NULL) {
            struct fault fault = connection_new(op, pool, deadline, ret_connection);
            if (FAULTED(fault)) {
                leave_place(pool);
            }
            return fault;
        }
        if (choice == POOL_ANY) {
            *ret_connection = idle;
            return OK;
        }
        signer_pool_drop(idle); /* and look again: the next may be of the present signer, or there is none left */
    }
}

void signer_pool_put(struct connection *connection)
{
    struct pool *pool = connection->pool;
    lock(pool);
    connection->next = pool->idle;
    pool->idle = connection;
    BUG_IF(pthread_cond_signal(&pool->room) != 0);
    unlock(pool);
}

void signer_pool_drop(struct connection *connection)
{
    if (connection == NULL) {
        return;
    }
    struct pool *pool = connection->pool;
    connection_free(connection);
    leave_place(pool);
}
