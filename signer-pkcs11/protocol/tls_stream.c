#include "signer-pkcs11/protocol/tls_stream.h"

#include "appliance/base/alloc.h"
#include "signer-pkcs11/protocol/frame.h"
#include "signer-pkcs11/protocol/tls_internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

/* ---- the socket, as OpenSSL sees it: never waiting, never raising a signal ---- */

static int socket_result(BIO *bio, ssize_t done, int retry)
{
    BIO_clear_retry_flags(bio);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    }
    return (int)done;
}

static int socket_read(BIO *bio, char *out, int size)
{
    const struct tls_stream *stream = BIO_get_data(bio);
    ssize_t got = recv(stream->fd, out, (size_t)size, MSG_DONTWAIT);
    if (got == 0) {
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    }
    return socket_result(bio, got, BIO_FLAGS_READ);
}

static int socket_write(BIO *bio, const char *bytes, int len)
{
    const struct tls_stream *stream = BIO_get_data(bio);
    return socket_result(bio, send(stream->fd, bytes, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static long socket_control(BIO *bio, int what, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    if (what == BIO_CTRL_EOF) {
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    }
    return what == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void method_make(void)
{
    method = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "signer socket");
    BUG_IF(method == NULL || BIO_meth_set_read(method, socket_read) != 1 ||
           BIO_meth_set_write(method, socket_write) != 1 || BIO_meth_set_ctrl(method, socket_control) != 1);
}

static struct fault attach(struct tls_stream *stream)
{
    BUG_IF(pthread_once(&method_once, method_make) != 0);
    BIO *bio = BIO_new(method);
    REQUIRE(bio != NULL, NO_MEMORY);
    BIO_set_data(bio, stream);
    BIO_set_init(bio, 1);
    SSL_set_bio(stream->ssl, bio, bio);
    return OK;
}

/* ---- waiting ---- */

static struct fault wait_for(int fd, short events, mono_ns deadline)
{
    for (;;) {
        REQUIRE(deadline == FRAME_NEVER || clock_mono() < deadline, DEADLINE); /* also for a peer that drips */
        struct pollfd ready = { .fd = fd, .events = events };
        int rc = poll(&ready, 1, deadline == FRAME_NEVER ? -1 : clock_ms_left(deadline));
        if (rc > 0) {
            return OK; /* an error shows in the call that follows */
        }
        REQUIRE(rc == 0 || errno == EINTR, IO);
    }
}

/* After a call of OpenSSL's that returned `rc`, which was no success: for what it wants, or the end. */
static struct fault wait_as_told(struct tls_stream *stream, int rc, mono_ns deadline)
{
    switch (SSL_get_error(stream->ssl, rc)) {
    case SSL_ERROR_WANT_READ:
        return wait_for(stream->fd, POLLIN, deadline);
    case SSL_ERROR_WANT_WRITE:
        return wait_for(stream->fd, POLLOUT, deadline);
    case SSL_ERROR_ZERO_RETURN:
        return FAULT(SIGNER_UNAVAILABLE);
    default:
        stream->broken = true;
        return FAULT(SIGNER_UNAVAILABLE);
    }
}

/* ---- the handshake ---- */

static struct fault stream_new(struct tls_end *end, int fd, struct tls_report *report, struct tls_stream **ret_stream)
{
    CLEANUP(tls_stream_freep) struct tls_stream *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->fd = fd;
    made->side = tls_end_side(end);
    made->names = tls_end_names(end);
    SSL_CTX *context = tls_end_context(end, report);
    made->ssl = SSL_new(context);
    SSL_CTX_free(context);
    REQUIRE(made->ssl != NULL && SSL_set_app_data(made->ssl, made) == 1, NO_MEMORY);
    TRY(attach(made));
    *ret_stream = TAKE(made);
    return OK;
}

static struct fault shake_hands(struct tls_stream *stream, mono_ns deadline)
{
    for (;;) {
        ERR_clear_error();
        int rc = stream->side == TLS_SERVER ? SSL_accept(stream->ssl) : SSL_connect(stream->ssl);
        if (rc == 1) {
            stream->established = true;
            REQUIRE(stream->peer[0] != 0, INTERNAL); /* tls_verify was asked, and agreed */
            return OK;
        }
        TRY(wait_as_told(stream, rc, deadline));
    }
}

struct fault tls_stream_open(struct tls_end *end, int fd, mono_ns deadline, struct tls_report *ret_report,
                             struct tls_stream **ret_stream)
{
    CLEANUP(tls_stream_freep) struct tls_stream *made = NULL;
    *ret_report = (struct tls_report){ .refusal = TLS_REFUSAL_INTERNAL };
    TRY(stream_new(end, fd, ret_report, &made));
    struct fault shaken = shake_hands(made, deadline);
    if (FAULTED(shaken)) {
        tls_refusal_of(made, shaken.code == FAULT_DEADLINE, ret_report);
        ERR_clear_error();
        made->broken = true;
        return shaken;
    }
    ret_report->refusal = TLS_REFUSAL_NONE;
    (void)snprintf(ret_report->peer, sizeof(ret_report->peer), "%s", made->peer);
    *ret_stream = TAKE(made);
    return OK;
}

void tls_stream_free(struct tls_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (stream->established && !stream->broken) {
        ERR_clear_error();
        (void)SSL_shutdown(stream->ssl);
    }
    ERR_clear_error();
    SSL_free(stream->ssl); /* which wipes its keys and buffers */
    mem_free(stream);
}

/* ---- bytes ---- */

struct fault tls_stream_recv(struct tls_stream *stream, uint8_t *at, size_t size, mono_ns deadline, size_t *ret_got)
{
    size_t got = 0;
    REQUIRE(!stream->broken, SIGNER_UNAVAILABLE);
    for (;;) {
        ERR_clear_error();
        int rc = SSL_read_ex(stream->ssl, at, size, &got);
        if (rc == 1) {
            *ret_got = got;
            return OK;
        }
        TRY(wait_as_told(stream, rc, deadline));
    }
}

struct fault tls_stream_send(struct tls_stream *stream, struct span bytes, mono_ns deadline, size_t *ret_sent)
{
    *ret_sent = 0;
    REQUIRE(!stream->broken, SIGNER_UNAVAILABLE);
    while (*ret_sent < bytes.len) {
        size_t put = 0;
        ERR_clear_error();
        int rc = SSL_write_ex(stream->ssl, bytes.at + *ret_sent, bytes.len - *ret_sent, &put);
        if (rc == 1) {
            *ret_sent += put;
        } else {
            TRY(wait_as_told(stream, rc, deadline));
        }
    }
    return OK;
}
