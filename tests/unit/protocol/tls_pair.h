/* Two ends of mutual TLS over a socket pair: ours, and a peer that is ours too, or anything else. */
#ifndef TESTS_UNIT_PROTOCOL_TLS_PAIR_H
#define TESTS_UNIT_PROTOCOL_TLS_PAIR_H

#include "tls_certs.h"

#include "signer-pkcs11/protocol/frame.h"
#include "signer-pkcs11/protocol/tls_end.h"
#include "signer-pkcs11/protocol/tls_stream.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>

#define FAR  (clock_mono() + 60 * NS_PER_S)
#define SOON (clock_mono() + 200 * NS_PER_MS)

/* A world in which everything is right: an authority, and both ends with the other's name. */
struct world {
    struct certs_folder folder;
    struct issued ca, server, client;
    const char *server_names[2], *client_names[2];
    struct config_list server_list, client_list; /* whom the server accepts, and the client */
    char paths[6][256];
    struct tls_settings at_server, at_client;
};

static inline void put_end(struct world *world, const char *side, const struct issued *issued)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "%s.pem", side);
    certs_put_certificate(certs_path(&world->folder, name), issued);
    (void)snprintf(name, sizeof(name), "%s.key", side);
    certs_put_key(certs_path(&world->folder, name), issued, NULL);
}

static inline void world_new(struct world *world)
{
    *world = (struct world){ .client_names = { "signer.example", "spiffe://example/signer" },
                             .server_names = { "api.example", "spiffe://example/api" } };
    certs_folder_new(&world->folder);
    world->ca = certs_issue(&(struct certs_wanted){ .name = "authority", .authority = true });
    world->server = certs_issue(&(struct certs_wanted){
        .name = "signer", .names = "DNS:signer.example", .usage = "serverAuth", .issuer = &world->ca });
    world->client = certs_issue(&(struct certs_wanted){
        .name = "api", .names = "DNS:api.example", .usage = "clientAuth", .issuer = &world->ca });
    certs_put_certificate(certs_path(&world->folder, "ca.pem"), &world->ca);
    put_end(world, "server", &world->server);
    put_end(world, "client", &world->client);
    static const char *const files[6] = { "server.pem", "server.key", "ca.pem", "client.pem", "client.key", "ca.pem" };
    for (size_t i = 0; i < 6; i++) {
        (void)snprintf(world->paths[i], sizeof(world->paths[i]), "%s/%s", world->folder.path, files[i]);
    }
    world->server_list = (struct config_list){ .at = world->server_names, .count = 2 };
    world->client_list = (struct config_list){ .at = world->client_names, .count = 2 };
    world->at_server =
        (struct tls_settings){ TLS_SERVER, world->paths[0], world->paths[1], world->paths[2], &world->server_list };
    world->at_client =
        (struct tls_settings){ TLS_CLIENT, world->paths[3], world->paths[4], world->paths[5], &world->client_list };
}

static inline void world_free(struct world *world)
{
    issued_clear(&world->ca);
    issued_clear(&world->server);
    issued_clear(&world->client);
    certs_folder_free(&world->folder);
}

/* Another certificate for one side. */
static inline void world_give(struct world *world, const char *side, const struct certs_wanted *wanted)
{
    struct issued other = certs_issue(wanted);
    put_end(world, side, &other);
    issued_clear(&other);
}

static inline struct tls_end *end_of(const struct tls_settings *settings)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct tls_end *end = NULL;
    struct fault fault = tls_end_new(settings, &why, &end);
    if (FAULTED(fault)) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
    return end;
}

/* One side of a handshake, on a thread of its own. */
struct shaker {
    struct tls_end *end;
    int fd;
    mono_ns deadline;
    struct fault fault;
    struct tls_report report;
    struct tls_stream *stream;
    pthread_t thread;
};

static inline void *shaker_main(void *arg)
{
    struct shaker *shaker = arg;
    shaker->fault = tls_stream_open(shaker->end, shaker->fd, shaker->deadline, &shaker->report, &shaker->stream);
    if (FAULTED(shaker->fault)) {
        (void)shutdown(shaker->fd, SHUT_RDWR); /* as its owner does, so that the peer learns of it */
    }
    return NULL;
}

static inline void shaker_start(struct shaker *shaker, struct tls_end *end, int fd, mono_ns deadline)
{
    *shaker = (struct shaker){ .end = end, .fd = fd, .deadline = deadline };
    assert_int_equal(pthread_create(&shaker->thread, NULL, shaker_main, shaker), 0);
}

static inline void shaker_end(struct shaker *shaker)
{
    assert_int_equal(pthread_join(shaker->thread, NULL), 0);
}

struct pair {
    struct tls_end *server_end, *client_end;
    struct shaker server, client;
    int fds[2];
};

/* Both ends made anew from the world, and their handshake, however it ends. */
static inline void pair_meet(struct pair *pair, const struct world *world)
{
    *pair = (struct pair){ .server_end = end_of(&world->at_server), .client_end = end_of(&world->at_client) };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair->fds), 0);
    shaker_start(&pair->server, pair->server_end, pair->fds[0], FAR);
    shaker_start(&pair->client, pair->client_end, pair->fds[1], FAR);
    shaker_end(&pair->server);
    shaker_end(&pair->client);
}

static inline void pair_new(struct pair *pair, const struct world *world)
{
    pair_meet(pair, world);
    assert_string_equal(tls_refusal_text(pair->server.report.refusal), "none");
    assert_string_equal(tls_refusal_text(pair->client.report.refusal), "none");
    assert_fault(pair->server.fault, NONE);
    assert_fault(pair->client.fault, NONE);
}

static inline void pair_free(struct pair *pair)
{
    tls_stream_free(TAKE(pair->server.stream));
    tls_stream_free(TAKE(pair->client.stream));
    fd_closep(&pair->fds[0]);
    fd_closep(&pair->fds[1]);
    tls_end_free(TAKE(pair->server_end));
    tls_end_free(TAKE(pair->client_end));
}

/* A peer of OpenSSL's making that keeps to no rule of ours: `context` is its own. Its side of the handshake runs on the
 * calling thread; what it came to is the server's to say. */
static inline SSL *stranger_meets(struct shaker *server, SSL_CTX *context, int fd)
{
    SSL *ssl = SSL_new(context);
    assert_non_null(ssl);
    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    if (SSL_connect(ssl) != 1) { /* in TLS 1.3 it may succeed: the client is done before the server has judged */
        (void)shutdown(fd, SHUT_WR);
    }
    shaker_end(server);
    return ssl;
}

#endif
