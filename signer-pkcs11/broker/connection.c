#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/file.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define WATCHED (EPOLLIN | EPOLLRDHUP | EPOLLONESHOT)

static void lock(pthread_mutex_t *mutex)
{
    BUG_IF(pthread_mutex_lock(mutex) != 0);
}
static void unlock(pthread_mutex_t *mutex)
{
    BUG_IF(pthread_mutex_unlock(mutex) != 0);
}

bool connection_own(struct connection *connection)
{
    lock(&connection->lock);
    bool armed = connection->state == CONNECTION_ARMED;
    if (armed) {
        connection->state = CONNECTION_OWNED;
    }
    unlock(&connection->lock);
    return armed;
}

/* ARMED is said before epoll can give it out, and under the lock, so that nobody closes it in between. */
static bool arm(struct connection *connection, int how)
{
    struct epoll_event event = { .events = WATCHED, .data.ptr = connection };
    lock(&connection->lock);
    bool armed = !atomic_load(&connection->broker->stopping) &&
                 epoll_ctl(connection->broker->epoll, how, connection->stream.fd, &event) == 0;
    connection->state = armed ? CONNECTION_ARMED : CONNECTION_OWNED;
    unlock(&connection->lock);
    return armed;
}

void connection_arm(struct connection *connection)
{
    if (!arm(connection, EPOLL_CTL_MOD)) {
        connection_close(connection);
    }
}

static void give_slot_back(struct connection *connection)
{
    struct broker *broker = connection->broker;
    lock(&broker->lock);
    lock(&connection->lock);
    connection->state = CONNECTION_FREE;
    unlock(&connection->lock);
    connection->used = false;
    broker->count--;
    broker->api_count -= (connection->askers & ASKER_API) != 0;
    if (broker->count == 0) {
        BUG_IF(pthread_cond_signal(&broker->emptied) != 0);
    }
    unlock(&broker->lock);
}

void connection_close(struct connection *connection)
{
    frame_stream_clear(&connection->stream); /* its descriptor leaves epoll with it */
    arena_free(TAKE(connection->arena));
    op_free(TAKE(connection->op));
    buf_free(&connection->result);
    give_slot_back(connection);
}

static struct connection *take_slot(struct broker *broker, unsigned askers)
{
    bool api = (askers & ASKER_API) != 0;
    struct connection *slot = NULL;
    lock(&broker->lock);
    if (broker->count < BROKER_CONNECTIONS_MAX && (!api || broker->api_count < BROKER_API_MAX)) {
        slot = broker->connections;
        while (slot->used) {
            slot++;
        }
        slot->used = true;
        lock(&slot->lock);
        slot->state = CONNECTION_OWNED;
        unlock(&slot->lock);
        broker->count++;
        broker->api_count += api;
    }
    unlock(&broker->lock);
    return slot;
}

static struct fault furnish(struct connection *slot, int fd)
{
    slot->half_since = 0;
    slot->stream = (struct frame_stream)FRAME_STREAM_NONE;
    slot->result = (struct buf)BUF_INIT(WIRE_RESULT_MAX);
    TRY(arena_new(WIRE_ARENA_MAX, &slot->arena));
    TRY(op_new("svc-signer", (struct tenant_id){ 0 }, 0, &slot->op));
    return frame_stream_init(&slot->stream, fd);
}

struct fault connection_open(struct broker *broker, int fd, unsigned askers)
{
    struct connection *slot = take_slot(broker, askers);
    if (slot == NULL) {
        fd_close(fd);
        return FAULT(SATURATED);
    }
    slot->askers = askers;
    if (FAULTED(furnish(slot, fd))) {
        fd_close(fd);
        connection_close(slot);
        return FAULT(SATURATED);
    }
    if (!arm(slot, EPOLL_CTL_ADD)) {
        connection_close(slot);
        return FAULT(SATURATED);
    }
    return OK;
}
