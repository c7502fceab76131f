/* A small HTTP/1.1 client over TLS or plain sockets that can also misbehave: the server tests send what no library
 * would. */
#ifndef TESTS_INTEGRATION_HTTP_CLIENT_H
#define TESTS_INTEGRATION_HTTP_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "appliance/base/bytes.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define CLIENT_PATIENCE_S 20

struct client {
    int fd;
    SSL_CTX *context; /* NULL: plain */
    SSL *ssl;
    char text[1 << 17]; /* what was received and not yet taken */
    size_t len;
};
struct reply {
    int status; /* 0: the connection ended */
    char head[8192];
    char body[1 << 16];
    size_t body_len;
};

static inline int client_connect(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct timeval patience = { .tv_sec = CLIENT_PATIENCE_S };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* `shape` restricts what the client offers; NULL = OpenSSL's defaults. False when the handshake fails. */
static inline bool client_open_tls(struct client *client, int port, bool (*shape)(SSL_CTX *context))
{
    *client = (struct client){ .fd = client_connect(port), .context = SSL_CTX_new(TLS_client_method()) };
    assert_true(client->fd >= 0);
    assert_non_null(client->context);
    assert_true(shape == NULL || shape(client->context));
    client->ssl = SSL_new(client->context);
    assert_non_null(client->ssl);
    assert_int_equal(SSL_set_fd(client->ssl, client->fd), 1);
    return SSL_connect(client->ssl) == 1;
}

static inline void client_open_plain(struct client *client, int port)
{
    *client = (struct client){ .fd = client_connect(port) };
    assert_true(client->fd >= 0);
}

static inline void client_close(struct client *client)
{
    SSL_free(client->ssl);
    SSL_CTX_free(client->context);
    if (client->fd >= 0) {
        (void)close(client->fd);
    }
    *client = (struct client){ .fd = -1 };
}

/* False when the server has hung up meanwhile. */
static inline bool client_send(struct client *client, const void *at, size_t len)
{
    for (const char *next = at; len > 0;) {
        ssize_t sent = client->ssl != NULL ? SSL_write(client->ssl, next, len > 16384 ? 16384 : (int)len)
                                           : send(client->fd, next, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        next += sent;
        len -= (size_t)sent;
    }
    return true;
}

static inline bool client_say(struct client *client, const char *text)
{
    return client_send(client, text, strlen(text));
}

static inline bool client_receive(struct client *client)
{
    size_t room = sizeof(client->text) - 1 - client->len;
    assert_true(room > 0);
    ssize_t got = client->ssl != NULL ? SSL_read(client->ssl, client->text + client->len, (int)room)
                                      : recv(client->fd, client->text + client->len, room, 0);
    if (got <= 0) {
        return false;
    }
    client->len += (size_t)got;
    client->text[client->len] = 0;
    return true;
}

static inline const char *reply_header(const struct reply *reply, const char *name)
{
    static char value[512];
    char wanted[80];
    (void)snprintf(wanted, sizeof(wanted), "\r\n%s: ", name);
    const char *at = strcasestr(reply->head, wanted);
    if (at == NULL) {
        return NULL;
    }
    at += strlen(wanted);
    (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(at, "\r"), at);
    return value;
}

static inline void client_take(struct client *client, size_t len)
{
    memmove(client->text, client->text + len, client->len - len + 1);
    client->len -= len;
}

/* One answer. `without_body`: to HEAD, or an interim one. */
static inline struct reply client_read(struct client *client, bool without_body)
{
    struct reply reply = { .status = 0 };
    char *end = NULL;
    while ((end = client->len > 0 ? strstr(client->text, "\r\n\r\n") : NULL) == NULL) {
        if (!client_receive(client)) {
            return reply;
        }
    }
    size_t head = (size_t)(end - client->text) + 2;
    assert_true(head < sizeof(reply.head));
    memcpy(reply.head, client->text, head);
    client_take(client, head + 2);
    assert_int_equal(sscanf(reply.head, "HTTP/1.1 %d", &reply.status), 1);
    const char *length = reply_header(&reply, "Content-Length");
    reply.body_len = without_body || length == NULL ? 0 : (size_t)strtoul(length, NULL, 10);
    assert_true(reply.body_len < sizeof(reply.body));
    while (client->len < reply.body_len) {
        if (!client_receive(client)) {
            reply.status = 0;
            return reply;
        }
    }
    memcpy(reply.body, client->text, reply.body_len);
    client_take(client, reply.body_len);
    return reply;
}

/* Whether the server ends the connection (and sends nothing more before). */
static inline bool client_sees_end(struct client *client)
{
    return client->len == 0 && !client_receive(client);
}

static inline struct reply client_ask(struct client *client, const char *text)
{
    struct reply reply = { .status = 0 };
    return client_say(client, text) ? client_read(client, false) : reply;
}

#endif
