#include "api/server/sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define FD_SCAN_MAX 8192

static int fd_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > FD_SCAN_MAX) {
        return FD_SCAN_MAX;
    }
    return (int)limit.rlim_cur;
}

static bool is_listening(int fd)
{
    int on = 0;
    socklen_t len = sizeof(on);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len) == 0 && on != 0;
}

void sockets_listening(struct listening *ret_set)
{
    ret_set->count = 0;
    int limit = fd_limit();
    for (int fd = 0; fd < limit && ret_set->count < SOCKETS_LISTENING_MAX; fd++) {
        if (is_listening(fd)) {
            ret_set->fd[ret_set->count++] = fd;
        }
    }
}

static bool holds(const struct listening *set, int fd)
{
    for (size_t i = 0; i < set->count; i++) {
        if (set->fd[i] == fd) {
            return true;
        }
    }
    return false;
}

void sockets_difference(const struct listening *before, const struct listening *after, struct listening *ret_new)
{
    ret_new->count = 0;
    for (size_t i = 0; i < after->count; i++) {
        if (!holds(before, after->fd[i])) {
            ret_new->fd[ret_new->count++] = after->fd[i];
        }
    }
}

struct fault sockets_stop_listening(const struct listening *set)
{
    for (size_t i = 0; i < set->count; i++) {
        int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        REQUIRE(event >= 0, IO);
        (void)shutdown(set->fd[i], SHUT_RD); /* the poller wakes up and meets the event descriptor */
        int put = dup3(event, set->fd[i], O_CLOEXEC);
        (void)close(event);
        REQUIRE(put >= 0, IO);
    }
    return OK;
}

void sockets_wake(const struct listening *set)
{
    for (size_t i = 0; i < set->count; i++) {
        (void)eventfd_write(set->fd[i], 1);
    }
}

static int port_of(const struct sockaddr_storage *address)
{
    if (address->ss_family == AF_INET) {
        return ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    }
    return address->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port) : -1;
}

static bool is_connection(int fd, const char *address, int peer_port, int port)
{
    struct sockaddr_storage name = { 0 };
    socklen_t len = sizeof(name);
    if (getpeername(fd, (struct sockaddr *)&name, &len) != 0 || port_of(&name) != peer_port) {
        return false;
    }
    char text[64];
    if (getnameinfo((struct sockaddr *)&name, len, text, sizeof(text), NULL, 0, NI_NUMERICHOST) != 0 ||
        strcmp(text, address) != 0) {
        return false;
    }
    len = sizeof(name);
    return getsockname(fd, (struct sockaddr *)&name, &len) == 0 && port_of(&name) == port;
}

int sockets_connection(const char *address, int peer_port, int port)
{
    int limit = fd_limit();
    for (int fd = 0; fd < limit; fd++) {
        if (is_connection(fd, address, peer_port, port)) {
            return fd;
        }
    }
    return -1;
}
