/* The serving thread: new connections, and all that must go on while the workers are in the token. */
#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define EVENTS_MAX   64
#define ACCEPT_MAX   64             /* at one go */
#define PATIENCE     (5 * NS_PER_S) /* for the rest of a begun frame */
#define LOOK_EVERY   (1 * NS_PER_S) /* at the token, and at begun frames */
#define TICK_MS      100            /* how soon it is noticed that every worker is busy */
#define TICK_BUSY_MS 10             /* and how soon input is then read */

/* ---- new connections ---- */

static void refuse_peer(struct broker *broker, const char *reason, uid_t uid)
{
    uint64_t left_out = 0;
    broker->refused_peers++;
    if (noise_allows(&broker->noise, &left_out)) {
        log_write(WARN, "peer_refused", LOG_TEXT("reason", reason), LOG_INT("uid", uid),
                  LOG_INT("refused_so", broker->refused_peers));
    }
}

static void take_peer(struct broker *broker, int fd)
{
    struct ucred peer = { .uid = (uid_t)-1 };
    socklen_t len = sizeof(peer);
    unsigned askers = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && len == sizeof(peer)) {
        askers = askers_of(&broker->parts.askers, peer.uid);
    }
    if (askers == 0) {
        fd_close(fd);
        refuse_peer(broker, "uid", peer.uid);
    } else if (FAULTED(connection_open(broker, fd, askers))) {
        refuse_peer(broker, "connections", peer.uid);
    }
}

static void take_peers(struct broker *broker, int listener)
{
    for (unsigned i = 0; i < ACCEPT_MAX; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return; /* none left, or one that went away: the next round sees */
        }
        take_peer(broker, fd);
    }
}

/* ---- what goes on while the workers are busy ---- */

/* Reads what has arrived, so that Health is answered, deadlines run and a full queue is told. */
static void stand_in(struct broker *broker)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(broker->epoll, events, EVENTS_MAX, 0);
    BUG_IF(count < 0 && errno != EINTR);
    for (int i = 0; i < count; i++) {
        struct connection *connection = events[i].data.ptr;
        if (connection == NULL || !connection_own(connection) || !connection_request(connection, &broker->frame)) {
            continue; /* NULL: the bell, which is for the workers */
        }
        struct fault fault = workers_ask(broker, connection);
        if (FAULTED(fault)) {
            connection_answer(connection, fault, &broker->frame);
        }
    }
}

static void answer_late_ones(struct broker *broker)
{
    for (struct connection *c = line_pop_expired(&broker->line); c != NULL; c = line_pop_expired(&broker->line)) {
        connection_answer_late(c, &broker->frame);
    }
}

/* Begun frames that are not finished. */
static void close_half_frames(struct broker *broker)
{
    mono_ns now = clock_mono();
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        struct connection *connection = &broker->connections[i];
        if (!connection_own(connection)) {
            continue;
        }
        if (connection->half_since != 0 && now - connection->half_since > PATIENCE) {
            uint64_t left_out = 0;
            if (noise_allows(&broker->noise, &left_out)) {
                log_write(WARN, "connection_closed", LOG_TEXT("code", fault_row(FAULT_DEADLINE)->text));
            }
            connection_close(connection);
        } else {
            connection_arm(connection);
        }
    }
}

/* Changes of the token's state, also those that are over again, reach the log here; operations only report their own
 * failure. */
static struct fault look_at_token(struct broker *broker)
{
    static const char *const texts[] = { [TOKEN_OK] = "ok", [TOKEN_DEGRADED] = "degraded", [TOKEN_DOWN] = "down" };
    struct token_status status = { 0 };
    token_status(broker->parts.token, &status);
    if (status.state != broker->reported || status.recoveries != broker->reported_recoveries) {
        broker->reported = status.state;
        broker->reported_recoveries = status.recoveries;
        log_write(WARN, "token_state", LOG_TEXT("state", texts[status.state]),
                  LOG_TEXT("cause", status.cause[0] != 0 ? status.cause : NULL),
                  LOG_INT("recoveries", status.recoveries));
    }
    if (status.restart_advised) {
        log_write(ERROR, "token_stuck", LOG_INT("inside_ms", status.oldest_call_ms));
        return FAULT(TOKEN_UNAVAILABLE);
    }
    return OK;
}

static struct fault look(struct broker *broker)
{
    mono_ns now = clock_mono();
    if (now < broker->next_look) {
        return OK;
    }
    broker->next_look = now + LOOK_EVERY;
    close_half_frames(broker);
    return look_at_token(broker);
}

struct fault broker_serve(struct broker *broker, int listener, int signals)
{
    bool busy = false;
    for (;;) {
        struct pollfd ready[] = { { .fd = listener, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
        int rc = poll(ready, COUNT_OF(ready), busy ? TICK_BUSY_MS : TICK_MS);
        BUG_IF(rc < 0 && errno != EINTR);
        if (rc > 0 && ready[1].revents != 0) {
            return OK;
        }
        if (rc > 0 && ready[0].revents != 0) {
            take_peers(broker, listener);
        }
        busy = atomic_load(&broker->listening) == 0;
        if (busy) {
            stand_in(broker);
        }
        answer_late_ones(broker);
        TRY(look(broker));
    }
}

bool broker_drain(struct broker *broker, mono_ns deadline)
{
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    atomic_store(&broker->stopping, true); /* from here on who answers closes */
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        if (connection_own(&broker->connections[i])) {
            connection_close(&broker->connections[i]);
        }
    }
    int rc = 0;
    BUG_IF(pthread_mutex_lock(&broker->lock) != 0);
    while (broker->count > 0 && rc == 0) {
        rc = pthread_cond_timedwait(&broker->emptied, &broker->lock, &until);
        BUG_IF(rc != 0 && rc != ETIMEDOUT);
    }
    bool all = broker->count == 0;
    BUG_IF(pthread_mutex_unlock(&broker->lock) != 0);
    return all;
}
