/* The connection to the servers: how it is made, and made anew when what it was made with has changed on disk. */
#include "api/events/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/crypto.h"
#include "appliance/base/log.h"
#include "appliance/base/secret.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <sys/stat.h>

#define CONNECT_MS      2000
#define RETRY_NS        (200 * NS_PER_MS)
#define PING_MS         5000
#define SERVERS_MAX     16
#define SERVER_TEXT_MAX 256
#define PATH_TEXT_MAX   512
#define LOOK_EVERY_NS   (2 * NS_PER_S)
#define CLOSED_AGAIN_NS (10 * NS_PER_S)
#define RETIRED_NS      (10 * 60 * NS_PER_S) /* longer than any call with it lasts */
#define LOCK_SPINS      50                   /* the library's own are some thousands: longer than a sleep takes */

/* One connection. An older one is closed at once and freed later: somebody may be in a call with it. */
struct link {
    struct event_log *log;
    natsOptions *options;
    natsConnection *connection;
    jsCtx *js;
    bool closed;     /* for good; guarded by log->lock */
    mono_ns retired; /* 0: the current one */
    struct link *older;
};

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

/* The last callback that a connection makes: until then link and log must live. */
static void on_closed(natsConnection *connection, void *closure)
{
    (void)connection;
    struct link *link = closure;
    struct event_log *log = link->log;
    event_log_lock(log);
    link->closed = true;
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

static natsStatus set_behaviour(struct link *link)
{
    natsOptions *options = link->options;
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
    NATS_TRY(natsOptions_SetClosedCB(options, on_closed, link));
    return natsOptions_SetReconnectedCB(options, on_connected, link->log);
}

/* One address as it may be told: host and port, without a login. What does not end as an address does may be a part of
 * one, such as a password with a comma in it, and is not told. */
static struct fault tell_server(struct span address, struct buf *out)
{
    const char *begin = (const char *)address.at, *end = begin + address.len;
    const char *scheme = memmem(begin, address.len, "://", 3);
    begin = scheme != NULL ? scheme + 3 : begin;
    const char *at = memrchr(begin, '@', (size_t)(end - begin));
    begin = at != NULL ? at + 1 : begin;
    const char *colon = memrchr(begin, ':', (size_t)(end - begin));
    size_t digits = 0;
    while (colon != NULL && colon + 1 + digits < end && isdigit((unsigned char)colon[1 + digits])) {
        digits++;
    }
    bool whole = begin < end && scheme != NULL &&
                 (colon == NULL || (begin[0] == '[' && end[-1] == ']') || colon + 1 + digits == end);
    return buf_put(out, whole ? span_of(begin, (size_t)(end - begin)) : span_text("(an address that cannot be read)"));
}

static struct fault tell_servers(const struct config *config, struct buf *out)
{
    const char *at = config->nats_url;
    if (at[0] == '\0') {
        return buf_text(out, "the embedded nats-server");
    }
    for (bool first = true; *at != '\0'; at += strspn(at, ", ")) {
        size_t len = strcspn(at, ", ");
        if (len > 0) {
            TRY(buf_text(out, first ? "" : ", "));
            TRY(tell_server(span_of(at, len), out));
            first = false;
        }
        at += len;
    }
    return OK;
}

static struct fault set_servers(struct link *link, struct buf *why)
{
    const struct config *config = link->log->config;
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
    if (natsOptions_SetServers(link->options, servers, (int)count) != NATS_OK) {
        IGNORE(buf_text(why, "nats.url: not a list of nats://host:port addresses: "));
        IGNORE(tell_servers(config, why));
        IGNORE(buf_text(why, "\n"));
        return FAULT(CONFIG);
    }
    return OK;
}

/* False: there is none. */
static bool credentials_path(const struct config *config, char ret_path[PATH_TEXT_MAX])
{
    bool none = config->nats_credentials[0] == '\0' && config->nats_url[0] != '\0';
    (void)snprintf(ret_path, PATH_TEXT_MAX, "%s%s",
                   config->nats_credentials[0] != '\0' ? config->nats_credentials : config->data_dir,
                   config->nats_credentials[0] != '\0' ? "" : "/nats-client/credentials");
    return !none;
}

static struct fault set_login(struct link *link, struct buf *why)
{
    char file[PATH_TEXT_MAX];
    if (!credentials_path(link->log->config, file)) {
        return OK; /* an external server that asks for none, or whose address carries them */
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
    natsStatus status = natsOptions_SetUserInfo(link->options, user, password);
    secret_wipe(password, sizeof(password));
    return status == NATS_OK ? OK : nats_fault(NULL, status, 0, "setting the login");
}

/* ---- TLS ---- */

static bool wants_tls(const struct config *config)
{
    return config->nats_tls_ca[0] != '\0' || config->nats_tls_certificate[0] != '\0' ||
           strstr(config->nats_url, "tls://") != NULL;
}

static natsStatus tls_options(natsOptions *options, const struct config *config)
{
    NATS_TRY(natsOptions_SetSecure(options, true));
    if (config->nats_tls_ca[0] != '\0') {
        NATS_TRY(natsOptions_LoadCATrustedCertificates(options, config->nats_tls_ca));
    }
    if (config->nats_tls_certificate[0] != '\0') {
        NATS_TRY(natsOptions_LoadCertificatesChain(options, config->nats_tls_certificate, config->nats_tls_key));
    }
    return NATS_OK;
}

/* The library makes its context in the thread's default one: that is to be the approved one meanwhile. A server that
 * offers no TLS, or another name than the address has, is refused by the library. */
static struct fault set_tls(struct link *link, struct buf *why)
{
    const struct config *config = link->log->config;
    if (!wants_tls(config)) {
        return OK;
    }
    if ((config->nats_tls_certificate[0] != '\0') != (config->nats_tls_key[0] != '\0')) {
        IGNORE(buf_text(why, "nats.tls_certificate_file and nats.tls_key_file: both or none\n"));
        return FAULT(CONFIG);
    }
    OSSL_LIB_CTX *before = OSSL_LIB_CTX_set0_default(crypto_context());
    natsStatus status = tls_options(link->options, config);
    (void)OSSL_LIB_CTX_set0_default(before);
    if (status != NATS_OK) {
        IGNORE(buf_printf(why, "nats.tls_ca_file, nats.tls_certificate_file, nats.tls_key_file: %s\n",
                          natsStatus_GetText(status)));
        return FAULT(CONFIG);
    }
    return OK;
}

/* ---- what a connection is made with, on disk ---- */

static uint64_t stamp_file(uint64_t stamp, const char *path)
{
    struct stat about;
    const uint64_t parts[] = { stat(path, &about) == 0 ? (uint64_t)about.st_ino : 0, (uint64_t)about.st_size,
                               (uint64_t)about.st_mtim.tv_sec, (uint64_t)about.st_mtim.tv_nsec };
    for (size_t i = 0; path[0] != '\0' && i < (parts[0] != 0 ? COUNT_OF(parts) : 1); i++) {
        stamp = (stamp ^ parts[i]) * 1099511628211u;
    }
    return stamp;
}

static uint64_t stamp_of(const struct config *config)
{
    char file[PATH_TEXT_MAX];
    uint64_t stamp = 1469598103934665603u;
    stamp = stamp_file(stamp, credentials_path(config, file) ? file : "");
    stamp = stamp_file(stamp, config->nats_tls_ca);
    stamp = stamp_file(stamp, config->nats_tls_certificate);
    return stamp_file(stamp, config->nats_tls_key);
}

/* ---- making and ending it ---- */

static void link_free(struct link *link)
{
    struct event_log *log = link->log;
    jsCtx_Destroy(link->js);
    if (link->connection != NULL) {
        natsConnection_Close(link->connection);
        event_log_lock(log);
        while (!link->closed) {
            event_log_wait(log, clock_mono() + NS_PER_S);
        }
        event_log_unlock(log);
        natsConnection_Destroy(link->connection);
    }
    natsOptions_Destroy(link->options);
    mem_free(link);
}

static struct fault make_options(struct link *link, struct buf *why)
{
    natsStatus status = nats_Open(LOCK_SPINS); /* the first time; then it does nothing */
    if (status == NATS_OK) {
        status = natsOptions_Create(&link->options);
    }
    if (status == NATS_OK) {
        status = set_behaviour(link);
    }
    if (status != NATS_OK) {
        return nats_fault(NULL, status, 0, "making options");
    }
    TRY(set_servers(link, why));
    TRY(set_tls(link, why));
    return set_login(link, why);
}

static struct fault connect_link(struct link *link, struct buf *why, bool *ret_refused)
{
    const struct config *config = link->log->config;
    natsStatus status = natsConnection_Connect(&link->connection, link->options);
    if (status != NATS_OK) {
        *ret_refused = status == NATS_CONNECTION_AUTH_FAILED || status == NATS_SSL_ERROR ||
                       status == NATS_SECURE_CONNECTION_WANTED || status == NATS_SECURE_CONNECTION_REQUIRED;
        IGNORE(buf_text(why, "event log: no connection to "));
        IGNORE(tell_servers(config, why));
        IGNORE(buf_printf(why, ": %s\n", natsStatus_GetText(status)));
        return FAULT(LOG_UNAVAILABLE);
    }
    if (natsConnection_GetMaxPayload(link->connection) < STREAM_MESSAGE_MAX) {
        IGNORE(buf_printf(why, "event log: the server's max_payload is %lld, below %d\n",
                          (long long)natsConnection_GetMaxPayload(link->connection), STREAM_MESSAGE_MAX));
        return FAULT(CONFIG);
    }
    status = natsConnection_JetStream(&link->js, link->connection, NULL);
    return status == NATS_OK ? OK : nats_fault(NULL, status, 0, "making a JetStream context");
}

/* `connects` before the connection: whoever sees that without the lock sees that it is not accepted yet. Both and the
 * base at once for whoever counts (event_log_count_connects). */
static void take_over(struct event_log *log, struct link *link)
{
    event_log_lock(log);
    struct link *old = log->link;
    log->connects_before = atomic_load(&log->connects);
    atomic_store(&log->connects, log->connects_before + 1);
    atomic_store(&log->js, link->js);
    atomic_store(&log->connection, link->connection);
    link->older = old;
    log->link = link;
    BUG_IF(pthread_cond_broadcast(&log->changed) != 0);
    event_log_unlock(log);
    if (old != NULL) {
        old->retired = clock_mono();
        natsConnection_Close(old->connection); /* calls under way fail, and are repeated on the new one */
    }
}

struct fault link_renew(struct event_log *log, struct buf *why, bool *ret_refused)
{
    struct link *made = NULL;
    uint64_t stamp = stamp_of(log->config); /* before it is read: a change meanwhile is met again */
    TRY(mem_new(1, sizeof(*made), &made));
    made->log = log;
    struct fault fault = make_options(made, why);
    if (!FAULTED(fault)) {
        fault = connect_link(made, why, ret_refused);
    }
    bool passing = fault.code == FAULT_LOG_UNAVAILABLE && !*ret_refused;
    log->stamp = passing ? log->stamp : stamp;
    log->look_due = clock_mono() + LOOK_EVERY_NS;
    if (FAULTED(fault)) {
        link_free(made);
        return fault;
    }
    take_over(log, made);
    return OK;
}

static void free_retired(struct event_log *log)
{
    for (struct link **at = &log->link; *at != NULL;) {
        struct link *link = *at;
        bool due = link->retired != 0 && clock_mono() - link->retired > RETIRED_NS;
        if (due) {
            *at = link->older;
            link_free(link);
        } else {
            at = &link->older;
        }
    }
}

void links_free(struct event_log *log)
{
    while (log->link != NULL) {
        struct link *link = log->link;
        log->link = link->older;
        link_free(link);
    }
}

bool link_closed_locked(const struct event_log *log)
{
    return log->link == NULL || log->link->closed;
}

void event_log_reload(struct event_log *log)
{
    mono_ns now = clock_mono();
    if (now < log->look_due) {
        return;
    }
    log->look_due = now + LOOK_EVERY_NS;
    event_log_lock(log);
    bool closed = link_closed_locked(log);
    event_log_unlock(log);
    bool changed = stamp_of(log->config) != log->stamp;
    if (!changed && !(closed && now >= log->closed_due)) {
        return;
    }
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    bool refused = false;
    struct fault fault = link_renew(log, &why, &refused);
    log->closed_due = clock_mono() + CLOSED_AGAIN_NS;
    if (FAULTED(fault)) { /* the old one goes on, if it still stands */
        CLEANUP(op_freep) struct op *op = NULL;
        if (!FAULTED(op_new("system:event-log", (struct tenant_id){ "" }, 0, &op))) {
            op_note_log(op, "%.*s", (int)why.len, why.len > 0 ? (const char *)why.at : "");
        }
        log_fault(LOG_LEVEL_WARN, "event_log_login_not_renewed", op, fault);
        return;
    }
    log_write(INFO, "event_log_login_renewed");
    free_retired(log);
}
