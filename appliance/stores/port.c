#include "appliance/stores/port.h"

#include "appliance/base/file.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CHUNK 1024

struct fault port_split(struct op *op, const char *address, const char **ret_host, const char **ret_port)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon == address || colon[1] == '\0' || strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "'%s' is not an address and a port, as in 127.0.0.1:8443", address);
    }
    size_t len = (size_t)(colon - address);
    const char *start = address;
    if (address[0] == '[' && len > 2 && address[len - 1] == ']') {
        start++;
        len -= 2;
    }
    TRY(arena_text(op->arena, span_of(start, len), ret_host));
    return arena_text(op->arena, span_text(colon + 1), ret_port);
}

static struct fault resolve(struct op *op, const char *host, const char *port, int flags, struct addrinfo **ret_found)
{
    const struct addrinfo want = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags };
    int error = getaddrinfo(host, port, &want, ret_found);
    if (error != 0) {
        return op_fail(op, FAULT(IO), "%s does not resolve: %s", host, gai_strerror(error));
    }
    return OK;
}

struct fault port_free(struct op *op, const char *key, const char *address)
{
    const char *host = NULL, *port = NULL;
    TRY(port_split(op, address, &host, &port));
    struct addrinfo *found = NULL;
    TRY(resolve(op, host, port, AI_PASSIVE, &found));
    CLEANUP(fd_closep) int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    int bound = fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0
                    ? -1
                    : bind(fd, found->ai_addr, found->ai_addrlen);
    int error = errno;
    freeaddrinfo(found);
    if (bound != 0) {
        bool taken = error == EADDRINUSE;
        return op_fail(op, taken ? FAULT(CONFLICT) : FAULT(IO), "%s: cannot listen on %s: %s%s", key, address,
                       strerrordesc_np(error), taken ? "; stop what listens there, or set another" : "");
    }
    return OK;
}

static struct fault wait_for(struct op *op, int fd, short events)
{
    struct pollfd one = { .fd = fd, .events = events };
    for (;;) {
        int ready = poll(&one, 1, clock_ms_left(op->deadline));
        if (ready > 0) {
            return OK;
        }
        if (ready < 0 && errno != EINTR) {
            return FAULT(IO);
        }
        if (op_expired(op)) {
            return FAULT(DEADLINE);
        }
    }
}

/* `fd` is not blocking. */
static struct fault connect_one(struct op *op, int fd, const struct sockaddr *address, socklen_t len)
{
    if (connect(fd, address, len) == 0) {
        return OK;
    }
    REQUIRE(errno == EINPROGRESS, IO);
    TRY(wait_for(op, fd, POLLOUT));
    int error = 0;
    socklen_t size = sizeof(error);
    REQUIRE(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0, IO);
    return OK;
}

struct fault port_connect(struct op *op, const char *host, const char *port, int *ret_fd)
{
    struct addrinfo *found = NULL;
    TRY(resolve(op, host, port, 0, &found));
    struct fault last = FAULT(IO);
    for (const struct addrinfo *one = found; one != NULL && FAULTED(last); one = one->ai_next) {
        int fd = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) {
            continue;
        }
        last = connect_one(op, fd, one->ai_addr, one->ai_addrlen);
        if (FAULTED(last)) {
            fd_close(fd);
        } else {
            *ret_fd = fd;
        }
    }
    freeaddrinfo(found);
    return last;
}

struct fault port_connect_unix(struct op *op, const char *path, int *ret_fd)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    REQUIRE(len < sizeof(address.sun_path), TOO_LARGE);
    memcpy(address.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    REQUIRE(fd >= 0, IO);
    struct fault connected = connect_one(op, fd, (const struct sockaddr *)&address, sizeof(address));
    if (FAULTED(connected)) {
        fd_close(fd);
        return connected;
    }
    *ret_fd = fd;
    return OK;
}

struct fault port_send(struct op *op, int fd, struct span bytes)
{
    while (bytes.len > 0) {
        TRY(wait_for(op, fd, POLLOUT));
        ssize_t put = send(fd, bytes.at, bytes.len, MSG_NOSIGNAL);
        if (put > 0) {
            bytes = span_of(bytes.at + put, bytes.len - (size_t)put);
        }
        REQUIRE(put > 0 || errno == EAGAIN || errno == EINTR, IO);
    }
    return OK;
}

struct fault port_receive(struct op *op, int fd, const char *until, struct buf *out)
{
    while (out->len < out->max) {
        TRY(wait_for(op, fd, POLLIN));
        uint8_t chunk[CHUNK];
        size_t room = out->max - out->len;
        ssize_t got = recv(fd, chunk, room < sizeof(chunk) ? room : sizeof(chunk), 0);
        if (got == 0) {
            return OK;
        }
        if (got < 0) {
            REQUIRE(errno == EAGAIN || errno == EINTR, IO);
            continue;
        }
        TRY(buf_put(out, span_of(chunk, (size_t)got)));
        if (until != NULL && memmem(out->at, out->len, until, strlen(until)) != NULL) {
            return OK;
        }
    }
    return OK;
}
