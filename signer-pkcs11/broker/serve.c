/* The serving thread: new connections, deadlines that the module does not keep, and what the log should know. */
#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#define ACCEPT_MAX   64             /* at one go */
#define LOOK_EVERY   (1 * NS_PER_S) /* at the tokens */
#define TICK_MS      100            /* how soon it is noticed that operations run */
#define TICK_BUSY_MS 20             /* and how soon then that one is late */

/* ---- new connections ---- */

static void refuse_peer(struct broker *broker, const char *reason)
{
    uint64_t left_out = 0;
    broker->refused_peers++;
    if (noise_allows(&broker->noise, &left_out)) {
        log_write(WARN, "peer_refused", LOG_TEXT("reason", reason), LOG_INT("refused_so", broker->refused_peers));
    }
}

static void take_peers(struct broker *broker, const struct listener *listener)
{
    for (unsigned i = 0; i < ACCEPT_MAX; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return; /* none left, or one that went away: the next round sees */
        }
        unsigned askers = door_askers(listener, &broker->parts.askers, fd);
        if (askers == 0) {
            fd_close(fd);
            refuse_peer(broker, "uid");
        } else if (FAULTED(connection_open(broker, fd, listener->kind, askers))) {
            refuse_peer(broker, "connections");
        }
    }
}

struct fault broker_adopt(struct broker *broker, int fd, unsigned askers)
{
    return connection_open(broker, fd, LISTENER_UNIX, askers);
}

/* ---- what is watched ---- */

static void abandon_late_ones(struct broker *broker)
{
    mono_ns now = clock_mono();
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        connection_abandon(&broker->connections[i], now, &broker->frame);
    }
}

/* Changes of a token's state, also those that are over again, reach the log here; operations only report their own
 * failure. */
static struct fault look_at_token(struct broker *broker, size_t i)
{
    static const char *const texts[] = { [TOKEN_OK] = "ok", [TOKEN_DEGRADED] = "degraded", [TOKEN_DOWN] = "down" };
    struct token_status status = { 0 };
    struct token_name name;
    token_status(tokens_at(broker->parts.tokens, i, &name), &status);
    if (status.state != broker->reported[i] || status.recoveries != broker->reported_recoveries[i]) {
        broker->reported[i] = status.state;
        broker->reported_recoveries[i] = status.recoveries;
        log_write(WARN, "token_state", LOG_TEXT("token", status.label), LOG_TEXT("state", texts[status.state]),
                  LOG_TEXT("cause", status.cause[0] != 0 ? status.cause : NULL),
                  LOG_INT("recoveries", status.recoveries));
    }
    if (status.restart_advised) {
        log_write(ERROR, "token_stuck", LOG_TEXT("token", status.label), LOG_TEXT("cause", status.cause),
                  LOG_INT("inside_ms", status.oldest_call_ms), LOG_INT("set_aside", status.set_aside));
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
    for (size_t i = 0; i < tokens_count(broker->parts.tokens) && i < HEALTH_TOKENS_MAX; i++) {
        TRY(look_at_token(broker, i));
    }
    return OK;
}

struct fault broker_serve(struct broker *broker, int signals)
{
    const struct listeners *listeners = broker->parts.listeners;
    for (;;) {
        struct pollfd ready[LISTENERS_MAX + 1] = { { .fd = signals, .events = POLLIN } };
        for (size_t i = 0; i < listeners->count; i++) {
            ready[i + 1] = (struct pollfd){ .fd = listeners->at[i].fd, .events = POLLIN };
        }
        bool busy = atomic_load_explicit(&broker->running, memory_order_relaxed) > 0;
        int rc = poll(ready, listeners->count + 1, busy ? TICK_BUSY_MS : TICK_MS);
        BUG_IF(rc < 0 && errno != EINTR);
        if (rc > 0 && ready[0].revents != 0) {
            return OK;
        }
        for (size_t i = 0; rc > 0 && i < listeners->count; i++) {
            if (ready[i + 1].revents != 0) {
                take_peers(broker, &listeners->at[i]);
            }
        }
        if (busy) {
            abandon_late_ones(broker);
        }
        TRY(look(broker));
    }
}

/* ---- the end ---- */

/* Whoever waits for a request reads the end of its connection; whoever has one answers it first. */
static void end_idle_ones(struct broker *broker)
{
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        struct connection *c = &broker->connections[i];
        broker_lock(&c->lock);
        if (c->phase == PHASE_OPEN && c->fd >= 0) {
            (void)shutdown(c->fd, SHUT_RD);
        }
        broker_unlock(&c->lock);
    }
}

bool broker_drain(struct broker *broker, mono_ns deadline)
{
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    int rc = 0;
    atomic_store(&broker->stopping, true); /* from here on who answers closes */
    end_idle_ones(broker);
    broker_lock(&broker->lock);
    while (broker->count > 0 && rc == 0) {
        rc = pthread_cond_timedwait(&broker->emptied, &broker->lock, &until);
        BUG_IF(rc != 0 && rc != ETIMEDOUT);
    }
    bool all = broker->count == 0;
    broker_unlock(&broker->lock);
    return all;
}
