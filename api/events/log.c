#include "api/events/internal.h"

#include "appliance/base/alloc.h"

#include <errno.h>

#define OPEN_WINDOW_NS (15 * NS_PER_S)
#define RETRY_NS       (200 * NS_PER_MS)

void event_log_lock(struct event_log *log)
{
    BUG_IF(pthread_mutex_lock(&log->lock) != 0);
}

void event_log_unlock(struct event_log *log)
{
    BUG_IF(pthread_mutex_unlock(&log->lock) != 0);
}

void event_log_wait(struct event_log *log, mono_ns deadline)
{
    struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    int waited = pthread_cond_clockwait(&log->changed, &log->lock, CLOCK_MONOTONIC, &until);
    BUG_IF(waited != 0 && waited != ETIMEDOUT);
}

bool event_log_connected(struct event_log *log)
{
    return natsConnection_Status(log->connection) == NATS_CONN_STATUS_CONNECTED;
}

void event_log_accepted(struct event_log *log, unsigned connect)
{
    atomic_store(&log->accepted_at, clock_mono());
    atomic_store(&log->accepted_connect, connect);
}

void event_log_saw(struct event_log *log, uint64_t stream_seq)
{
    uint64_t seen = atomic_load(&log->seen);
    while (seen < stream_seq && !atomic_compare_exchange_weak(&log->seen, &seen, stream_seq)) {
    }
}

uint64_t event_log_seen(const struct event_log *log)
{
    return atomic_load(&log->seen);
}

int64_t wait_ms(mono_ns deadline, int64_t most_ms)
{
    int64_t left = clock_ms_left(deadline);
    return left > most_ms ? most_ms : (left > 0 ? left : 1);
}

struct span message_span(const natsMsg *message)
{
    int len = natsMsg_GetDataLength(message);
    return span_of(natsMsg_GetData(message), len > 0 ? (size_t)len : 0);
}

/* What a connection counted is no word about the one that took its place meanwhile: that one has a base of its own. */
static void counted(struct event_log *log, const natsConnection *connection, unsigned reconnects)
{
    event_log_lock(log);
    unsigned made = log->connects_before + reconnects + 1;
    if (atomic_load(&log->connection) == connection && atomic_load(&log->connects) < made) {
        atomic_store(&log->connects, made);
    }
    event_log_unlock(log);
}

/* The library counts a reconnect before the connection can be used, and calls back some time after: so it is asked. */
void event_log_count_connects(struct event_log *log)
{
    natsConnection *connection = atomic_load(&log->connection);
    natsStatistics *counts = NULL;
    uint64_t reconnects = 0;
    if (natsStatistics_Create(&counts) == NATS_OK && natsConnection_GetStats(connection, counts) == NATS_OK &&
        natsStatistics_GetCounts(counts, NULL, NULL, NULL, NULL, &reconnects) == NATS_OK) {
        counted(log, connection, (unsigned)reconnects);
    }
    natsStatistics_Destroy(counts);
}

/* ---- open and close ---- */

static struct fault connect_until(struct event_log *log, mono_ns deadline, struct buf *why)
{
    bool refused = false;
    size_t said = why->len;
    struct fault fault = link_renew(log, why, &refused);
    while (fault.code == FAULT_LOG_UNAVAILABLE && !refused && clock_mono() + RETRY_NS < deadline) {
        why->len = said; /* only the last reason counts */
        event_log_lock(log);
        event_log_wait(log, clock_mono() + RETRY_NS);
        event_log_unlock(log);
        fault = link_renew(log, why, &refused);
    }
    return fault;
}

/* A cluster that is choosing its leaders is waited for. */
static struct fault accept_until(struct event_log *log, mono_ns deadline, struct buf *why)
{
    size_t said = why->len;
    for (;;) {
        unsigned connect = atomic_load(&log->connects);
        struct fault fault = stream_grow(log, deadline, why);
        fault = FAULTED(fault) ? fault : stream_accept(log, true, deadline, why);
        if (!FAULTED(fault)) {
            event_log_accepted(log, connect);
            return OK;
        }
        if (fault.code != FAULT_LOG_UNAVAILABLE || clock_mono() + RETRY_NS >= deadline) {
            return fault;
        }
        why->len = said; /* only the last reason counts */
        event_log_lock(log);
        event_log_wait(log, clock_mono() + RETRY_NS);
        event_log_unlock(log);
    }
}

/* Which messages are replaced has to be known before the first is read. */
static struct fault load_history(struct event_log *log, mono_ns deadline, struct buf *why)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(op_new("system:event-log", (struct tenant_id){ "" }, 0, &op));
    struct fault fault = OK;
    do {
        op->deadline = deadline;
        op->note = (struct fault_note){ 0 };
        fault = event_log_history_load(op, log);
        if (fault.code != FAULT_LOG_UNAVAILABLE && fault.code != FAULT_DEADLINE) {
            break; /* one question that was not answered in its own time is asked again */
        }
        event_log_lock(log);
        event_log_wait(log, clock_mono() + RETRY_NS);
        event_log_unlock(log);
    } while (clock_mono() < deadline);
    if (FAULTED(fault)) {
        IGNORE(buf_printf(why, "event log: its replaced messages: %s %s\n", op->note.detail, op->note.log_detail));
    }
    return fault.code == FAULT_DEADLINE ? FAULT(LOG_UNAVAILABLE) : fault;
}

struct fault event_log_open(const struct config *config, struct buf *why, struct event_log **ret_log)
{
    CLEANUP(buf_free) struct buf unread = BUF_INIT(4096);
    struct buf *say = why != NULL ? why : &unread;
    mono_ns deadline = clock_mono() + OPEN_WINDOW_NS;
    CLEANUP(event_log_closep) struct event_log *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->config = config;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    BUG_IF(pthread_cond_init(&made->changed, NULL) != 0);
    TRY(connect_until(made, deadline, say));
    TRY(accept_until(made, deadline, say));
    TRY(load_history(made, deadline, say));
    *ret_log = TAKE(made);
    return OK;
}

void event_log_close(struct event_log *log)
{
    if (log == NULL) {
        return;
    }
    links_free(log);
    history_free(&log->history);
    BUG_IF(pthread_cond_destroy(&log->changed) != 0);
    BUG_IF(pthread_mutex_destroy(&log->lock) != 0);
    mem_free(log);
}
