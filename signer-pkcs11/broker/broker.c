#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 128

/* ---- the object ---- */

static void locks_init(struct broker *broker)
{
    pthread_condattr_t attr;
    BUG_IF(pthread_mutex_init(&broker->lock, NULL) != 0 || pthread_mutex_init(&broker->noise.lock, NULL) != 0);
    BUG_IF(pthread_condattr_init(&attr) != 0 || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_cond_init(&broker->emptied, &attr) != 0);
    (void)pthread_condattr_destroy(&attr);
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        broker->connections[i].broker = broker;
        BUG_IF(pthread_mutex_init(&broker->connections[i].lock, NULL) != 0);
    }
}

struct fault broker_new(const struct broker_parts *parts, struct broker **ret_broker)
{
    CLEANUP(broker_freep) struct broker *broker = NULL;
    TRY(mem_new(1, sizeof(*broker), &broker));
    broker->parts = *parts;
    broker->frame = (struct buf)BUF_INIT(FRAME_HEADER + FRAME_MAX);
    broker->journal_frame = (struct buf)BUF_INIT(FRAME_HEADER + FRAME_MAX);
    line_init(&broker->line, (unsigned)parts->config->signer_queue);
    locks_init(broker);
    broker->epoll = epoll_create1(EPOLL_CLOEXEC);
    broker->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event rung = { .events = EPOLLIN, .data.ptr = NULL };
    REQUIRE(broker->epoll >= 0 && broker->bell >= 0, NO_MEMORY);
    REQUIRE(epoll_ctl(broker->epoll, EPOLL_CTL_ADD, broker->bell, &rung) == 0, NO_MEMORY);
    TRY(workers_start(broker));
    *ret_broker = TAKE(broker);
    return OK;
}

void broker_free(struct broker *broker)
{
    if (broker == NULL) {
        return;
    }
    BUG_IF(broker->count != 0);
    if (broker->workers != NULL) {
        workers_stop(broker);
    }
    line_clear(&broker->line);
    fd_close(broker->epoll);
    fd_close(broker->bell);
    buf_free(&broker->frame);
    buf_free(&broker->journal_frame);
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        (void)pthread_mutex_destroy(&broker->connections[i].lock);
    }
    (void)pthread_cond_destroy(&broker->emptied);
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
