/*
 * A batch over one TLS connection of its own. RFC 5425 4.4 has the collector answer our close_notify with its own; it
 * comes to that only behind everything that we wrote, so that is what "delivered" means here. A connection that ends in
 * any other way leaves the batch to another attempt.
 */
#include "api/feeds/internal.h"

#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "signer-pkcs11/client/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>

#define SLICE_MS   500 /* between two looks at whether we are to stop */
#define LIMIT_NS   (30 * NS_PER_S)
#define DRAIN_MOST ((size_t)64 << 10) /* of what a collector may say before it closes */

DEFINE_FREEP(SSL, SSL_free)
DEFINE_FREEP(SSL_CTX, SSL_CTX_free)

struct way {
    const struct feed_send *send;
    mono_ns deadline;
    int fd;
};

/* False: the time is over, or we are to stop. */
static bool wait_for(const struct way *way, short events)
{
    while (clock_mono() < way->deadline && (way->send->stopping == NULL || !atomic_load(way->send->stopping))) {
        struct pollfd ready = { .fd = way->fd, .events = events };
        int ms = clock_ms_left(way->deadline);
        int rc = poll(&ready, 1, ms < SLICE_MS ? ms : SLICE_MS);
        if (rc > 0) {
            return true;
        }
        if (rc < 0 && errno != EINTR) {
            return false;
        }
    }
    return false;
}

/* ---- the connection ---- */

static bool connect_one(struct way *way, const struct sockaddr_storage *address, socklen_t len)
{
    int error = 0;
    socklen_t size = sizeof(error);
    way->fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (way->fd >= 0 && (connect(way->fd, (const struct sockaddr *)address, len) == 0 ||
                         (errno == EINPROGRESS && wait_for(way, POLLOUT) &&
                          getsockopt(way->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0))) {
        return true;
    }
    fd_close(way->fd);
    way->fd = -1;
    return false;
}

static bool connect_to(struct op *op, struct way *way, const struct feed_host *host)
{
    CLEANUP(resolver_freep) struct resolver *resolver = NULL;
    struct tcp_address address = { .host = "" };
    struct resolved resolved = { .count = 0 };
    struct fault_note note = op->note;
    if (strlen(host->name) >= sizeof(address.host)) {
        return false;
    }
    (void)snprintf(address.host, sizeof(address.host), "%s", host->name);
    (void)snprintf(address.port, sizeof(address.port), "%s", host->port);
    bool known =
        !FAULTED(resolver_new(&address, &resolver)) && !FAULTED(resolver_ask(op, resolver, way->deadline, &resolved));
    op->note = note; /* it speaks of another setting */
    mono_ns end = way->deadline;
    for (size_t i = 0; known && i < resolved.count; i++) {
        mono_ns now = clock_mono();
        way->deadline = now + (end > now ? (end - now) / (mono_ns)(resolved.count - i) : 0);
        if (connect_one(way, &resolved.addresses[i].at, resolved.addresses[i].len)) {
            way->deadline = end;
            return true;
        }
    }
    return false;
}

/* ---- TLS ---- */

static bool trust_pem(SSL_CTX *ctx, const char *pem)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem, -1);
    size_t count = 0;
    while (bio != NULL) {
        CLEANUP(X509_freep) X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        if (certificate == NULL || X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), certificate) != 1) {
            break;
        }
        count++;
    }
    ERR_clear_error();
    return count > 0;
}

static bool show_certificate(SSL_CTX *ctx, const struct config *config)
{
    return config->feeds_certificate[0] != '\0' &&
           SSL_CTX_use_certificate_chain_file(ctx, config->feeds_certificate) == 1 &&
           SSL_CTX_use_PrivateKey_file(ctx, config->feeds_key, SSL_FILETYPE_PEM) == 1 &&
           SSL_CTX_check_private_key(ctx) == 1;
}

static SSL_CTX *make_context(const struct feed_send *send)
{
    const struct feed_config *config = send->config;
    CLEANUP(SSL_CTX_freep) SSL_CTX *ctx = SSL_CTX_new_ex(crypto_context(), NULL, TLS_client_method());
    if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        return NULL;
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    bool good = config->ca_pem != NULL ? trust_pem(ctx, config->ca_pem) : SSL_CTX_set_default_verify_paths(ctx) == 1;
    good = good && (!config->client_certificate || show_certificate(ctx, send->services->config));
    return good ? TAKE(ctx) : NULL;
}

/* The name that the certificate has to carry; an address only as an address. */
static bool expect_name(SSL *ssl, const char *name)
{
    uint8_t address[16];
    bool numeric = inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    if (numeric) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    }
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* Waits for what the call wanted. False: it failed for good, or the time is over. */
static bool wants_more(const struct way *way, SSL *ssl, int rc)
{
    int error = SSL_get_error(ssl, rc);
    return (error == SSL_ERROR_WANT_READ && wait_for(way, POLLIN)) ||
           (error == SSL_ERROR_WANT_WRITE && wait_for(way, POLLOUT));
}

static bool shake_hands(const struct way *way, SSL *ssl)
{
    int rc = 0;
    do {
        ERR_clear_error();
        rc = SSL_connect(ssl);
    } while (rc != 1 && wants_more(way, ssl, rc));
    return rc == 1;
}

static bool write_all(const struct way *way, SSL *ssl, struct span bytes)
{
    while (bytes.len > 0) {
        size_t sent = 0;
        ERR_clear_error();
        int rc = SSL_write_ex(ssl, bytes.at, bytes.len, &sent);
        if (rc != 1 && !wants_more(way, ssl, rc)) {
            return false;
        }
        bytes = span_of(bytes.at + sent, bytes.len - sent);
    }
    return true;
}

/* Our close_notify, then everything until the collector's. */
static bool close_in_order(const struct way *way, SSL *ssl)
{
    uint8_t scrap[1024];
    size_t got = 0, total = 0;
    int rc = 0;
    do {
        ERR_clear_error();
        rc = SSL_shutdown(ssl);
    } while (rc < 0 && wants_more(way, ssl, rc));
    if (rc < 0) {
        return false;
    }
    while (rc == 0 && total <= DRAIN_MOST) {
        ERR_clear_error();
        rc = SSL_read_ex(ssl, scrap, sizeof(scrap), &got);
        if (rc == 1) {
            total += got;
            rc = 0;
        } else if (SSL_get_error(ssl, rc) == SSL_ERROR_ZERO_RETURN) {
            return true;
        } else if (!wants_more(way, ssl, rc)) {
            return false;
        } else {
            rc = 0;
        }
    }
    return rc == 1;
}

static enum feed_error converse(struct way *way, const struct feed_host *host)
{
    const struct feed_config *config = way->send->config;
    CLEANUP(SSL_CTX_freep) SSL_CTX *ctx = make_context(way->send);
    CLEANUP(SSL_freep) SSL *ssl = ctx != NULL ? SSL_new(ctx) : NULL;
    if (ssl == NULL || SSL_set_fd(ssl, way->fd) != 1 ||
        !expect_name(ssl, config->server_name != NULL ? config->server_name : host->name)) {
        return config->client_certificate ? FEED_NO_CREDENTIAL : FEED_UNREACHABLE;
    }
    if (!shake_hands(way, ssl)) {
        return FEED_UNREACHABLE;
    }
    return write_all(way, ssl, way->send->body) && close_in_order(way, ssl) ? FEED_FINE : FEED_UNCLOSED;
}

void feed_send_tls(struct op *op, const struct feed_send *send, struct feed_result *result)
{
    mono_ns limit = clock_mono() + LIMIT_NS;
    struct way way = { .send = send, .deadline = send->deadline < limit ? send->deadline : limit, .fd = -1 };
    struct feed_host host;
    result->error = FEED_UNREACHABLE;
    if (!feed_url_read(send->config->url, send->kind->scheme, send->kind->port, &host) ||
        !connect_to(op, &way, &host)) {
        return;
    }
    result->error = converse(&way, &host);
    if (result->error != FEED_FINE) {
        char reason[160];
        crypto_last_error(reason, sizeof(reason));
        op_note_log(op, "tls to %s:%s: %s", host.name, host.port, reason);
    }
    ERR_clear_error();
    fd_close(way.fd);
}
