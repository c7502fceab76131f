#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG       128
#define LOOK_EVERY_MS 1000

/* ---- the object ---- */

struct fault broker_new(const struct broker_parts *parts, struct broker **ret_broker)
{
    CLEANUP(mem_freep) struct broker *broker = NULL;
    TRY(mem_new(1, sizeof(*broker), &broker));
    broker->parts = *parts;
    TRY(bulkhead_new((unsigned)parts->config->signer_sessions, (unsigned)parts->config->signer_queue,
                     &broker->sessions));
    pthread_condattr_t attr;
    BUG_IF(pthread_mutex_init(&broker->lock, NULL) != 0 || pthread_mutex_init(&broker->noise.lock, NULL) != 0);
    BUG_IF(pthread_condattr_init(&attr) != 0 || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_cond_init(&broker->closed, &attr) != 0);
    (void)pthread_condattr_destroy(&attr);
    *ret_broker = TAKE(broker);
    return OK;
}

void broker_free(struct broker *broker)
{
    if (broker == NULL) {
        return;
    }
    BUG_IF(broker->count != 0);
    bulkhead_free(broker->sessions);
    (void)pthread_cond_destroy(&broker->closed);
    (void)pthread_mutex_destroy(&broker->noise.lock);
    (void)pthread_mutex_destroy(&broker->lock);
    mem_free(broker);
}

/* ---- the socket ---- */

static struct fault refuse(struct buf *why, const char *what, const char *path)
{
    char reason[64];
    if (why != NULL) {
        IGNORE(buf_printf(why, "%s %s: %s", what, path, strerror_r(errno, reason, sizeof(reason))));
    }
    return FAULT(IO);
}

static struct fault folder_of(const char *path, struct buf *why)
{
    char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
    (void)snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder) {
        return OK;
    }
    *slash = 0;
    return FAULTED(file_make_dirs(folder, 0750)) ? refuse(why, "cannot make", folder) : OK;
}

/* Only a socket is removed: a path that was mistyped costs nobody a file. */
static struct fault remove_stale(const char *path, struct buf *why)
{
    struct stat status;
    if (lstat(path, &status) != 0) {
        return errno == ENOENT ? OK : refuse(why, "cannot look at", path);
    }
    errno = EEXIST;
    if (!S_ISSOCK(status.st_mode)) {
        return refuse(why, "there is something else than a socket at", path);
    }
    return unlink(path) == 0 ? OK : refuse(why, "cannot remove", path);
}

struct fault broker_listen(const struct config *config, struct buf *why, int *ret_fd)
{
    const char *path = config->signer_socket;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    errno = ENAMETOOLONG;
    if (strlen(path) >= sizeof(address.sun_path)) {
        return refuse(why, "signer.socket cannot be", path);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    TRY(folder_of(path, why));
    TRY(remove_stale(path, why));
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return refuse(why, "cannot make a socket for", path);
    }
    mode_t old = umask(0117); /* before threads: 0660 from its first moment */
    int rc = bind(fd, (const struct sockaddr *)&address, sizeof(address));
    (void)umask(old);
    if (rc != 0 || listen(fd, BACKLOG) != 0) {
        return refuse(why, "cannot listen on", path);
    }
    *ret_fd = fd;
    fd = -1;
    return OK;
}

/* ---- serving ---- */

static void refuse_peer(struct broker *broker, const char *reason, uid_t uid)
{
    uint64_t left_out = 0;
    uint64_t count = atomic_fetch_add(&broker->refused_peers, 1) + 1;
    if (noise_allows(&broker->noise, &left_out)) {
        log_write(WARN, "peer_refused", LOG_TEXT("reason", reason), LOG_INT("uid", uid), LOG_INT("refused_so", count));
    }
}

static void take_one(struct broker *broker, int fd)
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
        return;
    }
    if (FAULTED(connection_start(broker, fd, askers))) {
        refuse_peer(broker, "connections", peer.uid);
    }
}

static void take_all(struct broker *broker, int listener)
{
    for (unsigned i = 0; i < BACKLOG; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            return; /* none left, or one that went away, or no descriptors: the next round sees */
        }
        take_one(broker, fd);
    }
}

/* Changes of the token's state reach the log here; operations only report their own failure. */
static struct fault look_at_token(struct broker *broker)
{
    static const char *const texts[] = { [TOKEN_OK] = "ok", [TOKEN_DEGRADED] = "degraded", [TOKEN_DOWN] = "down" };
    struct token_status status = { 0 };
    token_status(broker->parts.token, &status);
    if (status.state != broker->reported) {
        broker->reported = status.state;
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

struct fault broker_serve(struct broker *broker, int listener, int signals)
{
    for (;;) {
        struct pollfd ready[] = { { .fd = listener, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
        int rc = poll(ready, COUNT_OF(ready), LOOK_EVERY_MS);
        BUG_IF(rc < 0 && errno != EINTR);
        if (rc > 0 && ready[1].revents != 0) {
            return OK;
        }
        if (rc > 0 && ready[0].revents != 0) {
            take_all(broker, listener);
        }
        TRY(look_at_token(broker));
    }
}

bool broker_drain(struct broker *broker, mono_ns deadline)
{
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    BUG_IF(pthread_mutex_lock(&broker->lock) != 0);
    broker->stopping = true;
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        if (broker->connections[i].used && broker->connections[i].fd >= 0) {
            (void)shutdown(broker->connections[i].fd, SHUT_RD); /* an answer on its way still leaves */
        }
    }
    int rc = 0;
    while (broker->count > 0 && rc == 0) {
        rc = pthread_cond_timedwait(&broker->closed, &broker->lock, &until);
        BUG_IF(rc != 0 && rc != ETIMEDOUT);
    }
    bool all = broker->count == 0;
    BUG_IF(pthread_mutex_unlock(&broker->lock) != 0);
    return all;
}
