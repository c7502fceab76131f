#include "api/events/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/secret.h"

#include <errno.h>
#include <stdio.h>

#define OPEN_WINDOW_NS  (15 * NS_PER_S)
#define CONNECT_MS      2000
#define RETRY_NS        (200 * NS_PER_MS)
#define PING_MS         5000
#define SERVERS_MAX     16
#define SERVER_TEXT_MAX 256

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

/* The library counts a reconnect before the connection can be used, and calls back some time after: so it is asked. */
void event_log_count_connects(struct event_log *log)
{
    natsStatistics *counts = NULL;
    uint64_t reconnects = 0;
    if (natsStatistics_Create(&counts) == NATS_OK && natsConnection_GetStats(log->connection, counts) == NATS_OK &&
        natsStatistics_GetCounts(counts, NULL, NULL, NULL, NULL, &reconnects) == NATS_OK) {
        unsigned made = (unsigned)reconnects + 1;
        unsigned known = atomic_load(&log->connects);
        while (known < made && !atomic_compare_exchange_weak(&log->connects, &known, made)) {
        }
    }
    natsStatistics_Destroy(counts);
}

/* nats.c's thread. */
static void on_connected(natsConnection *connection, void *closure)
{
    (void)connection;
    struct event_log *log = closure;
    event_log_count_connects(log);
    event_log_lock(log);
    BUG_IF(pthread_cond_broadcast(&log->changed) != 0);
    event_log_unlock(log);
}

/* The last callback that a connection makes: until then `log` must live. */
static void on_closed(natsConnection *connection, void *closure)
{
    (void)connection;
    struct event_log *log = closure;
    event_log_lock(log);
    log->closed = true;
    BUG_IF(pthread_cond_broadcast(&log->changed) != 0);
    event_log_unlock(log);
}

/* Without one of ours the library prints to stderr. What it tells shows in the results of calls. */
static void on_error(natsConnection *connection, natsSubscription *subscription, natsStatus status, void *closure)
{
    (void)connection, (void)subscription, (void)status, (void)closure;
}

/* ---- options ---- */

#define NATS_TRY(expr)          \
    do {                        \
        natsStatus s_ = (expr); \
        if (s_ != NATS_OK) {    \
            return s_;          \
        }                       \
    } while (0)

static natsStatus set_behaviour(struct event_log *log)
{
    natsOptions *options = log->options;
    NATS_TRY(natsOptions_SetName(options, "svc-api"));
    NATS_TRY(natsOptions_SetTimeout(options, CONNECT_MS));
    NATS_TRY(natsOptions_SetAllowReconnect(options, true));
    NATS_TRY(natsOptions_SetMaxReconnect(options, -1));
    NATS_TRY(natsOptions_SetReconnectWait(options, RETRY_NS / NS_PER_MS));
    NATS_TRY(natsOptions_SetReconnectJitter(options, 100, 100));
    NATS_TRY(natsOptions_SetPingInterval(options, PING_MS));
    NATS_TRY(natsOptions_SetMaxPingsOut(options, 2));
    NATS_TRY(natsOptions_SetSendAsap(options, true));
    /* Nothing is kept to be sent after a reconnect: a call that failed must stay failed. */
    NATS_TRY(natsOptions_SetReconnectBufSize(options, 1));
    NATS_TRY(natsOptions_SetFailRequestsOnDisconnect(options, true));
    NATS_TRY(natsOptions_SetErrorHandler(options, on_error, NULL));
    NATS_TRY(natsOptions_SetClosedCB(options, on_closed, log));
    return natsOptions_SetReconnectedCB(options, on_connected, log);
}

static struct fault set_servers(struct event_log *log, struct buf *why)
{
    const struct config *config = log->config;
    char text[SERVERS_MAX][SERVER_TEXT_MAX];
    const char *servers[SERVERS_MAX];
    size_t count = 0;
    const char *at = config->nats_url;
    if (at[0] == '\0') {
        (void)snprintf(text[0], SERVER_TEXT_MAX, "nats://127.0.0.1:%d", (int)config->nats_embedded_port);
        servers[count++] = text[0];
    }
    while (*at != '\0') {
        size_t len = strcspn(at, ", ");
        if (len > 0 && (count == SERVERS_MAX || len >= SERVER_TEXT_MAX)) {
            IGNORE(buf_printf(why, "nats.url: at most %d addresses of at most %d bytes\n", SERVERS_MAX,
                              SERVER_TEXT_MAX - 1));
            return FAULT(CONFIG);
        }
        if (len > 0) {
            memcpy(text[count], at, len);
            text[count][len] = '\0';
            servers[count] = text[count];
            count++;
        }
        at += len;
        at += strspn(at, ", ");
    }
    if (natsOptions_SetServers(log->options, servers, (int)count) != NATS_OK) {
        IGNORE(buf_printf(why, "nats.url: '%s' is not a list of nats://host:port addresses\n", config->nats_url));
        return FAULT(CONFIG);
    }
    return OK;
}

static struct fault set_login(struct event_log *log, struct buf *why)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(4096);
    const char *file = log->config->nats_credentials;
    if (file[0] == '\0' && log->config->nats_url[0] != '\0') {
        return OK; /* an external server that asks for none, or whose address carries them */
    }
    if (file[0] == '\0') {
        TRY(buf_printf(&path, "%s/nats-client/credentials", log->config->data_dir));
        TRY(buf_cstr(&path, &file));
    }
    CLEANUP(secret_freep) struct secret *secret = NULL;
    struct fault read = secret_from_file(file, &secret);
    if (FAULTED(read)) {
        IGNORE(buf_printf(why, "nats.credentials_file: %s must be a file of mode 0600 with user:password\n", file));
        return read;
    }
    char user[128], password[SECRET_MAX + 1];
    struct span text = secret_span(secret);
    const uint8_t *colon = text.len > 0 ? memchr(text.at, ':', text.len) : NULL;
    if (colon == NULL || colon == text.at || (size_t)(colon - text.at) >= sizeof(user)) {
        IGNORE(buf_printf(why, "nats.credentials_file: %s does not hold user:password\n", file));
        return FAULT(CONFIG);
    }
    size_t user_len = (size_t)(colon - text.at), password_len = text.len - user_len - 1;
    memcpy(user, text.at, user_len);
    user[user_len] = '\0';
    memcpy(password, colon + 1, password_len);
    password[password_len] = '\0';
    natsStatus status = natsOptions_SetUserInfo(log->options, user, password);
    secret_wipe(password, sizeof(password));
    return status == NATS_OK ? OK : nats_fault(NULL, status, 0, "setting the login");
}

static struct fault make_options(struct event_log *log, struct buf *why)
{
    natsStatus status = natsOptions_Create(&log->options);
    if (status == NATS_OK) {
        status = set_behaviour(log);
    }
    if (status != NATS_OK) {
        return nats_fault(NULL, status, 0, "making options");
    }
    TRY(set_servers(log, why));
    return set_login(log, why);
}

/* ---- open and close ---- */

static struct fault connect_until(struct event_log *log, mono_ns deadline, struct buf *why)
{
    natsStatus status = natsConnection_Connect(&log->connection, log->options);
    while (status != NATS_OK && status != NATS_CONNECTION_AUTH_FAILED && clock_mono() + RETRY_NS < deadline) {
        event_log_lock(log);
        event_log_wait(log, clock_mono() + RETRY_NS);
        event_log_unlock(log);
        status = natsConnection_Connect(&log->connection, log->options);
    }
    if (status != NATS_OK) {
        IGNORE(buf_printf(why, "event log: no connection to %s: %s\n",
                          log->config->nats_url[0] != '\0' ? log->config->nats_url : "the embedded nats-server",
                          natsStatus_GetText(status)));
        return FAULT(LOG_UNAVAILABLE);
    }
    event_log_count_connects(log);
    if (natsConnection_GetMaxPayload(log->connection) < STREAM_MESSAGE_MAX) {
        IGNORE(buf_printf(why, "event log: the server's max_payload is %lld, below %d\n",
                          (long long)natsConnection_GetMaxPayload(log->connection), STREAM_MESSAGE_MAX));
        return FAULT(CONFIG);
    }
    status = natsConnection_JetStream(&log->js, log->connection, NULL);
    return status == NATS_OK ? OK : nats_fault(NULL, status, 0, "making a JetStream context");
}

/* A cluster that is choosing its leaders is waited for. */
static struct fault accept_until(struct event_log *log, mono_ns deadline, struct buf *why)
{
    size_t said = why->len;
    for (;;) {
        unsigned connect = atomic_load(&log->connects);
        struct fault fault = stream_accept(log, true, deadline, why);
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
        if (fault.code != FAULT_LOG_UNAVAILABLE) {
            break;
        }
        event_log_lock(log);
        event_log_wait(log, clock_mono() + RETRY_NS);
        event_log_unlock(log);
    } while (clock_mono() < deadline);
    if (FAULTED(fault)) {
        IGNORE(buf_printf(why, "event log: its replaced messages: %s %s\n", op->note.detail, op->note.log_detail));
    }
    return fault;
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
    TRY(make_options(made, say));
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
    jsCtx_Destroy(log->js);
    if (log->connection != NULL) {
        natsConnection_Close(log->connection);
        event_log_lock(log);
        while (!log->closed) {
            event_log_wait(log, clock_mono() + NS_PER_S);
        }
        event_log_unlock(log);
        natsConnection_Destroy(log->connection);
    }
    natsOptions_Destroy(log->options);
    history_free(&log->history);
    BUG_IF(pthread_cond_destroy(&log->changed) != 0);
    BUG_IF(pthread_mutex_destroy(&log->lock) != 0);
    mem_free(log);
}
